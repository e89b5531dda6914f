"""Time of one target assignment: Kohort's assignors, and those of Kafka's server in a warm JVM."""

import json
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from tests.peers import kafka

from benchmarks import tools
from kohort.assignors.server import (
    MemberSpec,
    MemberTable,
    Subscription,
    Target,
    assign,
    subscription,
)
from kohort.types import MemberId

PROGRAM = tools.ROOT / "tests" / "assignors" / "server" / "AssignProgram.java"
OWN_REPEATS, JAVA_REPEATS = 20, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group whose members all name the same topics, or every other one only half of them."""

    assignor: str
    is_mixed: bool
    topics: Mapping[str, UUID]
    partitions: int
    """Of each topic."""
    targets: Mapping[MemberId, Target]
    """Member id, in the order in which the members joined → its target so far."""

    def assigned(self) -> Mapping[MemberId, Target]:
        """The target assignment by Kohort."""
        return self._computed()[0]

    def seconds(self) -> float:
        """The least CPU time of several computations by Kohort."""
        return min(self._computed()[1] for _ in range(OWN_REPEATS))

    def _computed(self) -> tuple[Mapping[MemberId, Target], float]:
        table = MemberTable()
        subscriptions: dict[tuple[str, ...], Subscription] = {}
        specs: dict[MemberId, MemberSpec] = {}
        for member_id, names in self._names().items():
            table.put(member_id)
            if names not in subscriptions:
                subscriptions[names] = subscription(names, (), self.topics)
            specs[member_id] = MemberSpec(subscriptions[names], self.targets[member_id])
        members = {each: specs[each] for each in table.assignment_order(None, None)}
        sizes = dict.fromkeys(self.topics.values(), self.partitions)
        before = time.thread_time()
        assigned = assign(self.assignor, members, sizes, homogeneous=not self.is_mixed)
        return assigned, time.thread_time() - before

    def _names(self) -> Mapping[MemberId, tuple[str, ...]]:
        names = tuple(self.topics)
        other = names[: len(names) // 2] if self.is_mixed else names
        return {
            member_id: other if number % 2 else names
            for number, member_id in enumerate(self.targets)
        }

    def encoded(self) -> dict[str, Any]:
        """The group as `AssignProgram.java` reads it."""
        ids = {topic_id: _text(topic_id) for topic_id in self.topics.values()}
        return {
            "assignor": self.assignor,
            "homogeneous": not self.is_mixed,
            "topics": [
                {"id": ids[topic_id], "name": name, "partitions": self.partitions, "racks": []}
                for name, topic_id in self.topics.items()
            ],
            "members": [
                {
                    "id": member_id,
                    "instance": None,
                    "rack": "",
                    "names": names,
                    "target": [
                        (ids[topic_id], each) for topic_id, each in self.targets[member_id].items()
                    ],
                }
                for member_id, names in self._names().items()
            ],
            "writes": [f"+{member_id}" for member_id in self.targets],
            "updated": None,
            "replaced": None,
            "repeat": JAVA_REPEATS,
        }


def new_group(
    assignor: str, members: int, topics: int, partitions: int, *, is_mixed: bool = False
) -> Group:
    """A group without a target, with this many partitions in all topics together."""
    random = Random(members)
    return Group(
        assignor=assignor,
        is_mixed=is_mixed,
        topics={f"topic-{number}": _new_id(random) for number in range(topics)},
        partitions=partitions // topics,
        targets={MemberId(str(_new_id(random))): {} for _ in range(members)},
    )


def one_joined(group: Group) -> Group:
    """The group with its target and one new member."""
    newcomer = MemberId(str(UUID(int=0)))
    return replace(group, targets={**group.assigned(), newcomer: {}})


def one_left(group: Group) -> Group:
    """The group with its target, without one member in the middle."""
    assigned = group.assigned()
    left = [*group.targets][len(group.targets) // 2]
    targets = {each: assigned[each] for each in group.targets if each != left}
    return replace(group, targets=targets)


class KafkaAssignors:
    """Context manager: a JVM with the assignors of Kafka's server."""

    def __init__(self) -> None:
        """Raises KafkaUnavailableError if Kafka's JARs cannot be had."""
        pipe = subprocess.PIPE
        self._jvm = subprocess.Popen(
            ["java", "-Xmx1g", "-cp", f"{kafka.resolve()}/*", str(PROGRAM)],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, group: Group) -> float:
        """The least time of many computations."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(json.dumps(group.encoded()) + "\n")
        self._jvm.stdin.flush()
        nanoseconds: int = json.loads(self._jvm.stdout.readline())["nanoseconds"]
        return nanoseconds / 1e9

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._jvm.kill()
        self._jvm.communicate()


def _new_id(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


def _text(topic_id: UUID) -> str:
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
