"""The leader's work on encoded values: subscriptions in, assignments out.

It also encodes a member's subscription for the leader. Used by clients that lead their group, and
by a server that assigns for its members.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kohort.assignors.base import UNKNOWN_GENERATION, Assignor, Member, Topics, java_order
from kohort.assignors.registry import ASSIGNORS, assignor
from kohort.assignors.validation import validate_assignment
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.types import InstanceId, MemberId, TopicPartition


class SubscribedMember(NamedTuple):
    """A member as the JoinGroup response shows it to the leader."""

    member_id: MemberId
    instance_id: InstanceId | None
    metadata: bytes
    """Its subscription."""


def perform_assignment(
    protocol: Assignor | str, topics: Topics, members: Iterable[SubscribedMember]
) -> list[tuple[MemberId, bytes]]:
    """The assignment of each member, as SyncGroup takes it, by member id.

    `protocol` is the name that the group voted for, or an application's own assignor. `topics` must
    have every existing topic that a member subscribes to (`subscribed_topics`). Raises
    `ConfigError` for an unknown name, `MalformedError` for a subscription that cannot be read (the
    text names the member), `InvalidAssignmentError` for an invalid result of an own assignor.
    """
    chosen = assignor(protocol) if isinstance(protocol, str) else protocol
    decoded = [decode_member(member) for member in members]
    assigned = chosen.assign(topics, decoded)
    if chosen is not ASSIGNORS.get(chosen.name):
        validate_assignment(chosen, topics, decoded, assigned)
    return [(member, _encode(assignment)) for member, assignment in sorted(assigned.items())]


def subscribed_topics(members: Iterable[SubscribedMember]) -> frozenset[str]:
    """All topics that any member subscribes to; the leader must watch them too.

    Raises `MalformedError`.
    """
    return frozenset(topic for member in members for topic in decode_member(member).topics)


def decode_member(joined: SubscribedMember) -> Member:
    """Raises `MalformedError`."""
    try:
        subscription = decode_subscription(joined.metadata)
    except MalformedError as error:
        raise MalformedError(
            f"the subscription of member {joined.member_id!r} cannot be read: {error}"
        ) from error
    return Member(
        member_id=joined.member_id,
        instance_id=joined.instance_id,
        topics=subscription.topics,
        owned_partitions=subscription.owned,
        generation=subscription.generation,
        rack=subscription.rack,
        user_data=subscription.user_data,
    )


def encode_metadata(
    assignor: Assignor,
    topics: Iterable[str],
    *,
    previous: Sequence[TopicPartition] = (),
    owned_partitions: Sequence[TopicPartition] = (),
    generation: int = UNKNOWN_GENERATION,
    rack: str | None = None,
) -> bytes:
    """A member's subscription for one of its assignors, v3 as Java writes it, for JoinGroup.

    `previous` is its assignment in `generation`; `owned_partitions` are those of them that it has
    not revoked: none under the eager protocol.
    """
    subscription = Subscription(
        topics=tuple(sorted(topics, key=java_order)),
        user_data=assignor.subscription_user_data(previous, generation),
        owned=tuple(sorted(owned_partitions)),
        generation=generation,
        rack=rack,
    )
    return encode_subscription(subscription)


def _encode(assignment: Assignment) -> bytes:
    """Encode each topic once, in the order of first occurrence, as Java does."""
    topics = {
        partition.topic: index
        for index, partition in reversed(list(enumerate(assignment.partitions)))
    }
    grouped = sorted(assignment.partitions, key=lambda partition: topics[partition.topic])
    return encode_assignment(Assignment(partitions=tuple(grouped), user_data=assignment.user_data))
