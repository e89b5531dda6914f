"""Responses that refuse a request: the error, wherever the response of its API has one.

They are built from the request by the schemas of both. A list of the response that carries errors,
such as the partitions of OffsetCommit, gets one entry for each entry of the request's list.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.protocol.building import default
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.schema import shape

REFUSABLE: Final = frozenset(
    {
        "produce",
        "list_offsets",
        "offset_commit",
        "offset_fetch",
        "find_coordinator",
        "join_group",
        "heartbeat",
        "leave_group",
        "sync_group",
        "create_topics",
        "init_producer_id",
        "add_partitions_to_txn",
        "add_offsets_to_txn",
        "end_txn",
        "txn_offset_commit",
        "consumer_group_heartbeat",
        "sasl_authenticate",
    }
)
"""APIs for which `error_response` has a response that clients understand."""

_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "responses": ("topic_data",),
    "partition_responses": ("partition_data",),
    "partitions": ("partition_indexes",),
    "coordinators": ("coordinator_keys",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
}
"""List of a response → lists of the request with the same entries, if it has no such name."""
_KEYS: Final = ("partition_index", "key")
"""Fields that hold the entry of a request's list of plain values."""


def error_response(api_key: int, version: int, request: Any, error: ErrorCode) -> Any:
    """kio's response that refuses `request` with `error`, for an API of `REFUSABLE`."""
    return _refusal(load_response_schema(api_key, version), request, error)


def _refusal(entity_type: Any, request: Any, error: ErrorCode) -> Any:
    shapes = {field.name: shape(field) for field in fields(entity_type)}
    has_error = any(field_shape.kafka_type == "error_code" for field_shape in shapes.values())
    values: dict[str, Any] = {}
    for field in fields(entity_type):
        field_shape = shapes[field.name]
        if field_shape.kafka_type == "error_code":
            values[field.name] = error
        elif field_shape.is_struct and field_shape.is_array and not has_error:
            entries = _entries(field.name, request)
            values[field.name] = tuple(
                _refusal(field_shape.inner, entry, error) for entry in entries
            )
        elif not field_shape.is_struct and hasattr(request, field.name):
            values[field.name] = getattr(request, field.name)
        else:
            values[field.name] = default(field)
    return entity_type(**values)


def _entries(name: str, request: Any) -> Iterable[Any]:
    """The entries of the request for a list of the response; plain values as fields `_KEYS`."""
    for own_name in (name, *_LISTS.get(name, ())):
        entries = getattr(request, own_name, None)
        if entries is not None:
            return map(_entry, entries)
    return ()


def _entry(entry: Any) -> Any:
    return (
        entry
        if hasattr(entry, "__dataclass_fields__")
        else SimpleNamespace(**dict.fromkeys(_KEYS, entry))
    )
