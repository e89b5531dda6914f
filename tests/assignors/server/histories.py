"""Random histories of consumer groups: who joins, leaves, and what becomes of their topics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple
from uuid import UUID

from kohort.assignors.server import (
    RANGE,
    UNIFORM,
    MemberSpec,
    MemberTable,
    Target,
    assign,
    subscription,
)
from kohort.types import InstanceId, MemberId


class Topic(NamedTuple):
    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class One:
    """A member of a history."""

    names: tuple[str, ...]
    instance_id: InstanceId | None
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an assignor is asked in a history."""

    assignor: str
    homogeneous: bool
    topics: Mapping[str, Topic]
    members: Mapping[MemberId, One]
    writes: tuple[str, ...]
    """To the table of members so far: ids after + or -."""
    updated: MemberId | None
    replaced: MemberId | None
    table: tuple[MemberId, ...]
    """The order of the table of members."""
    order: tuple[MemberId, ...]
    """The order of the members for the assignor."""

    def specs(self) -> dict[MemberId, MemberSpec]:
        ids = {name: topic.topic_id for name, topic in self.topics.items()}
        return {
            member_id: MemberSpec(
                subscription(self.members[member_id].names, (), ids),
                self.members[member_id].target,
                self.members[member_id].instance_id,
            )
            for member_id in self.order
        }

    def answer(self) -> Mapping[MemberId, Target]:
        sizes = {topic.topic_id: topic.partitions for topic in self.topics.values()}
        return assign(self.assignor, self.specs(), sizes, homogeneous=self.homogeneous)


class History:
    """One group. Each step is a question, whose answer becomes the target."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self._alike = random.random() < 0.5
        self._assignor = RANGE if random.random() < 0.2 else UNIFORM
        self._table = MemberTable()
        self._writes: list[str] = []
        self._members: dict[MemberId, One] = {}
        self._most = random.choice((4, 20, 90))
        self._topics: dict[str, Topic] = {}
        for _ in range(random.choice((1, 2, 5, 20))):
            self._create_topic()
        self._names = tuple(self._topics)

    def questions(self, steps: int) -> Iterator[Question]:
        for _ in range(self._random.choice((1, 3, 12, 30))):
            self._join()
        for _ in range(steps):
            yield self._step()

    def _step(self) -> Question:
        random = self._random
        if random.random() < 0.3:
            self._change_topics()
        for _ in range(random.choice((0, 0, 1, 3))):
            if len(self._members) > 1:
                self._leave(random.choice(list(self._members)))
        updated, replaced, one = random.choice((self._newcomer, self._again, self._return))()
        if self._alike and random.random() < 0.3:
            self._names = self._some_names()
            self._members = {
                each: replace(known, names=self._names) for each, known in self._members.items()
            }
            one = replace(one, names=self._names)
        members = {**self._members, updated: one}
        if replaced is not None:
            del members[replaced]
        question = Question(
            assignor=self._assignor,
            homogeneous=len({frozenset(each.names) for each in members.values()}) == 1,
            topics=dict(self._topics),
            members=members,
            writes=tuple(self._writes),
            updated=updated,
            replaced=replaced,
            table=tuple(self._table.order()),
            order=tuple(self._table.assignment_order(updated, replaced)),
        )
        answer = question.answer()
        if replaced is not None:
            self._leave(replaced)
        self._write(updated)
        self._members = {each: replace(members[each], target=answer[each]) for each in members}
        return question

    def _join(self) -> None:
        member_id, _, one = self._newcomer()
        self._write(member_id)
        self._members[member_id] = one

    def _newcomer(self) -> tuple[MemberId, None, One]:
        member_id = MemberId(str(UUID(int=self._random.getrandbits(128))))
        static = self._random.random() < 0.3
        instance_id = InstanceId(f"i{self._random.randrange(10**6)}") if static else None
        return member_id, None, One(self._some_names(), instance_id, {})

    def _again(self) -> tuple[MemberId, None, One]:
        member_id = self._random.choice(list(self._members))
        one = self._members[member_id]
        if self._random.random() < 0.5:
            one = replace(one, names=self._some_names())
        return member_id, None, one

    def _return(self) -> tuple[MemberId, MemberId | None, One]:
        static = [each for each, one in self._members.items() if one.instance_id is not None]
        if not static:
            return self._newcomer()
        replaced = self._random.choice(static)
        return self._newcomer()[0], replaced, self._members[replaced]

    def _some_names(self) -> tuple[str, ...]:
        names = list(self._topics)
        if self._alike:
            return self._names
        some = self._random.sample(names, self._random.randint(0, min(len(names), 8)))
        return tuple(sorted({*some, *self._random.choices(("missing", names[0]), k=1)}))

    def _write(self, member_id: MemberId) -> None:
        for _ in range(2):
            self._table.put(member_id)
            self._writes.append(f"+{member_id}")

    def _leave(self, member_id: MemberId) -> None:
        self._table.put(member_id)
        self._table.remove(member_id)
        self._writes += [f"+{member_id}", f"-{member_id}"]
        del self._members[member_id]

    def _create_topic(self) -> None:
        name = f"topic-{self._random.randrange(10**4)}"
        topic_id = UUID(int=self._random.getrandbits(128))
        self._topics[name] = Topic(topic_id, self._random.randint(1, self._most))

    def _change_topics(self) -> None:
        name = self._random.choice(list(self._topics))
        match self._random.randrange(3):
            case 0:
                topic = self._topics[name]
                grown = topic.partitions + self._random.randint(1, 5)
                self._topics[name] = topic._replace(partitions=grown)
            case 1 if len(self._topics) > 1:
                del self._topics[name]
            case _:
                self._create_topic()
