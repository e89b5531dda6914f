"""What a target assignment costs, by the topic ids hashed: a hash of a UUID is Python code.

10,000 partitions and 1,000 members, and what changes when one joins or leaves.
"""

from collections.abc import Mapping
from random import Random
from typing import ClassVar
from uuid import UUID

import pytest

from kohort.assignors.server import (
    RANGE,
    UNIFORM,
    MemberSpec,
    MemberTable,
    Target,
    assign,
    subscription,
)
from kohort.types import MemberId

MEMBERS = 1_000
PARTITIONS = 10_000


class CountedId(UUID):
    """A topic id that counts the hashes of all."""

    hashes: ClassVar[int] = 0

    def __hash__(self) -> int:
        CountedId.hashes += 1
        return super().__hash__()


class Group:
    """Members that all subscribe to the same topics, of equally many partitions."""

    def __init__(self, assignor: str, topics: int) -> None:
        self._assignor = assignor
        self._random = random = Random(topics)
        ids = {f"topic-{each}": CountedId(int=random.getrandbits(128)) for each in range(topics)}
        self._topics = dict.fromkeys(ids.values(), PARTITIONS // topics)
        self._subscription = subscription(tuple(ids), (), ids)
        self._table = MemberTable()
        self._targets: Mapping[MemberId, Target] = {}
        for _ in range(MEMBERS):
            self.join()

    def join(self) -> None:
        self._table.put(MemberId(str(UUID(int=self._random.getrandbits(128)))))

    def leave(self) -> None:
        self._table.remove(self._table.order()[MEMBERS // 2])

    def hashes(self) -> int:
        """Assign, and count the hashes."""
        members = {
            each: MemberSpec(self._subscription, self._targets.get(each, {}))
            for each in self._table.assignment_order()
        }
        before = CountedId.hashes
        self._targets = assign(self._assignor, members, self._topics, homogeneous=True)
        return CountedId.hashes - before


@pytest.mark.parametrize("topics", [1, 100, 1_000])
@pytest.mark.parametrize(
    ("assignor", "per_topic", "per_member"), [(UNIFORM, 8, 2), (RANGE, 5, 1)], ids=str
)
def test_ids_are_hashed_per_topic_and_per_member_but_not_for_each_topic_of_each_member(
    assignor: str, per_topic: int, per_member: int, topics: int
) -> None:
    group = Group(assignor, topics)
    bound = per_topic * topics + per_member * MEMBERS + 50
    counts = [group.hashes()]
    group.join()
    counts.append(group.hashes())
    group.leave()
    counts.append(group.hashes())
    assert max(counts) <= bound
