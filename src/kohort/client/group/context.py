"""The configuration, state and services that the parts of a running member share.

`GroupRun` creates the context and the parts, and hands the context to each. No part imports
`GroupRun`.
"""

from dataclasses import dataclass, field

from kohort.client.cluster import Cluster
from kohort.client.config import GroupConfig
from kohort.client.fetch import Fetcher
from kohort.client.group.commits import Identity
from kohort.client.group.events import EventReporter
from kohort.client.group.marked_commits import MarkedCommits
from kohort.client.group.member import GroupMember
from kohort.client.group.member_tasks import MemberTasks
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.subscription import MemberSubscription
from kohort.client.group.topic_watch import TopicWatch
from kohort.client.membership import AnyMembership, Membership
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberContext:
    """State and services of one member."""

    config: GroupConfig
    cluster: Cluster
    fetcher: Fetcher
    subscription: MemberSubscription
    watch: TopicWatch
    marked: MarkedCommits
    membership: AnyMembership
    """The decisions; events go to it through `member`."""
    member: GroupMember
    events: EventReporter
    tasks: MemberTasks
    owned_partitions: dict[TopicPartition, OwnedPartition] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The group id, for log lines and errors."""
        return self.config.group_id

    @property
    def member_epoch(self) -> int | None:
        """The present epoch in the consumer protocol; None: commits carry the generation's id."""
        is_classic = isinstance(self.membership, Membership)
        return None if is_classic else self.membership.generation

    @property
    def offset_reader(self) -> Identity | None:
        """The member of the consumer protocol for which offsets are fetched; None: classic."""
        epoch = self.member_epoch
        return None if epoch is None else Identity(self.membership.member_id, epoch)

    def fetched(self) -> list[TopicPartition]:
        """The owned partitions that the fetcher reads."""
        return [partition for partition, owned in self.owned_partitions.items() if owned.is_fetched]

    def release(self, owned: OwnedPartition) -> None:
        """The partition is drained: the member no longer has it."""
        owned.ending.over.set()
        if owned.is_fetched:
            self.fetcher.remove(owned.partition)
        if self.owned_partitions.get(owned.partition) is owned:
            del self.owned_partitions[owned.partition]
        self.marked.forget([owned])
