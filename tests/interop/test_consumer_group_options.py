"""`kafka-consumer-groups`, option by option, on an empty group; test_command_line_tools.py has
groups at work.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interop.programs import JAVA
from interop.targets import Target
from interop.tools import GROUPS, Tool, Tools, offsets, rows
from interop.trial import PARTITIONS, Trial

pytestmark = [pytest.mark.interop, pytest.mark.clients]
EARLY, LATE = 120, 90
"""Records before and after `Scene.between`."""


@dataclass(frozen=True)
class Scene:
    """A topic with records from two moments; each test's group starts at its middle."""

    trial: Trial
    groups: Tool
    middle: dict[int, int]
    """The end offsets between the two."""
    ends: dict[int, int]
    between: datetime

    @property
    def topic(self) -> str:
        return self.trial.topic


def by_number(ends: dict[str, int]) -> dict[int, int]:
    known = {int(name.rpartition("-")[2]): offset for name, offset in ends.items()}
    return {number: known.get(number, 0) for number in range(PARTITIONS)}


@pytest.fixture(scope="module")
def scene(
    target: Target, tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    with Trial(target, tmp_path_factory.mktemp("options"), "options") as trial:
        trial.produce(JAVA, (f"early-{number}" for number in range(EARLY)))
        middle = by_number(trial.ends())
        time.sleep(0.05)
        between = datetime.now(UTC)
        time.sleep(0.05)
        trial.produce(JAVA, (f"late-{number}" for number in range(LATE)))
        yield Scene(
            trial, Tool(tools, GROUPS, target.address), middle, by_number(trial.ends()), between
        )


@dataclass(frozen=True)
class Group:
    """One group of the scene, without members."""

    scene: Scene
    name: str

    def reset(self, *flags: str, topic: str = "", how: str = "--execute") -> dict[int, int]:
        """The new offsets, as the tool prints them."""
        return offsets(self.reset_said(*flags, topic=topic, how=how), "NEW-OFFSET")

    def reset_said(self, *flags: str, topic: str = "", how: str = "--execute") -> str:
        scope = (
            []
            if "--all-topics" in flags or "--from-file" in flags
            else ["--topic", topic or self.scene.topic]
        )
        return self.scene.groups("--reset-offsets", "--group", self.name, *scope, how, *flags)

    def described(self, *flags: str) -> str:
        return self.scene.groups("--describe", "--group", self.name, *flags)

    def current(self) -> dict[int, int]:
        return offsets(self.described(), "CURRENT-OFFSET")


@pytest.fixture
def group(scene: Scene, request: pytest.FixtureRequest) -> Group:
    made = Group(scene, f"{request.node.name.replace('_', '-')}-{scene.topic}")
    for number, offset in scene.middle.items():
        made.reset("--to-offset", str(offset), topic=f"{scene.topic}:{number}")
    return made


# --- list and describe
# ---------------------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type(group: Group) -> None:
    """`--list`, `--state`, `--state` with states, `--type`, `--type` with types, both."""
    groups = group.scene.groups
    assert group.name in groups("--list").split()
    assert {"GROUP": group.name, "STATE": "Empty"} in rows(groups("--list", "--state", "empty"))
    assert group.name not in groups("--list", "--state", "Stable,PreparingRebalance")
    assert {"GROUP": group.name, "TYPE": "Classic"} in rows(groups("--list", "--type"))
    assert group.name in groups("--list", "--type", "classic")
    assert group.name not in groups("--list", "--type", "consumer")
    both = rows(groups("--list", "--state", "--type"))
    assert {"GROUP": group.name, "TYPE": "Classic", "STATE": "Empty"} in both
    assert "Invalid state list 'nonsense'" in groups("--list", "--state", "nonsense")


def test_an_empty_group_is_described(group: Group) -> None:
    """`--describe` with `--offsets`, `--members`, `--state`, and each with `--verbose`."""
    scene = group.scene
    shown = rows(group.described("--offsets"))
    assert {int(row["PARTITION"]): int(row["LOG-END-OFFSET"]) for row in shown} == scene.ends
    assert {int(row["PARTITION"]): int(row["LAG"]) for row in shown} == {
        number: scene.ends[number] - scene.middle[number] for number in scene.ends
    }
    assert {row["CONSUMER-ID"] for row in shown} == {"-"}
    assert {row["LEADER-EPOCH"] for row in rows(group.described("--offsets", "--verbose"))} <= {
        "-",
        "0",
    }
    assert "has no active members" in group.described("--members")
    assert "has no active members" in group.described("--members", "--verbose")
    (state,) = rows(group.described("--state"))
    assert state["STATE"] == "Empty"
    assert "Empty" in group.described("--state", "--verbose")


def test_all_groups_are_described_at_once(group: Group) -> None:
    """`--describe --all-groups` with `--offsets`, `--state`."""
    said = group.scene.groups("--describe", "--all-groups", "--offsets")
    assert {row["GROUP"] for row in rows(said)} >= {group.name}
    assert group.name in group.scene.groups("--describe", "--all-groups", "--state")


def test_an_unknown_group_is_unknown(scene: Scene) -> None:
    said = scene.groups("--describe", "--group", "nobody")
    assert "does not exist" in said or "not found" in said
    assert "GroupIdNotFoundException" in scene.groups("--delete", "--group", "nobody")


def test_a_timeout_and_a_config_file_are_taken(group: Group, tmp_path: Path) -> None:
    """`--timeout`, `--command-config`."""
    config = tmp_path / "client.properties"
    config.write_text("client.id=by-file\n")
    said = group.described("--timeout", "5000", "--command-config", str(config))
    assert offsets(said, "CURRENT-OFFSET") == group.scene.middle


# --- reset
# --------------------------------------------------------------------------------------------------


def test_reset_to_the_ends(group: Group) -> None:
    """`--to-earliest`, `--to-latest`."""
    assert group.reset("--to-earliest") == dict.fromkeys(range(PARTITIONS), 0)
    assert group.reset("--to-latest") == group.scene.ends == group.current()


def test_reset_to_an_offset_stays_within_the_log(group: Group) -> None:
    """`--to-offset`."""
    assert group.reset("--to-offset", "1") == {
        n: min(1, end) for n, end in group.scene.ends.items()
    }
    assert group.reset("--to-offset", "1000000") == group.scene.ends == group.current()


def test_reset_by_a_shift_stays_within_the_log(group: Group) -> None:
    """`--shift-by`, forwards and backwards."""
    scene = group.scene
    wanted = {n: min(scene.middle[n] + 2, scene.ends[n]) for n in scene.ends}
    assert group.reset("--shift-by", "2") == wanted == group.current()
    assert group.reset("--shift-by", "-1000000") == dict.fromkeys(range(PARTITIONS), 0)
    assert group.reset("--shift-by", "1000000") == scene.ends


def test_reset_to_a_time(group: Group) -> None:
    """`--to-datetime`."""
    scene = group.scene
    group.reset("--to-latest")
    moment = scene.between.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    assert group.reset("--to-datetime", f"{moment}+00:00") == scene.middle == group.current()
    assert group.reset("--to-datetime", "2100-01-01T00:00:00.000") == scene.ends


def test_reset_by_a_duration(group: Group) -> None:
    """`--by-duration`."""
    assert group.reset("--by-duration", "P1D") == dict.fromkeys(range(PARTITIONS), 0)
    assert group.reset("--by-duration", "PT0S") == group.scene.ends == group.current()


def test_reset_to_current_changes_nothing(group: Group) -> None:
    """`--to-current`."""
    assert group.reset("--to-current") == group.scene.middle == group.current()


@pytest.mark.parametrize("how", ["--dry-run", "no-flag"])
def test_without_execute_nothing_changes(group: Group, how: str) -> None:
    flags = ("--to-latest", how) if how == "--dry-run" else ("--to-latest",)
    said = group.scene.groups(
        "--reset-offsets", "--group", group.name, "--topic", group.scene.topic, *flags
    )
    assert offsets(said, "NEW-OFFSET") == group.scene.ends
    assert group.current() == group.scene.middle


def test_reset_of_some_partitions(group: Group) -> None:
    """`--topic` with partitions."""
    scene = group.scene
    assert group.reset("--to-latest", topic=f"{scene.topic}:1,3") == {
        n: scene.ends[n] for n in (1, 3)
    }
    assert group.current() == scene.middle | {n: scene.ends[n] for n in (1, 3)}


def test_reset_of_all_topics_and_all_groups(group: Group) -> None:
    """`--all-topics`, `--all-groups`."""
    other = f"{group.scene.topic}-other"
    group.scene.trial.create_topic(other, 1)
    group.reset("--to-earliest", topic=other)
    said = rows(group.reset_said("--to-latest", "--all-topics"))
    assert {(row["TOPIC"], int(row["NEW-OFFSET"])) for row in said} == {
        (other, 0),
        *((group.scene.topic, end) for end in group.scene.ends.values()),
    }
    said = rows(
        group.scene.groups(
            "--reset-offsets", "--all-groups", "--all-topics", "--to-earliest", "--dry-run"
        )
    )
    assert len([row for row in said if row["GROUP"] == group.name]) == PARTITIONS + 1


def test_export_and_from_file(group: Group, tmp_path: Path) -> None:
    """`--export`, `--from-file`."""
    scene = group.scene
    exported = group.scene.groups(
        "--reset-offsets",
        "--group",
        group.name,
        "--topic",
        scene.topic,
        "--to-current",
        "--export",
        "--dry-run",
    )
    lines = [
        line for line in exported.splitlines() if line.startswith((scene.topic, f'"{scene.topic}'))
    ]
    assert len(lines) == PARTITIONS
    plan = tmp_path / "plan.csv"
    plan.write_text("\n".join(lines) + "\n")
    group.reset("--to-earliest")
    assert group.reset("--from-file", str(plan)) == scene.middle == group.current()
    beyond = tmp_path / "beyond.csv"
    beyond.write_text(f"{scene.topic},0,1000000\n")
    assert group.reset("--from-file", str(beyond)) == {0: scene.ends[0]}


def test_reset_of_an_unknown_topic_is_refused(group: Group) -> None:
    assert "UnknownTopicOrPartition" in group.reset_said("--to-earliest", topic="no-such-topic")
    assert group.current() == group.scene.middle


# --- delete
# --------------------------------------------------------------------------------------------------


def test_offsets_of_some_partitions_are_deleted(group: Group) -> None:
    """`--delete-offsets` of partitions and of a topic."""
    topic = group.scene.topic
    said = group.scene.groups("--delete-offsets", "--group", group.name, "--topic", f"{topic}:0,2")
    assert "Successful" in said
    assert group.current().keys() == set(range(PARTITIONS)) - {0, 2}
    said = group.scene.groups("--delete-offsets", "--group", group.name, "--topic", "no-such-topic")
    assert (
        "UnknownTopicOrPartition" in said
        or ("This server does not host this topic-partition") in said
    )
    assert "Successful" in group.scene.groups(
        "--delete-offsets", "--group", group.name, "--topic", topic
    )
    assert (
        group.scene.groups("--delete-offsets", "--group", "nobody", "--topic", topic).count(
            "Exception"
        )
        > 0
    )


def test_several_groups_are_deleted_at_once(group: Group) -> None:
    """`--delete` with several `--group`."""
    second = Group(group.scene, f"{group.name}-second")
    second.reset("--to-earliest")
    said = group.scene.groups("--delete", "--group", group.name, "--group", second.name)
    assert "was successful" in said
    assert not {group.name, second.name} & set(group.scene.groups("--list").split())
