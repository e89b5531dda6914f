"""The assignors of Kafka's server in a JVM that answers line by line (`AssignProgram.java`)."""

import json
import subprocess
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from kohort.assignors.server import MemberTable, Target
from kohort.types import MemberId
from peers import kafka

from .histories import One, Question, Topic

PROGRAM = Path(__file__).parent / "AssignProgram.java"
RACKS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    targets: dict[MemberId, Target]
    table: tuple[MemberId, ...]
    order: tuple[MemberId, ...]
    seconds: float
    """The least time of an assignor that was to repeat its work."""

    @classmethod
    def decoded(cls, answer: Any) -> "Answer":
        return cls(
            targets={MemberId(each): _target(pairs) for each, pairs in answer["targets"].items()},
            table=tuple(answer["table"]),
            order=tuple(answer["order"]),
            seconds=answer["nanoseconds"] / 1e9,
        )

    def check(self, question: Question) -> None:
        """Assert that Kohort's answer is the same, in the order of Kafka's records."""
        own = question.answer()
        assert question.table == self.table
        assert question.order == self.order
        assert tuple(own) == self.order
        assert own.keys() == self.targets.keys()
        for member_id, target in own.items():
            theirs = self.targets[member_id]
            if target is question.members[member_id].target:
                # Kafka writes no record.
                assert _as_sets(target) == _as_sets(theirs)
            else:
                assert list(target.items()) == list(theirs.items())


class Java:
    """The JVM; `kafka.KafkaUnavailableError` if its JARs cannot be had."""

    def __init__(self) -> None:
        command = ["java", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        self._jvm = subprocess.Popen(
            [*command, "-cp", f"{kafka.resolve()}/*", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def assign(self, question: Question, *, repeat: int = 0) -> Answer:
        return Answer.decoded(self.ask(encoded(question) | {"repeat": repeat}))

    def ask(self, question: dict[str, Any]) -> Any:
        """The program's answer to an encoded question."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(json.dumps(question) + "\n")
        self._jvm.stdin.flush()
        return json.loads(self._jvm.stdout.readline())

    def close(self) -> None:
        self._jvm.kill()
        self._jvm.communicate()


def _as_sets(target: Target) -> object:
    return {topic_id: set(partitions) for topic_id, partitions in target.items()}


def encoded(question: Question) -> dict[str, Any]:
    """A question for `AssignProgram`. Racks differ, to show that they have no influence."""
    return {
        "assignor": question.assignor,
        "homogeneous": question.homogeneous,
        "topics": [
            {
                "id": _id(topic.topic_id),
                "name": name,
                "partitions": topic.partitions,
                "racks": [RACKS[each % 3] for each in range(topic.partitions)],
            }
            for name, topic in question.topics.items()
        ],
        "members": [
            {
                "id": member_id,
                "instance": one.instance_id,
                "rack": RACKS[number % 2],
                "names": one.names,
                "target": _pairs(one.target),
            }
            for number, (member_id, one) in enumerate(question.members.items())
        ],
        "writes": question.writes,
        "updated": question.updated,
        "replaced": question.replaced,
        "repeat": 0,
    }


def _pairs(target: Target) -> list[tuple[str, tuple[int, ...]]]:
    return [(_id(topic_id), partitions) for topic_id, partitions in target.items()]


def _target(pairs: list[tuple[str, list[int]]]) -> Target:
    return {_uuid(topic_id): tuple(partitions) for topic_id, partitions in pairs}


def decoded(question: Any) -> Question:
    members = {
        MemberId(one["id"]): One(tuple(one["names"]), one["instance"], _target(one["target"]))
        for one in question["members"]
    }
    table = MemberTable()
    for write in question["writes"]:
        (table.put if write[0] == "+" else table.remove)(MemberId(write[1:]))
    updated, replaced = question["updated"], question["replaced"]
    return Question(
        assignor=question["assignor"],
        homogeneous=question["homogeneous"],
        topics={
            each["name"]: Topic(_uuid(each["id"]), each["partitions"])
            for each in question["topics"]
        },
        members=members,
        writes=tuple(question["writes"]),
        updated=updated,
        replaced=replaced,
        table=tuple(table.order()),
        order=tuple(table.assignment_order(updated, replaced)),
    )


def _uuid(text: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def _id(topic_id: UUID) -> str:
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
