"""Apache Kafka's own command line tools: `kafka-topics` and `kafka-consumer-groups`."""

import queue
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from interop.processes import DIE_WITH_PARENT, Process
from interop.programs import JAVA, java, java_missing
from interop.targets import Target
from interop.trial import PARTITIONS, Trial

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RECORDS = 120

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]
TrialOn = Callable[[Target], Trial]


class Tools:
    """One JVM that runs the tools: each is called with its own arguments and gives back what it printed."""

    def __init__(self) -> None:
        self._jvm = subprocess.Popen(
            java("ToolRunner", heap="128m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=DIE_WITH_PARENT,
            text=True,
        )
        self._printed: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._jvm.stdout is not None
        lines: list[str] = []
        for line in self._jvm.stdout:
            if line == "END\n":
                self._printed.put("".join(lines))
                lines.clear()
            else:
                lines.append(line)

    def run(self, *words: str) -> str:
        assert self._jvm.stdin is not None
        self._jvm.stdin.write("\t".join(words) + "\n")
        self._jvm.stdin.flush()
        return self._printed.get(timeout=40)

    def close(self) -> None:
        self._jvm.kill()
        self._jvm.wait()


@dataclass(frozen=True)
class Tool:
    """One tool against one server: call it with its flags, get what it printed."""

    tools: Tools
    main_class: str
    address: str

    def __call__(self, *flags: str) -> str:
        return self.tools.run(self.main_class, "--bootstrap-server", self.address, *flags)


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    if reason := java_missing():
        pytest.skip(f"Apache Kafka's tools: {reason}")
    running = Tools()
    yield running
    running.close()


@pytest.fixture
def topics(tools: Tools, target: Target) -> Tool:
    return Tool(tools, TOPICS, target.address)


def rows(printed: str) -> list[dict[str, str]]:
    """The table in a tool's output: one dict per line, by the names in its header."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    header_at = next((at for at, line in enumerate(lines) if line[0] == "GROUP"), None)
    if header_at is None:
        raise AssertionError(f"no table in:\n{printed}")
    header = lines[header_at]
    return [dict(zip(header, line, strict=False)) for line in lines[header_at + 1 :] if len(line) >= len(header) - 1]


def offsets(printed: str, column: str) -> dict[int, int]:
    return {int(row["PARTITION"]): int(row[column]) for row in rows(printed)}


# --- kafka-topics --------------------------------------------------------------------------------------------------


def test_topics_are_created_described_grown_and_deleted(topics: Tool) -> None:
    assert "Created topic tools-made." in topics(
        "--create", "--topic", "tools-made", "--partitions", "3", "--config", "retention.ms=3600000"
    )
    assert "tools-made" in topics("--list").split()
    described = topics("--describe", "--topic", "tools-made")
    assert re.search(r"Topic: tools-made\s+TopicId: \S{22}\s+PartitionCount: 3\s+ReplicationFactor: 1", described)
    assert "retention.ms=3600000" in described
    assert re.findall(r"Partition: (\d+)\s+Leader: (?!none)\d+", described) == ["0", "1", "2"]
    topics("--alter", "--topic", "tools-made", "--partitions", "5")
    assert "PartitionCount: 5" in topics("--describe", "--topic", "tools-made")
    topics("--delete", "--topic", "tools-made")
    assert "tools-made" not in topics("--list").split()


def test_topics_are_refused_as_kafka_refuses_them(topics: Tool) -> None:
    topics("--create", "--topic", "tools-taken", "--partitions", "2")
    assert "Topic 'tools-taken' already exists" in topics("--create", "--topic", "tools-taken")
    assert "The topic tools-taken currently has 2 partition(s); 1 would not be an increase." in topics(
        "--alter", "--topic", "tools-taken", "--partitions", "1"
    )
    assert "Topic 'tools-unknown' does not exist as expected" in topics("--describe", "--topic", "tools-unknown")
    assert "InvalidTopicException" in topics("--create", "--topic", "no spaces")
    topics("--delete", "--topic", "tools-taken")


# --- kafka-consumer-groups -------------------------------------------------------------------------------------------


@dataclass
class Staffed:
    """A group that has committed all of its topic, and its two members, still at work."""

    trial: Trial
    groups: Tool
    members: tuple[Process, Process]

    def described(self, *flags: str) -> str:
        return self.groups("--describe", "--group", self.trial.group, *flags)

    def reset(self, *flags: str) -> str:
        return self.groups(
            "--reset-offsets", "--group", self.trial.group, "--topic", self.trial.topic, "--execute", *flags
        )


@pytest.fixture
def staffed(target: Target, tools: Tools, trial_on: TrialOn) -> Staffed:
    trial = trial_on(target)
    trial.produce(JAVA, (f"record-{number}" for number in range(RECORDS)))
    members = (trial.member(JAVA, "first", "range"), trial.member(JAVA, "second", "range"))
    trial.await_balanced(*members)
    trial.await_committed(trial.ends())
    return Staffed(trial, Tool(tools, GROUPS, target.address), members)


def test_a_group_at_work_is_shown(staffed: Staffed) -> None:
    group = staffed.trial.group
    assert group in staffed.groups("--list").split()
    assert {"GROUP": group, "STATE": "Stable"} in rows(staffed.groups("--list", "--state"))
    shown = rows(staffed.described())
    assert {row["CLIENT-ID"] for row in shown} == {"first", "second"}
    assert {row["HOST"] for row in shown} == {"/127.0.0.1"}
    assert sum(int(row["CURRENT-OFFSET"]) for row in shown if row["CURRENT-OFFSET"] != "-") == RECORDS
    assert all(row["LAG"] in ("0", "-") for row in shown)
    members = staffed.described("--members", "--verbose")
    assert [row["#PARTITIONS"] for row in rows(members)] == ["3", "3"]
    state = staffed.described("--state")
    assert staffed.trial.target.address in state
    assert re.search(r"range\s+Stable\s+2", state)


def test_a_group_at_work_is_protected(staffed: Staffed) -> None:
    group, topic = staffed.trial.group, staffed.trial.topic
    assert "Assignments can only be reset if the group" in staffed.reset("--to-earliest")
    assert "GroupNotEmptyException" in staffed.groups("--delete", "--group", group)
    refused = staffed.groups("--delete-offsets", "--group", group, "--topic", topic)
    assert re.search("subscribed to the topic|GroupSubscribedToTopic", refused)
    assert sum(staffed.trial.observe().values()) == RECORDS


def test_offsets_are_reset_and_deleted_once_the_group_is_empty(staffed: Staffed) -> None:
    trial = staffed.trial
    ends = trial.ends()
    trial.leave(*staffed.members)
    assert "has no active members" in staffed.described()
    assert set(offsets(staffed.reset("--to-earliest"), "NEW-OFFSET").values()) == {0}
    assert set(offsets(staffed.described(), "CURRENT-OFFSET").values()) == {0}
    assert sum(int(row["LAG"]) for row in rows(staffed.described())) == RECORDS
    staffed.reset("--to-latest")
    assert {at: offset for at, offset in trial.observe().items() if offset} == ends
    staffed.reset("--shift-by", "-1")
    shifted = trial.observe()
    assert {at: shifted[at] for at in ends} == {at: end - 1 for at, end in ends.items()}
    staffed.reset("--to-datetime", "2100-01-01T00:00:00.000")
    assert {at: offset for at, offset in trial.observe().items() if offset} == ends
    deleted = staffed.groups("--delete-offsets", "--group", trial.group, "--topic", trial.topic)
    assert "Successful" in deleted
    assert trial.observe() == {}


def test_a_group_is_deleted(staffed: Staffed) -> None:
    group = staffed.trial.group
    staffed.trial.leave(*staffed.members)
    assert "was successful" in staffed.groups("--delete", "--group", group)
    assert group not in staffed.groups("--list").split()
    assert "GroupIdNotFoundException" in staffed.groups("--delete", "--group", group)
    assert len(staffed.trial.ends()) <= PARTITIONS  # its topic is untouched
