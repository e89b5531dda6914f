"""Requests of topics and their partitions."""

from collections.abc import Mapping
from typing import Final

from live.server.worst_requests.build import MARK, Build, nested, repeated

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    "metadata": {
        "topics": repeated(
            "metadata", 9, "topics", {"name": MARK}, allow_auto_topic_creation=False
        ),
        "creation": repeated(
            "metadata", 9, "topics", {"name": MARK}, allow_auto_topic_creation=True
        ),
        "one topic": repeated(
            "metadata", 9, "topics", {"name": "t0"}, allow_auto_topic_creation=False
        ),
    },
    "create_topics": {
        "validated": repeated(
            "create_topics",
            7,
            "topics",
            {"name": MARK, "num_partitions": 1, "replication_factor": 1},
            timeout=60_000,
            validate_only=True,
        ),
        "refused": repeated(
            "create_topics",
            7,
            "topics",
            {"name": MARK, "num_partitions": 0, "replication_factor": 1},
            timeout=60_000,
        ),
        "configs": nested(
            "create_topics",
            7,
            "topics",
            {"name": "x", "num_partitions": 1, "replication_factor": 1},
            "configs",
            {"name": MARK, "value": "1"},
            timeout=60_000,
        ),
        "assignments": nested(
            "create_topics",
            7,
            "topics",
            {"name": "x", "num_partitions": -1, "replication_factor": -1},
            "assignments",
            {"partition_index": 0, "broker_ids": [0]},
            elements=2,
            timeout=60_000,
        ),
    },
    "delete_topics": {"names": repeated("delete_topics", 5, "topic_names", MARK, timeout=1000)},
    "create_partitions": {
        "topics": repeated(
            "create_partitions",
            3,
            "topics",
            {"name": MARK, "count": 2, "assignments": None},
            timeout=1000,
        ),
        "assignments": nested(
            "create_partitions",
            3,
            "topics",
            {"name": "t0", "count": 20},
            "assignments",
            {"broker_ids": [0]},
            elements=2,
            timeout=1000,
        ),
    },
    "list_partition_reassignments": {
        "topics": repeated(
            "list_partition_reassignments",
            0,
            "topics",
            {"name": MARK, "partition_indexes": [0]},
            elements=2,
            timeout=1000,
        )
    },
    "alter_partition_reassignments": {
        "topics": repeated(
            "alter_partition_reassignments",
            0,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "replicas": [0]}]},
            elements=3,
            timeout=1000,
        ),
        "partitions": nested(
            "alter_partition_reassignments",
            0,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "replicas": [0]},
            elements=2,
            timeout=1000,
        ),
    },
    "elect_leaders": {
        "topics": repeated(
            "elect_leaders",
            2,
            "topic_partitions",
            {"topic": MARK, "partitions": [0]},
            elements=2,
            timeout=1000,
        ),
        "partitions": nested(
            "elect_leaders", 2, "topic_partitions", {"topic": "t0"}, "partitions", 0, timeout=1000
        ),
    },
    "describe_log_dirs": {
        "topics": repeated(
            "describe_log_dirs", 4, "topics", {"topic": MARK, "partitions": [0]}, elements=2
        ),
        "partitions": nested("describe_log_dirs", 4, "topics", {"topic": "t0"}, "partitions", 0),
    },
    "describe_topic_partitions": {
        "topics": repeated(
            "describe_topic_partitions", 0, "topics", {"name": MARK}, response_partition_limit=2000
        )
    },
}
