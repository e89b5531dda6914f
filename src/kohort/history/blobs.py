"""Subscriptions and assignments of classic members, as columns of the history.

The same bytes as `kohort.protocol.subscription` reads. This reads them twice as fast, which counts
in a log with many rebalances. v0-3; a higher version is read as 3, and trailing bytes are ignored,
as in Java's ConsumerProtocol.
"""

from typing import Any, Final

from kohort.history.layouts import (
    DamagedError,
    array,
    int16,
    int32,
    int32s,
    nullable_blob,
    nullable_string,
    string,
)

_topics: Final = array(string)


def read_subscription(data: bytes) -> dict[str, Any]:
    """A value of `schema.SUBSCRIPTION`. Raises one of `layouts.ERRORS`."""
    version, at = _version(data)
    topics, at = _topics(data, at)
    user_data, at = nullable_blob(data, at)
    owned = generation = rack = None
    if version >= 1:
        owned, at = _topic_partitions(data, at)
    if version >= 2:
        generation, at = int32(data, at)
    if version >= 3:
        rack, at = nullable_string(data, at)
    return {
        "version": version,
        "topics": topics,
        "owned": owned,
        "generation": None if generation == -1 else generation,
        "rack": rack,
        "user_data": user_data,
    }


def read_assignment(data: bytes) -> dict[str, Any]:
    """A value of `schema.ASSIGNMENT`. Raises one of `layouts.ERRORS`."""
    version, at = _version(data)
    partitions, at = _topic_partitions(data, at)
    user_data, at = nullable_blob(data, at)
    return {"version": version, "partitions": partitions, "user_data": user_data}


def _version(data: bytes) -> tuple[int, int]:
    version, at = int16(data, 0)
    if version < 0:
        raise DamagedError(f"version {version}")
    return version, at


def _topic_partitions(data: bytes, at: int) -> tuple[list[dict[str, Any]], int]:
    count, at = int32(data, at)
    partitions = []
    for _ in range(count):  # Ends with the data: each topic takes six bytes at least.
        topic, at = string(data, at)
        numbers, at = int32s(data, at)
        partitions += [{"topic": topic, "partition": number} for number in numbers]
    return partitions, at
