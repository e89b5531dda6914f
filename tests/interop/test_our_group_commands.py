"""`kohort groups` beside Apache Kafka's `kafka-consumer-groups`, on the same server: same figures,
same resets.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from cli.running import Outcome, Run, runner
from client.admin.stage import at, join
from interop import targets
from interop.programs import JAVA
from interop.targets import Target
from interop.test_consumer_group_options import by_number
from interop.tools import GROUPS, Tool, Tools, rows
from interop.trial import PARTITIONS, Trial
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.types import GroupId, TopicPartition

pytestmark = [pytest.mark.interop, pytest.mark.clients]
NUMBERS = count(1)
EARLY, LATE = 60, 40


@dataclass(frozen=True)
class Scene:
    """A topic with records from two moments."""

    trial: Trial
    java: Tool
    middle: dict[int, int]
    between_ms: int

    @property
    def topic(self) -> str:
        return self.trial.topic


@pytest.fixture(scope="module")
def scene(
    target: Target, tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    with Trial(target, tmp_path_factory.mktemp("ours"), "ours") as trial:
        trial.produce(JAVA, (f"early-{number}" for number in range(EARLY)))
        middle = by_number(trial.ends())
        time.sleep(0.05)
        between = time.time_ns() // 1_000_000
        time.sleep(0.05)
        trial.produce(JAVA, (f"late-{number}" for number in range(LATE)))
        yield Scene(trial, Tool(tools, GROUPS, target.address), middle, between)


class Group:
    """One group, seen by both tools. It has committed the middle of all partitions but the last."""

    def __init__(self, scene: Scene, run: Run) -> None:
        self.scene = scene
        self.name = f"{scene.trial.group}-{next(NUMBERS)}"
        self.ours = lambda *words: run(
            "groups", *words, "--bootstrap-server", scene.trial.target.address
        )
        self.do(self._commit)

    async def _commit(self, admin: Admin) -> None:
        offsets = {
            TopicPartition(self.scene.topic, index): at(offset)
            for index, offset in self.scene.middle.items()
            if index != PARTITIONS - 1
        }
        assert set((await admin.commit(GroupId(self.name), offsets)).values()) == {None}

    def do(self, work: Callable[[Admin], object]) -> None:
        async def connected() -> None:
            async with Cluster(ClientConfig(bootstrap=self.scene.trial.target.address)) as cluster:
                await work(Admin(cluster))  # type: ignore[misc]

        asyncio.run(connected())

    def both(self, *words: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """The table that Kafka's tool prints, and the same columns of ours, for the same options.

        Ours has more of them, and Kafka's in their order.
        """
        ours = self.ours(*words)
        assert ours.exit_code == 0, ours
        theirs, here = rows(self.scene.java(*words)), rows(ours.output)
        columns = list(theirs[0]) if theirs else []
        assert not here or [name for name in here[0] if name in columns] == columns
        here = [{name: row[name] for name in columns} for row in here]
        return _sorted(theirs), _sorted(here)

    def reset(self, *words: str) -> tuple[dict[int, str], dict[int, str]]:
        """The new offsets that Kafka's tool tells, and ours."""
        command = ("--reset-offsets", "--group", self.name, *words)
        if not {"--from-file", "--all-topics", "--topic"} & set(words):
            command += ("--topic", self.scene.topic)
        java, ours = self.both(*command)
        return _new(java), _new(ours)


def _sorted(table: list[dict[str, str]]) -> list[dict[str, str]]:
    return sorted(
        table, key=lambda row: (row["GROUP"], row.get("TOPIC", ""), int(row.get("PARTITION", 0)))
    )


def _new(table: list[dict[str, str]]) -> dict[int, str]:
    return {int(row["PARTITION"]): row["NEW-OFFSET"] for row in table}


@pytest.fixture
def group(
    scene: Scene,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Group:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Group(scene, runner(capsys))


@pytest.mark.parametrize(
    "words",
    [(), ("--offsets",), ("--offsets", "--verbose"), ("--state",), ("--state", "--verbose")],
)
def test_an_empty_group_is_described_alike(group: Group, words: tuple[str, ...]) -> None:
    java, ours = group.both("--describe", "--group", group.name, *words)
    assert ours == java


@pytest.mark.parametrize(
    "words",
    [
        ("--offsets",),
        ("--members",),
        ("--members", "--verbose"),
        ("--state",),
        ("--state", "--verbose"),
    ],
)
@pytest.mark.parametrize("instance_id", [None, "host-1"])
def test_a_group_at_work_is_described_alike(
    group: Group, words: tuple[str, ...], instance_id: str | None
) -> None:
    async def joined(admin: Admin) -> None:
        every = {group.scene.topic: list(range(PARTITIONS))}
        member = await join(admin.cluster, group.name, every, instance_id=instance_id)
        java, ours = await asyncio.to_thread(
            group.both, "--describe", "--group", group.name, *words
        )
        await member.leave()
        assert ours == java

    group.do(joined)


@pytest.mark.parametrize(
    "words", [(), ("--state",), ("--type",), ("--state", "--type"), ("--state", "empty")]
)
def test_groups_are_listed_alike(group: Group, words: tuple[str, ...]) -> None:
    java, ours = group.scene.java("--list", *words), group.ours("--list", *words).output
    listed = sorted(line.split() for line in java.splitlines() if line.strip())
    assert sorted(line.split() for line in ours.splitlines()) == listed


@pytest.mark.parametrize(
    "words",
    [
        ("--to-earliest",),
        ("--to-latest",),
        ("--to-current",),
        ("--to-offset", "1"),
        ("--to-offset", "1000000"),
        ("--by-duration", "PT0S"),
        ("--by-duration", "P1D"),
        ("--to-datetime", "2100-01-01T00:00:00.000"),
        ("--to-datetime", "2001-01-01T00:00:00.000+07:00"),
        ("--all-topics", "--to-earliest"),
        ("--all-topics", "--shift-by", "1"),
        ("--all-topics", "--shift-by", "-3"),
        ("--all-topics", "--shift-by", "-1000000"),
        ("--all-topics", "--shift-by", "1000000"),
    ],
)
def test_resets_come_to_the_same(group: Group, words: tuple[str, ...]) -> None:
    java, ours = group.reset(*words, "--dry-run")
    assert ours == java
    assert len(ours) == PARTITIONS - ("--all-topics" in words)
    executed = rows(
        group.ours(
            "--reset-offsets", "--group", group.name, *_scope(group, words), "--execute"
        ).output
    )
    assert _new(executed) == java
    described = rows(group.scene.java("--describe", "--group", group.name))
    assert {int(row["PARTITION"]): row["CURRENT-OFFSET"] for row in described} == java


def _scope(group: Group, words: tuple[str, ...]) -> tuple[str, ...]:
    return words if "--all-topics" in words else (*words, "--topic", group.scene.topic)


@pytest.mark.parametrize("zone", ["", "Z", "+00:00"])
def test_a_time_without_a_zone_is_utc_to_both(group: Group, zone: str) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(group.scene.between_ms // 1000))
    java, ours = group.reset(
        "--to-datetime", f"{moment}.{group.scene.between_ms % 1000:03d}{zone}", "--dry-run"
    )
    assert ours == java
    assert {index: int(offset) for index, offset in ours.items()} == group.scene.middle


def test_exports_of_either_command_are_read_by_the_other(group: Group, tmp_path: Path) -> None:
    words = (
        "--reset-offsets",
        "--group",
        group.name,
        "--topic",
        group.scene.topic,
        "--to-offset",
        "2",
        "--export",
    )
    exported = {
        "java": group.scene.java(*words, "--dry-run"),
        "ours": group.ours(*words, "--dry-run").output,
    }
    told = {}
    for whose, text in exported.items():
        lines = [line for line in text.splitlines() if line.count(",") == 2]
        assert len(lines) == PARTITIONS, text
        file = tmp_path / f"{whose}.csv"
        file.write_text("\n".join(lines) + "\n")
        told[whose] = group.reset("--from-file", str(file), "--dry-run")
    assert told["java"] == told["ours"]
    java, ours = told["java"]
    assert java == ours


def test_several_groups_are_exported_alike(group: Group, tmp_path: Path) -> None:
    groups = ("--group", group.name, "--group", f"{group.name}-other")
    words = (
        "--reset-offsets",
        *groups,
        "--topic",
        group.scene.topic,
        "--to-earliest",
        "--export",
        "--dry-run",
    )

    def lines(text: str) -> list[str]:
        return sorted(line.replace('"', "") for line in text.splitlines() if line.count(",") == 3)

    assert lines(group.ours(*words).output) == lines(group.scene.java(*words))


def test_a_group_with_members_is_refused_by_both(group: Group) -> None:
    words = ("--reset-offsets", "--group", group.name, "--all-topics", "--to-earliest", "--execute")

    async def joined(admin: Admin) -> None:
        member = await join(admin.cluster, group.name, {group.scene.topic: [0]})
        java = await asyncio.to_thread(group.scene.java, *words)
        ours: Outcome = await asyncio.to_thread(group.ours, *words)
        await member.leave()
        assert "can only be reset if the group" in java
        assert ours.exit_code == 3

    group.do(joined)


def test_a_reset_is_undone(group: Group, tmp_path: Path) -> None:
    """Also that nothing was committed in the last partition: OffsetDelete takes that commit away
    again.
    """
    before = rows(group.scene.java("--describe", "--group", group.name))
    plan = str(tmp_path / "plan.json")
    scope = ("--group", group.name, "--topic", group.scene.topic)
    assert group.ours("reset", *scope, "--to-latest", "--execute", "--plan", plan).exit_code == 0
    assert {row["LAG"] for row in rows(group.scene.java("--describe", "--group", group.name))} == {
        "0"
    }
    assert group.ours("diff", plan).exit_code == 0
    assert group.ours("undo", plan).exit_code == 0
    assert rows(group.scene.java("--describe", "--group", group.name)) == before


@pytest.mark.skipif(
    targets.PEER != "kafka",
    reason=("the new group protocol is Apache Kafka's (KOHORT_INTEROP_PEER=kafka)"),
)
def test_a_group_of_the_new_protocol_is_described_alike(group: Group) -> None:
    name = f"{group.name}-new"
    consumer = Consumer(
        {
            "bootstrap.servers": group.scene.trial.target.address,
            "group.id": name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([group.scene.topic])
        deadline = time.monotonic() + 20
        while len(consumer.assignment()) < PARTITIONS and time.monotonic() < deadline:
            consumer.poll(0.1)
        consumer.commit(offsets=[Position(group.scene.topic, 0, 1)], asynchronous=False)
        for words in (("--offsets",), ("--members", "--verbose"), ("--state", "--verbose")):
            java, ours = group.both("--describe", "--group", name, *words)
            assert ours == java
        assert {"GROUP": name, "TYPE": "Consumer"} in rows(
            group.ours("--list", "--type", "consumer").output
        )
        refused = group.ours(
            "--reset-offsets", "--group", name, "--all-topics", "--to-earliest", "--execute"
        )
        assert refused.exit_code == 3
    finally:
        consumer.close()
    done = group.ours(
        "--reset-offsets",
        "--group",
        name,
        "--topic",
        group.scene.topic,
        "--to-earliest",
        "--execute",
    )
    assert done.exit_code == 0, done
    assert {
        row["CURRENT-OFFSET"] for row in rows(group.scene.java("--describe", "--group", name))
    } == {"0"}


def test_offsets_and_groups_are_deleted(group: Group) -> None:
    topic = group.scene.topic
    deleted = group.ours("--delete-offsets", "--group", group.name, "--topic", f"{topic}:0,1")
    assert [row.split()[-1] for row in deleted.output.splitlines()] == [
        "STATUS",
        "Successful",
        "Successful",
    ]
    described = rows(group.scene.java("--describe", "--group", group.name))
    assert {int(row["PARTITION"]) for row in described} == set(range(2, PARTITIONS - 1))
    assert group.ours("--delete", "--group", group.name).exit_code == 0
    assert group.name not in group.scene.java("--list").split()
