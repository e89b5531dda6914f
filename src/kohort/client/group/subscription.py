"""A member's subscription: what it reports in JoinGroup, and the assignment it computes as leader.

Its state: the subscribed topics, the assignors in the order of preference, and the last assignment,
which sticky assignors report.
"""

from collections.abc import Iterable, Sequence

from kohort.assignors.base import (
    Assignment,
    Assignor,
    RebalanceProtocol,
    Topics,
    rebalance_protocol,
)
from kohort.assignors.leader import (
    SubscribedMember,
    encode_metadata,
    perform_assignment,
    subscribed_topics,
)
from kohort.assignors.registry import assignor
from kohort.client.membership import Grant, JoinGroupResponseMember
from kohort.errors import ConfigError
from kohort.types import InstanceId, MemberId, TopicPartition


class MemberSubscription:
    """The subscription of one member. Raises ConfigError for unknown or incompatible assignors."""

    def __init__(
        self, topics: Iterable[str], assignors: Sequence[str | Assignor], rack: str | None
    ) -> None:
        self.topics = tuple(topics)
        self._assignors = [assignor(item) if isinstance(item, str) else item for item in assignors]
        self._by_name = {assignor.name: assignor for assignor in self._assignors}
        if len(self._by_name) < len(self._assignors):
            names = [assignor.name for assignor in self._assignors]
            raise ConfigError(f"assignors: a name is there twice: {names}")
        self.cooperative = rebalance_protocol(self._assignors) is RebalanceProtocol.COOPERATIVE
        self._rack = rack
        self._previous: tuple[TopicPartition, ...] = ()
        self._generation = -1

    def protocols(
        self, owned: tuple[TopicPartition, ...], generation: int
    ) -> tuple[tuple[str, bytes], ...]:
        """Pairs (assignor's name, subscription) for JoinGroup."""
        return tuple(
            (
                assignor.name,
                encode_metadata(
                    assignor,
                    self.topics,
                    previous=self._previous,
                    owned_partitions=owned,
                    generation=generation if owned else self._generation,
                    rack=self._rack,
                ),
            )
            for assignor in self._assignors
        )

    def on_assignment(self, grant: Grant) -> None:
        """Remember an assignment, and pass it to its assignor."""
        self._previous, self._generation = grant.assignment, grant.generation
        assignment = Assignment(partitions=grant.assignment, user_data=grant.user_data)
        if grant.protocol in self._by_name:
            self._by_name[grant.protocol].on_assignment(assignment, grant.generation)

    def topics_of(self, members: Iterable[JoinGroupResponseMember]) -> frozenset[str]:
        """The topics that the whole group subscribes to.

        Raises MalformedError, which names the member.
        """
        return subscribed_topics(map(_assigned, members)) | frozenset(self.topics)

    def assign(
        self, protocol: str, topics: Topics, members: Iterable[JoinGroupResponseMember]
    ) -> dict[str, bytes]:
        """The assignment by member id.

        Raises KohortError, and errors of an application's own assignor.
        """
        if protocol not in self._by_name:
            raise ConfigError(
                f"the group chose the assignor {protocol!r}, which this member did not offer"
            )
        return dict(perform_assignment(self._by_name[protocol], topics, map(_assigned, members)))


def _assigned(member: JoinGroupResponseMember) -> SubscribedMember:
    instance_id = None if member.instance_id is None else InstanceId(member.instance_id)
    return SubscribedMember(MemberId(member.member_id), instance_id, member.metadata)
