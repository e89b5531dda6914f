"""`kohort groups restore`: the offsets of a time are brought back, and undone; or the refusal says
what to do.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from cli.restoring import Commits, Scene, make_topic, passed, time_of
from cli.running import runner
from history.broker_logs import by_broker
from history.built import build_logs
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets import DriftError, ResetPlan, execute
from kohort.client.resets.operations import NotCommittedError
from kohort.errors import KohortError
from kohort.history_files.directory import opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.merging import remove_older
from kohort.types import TopicPartition
from spark.servers import KAFKA, KOHORT, server
from waiting import until

SEEDS = range(6)
STEPS = 12


@pytest.fixture(scope="module", params=[KOHORT, KAFKA])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    with server(request.param) as address:
        yield address


@pytest.fixture
def scene(
    bootstrap: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Scene(bootstrap, runner(capsys), tmp_path)


def test_any_earlier_state_is_restored_and_undone(scene: Scene) -> None:
    for seed in SEEDS:
        played = scene.play(seed, STEPS)
        scene.build()
        for number, (at_ms, then) in enumerate(played[seed % 3 :: 3]):
            plan = scene.directory / f"{scene.group}-{seed}-{number}.json"
            before = scene.committed()
            if not then and not before:
                continue
            words = ("--delete-absent", "--execute", "--plan", str(plan))
            restored = scene.restore(at_ms, *words)
            assert restored.exit_code == 0, restored.stderr
            assert scene.committed() == then
            undone = scene.run("groups", "undo", str(plan))
            assert undone.exit_code == 0, undone.stderr
            assert scene.committed() == before
        scene = Scene(scene.bootstrap, scene._run, scene.directory)


def test_a_dry_run_shows_the_plan_and_changes_nothing(scene: Scene) -> None:
    at_ms = scene.commit(p0=3, p1=4)
    scene.commit(p0=9, p2=1)
    scene.build()
    before = scene.committed()
    told = scene.restore(at_ms)
    assert told.exit_code == 0
    rows = {row["PARTITION"]: row for row in told.rows}
    assert [rows[number][name] for number in "01" for name in ("OLD-OFFSET", "NEW-OFFSET")] == [
        "9", "3", "4", "4",
    ]  # fmt: skip
    assert (rows["0"]["BEFORE"], rows["0"]["NEXT"], rows["1"]["NEXT"]) == ("-", "9", "-")
    assert "dry run: nothing was changed" in told.stderr
    absent = f"{scene.topic}-2"
    assert f"had no commit then, and keep theirs: {absent}" in told.stderr
    assert scene.committed() == before
    shown = scene.restore(at_ms, "--output", "json").json
    assert shown["kept"] == [{"topic": scene.topic, "partition": 2}]
    assert shown["commits"][0]["next_offset"] == 9
    assert ResetPlan.from_json(json.dumps(shown)).groups == (scene.group,)


def test_only_chosen_partitions_are_restored(scene: Scene) -> None:
    at_ms = scene.commit(p0=3, p1=4)
    scene.commit(p0=9, p1=9)
    scene.build()
    told = scene.restore(at_ms, "--topic", f"{scene.topic}:1", "--execute")
    assert told.exit_code == 0, told.stderr
    assert offsets(scene.committed()) == [9, 4]
    unknown = scene.restore(at_ms, "--topic", "nowhere")
    assert (unknown.exit_code, "no commits of topic nowhere" in unknown.stderr) == (1, True)


def test_offsets_outside_the_log_become_its_ends(scene: Scene) -> None:
    at_ms = scene.commit(p0=3, p1=10)
    scene.commit(p0=20, p1=20)
    first = TopicPartition(scene.topic, 0)
    scene.do(lambda admin: admin.delete_records({first: 7}))
    scene.build()
    told = scene.restore(at_ms, "--execute")
    assert told.exit_code == 0, told.stderr
    assert "offset 3 is before the log's start; set to 7" in told.stderr
    assert scene.committed()[first] == OffsetAndMetadata(offset=7, metadata="at 3")


# --- refusals


def test_a_group_with_members_is_refused_and_restored_as_another_one(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)
    scene.commit(p0=9)
    scene.build()
    other = f"{scene.group}-then"
    with scene.member():
        refused = scene.restore(at_ms, "--execute")
        assert refused.exit_code == 3
        assert "with 1 member" in refused.stderr
        assert "restore into another group by --as OTHER" in refused.stderr
        assert scene.restore(at_ms, "--execute", "--as", other).exit_code == 0
    assert offsets(scene.committed()) == [9]
    assert offsets(scene.committed(other)) == [3]
    (plan,) = (scene.directory / "state" / "kohort" / "resets").iterdir()
    assert scene.run("groups", "undo", str(plan)).exit_code == 0
    assert scene.committed(other) == {}


def test_offsets_of_a_recreated_topic_are_refused(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)

    async def recreate(admin: Admin) -> None:
        await admin.delete_topic(scene.topic)
        await until(lambda: is_missing(admin, scene.topic))
        await make_topic(admin, scene.topic)
        await passed()

    scene.do(recreate)
    scene.commit(p0=1)
    scene.build()
    refused = scene.restore(at_ms, "--execute")
    assert refused.exit_code == 3
    assert f"topic {scene.topic} was recreated since" in refused.stderr
    assert offsets(scene.committed()) == [1]


async def is_missing(admin: Admin, topic: str) -> bool:
    return topic not in await admin.describe_topics()


def test_a_topic_that_was_deleted_is_refused(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)
    scene.do(lambda admin: admin.delete_topic(scene.topic))
    scene.do(lambda admin: passed())
    scene.build()
    refused = scene.restore(at_ms, "--execute")
    assert (refused.exit_code, f"topic {scene.topic} does not exist" in refused.stderr) == (3, True)


def test_the_history_of_another_cluster_or_log_is_refused(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)
    logs = by_broker(scene.bootstrap)
    build_logs(logs, scene.history, cluster="another")
    refused = scene.restore(at_ms)
    assert refused.exit_code == 3
    assert "is the history of cluster another, this is " in refused.stderr
    assert "kohort history export and import" in refused.stderr
    scene.history = scene.directory / "other"
    build_logs(logs, scene.history, topic_id="AAAAAAAAAAAAAAAAAAAAAA")
    refused = scene.restore(at_ms)
    assert refused.exit_code == 3
    assert "is the history of another __consumer_offsets" in refused.stderr


def test_a_time_that_compaction_reached_is_refused_unless_unknown_offsets_are_skipped(
    scene: Scene,
) -> None:
    scene.commit(p0=1, p1=1)
    at_ms = scene.commit(p0=3)
    last_ms = scene.commit(p0=9)
    scene.commit(p1=5)
    build_logs(without_first(by_broker(scene.bootstrap), scene, 2), scene.history)
    refused = scene.restore(at_ms, "--execute")
    assert refused.exit_code == 3
    assert "compaction had removed records from before this time" in refused.stderr
    assert "--skip-unknown restores the 1 partitions that are certain" in refused.stderr
    restored = scene.restore(at_ms, "--execute", "--skip-unknown")
    assert restored.exit_code == 0, restored.stderr
    assert f"not known, and left out: {scene.topic}-1" in restored.stderr
    assert offsets(scene.committed()) == [3, 5]
    assert scene.restore(last_ms, "--skip-unknown").exit_code == 0


def without_first(logs: dict[int, Any], scene: Scene, count: int) -> dict[int, Any]:
    """The logs without records of the group before its last `count` + 1 ones."""
    kept = {}
    for number, table in logs.items():
        of_group = [
            row["offset"]
            for row in table.select(["key", "offset"]).to_pylist()
            if scene.group.encode() in (row["key"] or b"")
        ]
        first = of_group[count] if of_group else 0
        kept[number] = table.filter(pc.greater_equal(table["offset"], first))
    return kept


def test_a_time_whose_rows_were_removed_is_refused(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)
    later_ms = scene.commit(p0=9)
    scene.build()
    with opened_for_writing(LocalFiles(scene.history), later_ms) as history:
        remove_older(history, later_ms, later_ms)
    refused = scene.restore(at_ms)
    assert (refused.exit_code, "were removed by --keep" in refused.stderr) == (3, True)


def test_a_time_behind_the_end_of_the_history_is_refused_if_the_log_has_more(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)
    scene.build()
    later_ms = scene.commit(p0=9)
    refused = scene.restore(later_ms)
    assert refused.exit_code == 3
    assert "the history ends before this time: the log has 1 more records" in refused.stderr
    assert "kohort history build" in refused.stderr
    assert scene.restore(at_ms, "--execute").exit_code == 0
    assert offsets(scene.committed()) == [3]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--to", "2026-01-31T10:42"), 2, "--to 2026-01-31T10:42: has no zone"),
        (("--to", "noon"), 2, "--to noon: is not a time"),
        (("--to", "2999-01-31T10:42Z"), 2, "is in the future"),
        (("--history", "/nowhere"), 2, "is not the directory of a history"),
        (("--as", ""), 2, "--as: the group id is empty"),
        (("--execute", "--dry-run"), 2, "choose one of"),
        (("--plan", "plan.json", "--no-plan"), 2, "choose one of"),
        (("--topic", ":1"), 2, "has no name"),
        (("--group", "nobody"), 1, "group nobody has no record in"),
    ],
)
def test_a_wrong_argument_is_named(
    scene: Scene, words: tuple[str, ...], code: int, said: str
) -> None:
    at_ms = scene.commit(p0=3)
    scene.build()
    options = {
        "--group": scene.group,
        "--history": str(scene.history),
        "--to": time_of(at_ms),
    }
    flags = list(words)
    for flag, value in options.items():
        if flag not in words:
            flags += [flag, value]
    refused = scene.run("groups", "restore", *flags)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr


# --- interrupted, and two at once


def test_a_restore_that_was_killed_half_way_is_undone_or_completed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commits were made, and its deletions not: the plan file has both."""
    at_ms = scene.commit(p0=3, p1=4)
    scene.commit(p0=9, p2=1)
    scene.build()
    before = scene.committed()

    async def killed(*_: Any) -> None:
        raise KohortError("killed")

    def restore(name: str) -> Path:
        plan = scene.directory / name
        with monkeypatch.context() as patch:
            patch.setattr(Admin, "delete_offsets", killed)
            words = ("--delete-absent", "--execute", "--plan", str(plan))
            assert scene.restore(at_ms, *words).exit_code == 1
        assert offsets(scene.committed()) == [3, 4, 1]
        return plan

    undone = scene.run("groups", "undo", str(restore("one.json")))
    assert undone.exit_code == 0, undone.stderr
    assert scene.committed() == before
    applied = scene.run("groups", "apply", str(restore("two.json")))
    assert applied.exit_code == 0, applied.stderr
    assert offsets(scene.committed()) == [3, 4]


def test_a_plan_is_executed_after_a_kill_or_refused_if_the_group_moved(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)
    scene.commit(p0=9)
    scene.build()
    plan = scene.directory / "plan.json"
    scene.restore(at_ms, "--plan", str(plan))
    scene.commit(p0=12)
    refused = scene.run("groups", "apply", str(plan))
    assert (refused.exit_code, "have other commits than in the plan" in refused.stderr) == (3, True)
    scene.commit(p0=9)
    assert scene.run("groups", "apply", str(plan)).exit_code == 0
    assert offsets(scene.committed()) == [3]


def test_a_topic_recreated_after_the_plan_is_refused(scene: Scene) -> None:
    at_ms = scene.commit(p0=3)
    scene.commit(p0=9)
    scene.build()
    plan = scene.directory / "plan.json"
    scene.restore(at_ms, "--plan", str(plan))
    content = json.loads(plan.read_text())
    content["changes"][0]["topic_id"] = "00000000-0000-0000-0000-000000000007"
    plan.write_text(json.dumps(content))
    refused = scene.run("groups", "apply", str(plan), "--force")
    assert refused.exit_code == 3
    assert f"{scene.topic}: recreated since the plan was made" in refused.stderr
    assert offsets(scene.committed()) == [9]


def test_one_of_two_restores_at_once_wins_and_an_overwritten_one_says_so(scene: Scene) -> None:
    early = scene.commit(p0=3, p1=4, p2=5)
    late = scene.commit(p0=6, p1=7, p2=8)
    scene.commit(p0=1, p1=1, p2=1)
    scene.build()
    plans = []
    for at_ms in (early, late):
        path = scene.directory / f"{at_ms}.json"
        scene.restore(at_ms, "--plan", str(path))
        plans.append(ResetPlan.from_json(path.read_text()))

    async def one(plan: ResetPlan) -> str:
        async with Cluster(ClientConfig(bootstrap=scene.bootstrap)) as cluster:
            try:
                await execute(Admin(cluster), plan)
            except (DriftError, NotCommittedError) as error:
                return type(error).__name__
            return "done"

    async def both() -> list[str]:
        return list(await asyncio.gather(*map(one, plans)))

    for _ in range(5):
        scene.commit(p0=1, p1=1, p2=1)
        outcomes = asyncio.run(both())
        assert "done" in outcomes
        found = offsets(scene.committed())
        assert found in ([3, 4, 5], [6, 7, 8])
        assert outcomes[[[3, 4, 5], [6, 7, 8]].index(found)] == "done"


def offsets(commits: Commits) -> list[int]:
    """By partition."""
    return [commits[tp].offset for tp in sorted(commits)]
