"""Apache Kafka's own command line tools: `kafka-topics` and `kafka-consumer-groups`."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from interop.processes import Process
from interop.programs import JAVA
from interop.targets import Target
from interop.tools import GROUPS, TOPICS, Tool, Tools, offsets, rows
from interop.trial import PARTITIONS, Trial

RECORDS = 120

pytestmark = [pytest.mark.interop, pytest.mark.clients]
TrialOn = Callable[[Target], Trial]


@pytest.fixture
def topics(tools: Tools, target: Target) -> Tool:
    return Tool(tools, TOPICS, target.address)


# --- kafka-topics
# --------------------------------------------------------------------------------------------------


def test_topics_are_created_described_grown_and_deleted(topics: Tool) -> None:
    assert "Created topic tools-made." in topics(
        "--create", "--topic", "tools-made", "--partitions", "3", "--config", "retention.ms=3600000"
    )
    assert "tools-made" in topics("--list").split()
    described = topics("--describe", "--topic", "tools-made")
    assert re.search(
        (r"Topic: tools-made\s+TopicId: \S{22}\s+PartitionCount: 3\s+ReplicationFactor: 1"),
        described,
    )
    assert "retention.ms=3600000" in described
    assert re.findall(r"Partition: (\d+)\s+Leader: (?!none)\d+", described) == ["0", "1", "2"]
    topics("--alter", "--topic", "tools-made", "--partitions", "5")
    assert "PartitionCount: 5" in topics("--describe", "--topic", "tools-made")
    topics("--delete", "--topic", "tools-made")
    assert "tools-made" not in topics("--list").split()


def test_topics_are_refused_as_kafka_refuses_them(topics: Tool) -> None:
    topics("--create", "--topic", "tools-taken", "--partitions", "2")
    assert "Topic 'tools-taken' already exists" in topics("--create", "--topic", "tools-taken")
    assert (
        "The topic tools-taken currently has 2 partition(s); 1 would not be an increase."
    ) in topics("--alter", "--topic", "tools-taken", "--partitions", "1")
    assert ("Topic 'tools-unknown' does not exist as expected") in topics(
        "--describe", "--topic", "tools-unknown"
    )
    assert "InvalidTopicException" in topics("--create", "--topic", "no spaces")
    topics("--delete", "--topic", "tools-taken")


# --- kafka-consumer-groups
# -------------------------------------------------------------------------------------------


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
            "--reset-offsets",
            "--group",
            self.trial.group,
            "--topic",
            self.trial.topic,
            "--execute",
            *flags,
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
    assert (
        sum(int(row["CURRENT-OFFSET"]) for row in shown if row["CURRENT-OFFSET"] != "-") == RECORDS
    )
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
