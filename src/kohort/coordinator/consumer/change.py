"""A request's change of one member, before its records are replayed."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerMember, most_named
from kohort.coordinator.consumer_records import ConsumerGroupMemberMetadataValue, Partitions
from kohort.coordinator.requests import MayDescribe
from kohort.coordinator.topics import TopicsView


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """A group in which `after` replaces `before`."""

    group: ConsumerGroup
    before: ConsumerMember
    """The member before the change, or with the state of the static member that it replaces."""
    after: ConsumerMember
    replaced: str | None = None
    """Member id of the replaced static member, None if it is unchanged."""
    may_describe: MayDescribe | None = None

    @property
    def member_id(self) -> str:
        return self.after.member_id

    @property
    def names_changed(self) -> bool:
        return self.before.metadata.topics != self.after.metadata.topics

    @property
    def regex_changed(self) -> bool:
        return self.before.metadata.regex != self.after.metadata.regex

    @property
    def target(self) -> Partitions | None:
        """The member's current target assignment."""
        member_id = self.member_id if self.replaced is None else self.replaced
        return self.group.targets.get(member_id)

    def regex_subscribers(self, regex: str) -> int:
        """Number of members with this regular expression after the change."""
        before = self.before.metadata.regex == regex
        return self.group.regex_members[regex] - before + (self.after.metadata.regex == regex)

    def subscribed_topics(self) -> Collection[str]:
        """Topics to which members subscribe, by name or by a resolved regular expression."""
        names = self._names()
        resolved = [
            value.topics
            for regex, value in self.group.regexes.items()
            if self.regex_subscribers(regex) > 0
        ]
        return set(names).union(*resolved) if resolved else names

    @property
    def keeps_topics(self) -> bool:
        """Whether the subscribed topics of the whole group are unchanged."""
        return not self.regex_changed and self._names() is self.group.subscriptions.names

    def _names(self) -> Collection[str]:
        is_known = self.member_id in self.group.members or self.replaced is not None
        before = (self.before.metadata.topics,) if is_known else ()
        return self.group.subscriptions.after(before, self.after.metadata.topics)

    @property
    def assignor(self) -> str | None:
        """The assignor that most members name after the change; None if there is none, or a tie."""
        counts = self.group.assignors.copy()
        counts.subtract((self.before.metadata.assignor or "",))
        counts.update((self.after.metadata.assignor or "",))
        del counts[""]
        return most_named(counts)

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        """Whether no other member owns the partition."""
        owner = self.group.owner(topic_id, partition)
        return owner is None or owner == self.member_id or owner == self.replaced


def subscribed_ids(
    group: ConsumerGroup, metadata: ConsumerGroupMemberMetadataValue, topics: TopicsView
) -> frozenset[UUID]:
    """Ids of the existing topics to which a member subscribes.

    An unresolved regular expression matches no topic.
    """
    resolved = group.regexes.get(metadata.regex)
    names = metadata.topics if resolved is None else (*metadata.topics, *resolved.topics)
    images = map(topics.by_name, names)
    return frozenset(topic.id for topic in images if topic is not None)
