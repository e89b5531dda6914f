"""The members of a group and their topics: the input of an assignor."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from kohort.assignors.server import (
    MemberSpec,
    MemberTable,
    Subscription,
    subscription,
    without_overlaps,
)
from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataValue,
    Partitions,
    RegularExpressionValue,
)
from kohort.coordinator.topics import TopicImage
from kohort.types import InstanceId, MemberId

_NAMES_OF_A_SIZE: Final = 16
_NO_TARGET: Partitions = {}


class _Member(Protocol):
    @property
    def metadata(self) -> ConsumerGroupMemberMetadataValue: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """Immutable input for the target of a group; any thread may read it.

    Equal tuples of names are the same object in all members.
    """

    table: MemberTable
    members: Mapping[str, _Member]
    targets: Mapping[str, Partitions]
    """The old targets of members that had one."""
    regexes: Mapping[str, RegularExpressionValue]
    topics: Mapping[str, TopicImage]
    """Name → topic, of the existing subscribed topics."""
    names: int
    """Number of names in all different subscriptions, including regular expressions."""
    updated: MemberId
    """The member whose request starts the computation."""
    replaced: MemberId | None
    """The static member that it replaces, or None."""

    @property
    def size(self) -> int:
        """Number of members and partitions; some names count as one."""
        partitions = sum(topic.partitions for topic in self.topics.values())
        return len(self.members) + partitions + self.names // _NAMES_OF_A_SIZE


class Specs:
    """The members of a snapshot, in Kafka's order, and their topics."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        # Old targets may overlap if only a part of a target was stored: the server was killed, or
        # a static member returned under another id.
        self._targets = without_overlaps(snapshot.targets)
        self._subscriptions: dict[tuple[int, str], Subscription] = {}
        """(identity of the names, regular expression) → subscription."""
        order = snapshot.table.assignment_order(snapshot.updated, snapshot.replaced)
        self.members = {member_id: self._spec(member_id) for member_id in order}
        self.partitions: Mapping[UUID, int] = {
            topic.id: topic.partitions for topic in snapshot.topics.values()
        }
        """Topic id → number of partitions, of all subscribed topics."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members have the same names, or one regular expression and no names."""
        if len(self._subscriptions) != 1:
            return False
        metadata = self._snapshot.members[next(iter(self.members))].metadata
        return not metadata.regex or not metadata.topics

    def _spec(self, member_id: MemberId) -> MemberSpec:
        metadata = self._snapshot.members[member_id].metadata
        instance_id = metadata.instance_id
        return MemberSpec(
            self._subscription(metadata),
            self._targets.get(member_id, _NO_TARGET),
            None if instance_id is None else InstanceId(instance_id),
        )

    def _subscription(self, metadata: ConsumerGroupMemberMetadataValue) -> Subscription:
        key = id(metadata.topics), metadata.regex
        cached = self._subscriptions.get(key)
        if cached is None:
            resolved = self._snapshot.regexes.get(metadata.regex)
            matched = () if resolved is None else resolved.topics
            ids = self._ids((*metadata.topics, *matched))
            cached = self._subscriptions[key] = subscription(metadata.topics, matched, ids)
        return cached

    def _ids(self, names: Iterable[str]) -> dict[str, UUID]:
        """Name → id, of the existing topics."""
        images = map(self._snapshot.topics.get, names)
        return {topic.name: topic.id for topic in images if topic is not None}
