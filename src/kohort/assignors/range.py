"""range: consecutive ranges of each topic, one per subscriber, as Java's RangeAssignor.

Members are sorted as in Java (static ones first). The first ones get one partition more if a topic
does not divide evenly. So topics with equally many partitions and the same subscribers are divided
alike, and a member has the same partition numbers of each: they are co-partitioned, as joins need.
The balance suffers, because the first members get the remainder of every topic.

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
            division.take_ranges()
        return {
            member.member_id: Assignment(partitions=tuple(_of(position, divisions)))
            for position, member in enumerate(ordered)
        }


def _of(position: int, divisions: Iterable["TopicDivision"]) -> Iterator[TopicPartition]:
    for division in divisions:
        for partition in sorted(division.taken.get(position, ())):
            yield TopicPartition(division.topic, partition)


class TopicDivision:
    """The division of one topic: who has taken what, and how many each may still take."""

    def __init__(
        self,
        topic: str,
        partitions: Sequence[frozenset[str]],
        members: Sequence[int],
        racks: Sequence[str | None],
    ) -> None:
        """`members`: positions of the subscribers, in order.

        `racks`: of the member at each position.
        """
        self.topic = topic
        self.partitions = partitions
        self.members = members
        self.racks = racks
        self.taken: dict[int, list[int]] = {}
        self.free = dict.fromkeys(range(len(partitions)))
        self._share, self._extras = divmod(len(partitions), len(members))
        """What each member gets, and how many members get one more."""

    @property
    def racks_matter(self) -> bool:
        """Whether placing by rack can make a difference."""
        of_members = {self.racks[member] for member in self.members} - {None}
        of_replicas = frozenset[str]().union(*self.partitions)
        return not of_members.isdisjoint(of_replicas) and any(
            racks != of_replicas for racks in self.partitions
        )

    def room(self, member: int) -> int:
        """How many partitions the member may still take; once 0, always 0."""
        return max(0, self._share + (self._extras > 0) - len(self.taken.get(member, ())))

    def take(self, member: int, partitions: Iterable[int]) -> None:
        """At most `room(member)` free ones."""
        own_partitions = self.taken.setdefault(member, [])
        for partition in partitions:
            own_partitions.append(partition)
            del self.free[partition]
        if len(own_partitions) > self._share:
            self._extras -= 1

    def take_ranges(self) -> None:
        """Each member in turn fills its share with the lowest numbers that are free."""
        free = deque(self.free)
        for member in self.members:
            if room := min(self.room(member), len(free)):
                self.take(member, [free.popleft() for _ in range(room)])

    def take_by_rack(self) -> None:
        """Give each member its share: in turn, the lowest free numbers in its rack."""
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
                self.take(member, matching)

    def _numbers_in(self, rack: str | None) -> deque[int]:
        """Partitions that a member of the rack reads there; a member without one reads anywhere."""
        return deque(
            number for number, racks in enumerate(self.partitions) if rack is None or rack in racks
        )


def _match_racks(divisions: Iterable[TopicDivision]) -> None:
    alike: dict[tuple[tuple[int, ...], int], list[TopicDivision]] = {}
    for division in divisions:
        alike.setdefault((tuple(division.members), len(division.partitions)), []).append(division)
    for together in alike.values():
        if len(together) > 1:
            _take_together(together)
        elif together[0].racks_matter:
            together[0].take_by_rack()


def _take_together(divisions: Sequence[TopicDivision]) -> None:
    """Assign co-partitioned topics: each number to the first member with room and all its racks."""
    first = divisions[0]  # room is the same in all of them: they are taken from together
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
                division.take(member, (number,))
