"""Random histories of groups: members come, go and are late, topics grow, subscriptions and racks
differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from kohort.assignors import Assignor, SubscribedMember, Topics, encode_metadata
from kohort.types import InstanceId, MemberId, TopicPartition

RACKS = ("a", "b", "c")


@dataclass(frozen=True)
class Past:
    """What a member was assigned, and in which generation."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1


@dataclass(frozen=True)
class One:
    """A member of a history."""

    member_id: MemberId
    instance_id: InstanceId | None
    topics: tuple[str, ...]
    rack: str | None
    past: Past = Past()

    def joined(self, assignor: Assignor) -> SubscribedMember:
        """As it joins, by whichever rebalance protocol its assignor prefers."""
        owned = self.past.partitions if len(assignor.protocols) > 1 else ()
        metadata = encode_metadata(
            assignor,
            self.topics,
            previous=self.past.partitions,
            owned_partitions=owned,
            generation=self.past.generation,
            rack=self.rack,
        )
        return SubscribedMember(self.member_id, self.instance_id, metadata)


@dataclass
class History:
    """One group; `step` changes it, `assigned` is what became of that."""

    seed: int
    generation: int = 0
    members: list[One] = field(default_factory=list)
    topics: dict[str, list[frozenset[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self.racks = self._random.random() < 0.4
        self.alike = self._random.random() < 0.4
        for number in range(self._random.randint(1, 6)):
            self._grow(f"t{number}", self._random.randint(0, 10))
        for _ in range(self._random.randint(1, 10)):
            self._join()

    def step(self) -> None:
        """Up to two changes."""
        for _ in range(self._random.randint(0, 2)):
            change = self._random.choice(
                (self._join, self._join, self._leave, self._more_partitions, self._subscribe)
            )
            change()

    def assigned(self, to: Mapping[MemberId, Sequence[TopicPartition]]) -> None:
        """The next generation; now and then a member misses it, and still claims what it had."""
        self.generation += 1
        late = self._random.choice(self.members).member_id if self._random.random() < 0.2 else None
        self.members = [
            one
            if one.member_id == late
            else replace(one, past=Past(tuple(to[one.member_id]), self.generation))
            for one in self.members
        ]

    def _join(self) -> None:
        # Ids of which Java's order differs from that of code points, too.
        number = self._random.choice(("", "\ufb01", "\U0001f600")) + f"{self._random.random():.9f}"
        static = self._random.random() < 0.2
        self.members.append(
            One(
                member_id=MemberId(f"m{number}"),
                instance_id=InstanceId(f"i{number}") if static else None,
                topics=self._subscription(),
                rack=self._random.choice((*RACKS, *RACKS, None)) if self.racks else None,
            )
        )

    def _subscription(self) -> tuple[str, ...]:
        names = (
            [*self.topics, "not there yet"] if self._random.random() < 0.2 else list(self.topics)
        )
        return (
            tuple(self.topics)
            if self.alike
            else tuple(self._random.sample(names, self._random.randint(1, len(names))))
        )

    def _leave(self) -> None:
        if len(self.members) > 1:
            self.members.remove(self._random.choice(self.members))

    def _more_partitions(self) -> None:
        self._grow(self._random.choice(list(self.topics)), self._random.randint(1, 3))

    def _subscribe(self) -> None:
        at = self._random.randrange(len(self.members))
        self.members[at] = replace(self.members[at], topics=self._subscription())

    def _grow(self, topic: str, partitions: int) -> None:
        racks = [
            frozenset(self._random.sample(RACKS, self._random.randint(1, 2)))
            for _ in range(partitions)
        ]
        self.topics.setdefault(topic, []).extend(
            racks if self.racks else [frozenset[str]()] * partitions
        )


def snapshot(history: History) -> Topics:
    return {topic: tuple(partitions) for topic, partitions in history.topics.items()}
