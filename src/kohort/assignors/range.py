"""range: consecutive ranges of each topic, one per subscriber, as Java's RangeAssignor.

Members are sorted as in Java (static members first). If a topic does not divide evenly, the first
members get one partition more. So topics with equally many partitions and the same subscribers are
divided alike, and a member has the same partition numbers of each: they are co-partitioned, as
joins need. The balance suffers, because the first members get the remainder of every topic.

With racks (KIP-881) a member first gets partitions with a replica in its own rack, up to its share:
co-partitioned topics number by number, other topics member by member. The remaining ones are
divided into ranges. Racks count only if some member's rack has a replica, and not every rack has
one of every partition.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kohort.assignors.base import Assignment, Assignor, Member, Topics, java_order, member_order
from kohort.assignors.roundrobin import subscribers_by_topic
from kohort.types import MemberId, TopicPartition


class RangeAssignor(Assignor):
    """Java's RangeAssignor of 4.x: the same assignment, partition by partition."""

    name = "range"

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[MemberId, Assignment]:
        ordered = sorted(members, key=member_order)
        subscribers = subscribers_by_topic(topics, ordered)
        racks = [member.rack for member in ordered]
        divisions = [
            TopicDivision(topic, topics[topic], subscribers[topic], racks)
            for topic in sorted(subscribers, key=java_order)
        ]
        if any(division.racks_matter for division in divisions):
            _match_racks(divisions)
        for division in divisions:
            division.assign_ranges()
        return {
            member.member_id: Assignment(partitions=tuple(_of(position, divisions)))
            for position, member in enumerate(ordered)
        }


def _of(position: int, divisions: Iterable["TopicDivision"]) -> Iterator[TopicPartition]:
    for division in divisions:
        for partition in sorted(division.assigned.get(position, ())):
            yield TopicPartition(division.topic, partition)


class TopicDivision:
    """The division of one topic: assigned partitions, and the remaining share of each member."""

    def __init__(
        self,
        topic: str,
        partitions: Sequence[frozenset[str]],
        members: Sequence[int],
        racks: Sequence[str | None],
    ) -> None:
        """`members`: positions of the subscribers, in order.

        `racks`: the rack of the member at each position.
        """
        self.topic = topic
        self.partitions = partitions
        self.members = members
        self.racks = racks
        self.assigned: dict[int, list[int]] = {}
        self.free = dict.fromkeys(range(len(partitions)))
        self._share, self._extras = divmod(len(partitions), len(members))
        """Partitions per member, and the number of members that get one more."""

    @property
    def racks_matter(self) -> bool:
        """Whether placing by rack can make a difference."""
        of_members = {self.racks[member] for member in self.members} - {None}
        of_replicas = frozenset[str]().union(*self.partitions)
        return not of_members.isdisjoint(of_replicas) and any(
            racks != of_replicas for racks in self.partitions
        )

    def room(self, member: int) -> int:
        """Number of partitions that the member may still get; once 0, always 0."""
        return max(0, self._share + (self._extras > 0) - len(self.assigned.get(member, ())))

    def assign_to(self, member: int, partitions: Iterable[int]) -> None:
        """Assign free partitions to a member, at most `room(member)`."""
        own_partitions = self.assigned.setdefault(member, [])
        for partition in partitions:
            own_partitions.append(partition)
            del self.free[partition]
        if len(own_partitions) > self._share:
            self._extras -= 1

    def assign_ranges(self) -> None:
        """Fill the share of each member in turn with the lowest free partitions."""
        free = deque(self.free)
        for member in self.members:
            if room := min(self.room(member), len(free)):
                self.assign_to(member, [free.popleft() for _ in range(room)])

    def assign_by_rack(self) -> None:
        """Fill the share of each member in turn with the lowest free partitions in its rack."""
        queues = {
            rack: self._numbers_in(rack) for rack in {self.racks[member] for member in self.members}
        }
        for member in self.members:
            if not self.free:
                return
            queue, matching = queues[self.racks[member]], list[int]()
            while queue and len(matching) < self.room(member):
                if (partition := queue.popleft()) in self.free:
                    matching.append(partition)
            if matching:
                self.assign_to(member, matching)

    def _numbers_in(self, rack: str | None) -> deque[int]:
        """Partitions with a replica in this rack; all partitions if it is None."""
        return deque(
            number for number, racks in enumerate(self.partitions) if rack is None or rack in racks
        )


def _match_racks(divisions: Iterable[TopicDivision]) -> None:
    alike: dict[tuple[tuple[int, ...], int], list[TopicDivision]] = {}
    for division in divisions:
        alike.setdefault((tuple(division.members), len(division.partitions)), []).append(division)
    for together in alike.values():
        if len(together) > 1:
            _assign_co_partitioned(together)
        elif together[0].racks_matter:
            together[0].assign_by_rack()


def _assign_co_partitioned(divisions: Sequence[TopicDivision]) -> None:
    """Assign each partition number of co-partitioned topics to the first member that has room.

    All its partitions must have a replica in the member's rack.
    """
    first = divisions[0]  # the same room in all divisions: each assignment is made in all of them
    waiting: dict[str | None, deque[int]] = {}
    for member in first.members:
        waiting.setdefault(first.racks[member], deque()).append(member)
    for number in range(len(first.partitions)):
        in_all = frozenset[str].intersection(
            *(division.partitions[number] for division in divisions)
        )
        candidates = []
        for queue in (waiting[rack] for rack in (None, *in_all) if rack in waiting):
            while queue and not first.room(queue[0]):
                queue.popleft()
            if queue:
                candidates.append(queue[0])
        if candidates:
            member = min(candidates)
            for division in divisions:
                division.assign_to(member, (number,))
