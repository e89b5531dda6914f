"""`kohort groups` against `kohort serve`: what is printed, what happens, which exit code."""

import asyncio
import csv
import io
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cli.running import Outcome, Run, runner
from client.admin.stage import at, consumer_heartbeat, join
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.protocol.batch_writing import build
from kohort.protocol.records import Record
from kohort.testing.server_process import ServerProcess
from kohort.types import GroupId, TopicPartition

NOON = 1_769_860_800_000
"""2026-01-31T12:00:00Z: the first record's timestamp; each further one is a second younger."""
NUMBERS = count(1)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ServerProcess(
        *("--memory", "--dev"),
        log=tmp_path_factory.mktemp("server") / "server.log",
        settings={"log.retention.ms": "-1"},  # its records are old
    ) as server:
        yield server.address


class Scene:
    """A topic of two partitions, with 10 and 4 records, and a group that has committed 3 in the
    first.
    """

    def __init__(self, bootstrap: str, run: Run, state: Path) -> None:
        number = next(NUMBERS)
        self.bootstrap = bootstrap
        self.topic, self.group = f"orders-{number}", f"billing-{number}"
        self.run = run
        self.state = state
        self.do(self._set)

    def do(self, work: Callable[[Admin], Awaitable[Any]]) -> Any:
        async def connected() -> Any:
            async with Cluster(ClientConfig(bootstrap=self.bootstrap)) as cluster:
                return await work(Admin(cluster))

        return asyncio.run(connected())

    async def _set(self, admin: Admin) -> None:
        await admin.create_topic(self.topic, partitions=2)
        connection = await admin.cluster.any_connection()
        batches = [
            build(
                [Record(None, b"x", timestamp=NOON + 1_000 * number) for number in range(records)]
            )
            for records in (10, 4)
        ]
        partitions = [{"index": index, "records": batch} for index, batch in enumerate(batches)]
        topics = [{"name": self.topic, "partition_data": partitions}]
        await connection.send(
            "produce",
            max_version=12,
            acks=-1,
            timeout=1_000,
            transactional_id=None,
            topic_data=topics,
        )
        await admin.commit(GroupId(self.group), {TopicPartition(self.topic, 0): at(3, "by hand")})

    def groups(self, *words: str) -> Outcome:
        return self.run("groups", *words, "-b", self.bootstrap)

    def reset(self, *words: str) -> Outcome:
        scope = (
            ()
            if {"--from-file", "--all-topics", "--topic"} & set(words)
            else ("--topic", self.topic)
        )
        return self.groups("reset", "--group", self.group, *scope, *words)

    def new(self, outcome: Outcome) -> list[int]:
        """The new offsets that were printed, by partition."""
        return [int(row["NEW-OFFSET"]) for row in outcome.rows]

    def committed(self) -> dict[int, int]:
        (described,) = self.groups("describe", "--group", self.group, "--output", "json").json
        return {
            each["partition"]: each["committed_offset"]
            for each in described["offsets"]
            if each["committed_offset"] is not None
        }

    def commit(self, **offsets: int) -> None:
        """`p0=5`"""
        wanted = {
            TopicPartition(self.topic, int(name[1:])): at(offset)
            for name, offset in offsets.items()
        }
        self.do(lambda admin: admin.commit(GroupId(self.group), wanted))

    def with_member(self, work: Callable[[], None]) -> None:
        """Run the synchronous `work` while the group has a member that owns everything."""

        async def joined(admin: Admin) -> None:
            member = await join(admin.cluster, self.group, {self.topic: [0, 1]})
            await asyncio.to_thread(work)
            await member.leave()

        self.do(joined)


@pytest.fixture
def scene(
    bootstrap: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Scene(bootstrap, runner(capsys), tmp_path / "state" / "kohort" / "resets")


# --- list
# --------------------------------------------------------------------------------------------------


def test_names_alone_for_a_loop_in_a_shell(scene: Scene) -> None:
    listed = scene.groups("list")
    assert scene.group in listed.output.split("\n")
    assert "GROUP" not in listed.output
    assert listed.exit_code == 0


def test_states_and_types_are_shown_and_select(scene: Scene) -> None:
    row = {"GROUP": scene.group, "TYPE": "Classic", "STATE": "Empty"}
    assert row in scene.groups("list", "--state", "--type").rows
    assert {"GROUP": scene.group, "STATE": "Empty"} in scene.groups(
        "list", "--state", "empty,dead"
    ).rows
    assert scene.group not in scene.groups("list", "--state", "Stable").output
    assert scene.group not in scene.groups("list", "--type", "consumer").output
    (told,) = [
        each
        for each in scene.groups("list", "--output", "json").json
        if each["group"] == scene.group
    ]
    assert told == {
        "group": scene.group,
        "state": "Empty",
        "type": "Classic",
        "protocol_type": "",
        "coordinator": 0,
    }


# --- describe
# --------------------------------------------------------------------------------------------------


def test_offsets_and_lag_with_kafkas_columns(scene: Scene) -> None:
    described = scene.groups("describe", "--group", scene.group, "--no-time")
    assert described.rows == [
        {
            "GROUP": scene.group,
            "TOPIC": scene.topic,
            "PARTITION": "0",
            "CURRENT-OFFSET": "3",
            "LOG-END-OFFSET": "10",
            "LAG": "7",
            "CONSUMER-ID": "-",
            "HOST": "-",
            "CLIENT-ID": "-",
        }
    ]
    assert described.stderr == f"kohort: group {scene.group} has no active members\n"
    assert "LEADER-EPOCH" in scene.groups("describe", "--group", scene.group, "--verbose").rows[0]


def test_the_lag_in_seconds_is_the_age_of_the_first_unread_record(scene: Scene) -> None:
    words = ("describe", "--group", scene.group)
    before_s = time.time()
    described = scene.groups(*words)
    assert list(described.rows[0])[-1] == "LAG-SECONDS"
    age_s = float(described.rows[0]["LAG-SECONDS"])
    assert before_s - (NOON / 1000 + 3) - 0.1 <= age_s <= time.time() - (NOON / 1000 + 3) + 0.1
    (group,) = scene.groups(*words, "--output", "json").json
    (row,) = group["offsets"]
    assert (row["case"], row["lost"], row["method"], row["confidence_ms"]) == ("ok", 0, "record", 0)
    assert (group["lag_ms"], group["lost"]) == (row["lag_ms"], 0)
    verbose = scene.groups(*words, "--verbose").rows[0]
    assert (verbose["LOST"], verbose["CASE"], verbose["METHOD"]) == ("0", "ok", "record")


def test_a_lag_in_seconds_above_its_limit_has_exit_code_3(scene: Scene) -> None:
    words = ("describe", "--group", scene.group, "--max-lag-seconds")
    assert scene.groups(*words, "0.5").exit_code == 3
    assert scene.groups(*words, "1e12").exit_code == 0
    for wrong in (("-1",), ("nan",), ("1", "--no-time"), ("1", "--members")):
        assert scene.groups(*words, *wrong).exit_code == 2


def test_an_owned_partition_without_a_commit_has_no_lag(scene: Scene) -> None:
    def look() -> None:
        rows = scene.groups("describe", "--group", scene.group).rows
        assert [
            (row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"])
            for row in rows
        ] == [
            ("0", "3", "10", "7"),
            ("1", "-", "4", "-"),
        ]
        assert {row["CLIENT-ID"] for row in rows} == {"kohort"}
        (member,) = scene.groups("describe", "--group", scene.group, "--members", "--verbose").rows
        assert member["#PARTITIONS"] == "2"
        assert member["CURRENT-ASSIGNMENT"] == f"{scene.topic}:0,1"
        (state,) = scene.groups(
            "describe", "--group", scene.group, "--state", "--output", "json"
        ).json
        assert (state["state"], state["assignor"]) == ("Stable", "range")
        assert "offsets" not in state

    scene.with_member(look)


def test_a_regular_expression_has_a_column_of_its_own(scene: Scene) -> None:
    def look() -> None:
        words = ("describe", "--group", scene.group, "--members")
        (member,) = scene.groups(*words, "--verbose").rows
        assert member["SUBSCRIBED-TOPIC-REGEX"] == "orders.*"
        assert "SUBSCRIBED-TOPIC-REGEX" not in scene.groups(*words).rows[0]
        (group,) = scene.groups(*words, "--output", "json").json
        assert group["members"][0]["topic_regex"] == "orders.*"

    async def joined(admin: Admin) -> None:
        await consumer_heartbeat(admin.cluster, scene.group, "m", 0, topics=[], regex="orders.*")
        await asyncio.to_thread(look)
        await consumer_heartbeat(admin.cluster, scene.group, "m", -1)

    scene.do(joined)


def test_csv_has_numbers_and_empty_cells(scene: Scene) -> None:
    told = scene.groups("describe", "--group", scene.group, "--output", "csv")
    (row,) = csv.DictReader(io.StringIO(told.output))
    assert (row["log_end_offset"], row["lag"], row["consumer_id"]) == ("10", "7", "")


def test_a_group_that_is_not_there_is_an_error_and_hides_no_other(scene: Scene) -> None:
    described = scene.groups("describe", "--group", "nobody", "--group", scene.group)
    assert described.exit_code == 1
    assert "kohort: group nobody: does not exist" in described.stderr
    assert [row["GROUP"] for row in described.rows] == [scene.group]


def test_a_commit_outside_the_log_is_reported(scene: Scene) -> None:
    async def remove(admin: Admin) -> None:
        connection = await admin.cluster.any_connection()
        partitions = [{"partition_index": 0, "offset": 8}]
        await connection.send(
            "delete_records",
            topics=[{"name": scene.topic, "partitions": partitions}],
            timeout=1_000,
        )

    scene.do(remove)
    described = scene.groups("describe", "--group", scene.group)
    assert described.rows[0]["LAG"] == "2"
    (group,) = scene.groups("describe", "--group", scene.group, "--output", "json").json
    (row,) = group["offsets"]
    assert (row["lag"], row["lost"], row["case"]) == (2, 5, "retention passed")
    told = (
        f"group {scene.group}, {scene.topic}-0: 5 offsets were removed from the log before "
        "they were read"
    )
    assert told in described.stderr
    assert described.exit_code == 0


@pytest.mark.parametrize(("limit", "code"), [("7", 0), ("6", 3)])
def test_a_lag_above_the_limit_is_an_exit_code(scene: Scene, limit: str, code: int) -> None:
    assert scene.groups("describe", "--group", scene.group, "--max-lag", limit).exit_code == code


# --- delete
# --------------------------------------------------------------------------------------------------


def test_groups_are_deleted_but_not_those_with_members(scene: Scene) -> None:
    def refused() -> None:
        outcome = scene.groups("delete", "--group", scene.group)
        assert outcome.exit_code == 3
        assert re.search(
            (r"is not deleted: it has members: 1 member: \S+ \(kohort at /127.0.0.1\)"),
            outcome.stderr,
        )

    scene.with_member(refused)
    assert scene.groups("delete", "--group", scene.group).rows == [
        {"GROUP": scene.group, "STATUS": "Deleted"}
    ]
    again = scene.groups("delete", "--group", scene.group)
    assert again.exit_code == 1
    assert "GROUP_ID_NOT_FOUND" in again.stderr


def test_offsets_of_partitions_are_deleted(scene: Scene) -> None:
    scene.commit(p1=1)
    deleted = scene.groups("delete-offsets", "--group", scene.group, "--topic", f"{scene.topic}:0")
    assert deleted.rows == [{"TOPIC": scene.topic, "PARTITION": "0", "STATUS": "Successful"}]
    assert scene.committed() == {1: 1}
    unknown = scene.groups("delete-offsets", "--group", scene.group, "--topic", "never")
    assert (unknown.exit_code, unknown.output) == (1, "")
    assert unknown.stderr == "kohort: UNKNOWN_TOPIC_OR_PARTITION: topic never\n"


# --- reset: where to
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "new"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [10, 4]),
        (("--to-current",), [3, 4]),
        (("--to-offset", "2"), [2, 2]),
        (("--to-offset", "7"), [7, 4]),
        (("--to-datetime", "2026-01-31T12:00:02.000Z"), [2, 2]),
        (("--to-datetime", "2026-01-31T12:00:01.500"), [2, 2]),
        (("--to-datetime", "2026-01-31T13:00:05.000+01:00"), [5, 4]),
        (("--to-datetime", "2126-01-31T12:00:00Z"), [10, 4]),
        (("--by-duration", "P36500D"), [0, 0]),
        (("--by-duration", "PT0S"), [10, 4]),
    ],
)
def test_offsets_are_reset_to_each_kind_of_target(
    scene: Scene, words: tuple[str, ...], new: list[int]
) -> None:
    assert scene.new(scene.reset(*words)) == new
    assert scene.committed() == {0: 3}  # a dry run
    assert scene.new(scene.reset(*words, "--execute")) == new
    assert scene.committed() == dict(enumerate(new))


@pytest.mark.parametrize(("by", "new"), [("2", 5), ("-2", 1), ("-9", 0), ("99", 10)])
def test_offsets_are_shifted_within_the_log(scene: Scene, by: str, new: int) -> None:
    assert scene.new(scene.reset("--all-topics", "--shift-by", by, "--execute")) == [new]
    assert scene.committed() == {0: new}


def test_a_shift_without_a_commit_changes_nothing(scene: Scene) -> None:
    shifted = scene.reset("--shift-by", "1", "--execute")
    assert (shifted.exit_code, shifted.output) == (1, "")
    assert (f"{scene.topic}-1: cannot be shifted, the group has no commit in it") in shifted.stderr
    assert scene.committed() == {0: 3}


def test_offsets_of_some_partitions_are_reset(scene: Scene) -> None:
    assert scene.new(scene.reset("--topic", f"{scene.topic}:1", "--to-latest", "--execute")) == [4]
    assert scene.committed() == {0: 3, 1: 4}
    beyond = scene.reset("--topic", f"{scene.topic}:1,7", "--to-latest", "--execute")
    assert beyond.exit_code == 1
    assert f"topic {scene.topic} has partitions 0 to 1, not 7" in beyond.stderr


def test_offsets_out_of_range_are_clamped_with_a_warning(scene: Scene) -> None:
    told = scene.reset("--to-offset", "1000").stderr
    assert (
        f"warning: {scene.topic}-0 of group {scene.group}: offset 1000 is beyond the log's "
        "end; set to 10"
    ) in told


def test_the_time_is_told_with_its_zone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assumed = scene.reset("--to-datetime", "2026-01-31T12:00:00").stderr
    assert "to-datetime 2026-01-31T12:00:00.000Z" in assumed
    assert "without a zone: read as UTC, as Kafka does" in assumed
    told = scene.reset("--to-datetime", "2026-01-31T12:00:00+05:00").stderr
    assert "to-datetime 2026-01-31T07:00:00.000Z" in told
    assert "no zone" not in told


def test_several_groups_at_once(scene: Scene, bootstrap: str, tmp_path: Path) -> None:
    other = f"{scene.group}-other"
    told = scene.groups(
        "reset",
        "--group",
        scene.group,
        "--group",
        other,
        "--topic",
        scene.topic,
        "--to-latest",
        "--execute",
    )
    assert [(row["GROUP"], row["NEW-OFFSET"]) for row in told.rows] == [
        (scene.group, "10"),
        (scene.group, "4"),
        (other, "10"),
        (other, "4"),
    ]
    assert scene.groups("reset", "--all-groups", "--all-topics", "--to-earliest").exit_code == 0


def test_a_reset_that_would_do_nothing_is_no_success(scene: Scene) -> None:
    nothing = scene.groups(
        "reset", "--group", "bilingg", "--all-topics", "--to-earliest", "--execute"
    )
    assert (nothing.exit_code, nothing.output) == (1, "")
    assert "group bilingg has no committed offsets: nothing to reset" in nothing.stderr


def test_a_group_that_a_reset_would_make_is_told_of(scene: Scene) -> None:
    made = scene.groups("reset", "--group", "bilingg", "--topic", scene.topic, "--to-earliest")
    assert made.exit_code == 0
    assert "group bilingg has no committed offsets there; did you mean billing" in made.stderr


# --- reset: CSV
# --------------------------------------------------------------------------------------------------


def test_export_and_from_file(scene: Scene, tmp_path: Path) -> None:
    exported = scene.reset("--to-current", "--export")
    assert exported.output == f"{scene.topic},0,3\n{scene.topic},1,4\n"
    assert "dry run" not in exported.stderr
    file = tmp_path / "offsets.csv"
    file.write_text(exported.output)
    scene.reset("--to-earliest", "--execute")
    assert scene.new(scene.reset("--from-file", str(file), "--execute")) == [3, 4]
    assert scene.committed() == {0: 3, 1: 4}


def test_export_of_several_groups_names_them(scene: Scene, tmp_path: Path) -> None:
    groups = ("--group", scene.group, "--group", "another")
    exported = scene.groups(
        "reset", *groups, "--topic", f"{scene.topic}:0", "--to-offset", "2", "--export"
    )
    assert exported.output == f"{scene.group},{scene.topic},0,2\nanother,{scene.topic},0,2\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported.output.replace(",2\n", ",99\n"))
    told = scene.groups("reset", *groups, "--from-file", str(file))
    assert scene.new(told) == [10, 10]
    assert "offset 99 is beyond the log's end" in told.stderr


# --- reset: what is refused
# ------------------------------------------------------------------------------------------


def test_a_group_with_members_is_refused_and_they_are_named(scene: Scene) -> None:
    def look() -> None:
        refused = scene.reset("--to-latest", "--execute")
        assert refused.exit_code == 3
        assert refused.output == ""
        (line,) = refused.stderr.splitlines()
        assert re.fullmatch(
            rf"kohort: group {scene.group} is Stable with 1 member: \S+ \(kohort at /127.0.0.1\); "
            "stop them first, nothing was changed",
            line,
        )

    scene.with_member(look)
    assert scene.committed() == {0: 3}
    assert not scene.state.exists()


def test_an_unknown_topic_is_refused(scene: Scene) -> None:
    refused = scene.reset("--topic", "never", "--to-earliest")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "kohort: UNKNOWN_TOPIC_OR_PARTITION: topic never\n",
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("list", "--state", "nonsense"), "--state nonsense: is not one of PreparingRebalance"),
        (("list", "--output", "yaml"), "is not one of table | json | csv"),
        (("list", "--timeout", "0"), "--timeout 0: is not a number of milliseconds"),
        (("list", "-X", "sasl.user=x"), "unknown property; did you mean sasl.username?"),
        (("lst",), "kohort groups has no command lst; did you mean list?"),
        (("xyz",), "no command xyz; its commands are list, describe,"),
        (("--lst",), "kohort groups needs a command before any option; did you mean list?"),
        (("list", "--typ"), "unrecognized arguments: --typ; did you mean --type?"),
        (("--list", "--describe"), "choose one of them"),
        (("describe",), "a group is missing: GROUP… or --all-groups"),
        (
            ("describe", "--group", "g", "--all-groups"),
            "a group is missing: GROUP… or --all-groups",
        ),
        (("describe", "--group", ""), "the group id is empty"),
        (
            ("describe", "--group", "g", "--members", "--state"),
            "choose one of --offsets, --members and --state",
        ),
        (
            ("describe", "--group", "g", "--state", "--max-lag", "1"),
            "--max-lag needs --offsets",
        ),
        (("delete-offsets", "--group", "g"), "--topic TOPIC[:0,1,2]"),
        (
            ("reset", "--group", "g", "--to-latest"),
            "either --topic TOPIC[:0,1,2] (repeatable) or --all-topics",
        ),
        (
            ("reset", "--group", "g", "--topic", "t", "--all-topics", "--to-latest"),
            "either --topic",
        ),
        (
            ("reset", "--group", "g", "--all-topics"),
            "exactly one specification is needed: --to-earliest",
        ),
        (
            ("reset", "--group", "g", "--all-topics", "--to-latest", "--to-offset", "0"),
            "exactly one specification is needed",
        ),
        (
            ("reset", "--group", "g", "--all-topics", "--to-latest", "--execute", "--dry-run"),
            "choose one of --execute",
        ),
        (
            ("reset", "--group", "g", "--all-topics", "--to-datetime", "noon"),
            "as in 2026-01-31T09:30:00.000+01:00",
        ),
        (
            ("reset", "--group", "g", "--all-topics", "--to-datetime", "1969-12-31T00:00:00Z"),
            "before 1970",
        ),
        (("reset", "--group", "g", "--all-topics", "--by-duration", "1h"), "as in P1DT2H30M"),
        (
            ("reset", "--group", "g", "--topic", "t:x", "--to-latest"),
            "partitions are numbers, as in t:0,1,2",
        ),
        (("reset", "--group", "g", "--from-file", "none.csv"), "cannot be read"),
        (
            ("reset", "--group", "g", "--all-topics", "--to-latest", "--plan", "p", "--no-plan"),
            "--plan and --no-plan",
        ),
        (("apply", "none.json"), "none.json"),
        (("plan", "--group", "g", "--partitions", "t"), "is not TOPIC=N"),
    ],
)
def test_wrong_options_are_told_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    outcome = runner(capsys)("groups", *words)
    assert outcome.exit_code == 2
    assert told in outcome.stderr
    assert outcome.output == ""


def test_no_server_is_one_line_that_says_what_was_tried(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = runner(capsys)("groups", "list", "-b", "127.0.0.1:1", "--timeout", "50")
    assert outcome.exit_code == 1
    (line,) = outcome.stderr.splitlines()
    assert line.startswith("kohort: metadata from 127.0.0.1:1: gave up after ")


# --- plans
# --------------------------------------------------------------------------------------------------


def test_a_planned_reset_is_reviewed_applied_and_undone(scene: Scene, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    dry = scene.reset("--to-latest", "--plan", str(plan))
    assert "dry run: nothing was changed" in dry.stderr
    assert [
        (each["old"] and each["old"]["offset"], each["new"]["offset"]) for each in _changes(plan)
    ] == [
        (3, 10),
        (None, 4),
    ]
    assert _stands(scene.groups("diff", str(plan))) == (3, ["old", "old"])
    assert scene.groups("apply", str(plan), "--dry-run").exit_code == 0
    assert scene.committed() == {0: 3}
    applied = scene.groups("apply", str(plan))
    assert applied.exit_code == 0
    assert f"to undo it: kohort groups undo {plan}" in applied.stderr
    assert scene.committed() == {0: 10, 1: 4}
    assert _stands(scene.groups("diff", str(plan))) == (0, ["new", "new"])
    assert json.loads(plan.read_text())["executed_at_ms"] is not None
    undone = scene.groups("undo", str(plan))
    # also that nothing was committed in the second
    assert (undone.exit_code, scene.committed()) == (0, {0: 3})
    assert scene.groups("apply", str(plan)).exit_code == 0


def _changes(plan: Path) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = json.loads(plan.read_text())["changes"]
    return changes


def _stands(diff: Outcome) -> tuple[int, list[str]]:
    return diff.exit_code, [row["STANDS"] for row in diff.rows]


def test_undo_brings_back_metadata_too(scene: Scene) -> None:
    scene.reset("--to-latest", "--execute")
    (plan,) = scene.state.iterdir()
    scene.groups("undo", str(plan))
    (described,) = scene.groups("describe", "--group", scene.group, "--output", "json").json
    assert [each["metadata"] for each in described["offsets"]] == ["by hand"]


def test_every_executed_reset_is_kept(scene: Scene) -> None:
    done = scene.reset("--to-latest", "--execute")
    (kept,) = scene.state.iterdir()
    assert done.stderr == f"kohort: done and verified; to undo it: kohort groups undo {kept}\n"
    assert kept.name.endswith(f"Z-{scene.group}.json")
    assert json.loads(kept.read_text())["executed_at_ms"] is not None
    assert scene.reset("--to-earliest", "--execute", "--no-plan").exit_code == 0
    assert list(scene.state.iterdir()) == [kept]


def test_a_plan_is_never_written_over(scene: Scene, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("mine")
    refused = scene.reset("--to-latest", "--execute", "--plan", str(plan))
    assert refused.exit_code == 2
    assert "may be needed to undo an earlier reset" in refused.stderr
    assert plan.read_text() == "mine"
    assert scene.committed() == {0: 3}


def test_a_reset_without_a_place_for_its_plan_changes_no_offset(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    refused = scene.reset("--to-latest", "--execute")
    assert refused.exit_code == 2
    assert "name another file by --plan FILE, or give up the undo by --no-plan" in refused.stderr
    assert scene.committed() == {0: 3}


@pytest.mark.parametrize("command", ["apply", "undo"])
def test_a_group_that_moved_since_is_refused_with_the_difference(
    scene: Scene, tmp_path: Path, command: str
) -> None:
    plan = tmp_path / "plan.json"
    scene.reset("--to-latest", "--plan", str(plan), *(["--execute"] if command == "undo" else []))
    scene.commit(p0=8)
    refused = scene.groups(command, str(plan))
    assert refused.exit_code == 3
    assert refused.output == ""
    head, row, *_, line = refused.stderr.splitlines()
    assert head.split()[-2:] == ["EXPECTED-OFFSET", "CURRENT-OFFSET"]
    assert row.split() == [scene.group, scene.topic, "0", "10" if command == "undo" else "3", "8"]
    assert "have other commits than in the plan: nothing was changed" in line
    assert scene.committed()[0] == 8
    assert "moved" in _stands(scene.groups("diff", str(plan)))[1]
    assert scene.groups(command, str(plan), "--force").exit_code == 0
    assert scene.committed()[0] == (3 if command == "undo" else 10)


def test_undo_of_a_group_with_members_is_refused_even_by_force(scene: Scene) -> None:
    scene.reset("--to-latest", "--execute")
    (plan,) = scene.state.iterdir()

    def look() -> None:
        refused = scene.groups("undo", str(plan), "--force")
        assert refused.exit_code == 3
        assert "is Stable with 1 member" in refused.stderr

    scene.with_member(look)
    assert scene.committed() == {0: 10, 1: 4}


def test_a_plan_of_another_cluster_is_refused(scene: Scene, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    scene.reset("--to-latest", "--plan", str(plan))
    text = plan.read_text()
    cluster = json.loads(text)["cluster_id"]
    plan.write_text(text.replace(cluster, "another"))
    for command in ("apply", "diff"):
        refused = scene.groups(command, str(plan))
        assert refused.exit_code == 1
        assert f"the plan was made on cluster another, this is {cluster}" in refused.stderr
    assert scene.committed() == {0: 3}


def test_the_plan_is_what_json_shows(scene: Scene, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    shown = scene.reset("--to-latest", "--plan", str(plan), "--output", "json")
    assert shown.json == json.loads(plan.read_text())


# --- Kafka's own way of calling
# --------------------------------------------------------------------------------------


def test_the_verbs_of_kafkas_tool(scene: Scene) -> None:
    def kafka(*words: str) -> Outcome:
        return scene.run("groups", "--bootstrap-server", scene.bootstrap, *words)

    assert scene.group in kafka("--list").output
    assert kafka("--describe", "--group", scene.group).rows[0]["LAG"] == "7"
    reset = (
        "--reset-offsets",
        "--group",
        scene.group,
        "--topic",
        f"{scene.topic}:0",
        "--to-offset",
        "5",
    )
    assert kafka(*reset, "--dry-run").rows[0]["NEW-OFFSET"] == "5"
    assert kafka(*reset, "--execute").exit_code == 0
    assert scene.committed() == {0: 5}
    assert kafka("--delete-offsets", "--group", scene.group, "--topic", scene.topic).exit_code == 0
    assert kafka("--delete", "--group", scene.group).exit_code == 0


def test_a_properties_file_of_another_tool_will_do(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# "
        f"Java's\nbootstrap.servers={scene.bootstrap}\nclient.id=by-file\nenable.auto.commit=false\n"
    )
    assert scene.group in scene.run("groups", "list", "--command-config", str(file)).output
    assert (
        scene.group
        in scene.run("groups", "list", "-X", f"bootstrap.servers={scene.bootstrap}").output
    )


# --- plan of an assignment
# -------------------------------------------------------------------------------------------


def test_a_plan_shows_the_partitions_before_and_after(scene: Scene) -> None:
    def look() -> None:
        told = scene.groups(
            "plan", "--group", scene.group, "--join", "1", "--partitions", f"{scene.topic}=4"
        )
        assert told.exit_code == 0
        assert [(row["#BEFORE"], row["#AFTER"]) for row in told.rows] == [("2", "2"), ("-", "2")]
        assert "2 of 4 partitions move, 0 of them away from members that stay" in told.stderr
        moves = scene.groups("plan", "--group", scene.group, "--join", "1", "--moves").rows
        assert [(row["PARTITION"], row["TO"]) for row in moves] == [("1", "new-1")]
        gone = scene.groups(
            "plan", "--group", scene.group, "--leave", "kohort", "--output", "json"
        ).json
        assert [move["to"] for move in gone["moves"]] == [None, None]
        wrong = scene.groups("plan", "--group", scene.group, "--leave", "nobody")
        assert wrong.exit_code == 2
        assert "--leave nobody: matches 0 members; the group has" in wrong.stderr

    scene.with_member(look)


def test_a_group_without_members_can_be_planned_too(scene: Scene) -> None:
    told = scene.groups(
        "plan",
        "--group",
        scene.group,
        "--join",
        "2",
        "--topic",
        scene.topic,
        "--assignor",
        "cooperative-sticky",
    )
    assert [row["#AFTER"] for row in told.rows] == ["1", "1"]
    assert scene.groups("plan", "--group", scene.group, "--join", "1").exit_code == 2
    unknown = scene.groups("plan", "--group", scene.group, "--assignor", "rang")
    assert (unknown.exit_code, "'range' is one" in unknown.stderr) == (2, True)


def test_a_plan_shows_its_balance_and_the_number_of_moves(scene: Scene) -> None:
    asked = (
        "plan",
        "--group",
        scene.group,
        "--join",
        "2",
        "--topic",
        scene.topic,
        "--partitions",
        f"{scene.topic}=5",
    )
    table = scene.groups(*asked, "--balance")
    assert [
        (row["WHEN"], row["#PARTITIONS"], row["FEWEST"], row["MOST"], row["MOVES"])
        for row in table.rows
    ] == [
        ("before", "0", "0", "0", "-"),
        ("after", "5", "2", "3", "5"),
    ]
    assert "partitions per member: 0 before, 2 to 3 after" in table.stderr
    csv = scene.groups(*asked, "--balance", "--output", "csv").output.splitlines()
    assert csv == [
        "when,members,partitions,fewest,most,mean,moves",
        "before,0,0,0,0,0.0,",
        "after,2,5,2,3,2.5,5",
    ]
    told = scene.groups(*asked, "--output", "json").json
    assert told["balance_before"] == {"fewest": 0, "most": 0, "mean": 0.0}
    assert told["balance_after"] == {"fewest": 2, "most": 3, "mean": 2.5}
    assert told["partitions_that_move"] == 5
    assert scene.groups(*asked, "--balance", "--moves").exit_code == 2


def test_names_are_words_too(scene: Scene) -> None:
    assert scene.groups("describe", scene.group).rows[0]["GROUP"] == scene.group
    assert scene.groups("plan", scene.group, "--topic", scene.topic, "--join", "1").rows
    reset = scene.groups("reset", scene.group, "--all-topics", "--to-earliest")
    assert reset.rows[0]["NEW-OFFSET"] == "0"
    forgotten = scene.groups("delete-offsets", scene.group, "--topic", scene.topic)
    assert forgotten.exit_code == 0
    assert scene.groups("--delete", scene.group).rows[0]["GROUP"] == scene.group


def test_offsets_are_copied_to_another_group(scene: Scene) -> None:
    scene.commit(p0=7, p1=2)
    other = f"{scene.group}-copy"
    words = ("copy", scene.group, other)
    tried = scene.groups(*words)
    assert (tried.exit_code, scene.new(tried)) == (0, [7, 2])
    assert tried.stderr == "kohort: dry run: nothing was changed; add --execute to do it\n"
    one = scene.groups(*words, "--topic", f"{scene.topic}:1", "--execute", "--plan", "p.json")
    assert (one.exit_code, scene.new(one)) == (0, [2])
    scene.commit(p0=8)
    whole = ("reset", other, "--from-group", scene.group, "--all-topics", "--execute")
    done = scene.groups(*whole)
    assert (done.exit_code, scene.new(done)) == (0, [8, 2])
    (described,) = scene.groups("describe", other, "--output", "json").json
    assert [each["committed_offset"] for each in described["offsets"]] == [8, 2]


def test_copies_onto_itself_and_of_unknown_groups_are_refused(scene: Scene) -> None:
    itself = scene.groups("copy", scene.group, scene.group)
    assert (itself.exit_code, "is the same group" in itself.stderr) == (2, True)
    typo = scene.groups("copy", f"{scene.group}x", "other")
    assert (typo.exit_code, typo.stderr) == (
        1,
        f"kohort: group {scene.group}x has no committed offsets; did you mean {scene.group}?\n",
    )
    scene.groups("reset", scene.group, "--all-topics", "--to-earliest", "--execute")
    with_both = scene.reset("--from-group", "other", "--to-latest")
    assert (with_both.exit_code, "exactly one specification is needed" in with_both.stderr) == (
        2,
        True,
    )
