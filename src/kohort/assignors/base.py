"""The assignor's interface, and the values that it works on.

When a classic group rebalances, its leader divides the partitions among the members, as Java's
ConsumerPartitionAssignor does. An assignor is a pure function of two values, the topics and the
members. It can thus compute a hypothetical rebalance (`kohort.assignors.plan`), and leaders in
other languages come to the same result. A member's data (`Member`) arrives in its subscription;
data for a single assignor is in that subscription's user data.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias, TypeVar

from kohort.errors import ConfigError
from kohort.protocol.subscription import Assignment
from kohort.types import InstanceId, MemberId, TopicPartition

__all__ = [
    "Assignment",
    "Assignor",
    "Member",
    "RebalanceProtocol",
    "Topics",
    "java_order",
    "java_sorted",
    "member_order",
    "rebalance_protocol",
    "without_racks",
]

Topics: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""Topic -> racks of the replicas of each partition, by index; empty if no rack is known.
"""

Text = TypeVar("Text", bound=str)

UNKNOWN_GENERATION = -1


class RebalanceProtocol(IntEnum):
    """How members rebalance (KIP-429); the higher one is preferred if all members support both."""

    EAGER = 0
    """Members revoke all their partitions before they join."""
    COOPERATIVE = 1
    """Members keep their partitions while they join, and revoke only those that are reassigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member as the leader sees it."""

    member_id: MemberId
    topics: tuple[str, ...]
    """Subscribed topics; some may not exist."""
    instance_id: InstanceId | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    """The partitions that the member owned when it joined.

    Empty under the eager protocol, where a member revokes all partitions before it joins.
    """
    generation: int = UNKNOWN_GENERATION
    """Generation in which `owned_partitions` were assigned; -1 if unknown."""
    rack: str | None = None
    user_data: bytes | None = None
    """User data of the member's assignor of the same name (`Assignor.subscription_user_data`)."""


class Assignor(Protocol):
    """Divides partitions among members.

    An application's own assignor inherits from this and defines `name` and `assign`. One object may
    serve several groups, so it should keep no state between calls except from `on_assignment`.
    """

    name: str
    """Protocol name that the members of a group vote for."""
    version: int = 0
    """Version of the assignor's user data."""
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
    """Supported protocols.

    A cooperative assignor must never assign a partition that another member still owns.
    """

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[MemberId, Assignment]:
        """The assignment of every member, empty ones included.

        The order of `members` does not matter. Topics that are not in `topics` do not exist (yet)
        and are left out.
        """
        ...

    def subscription_user_data(
        self,
        owned_partitions: Sequence[TopicPartition],  # noqa: ARG002
        generation: int,  # noqa: ARG002
    ) -> bytes | None:
        """User data for the leader in the next subscription, or None.

        It depends on the last assignment and its generation, which is -1 before the first.
        """
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> None:  # noqa: ARG002
        """Called in every member with its assignment and the leader's user data."""
        return


def rebalance_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """The highest protocol that all these assignors support.

    Raises `ConfigError` if they have none in common.
    """
    listed = list(assignors)
    common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in listed))
    if not common:
        names = ", ".join(
            (f"{assignor.name} ({'/'.join(protocol.name for protocol in assignor.protocols)})")
            for assignor in listed
        )
        raise ConfigError(
            f"no rebalance protocol is supported by all assignors: {names}; leave some of them out"
        )
    return max(common)


def java_order(text: str) -> bytes:
    """Key that sorts as Java's String.compareTo does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def java_sorted(texts: Iterable[Text]) -> list[Text]:
    """Strings as Java sorts them."""
    listed = list(texts)
    return sorted(listed, key=None if all(map(str.isascii, listed)) else java_order)


def member_order(member: Member) -> tuple[bool, bytes]:
    """Key of Java's MemberInfo: static members first, by instance id, then others by member id."""
    if member.instance_id is None:
        return True, java_order(member.member_id)
    return False, java_order(member.instance_id)


def without_racks(partitions: Mapping[str, int]) -> Topics:
    """Topics with these numbers of partitions, without racks."""
    return {topic: (frozenset[str](),) * count for topic, count in partitions.items()}
