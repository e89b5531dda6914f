"""Resource types of configs, from Kafka's ConfigResource."""

from collections.abc import Collection
from enum import IntEnum

from kohort.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def validate_broker_id(name: str, node_ids: Collection[int], expected: str) -> None:
    """Raise KafkaError INVALID_REQUEST unless `name` is one of the ids, or as `expected` says."""
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(
            ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) not in node_ids:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {expected} but received {name}",
        )
