"""What fields of Kafka's messages mean to a replay, by their names.

A server chooses ids (`IDS`), counters that go on from an earlier life (`COUNTERS`), and names of
its own machines (`NOT_COMPARED`). All else is behaviour, in which a replay must not differ.
"""

from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from kio.static.constants import uuid_zero

from kohort.protocol.schema import Shape, shape

IDS: Final = {
    "member_id": "member id",
    "leader": "member id",  # of JoinGroup; elsewhere the leader is `leader_id`
    "producer_id": "producer id",
    "ongoing_txn_producer_id": "producer id",
    "topic_id": "topic id",
    "session_id": "fetch session id",
    "client_instance_id": "client instance id",
    "subscription_id": "subscription id",
}
"""Fields with an id → the kind of id. Ids of one kind are mapped together."""

_NO_ID: Final = {
    "member id": "",
    "producer id": -1,
    "topic id": uuid_zero,
    "fetch session id": 0,
    "client instance id": uuid_zero,
    "subscription id": 0,
}
"""Kind of id → the value that stands for none."""

COUNTERS: Final = {
    "generation_id": ("generation", 1),
    "generation_id_or_member_epoch": ("generation", 1),
    "member_epoch": ("generation", 1),
    "group_epoch": ("generation", 1),
    "assignment_epoch": ("generation", 1),
    "producer_epoch": ("producer epoch", 0),
    "ongoing_txn_producer_epoch": ("producer epoch", 0),
}
"""Fields with a counter → its kind, and its value in a new group or of a new producer id."""

SCOPES: Final = {"generation": "group_id", "producer epoch": "producer_id"}
"""Kind of counter → the field that says whose counter it is."""

NOT_COMPARED: Final = frozenset(
    {
        "throttle_time", "cluster_id", "host", "port", "rack", "client_host", "log_dir",
        "node_endpoints", "brokers", "nodes", "node_id", "broker_id", "controller_id", "replica_id",
        "replica_nodes", "isr_nodes", "offline_replicas", "eligible_leader_replicas",
        "last_known_elr", "preferred_read_replica", "current_leader", "leader_epoch",
        "committed_leader_epoch", "coordinator_epoch", "usable_bytes", "total_bytes",
        "auth_bytes", "hmac", "session_lifetime", "telemetry_max_bytes", "metadata_hash",
    }
)  # fmt: skip
"""Fields that depend on the machines of a cluster, on its age or load."""

TEXTS: Final = frozenset(
    {"error_message", "batch_index_error_message", "acknowledge_error_message", "documentation"}
)
"""Texts for humans: they differ only if one of them is empty."""

LEADERS: Final = frozenset({"leader_id"})
"""Node ids of which only their presence is compared."""

KEYS: Final = (
    "name", "topic", "topic_name", "topic_id", "partition_index", "partition", "index",
    "partition_id", "group_id", "member_id", "transactional_id", "key", "resource_name", "api_key",
    "producer_id", "user",
)  # fmt: skip
"""Fields by which elements of two lists belong together, whatever their order."""

_RECENT: Final = (1_577_836_800_000, 4_102_444_800_000)
"""Times from 2020 to 2100, in ms."""


def class_of(message: Any) -> Any:
    """kio's class of a message or struct."""
    return type(message)


@cache
def fields_of(message_type: Any) -> tuple[tuple[str, Shape], ...]:
    """Names and shapes of the fields of a message."""
    return tuple((field.name, shape(field)) for field in fields(message_type))


@cache
def key_fields(message_type: Any) -> tuple[str, ...]:
    """The fields that name an element of a list."""
    names = {name for name, _ in fields_of(message_type)}
    return tuple(name for name in KEYS if name in names)


def is_no_id(kind: str, value: Any) -> bool:
    """Whether a message has no id of this kind."""
    return value is None or value == _NO_ID[kind]


def is_recent(value: Any) -> bool:
    """Whether this is a time near the present."""
    if isinstance(value, datetime):
        return _RECENT[0] <= (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000
    return isinstance(value, int) and _RECENT[0] <= value < _RECENT[1]
