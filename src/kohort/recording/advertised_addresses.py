"""Addresses of brokers in responses: Metadata, FindCoordinator, DescribeCluster and others.

A struct with a node id, host and port is one, in whatever response it is (`node_endpoints` of
Produce and Fetch, KIP-951).
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from kohort.protocol.message_classes import load_response_schema
from kohort.recording.message_fields import class_of, fields_of

Address = tuple[str, int]
_NODE_IDS: Final = ("node_id", "broker_id")


@cache
def has_addresses(api_key: int, version: int) -> bool:
    """Whether a response of this API may name brokers."""
    return _has_addresses(load_response_schema(api_key, version))


@cache
def _has_addresses(message_type: Any) -> bool:
    return _is_address(message_type) or any(
        field_shape.is_struct and _has_addresses(field_shape.inner)
        for _, field_shape in fields_of(message_type)
    )


@cache
def _is_address(message_type: Any) -> bool:
    names = {name for name, _ in fields_of(message_type)}
    return {"host", "port"} <= names and not names.isdisjoint(_NODE_IDS)


def _node_id(entity: Any) -> int:
    node_id: int = next(getattr(entity, name) for name in _NODE_IDS if hasattr(entity, name))
    return node_id


def addresses(message: Any) -> Mapping[int, Address]:
    """The brokers that a response names, by their ids."""
    return dict(_addresses(message))


def _addresses(message: Any) -> Iterator[tuple[int, Address]]:
    if _is_address(class_of(message)) and message.port > 0:
        yield _node_id(message), (message.host, message.port)
    for inner in _inner(message).values():
        for element in inner if isinstance(inner, tuple) else (inner,):
            yield from _addresses(element)


def _inner(message: Any) -> dict[str, Any]:
    """The fields with structs that may have addresses."""
    return {
        name: value
        for name, field_shape in fields_of(class_of(message))
        if field_shape.is_struct
        and _has_addresses(field_shape.inner)
        and (value := getattr(message, name)) is not None
    }


async def with_addresses(
    message: Any, address_of: Callable[[int, Address], Awaitable[Address]]
) -> Any:
    """The response with other addresses of the brokers, by node id and former address."""
    changes: dict[str, Any] = {}
    if _is_address(class_of(message)) and message.port > 0:
        host, port = await address_of(_node_id(message), (message.host, message.port))
        changes |= {"host": host, "port": port}
    for name, inner in _inner(message).items():
        if isinstance(inner, tuple):
            changes[name] = tuple([await with_addresses(each, address_of) for each in inner])
        else:
            changes[name] = await with_addresses(inner, address_of)
    return replace(message, **changes) if changes else message
