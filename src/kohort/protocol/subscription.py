"""The "consumer" blobs: subscriptions that members send to their leader, and its assignments.

A subscription has topics and user data in v0, owned partitions in v1 (KIP-429), the generation in
which they were owned in v2 (KIP-792), the rack in v3 (KIP-881). Assignments v0-3 are alike. Both
begin with their version, an int16, and are never flexible.

A group may have clients of different releases. A higher version is therefore read as the highest
known one, and trailing bytes are ignored, as in Java's ConsumerProtocol. The coordinator reads only
the v0 prefix of subscriptions (`subscribed_topics`), to decide which offsets may expire.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Any, Final

from kio.index import load_entity_schema
from kio.static.constants import EntityType

from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import pack_array, pack_bytes, pack_int16, pack_int32, pack_string
from kohort.protocol.reading import Read, reader
from kohort.types import TopicPartition

HIGHEST_VERSION: Final = 3
"""Highest version of subscription and assignment."""

_VERSION: Final = Struct(">h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topics that a member subscribes to, and the partitions that it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    """The generation in which `owned` was assigned; -1 if the member does not send it."""
    rack: str | None = None
    version: int = HIGHEST_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The leader's assignment to a member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None
    version: int = HIGHEST_VERSION


def decode_subscription(data: bytes) -> Subscription:
    """Raises `MalformedError`."""
    version = blob_version(data)
    read = _read("consumer_protocol_subscription", _known(version), data)
    return Subscription(
        topics=read.topics,
        user_data=read.user_data,
        owned=_partitions(read.owned_partitions) if version >= 1 else (),
        generation=read.generation_id if version >= 2 else -1,
        rack=read.rack_id if version >= 3 else None,
        version=version,
    )


def decode_assignment(data: bytes) -> Assignment:
    """Raises `MalformedError`."""
    version = blob_version(data)
    read = _read("consumer_protocol_assignment", _known(version), data)
    partitions = _partitions(read.assigned_partitions)
    return Assignment(partitions=partitions, user_data=read.user_data, version=version)


def blob_version(data: bytes) -> int:
    """The version that a subscription or assignment begins with. Raises `MalformedError`."""
    if len(data) < _VERSION.size:
        raise MalformedError(f"{len(data)} bytes hold no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedError(f"version {version} of a consumer protocol blob")
    return version


def subscribed_topics(data: bytes) -> frozenset[str] | None:
    """The topics of a subscription, from its v0 prefix; None if it cannot be read. Never raises."""
    try:
        return frozenset(_read("consumer_protocol_subscription", 0, data).topics)
    except MalformedError:
        return None


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode it in its `version` (0-3), without the fields that the version lacks."""
    topics = (
        pack_int16(subscription.version),
        pack_array(len(subscription.topics)),
        *map(pack_string, subscription.topics),
    )
    owned = _packed_partitions(subscription.owned) if subscription.version >= 1 else b""
    generation = pack_int32(subscription.generation) if subscription.version >= 2 else b""
    rack = pack_string(subscription.rack) if subscription.version >= 3 else b""
    return b"".join((*topics, pack_bytes(subscription.user_data), owned, generation, rack))


def encode_assignment(assignment: Assignment) -> bytes:
    """The bytes of its `version` (0-3)."""
    return (
        pack_int16(assignment.version)
        + _packed_partitions(assignment.partitions)
        + pack_bytes(assignment.user_data)
    )


def _known(version: int) -> int:
    return min(version, HIGHEST_VERSION)


def _read(name: str, version: int, data: bytes) -> Any:
    """The blob's content in kio's class. Raises `MalformedError`."""
    return _reader(name, version)(data, _VERSION.size)


@cache
def _reader(name: str, version: int) -> Read:
    return reader(load_entity_schema(name, version, EntityType.data))


def _partitions(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions
    )


def _packed_partitions(tps: Iterable[TopicPartition]) -> bytes:
    """By topic, in the order given."""
    topics = [
        (topic, [tp.partition for tp in each_topic])
        for topic, each_topic in groupby(tps, attrgetter("topic"))
    ]
    packed = [
        b"".join((pack_string(topic), pack_array(len(partitions)), *map(pack_int32, partitions)))
        for topic, partitions in topics
    ]
    return b"".join((pack_array(len(packed)), *packed))
