"""Java's assignors in a JVM that answers line by line (`AssignProgram.java`)."""

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kohort.assignors import SubscribedMember, Topics
from kohort.types import MemberId
from peers import kafka

PROGRAM = Path(__file__).parent / "AssignProgram.java"


class Answer(NamedTuple):
    assignments: dict[MemberId, bytes]
    subscriptions: dict[MemberId, bytes]
    """What Java writes for what it has read."""


class Java:
    """The JVM; `kafka.KafkaUnavailableError` if its JARs cannot be had."""

    def __init__(self) -> None:
        command = ["java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
        self._jvm = subprocess.Popen(
            [*command, "-cp", f"{kafka.resolve()}/*", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def assign(self, assignor: str, topics: Topics, members: Sequence[SubscribedMember]) -> Answer:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        question = {
            "assignor": assignor,
            "topics": {
                topic: [sorted(racks) for racks in partitions]
                for topic, partitions in topics.items()
            },
            "members": [
                {
                    "id": each.member_id,
                    "instance": each.instance_id,
                    "metadata": b64encode(each.metadata).decode(),
                }
                for each in members
            ],
        }
        self._jvm.stdin.write(json.dumps(question) + "\n")
        self._jvm.stdin.flush()
        answer = json.loads(self._jvm.stdout.readline())
        return Answer(
            *({k: b64decode(v) for k, v in answer[part].items()} for part in Answer._fields)
        )

    def close(self) -> None:
        self._jvm.kill()
        self._jvm.communicate()
