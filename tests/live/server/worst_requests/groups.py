"""Requests of groups, their members and their offsets."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from live.server.worst_requests.build import MARK, Build, long_text, nested, repeated

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    "offset_commit": {
        "topics": repeated(
            "offset_commit",
            8,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "committed_offset": 1}]},
            elements=2,
            group_id="c",
        ),
        "partitions": nested(
            "offset_commit",
            8,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"},
            group_id="c",
        ),
        "columns": nested(
            "offset_commit",
            8,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""},
            group_id="c",
        ),
    },
    "offset_fetch": {
        "groups": repeated(
            "offset_fetch",
            8,
            "groups",
            {"group_id": MARK, "topics": [{"name": "t0", "partition_indexes": [0]}]},
            elements=3,
        ),
        "topics": repeated(
            "offset_fetch",
            7,
            "topics",
            {"name": MARK, "partition_indexes": [0]},
            elements=2,
            group_id="g",
        ),
        "partitions": nested(
            "offset_fetch", 7, "topics", {"name": "t0"}, "partition_indexes", 0, group_id="g"
        ),
    },
    "find_coordinator": {"keys": repeated("find_coordinator", 4, "coordinator_keys", MARK)},
    "join_group": {
        "protocols": repeated(
            "join_group",
            5,
            "protocols",
            {"name": MARK, "metadata": b""},
            group_id="j",
            session_timeout=10_000,
            rebalance_timeout=10_000,
            member_id="",
            protocol_type="consumer",
        ),
        "instance": repeated(
            "join_group",
            5,
            "protocols",
            {"name": MARK, "metadata": b""},
            group_id="ji",
            session_timeout=10_000,
            rebalance_timeout=10_000,
            member_id="",
            group_instance_id="i",
            protocol_type="consumer",
        ),
    },
    "consumer_group_heartbeat": {
        "names": repeated(
            "consumer_group_heartbeat",
            1,
            "subscribed_topic_names",
            MARK,
            group_id="cg",
            member_id="m",
            member_epoch=0,
            rebalance_timeout=10_000,
            topic_partitions=[],
        ),
        "owned": repeated(
            "consumer_group_heartbeat",
            1,
            "topic_partitions",
            {"topic_id": UUID(int=1), "partitions": [0]},
            elements=2,
            group_id="cg",
            member_id="m",
            member_epoch=1,
        ),
        "regex": long_text(
            "consumer_group_heartbeat",
            1,
            "subscribed_topic_regex",
            group_id="cg",
            member_id="m",
            member_epoch=0,
            rebalance_timeout=10_000,
            topic_partitions=[],
        ),
    },
    "consumer_group_describe": {
        "groups": repeated("consumer_group_describe", 1, "group_ids", MARK)
    },
    "heartbeat": {"group": long_text("heartbeat", 3, "group_id", member_id="m")},
    "leave_group": {
        "members": repeated("leave_group", 5, "members", {"member_id": MARK}, group_id="g")
    },
    "sync_group": {
        "assignments": repeated(
            "sync_group",
            5,
            "assignments",
            {"member_id": MARK, "assignment": b""},
            group_id="g",
            protocol_type="consumer",
            protocol_name="range",
        )
    },
    "describe_groups": {"groups": repeated("describe_groups", 5, "groups", MARK)},
    "list_groups": {"states": repeated("list_groups", 5, "states_filter", MARK)},
    "delete_groups": {"groups": repeated("delete_groups", 2, "groups_names", MARK)},
    "offset_delete": {
        "topics": repeated(
            "offset_delete",
            0,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0}]},
            elements=2,
            group_id="g",
        ),
        "partitions": nested(
            "offset_delete",
            0,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0},
            group_id="g",
        ),
    },
}
