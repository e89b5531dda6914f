"""The request of each API that costs a server most for its size."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import encode, request
from kohort.protocol.packing import pack_array, pack_compact_array
from live.server.server import framed

MARK: Final = "n0000000"
"""A name that each element of an array has in a form of its own."""
_START: Final = b"n0"
"""How all those names begin."""
MAX_ELEMENTS: Final = 260_000
"""Array elements of the largest request that is not refused as malformed, nearly."""

Fields = Mapping[str, Any]


def many(
    api: str, version: int, size: int, before: Fields, one: Fields, *, elements: int = 1
) -> bytes:
    """A frame of about `size` bytes.

    `before` and `one` are the same request without and with one element of an array, which counts
    as so many `elements` with the arrays in it.
    """
    empty = encode(request(BY_NAME[api].key, version, **before))
    single = encode(request(BY_NAME[api].key, version, **one))
    at = next(at for at, byte in enumerate(empty) if single[at] != byte)
    element = single[at + 1 : len(single) - (len(empty) - at - 1)]
    count = min(max(size // len(element), 1), MAX_ELEMENTS // elements)
    flexible = BY_NAME[api].flexible(version)
    head = empty[:at] if flexible else empty[: at - 3]
    number = (pack_compact_array if flexible else pack_array)(count)
    mark = MARK.encode()
    middle = (
        b"".join(element.replace(mark, b"n%07d" % n) for n in range(count))
        if mark in element
        else element * count
    )
    return framed(api, version, b"".join((head, number, middle, empty[at + 1 :])))


def renamed(request_frame: bytes, attempt: int) -> bytes:
    """The same request with names that no attempt before has used."""
    return request_frame.replace(_START, b"%c0" % (ord("n") + attempt))


def _many(
    api: str, version: int, array: str, element: Any, *, elements: int = 1, **fields: Any
) -> "Build":
    return lambda size: many(
        api, version, size, fields | {array: []}, fields | {array: [element]}, elements=elements
    )


def _nested(
    api: str,
    version: int,
    array: str,
    element: Fields,
    inner: str,
    inner_element: Any,
    *,
    elements: int = 1,
    **fields: Any,
) -> "Build":
    def build(size: int) -> bytes:
        def one(content: list[Any]) -> Fields:
            return fields | {array: [{**element, inner: content}]}

        return many(api, version, size, one([]), one([inner_element]), elements=elements)

    return build


def _long(api: str, version: int, field: str, **fields: Any) -> "Build":
    def build(size: int) -> bytes:
        text = {field: "x" * min(size, 30_000)}
        return framed(api, version, encode(request(BY_NAME[api].key, version, **fields, **text)))

    return build


Build = Callable[[int], bytes]

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    "produce": {
        "topics": _many(
            "produce",
            9,
            "topic_data",
            {"name": MARK, "partition_data": [{"index": 0, "records": b""}]},
            elements=2,
            acks=-1,
        ),
        "partitions": _nested(
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
        "topics": _many(
            "fetch",
            12,
            "topics",
            {"topic": MARK, "partitions": [{"partition": 0}]},
            elements=2,
            session_epoch=-1,
            max_bytes=1 << 20,
        ),
        "a session of topics": _many(
            "fetch",
            12,
            "topics",
            {"topic": MARK, "partitions": [{"partition": 0}]},
            elements=2,
            session_epoch=0,
            max_bytes=1 << 20,
        ),
        "partitions": _nested(
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
        "topics": _many(
            "list_offsets",
            7,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "timestamp": -1}]},
            elements=2,
        ),
        "partitions": _nested(
            "list_offsets",
            7,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "timestamp": -1},
        ),
    },
    "metadata": {
        "topics": _many("metadata", 9, "topics", {"name": MARK}, allow_auto_topic_creation=False),
        "creation": _many("metadata", 9, "topics", {"name": MARK}, allow_auto_topic_creation=True),
        "one topic": _many(
            "metadata", 9, "topics", {"name": "t0"}, allow_auto_topic_creation=False
        ),
    },
    "offset_commit": {
        "topics": _many(
            "offset_commit",
            8,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "committed_offset": 1}]},
            elements=2,
            group_id="c",
        ),
        "partitions": _nested(
            "offset_commit",
            8,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"},
            group_id="c",
        ),
        "columns": _nested(
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
        "groups": _many(
            "offset_fetch",
            8,
            "groups",
            {"group_id": MARK, "topics": [{"name": "t0", "partition_indexes": [0]}]},
            elements=3,
        ),
        "topics": _many(
            "offset_fetch",
            7,
            "topics",
            {"name": MARK, "partition_indexes": [0]},
            elements=2,
            group_id="g",
        ),
        "partitions": _nested(
            "offset_fetch", 7, "topics", {"name": "t0"}, "partition_indexes", 0, group_id="g"
        ),
    },
    "find_coordinator": {"keys": _many("find_coordinator", 4, "coordinator_keys", MARK)},
    "join_group": {
        "protocols": _many(
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
        "instance": _many(
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
        "names": _many(
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
        "owned": _many(
            "consumer_group_heartbeat",
            1,
            "topic_partitions",
            {"topic_id": UUID(int=1), "partitions": [0]},
            elements=2,
            group_id="cg",
            member_id="m",
            member_epoch=1,
        ),
        "regex": _long(
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
    "consumer_group_describe": {"groups": _many("consumer_group_describe", 1, "group_ids", MARK)},
    "heartbeat": {"group": _long("heartbeat", 3, "group_id", member_id="m")},
    "leave_group": {
        "members": _many("leave_group", 5, "members", {"member_id": MARK}, group_id="g")
    },
    "sync_group": {
        "assignments": _many(
            "sync_group",
            5,
            "assignments",
            {"member_id": MARK, "assignment": b""},
            group_id="g",
            protocol_type="consumer",
            protocol_name="range",
        )
    },
    "describe_groups": {"groups": _many("describe_groups", 5, "groups", MARK)},
    "list_groups": {"states": _many("list_groups", 5, "states_filter", MARK)},
    "api_versions": {
        "software": _long("api_versions", 3, "client_software_name", client_software_version="1")
    },
    "create_topics": {
        "validated": _many(
            "create_topics",
            7,
            "topics",
            {"name": MARK, "num_partitions": 1, "replication_factor": 1},
            timeout=60_000,
            validate_only=True,
        ),
        "refused": _many(
            "create_topics",
            7,
            "topics",
            {"name": MARK, "num_partitions": 0, "replication_factor": 1},
            timeout=60_000,
        ),
        "configs": _nested(
            "create_topics",
            7,
            "topics",
            {"name": "x", "num_partitions": 1, "replication_factor": 1},
            "configs",
            {"name": MARK, "value": "1"},
            timeout=60_000,
        ),
        "assignments": _nested(
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
    "delete_topics": {"names": _many("delete_topics", 5, "topic_names", MARK, timeout=1000)},
    "delete_records": {
        "topics": _many(
            "delete_records",
            2,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "offset": 0}]},
            elements=2,
        ),
        "partitions": _nested(
            "delete_records",
            2,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "offset": 0},
        ),
    },
    "init_producer_id": {"id": _long("init_producer_id", 1, "transactional_id")},
    "add_partitions_to_txn": {
        "topics": _many(
            "add_partitions_to_txn",
            3,
            "v3_and_below_topics",
            {"name": MARK, "partitions": [0]},
            elements=2,
            v3_and_below_transactional_id="t",
        ),
        "partitions": _nested(
            "add_partitions_to_txn",
            3,
            "v3_and_below_topics",
            {"name": "t0"},
            "partitions",
            0,
            v3_and_below_transactional_id="t",
        ),
        "transactions": _many(
            "add_partitions_to_txn",
            4,
            "transactions",
            {
                "transactional_id": MARK,
                "producer_id": 1,
                "topics": [{"name": "t0", "partitions": [0]}],
            },
            elements=3,
        ),
    },
    "add_offsets_to_txn": {
        "group": _long("add_offsets_to_txn", 3, "group_id", transactional_id="t")
    },
    "end_txn": {"id": _long("end_txn", 5, "transactional_id")},
    "write_txn_markers": {
        "markers": _many(
            "write_txn_markers",
            1,
            "markers",
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "transaction_result": True,
                "topics": [{"name": MARK, "partition_indexes": [0]}],
            },
            elements=3,
        ),
        "partitions": _nested(
            "write_txn_markers",
            1,
            "markers",
            {"producer_id": 1, "producer_epoch": 0, "transaction_result": True},
            "topics",
            {"name": MARK, "partition_indexes": [0]},
            elements=2,
        ),
    },
    "txn_offset_commit": {
        "topics": _many(
            "txn_offset_commit",
            5,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "committed_offset": 1}]},
            elements=2,
            transactional_id="t",
            group_id="c",
            generation_id=-1,
        ),
        "partitions": _nested(
            "txn_offset_commit",
            5,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"},
            transactional_id="t",
            group_id="c",
            generation_id=-1,
        ),
    },
    "describe_transactions": {"ids": _many("describe_transactions", 0, "transactional_ids", MARK)},
    "offset_for_leader_epoch": {
        "topics": _many(
            "offset_for_leader_epoch",
            4,
            "topics",
            {"topic": MARK, "partitions": [{"partition": 0, "leader_epoch": 0}]},
            elements=2,
        ),
        "partitions": _nested(
            "offset_for_leader_epoch",
            4,
            "topics",
            {"topic": "t0"},
            "partitions",
            {"partition": 0, "leader_epoch": 0},
        ),
    },
    "describe_configs": {
        "topics": _many(
            "describe_configs",
            4,
            "resources",
            {"resource_type": 2, "resource_name": MARK, "configuration_keys": None},
        ),
        "keys": _nested(
            "describe_configs",
            4,
            "resources",
            {"resource_type": 2, "resource_name": "t0"},
            "configuration_keys",
            MARK,
        ),
    },
    "create_partitions": {
        "topics": _many(
            "create_partitions",
            3,
            "topics",
            {"name": MARK, "count": 2, "assignments": None},
            timeout=1000,
        ),
        "assignments": _nested(
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
    "delete_groups": {"groups": _many("delete_groups", 2, "groups_names", MARK)},
    "incremental_alter_configs": {
        "topics": _many(
            "incremental_alter_configs",
            1,
            "resources",
            {"resource_type": 2, "resource_name": MARK, "configs": []},
        ),
        "configs": _nested(
            "incremental_alter_configs",
            1,
            "resources",
            {"resource_type": 2, "resource_name": "t0"},
            "configs",
            {"name": MARK, "config_operation": 0, "value": "1"},
        ),
    },
    "list_partition_reassignments": {
        "topics": _many(
            "list_partition_reassignments",
            0,
            "topics",
            {"name": MARK, "partition_indexes": [0]},
            elements=2,
            timeout=1000,
        )
    },
    "alter_configs": {
        "topics": _many(
            "alter_configs",
            2,
            "resources",
            {"resource_type": 2, "resource_name": MARK, "configs": []},
        ),
        "configs": _nested(
            "alter_configs",
            2,
            "resources",
            {"resource_type": 4, "resource_name": "0"},
            "configs",
            {"name": MARK, "value": "1"},
        ),
    },
    "list_config_resources": {"types": _many("list_config_resources", 1, "resource_types", 2)},
    "describe_acls": {
        "name": _long(
            "describe_acls",
            3,
            "resource_name_filter",
            resource_type_filter=2,
            pattern_type_filter=3,
            operation=2,
            permission_type=3,
        )
    },
    "create_acls": {
        "creations": _many(
            "create_acls",
            3,
            "creations",
            {
                "resource_type": 2,
                "resource_name": MARK,
                "resource_pattern_type": 3,
                "principal": "User:alice",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            },
        )
    },
    "delete_acls": {
        "filters": _many(
            "delete_acls",
            3,
            "filters",
            {
                "resource_type_filter": 2,
                "resource_name_filter": MARK,
                "pattern_type_filter": 3,
                "operation": 1,
                "permission_type": 1,
            },
        )
    },
    "describe_log_dirs": {
        "topics": _many(
            "describe_log_dirs", 4, "topics", {"topic": MARK, "partitions": [0]}, elements=2
        ),
        "partitions": _nested("describe_log_dirs", 4, "topics", {"topic": "t0"}, "partitions", 0),
    },
    "elect_leaders": {
        "topics": _many(
            "elect_leaders",
            2,
            "topic_partitions",
            {"topic": MARK, "partitions": [0]},
            elements=2,
            timeout=1000,
        ),
        "partitions": _nested(
            "elect_leaders", 2, "topic_partitions", {"topic": "t0"}, "partitions", 0, timeout=1000
        ),
    },
    "alter_partition_reassignments": {
        "topics": _many(
            "alter_partition_reassignments",
            0,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "replicas": [0]}]},
            elements=3,
            timeout=1000,
        ),
        "partitions": _nested(
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
    "describe_client_quotas": {
        "components": _many(
            "describe_client_quotas",
            1,
            "components",
            {"entity_type": MARK, "match_type": 2, "match": None},
        )
    },
    "sasl_handshake": {
        "": lambda size: framed(
            "sasl_handshake", 1, encode(request(17, 1, mechanism="m" * min(size, 32_000)))
        )
    },
    "sasl_authenticate": {
        "": lambda size: framed(
            "sasl_authenticate", 2, encode(request(36, 2, auth_bytes=bytes(size)))
        )
    },
    "alter_client_quotas": {
        "entries": _many(
            "alter_client_quotas",
            1,
            "entries",
            {
                "entity": [{"entity_type": "user", "entity_name": MARK}],
                "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
            },
            elements=3,
            validate_only=False,
        ),
        "ops": _nested(
            "alter_client_quotas",
            1,
            "entries",
            {"entity": [{"entity_type": "user", "entity_name": "u"}]},
            "ops",
            {"key": MARK, "value": 1000.0, "remove": False},
            elements=2,
            validate_only=False,
        ),
    },
    "describe_user_scram_credentials": {
        "users": _many("describe_user_scram_credentials", 0, "users", {"name": MARK})
    },
    "alter_user_scram_credentials": {
        "deletions": _many(
            "alter_user_scram_credentials", 0, "deletions", {"name": MARK, "mechanism": 1}
        ),
        "upsertions": _many(
            "alter_user_scram_credentials",
            0,
            "upsertions",
            {
                "name": MARK,
                "mechanism": 1,
                "iterations": 4_095,
                "salt": b"s",
                "salted_password": b"p",
            },
        ),
    },
    "describe_quorum": {
        "topics": _many(
            "describe_quorum",
            2,
            "topics",
            {"topic_name": MARK, "partitions": [{"partition_index": 0}]},
            elements=2,
        ),
        "partitions": _nested(
            "describe_quorum",
            2,
            "topics",
            {"topic_name": "__cluster_metadata"},
            "partitions",
            {"partition_index": 0},
        ),
    },
    "update_features": {
        "updates": _many(
            "update_features",
            1,
            "feature_updates",
            {"feature": "metadata.version", "max_version_level": 30, "upgrade_type": 1},
            timeout=1000,
        )
    },
    "describe_producers": {
        "topics": _many(
            "describe_producers", 0, "topics", {"name": MARK, "partition_indexes": [0]}, elements=2
        ),
        "partitions": _nested(
            "describe_producers", 0, "topics", {"name": "t0"}, "partition_indexes", 0
        ),
    },
    "list_transactions": {"states": _many("list_transactions", 2, "state_filters", MARK)},
    "offset_delete": {
        "topics": _many(
            "offset_delete",
            0,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0}]},
            elements=2,
            group_id="g",
        ),
        "partitions": _nested(
            "offset_delete",
            0,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0},
            group_id="g",
        ),
    },
    "describe_cluster": {"": lambda size: framed("describe_cluster", 0, encode(request(60, 0)))},
    "describe_topic_partitions": {
        "topics": _many(
            "describe_topic_partitions", 0, "topics", {"name": MARK}, response_partition_limit=2000
        )
    },
}
"""By API and kind of request."""
