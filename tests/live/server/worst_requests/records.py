"""Requests for records and their offsets."""

from collections.abc import Mapping
from typing import Final

from live.server.worst_requests.build import MARK, Build, nested, repeated

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    "produce": {
        "topics": repeated(
            "produce",
            9,
            "topic_data",
            {"name": MARK, "partition_data": [{"index": 0, "records": b""}]},
            elements=2,
            acks=-1,
        ),
        "partitions": nested(
            "produce",
            9,
            "topic_data",
            {"name": "t0"},
            "partition_data",
            {"index": 0, "records": b""},
            acks=-1,
        ),
    },
    "fetch": {
        "topics": repeated(
            "fetch",
            12,
            "topics",
            {"topic": MARK, "partitions": [{"partition": 0}]},
            elements=2,
            session_epoch=-1,
            max_bytes=1 << 20,
        ),
        "a session of topics": repeated(
            "fetch",
            12,
            "topics",
            {"topic": MARK, "partitions": [{"partition": 0}]},
            elements=2,
            session_epoch=0,
            max_bytes=1 << 20,
        ),
        "partitions": nested(
            "fetch",
            12,
            "topics",
            {"topic": "t0"},
            "partitions",
            {"partition": 0},
            session_epoch=-1,
            max_bytes=1 << 20,
        ),
    },
    "list_offsets": {
        "topics": repeated(
            "list_offsets",
            7,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "timestamp": -1}]},
            elements=2,
        ),
        "partitions": nested(
            "list_offsets",
            7,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "timestamp": -1},
        ),
    },
    "offset_for_leader_epoch": {
        "topics": repeated(
            "offset_for_leader_epoch",
            4,
            "topics",
            {"topic": MARK, "partitions": [{"partition": 0, "leader_epoch": 0}]},
            elements=2,
        ),
        "partitions": nested(
            "offset_for_leader_epoch",
            4,
            "topics",
            {"topic": "t0"},
            "partitions",
            {"partition": 0, "leader_epoch": 0},
        ),
    },
    "delete_records": {
        "topics": repeated(
            "delete_records",
            2,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "offset": 0}]},
            elements=2,
        ),
        "partitions": nested(
            "delete_records",
            2,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "offset": 0},
        ),
    },
    "describe_producers": {
        "topics": repeated(
            "describe_producers", 0, "topics", {"name": MARK, "partition_indexes": [0]}, elements=2
        ),
        "partitions": nested(
            "describe_producers", 0, "topics", {"name": "t0"}, "partition_indexes", 0
        ),
    },
}
