"""Nominal types that every room shares; Kafka's words for what Kafka names."""

from collections.abc import Hashable
from typing import Generic, NamedTuple, NewType, TypeAlias, TypeVar
from uuid import UUID

GroupId = NewType("GroupId", str)
MemberId = NewType("MemberId", str)
InstanceId = NewType("InstanceId", str)
"""`group.instance.id` of a static member (KIP-345)."""

Timestamp = NewType("Timestamp", int)
"""Wall-clock time: milliseconds since the Unix epoch, as Kafka stores them; it may jump."""

Instant = NewType("Instant", int)
"""A reading of a monotonic clock in milliseconds, for deadlines and durations; no calendar time."""

OnResponse: TypeAlias = Hashable
"""Receiver of the response to a request: in a server a function of the response.

The core neither calls nor reads it. It keeps it until it decides the response, and returns both in
a `Reply`. In tests of the core, it is a number.
"""

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class Reply(NamedTuple, Generic[ResponseT_co]):
    """The response to a request, as the core decides it, and the receiver of it."""

    on_response: OnResponse
    response: ResponseT_co


ConnectionId: TypeAlias = Hashable
"""Names the connection a request came by; the core only compares it."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by topic id, which tells it from one of a recreated topic with the same name."""

    topic_id: UUID
    partition: int
