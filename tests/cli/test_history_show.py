"""`kohort history show` on the history of a log that Apache Kafka wrote."""

import json
import re
import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from history.built import build_logs, build_parts
from history.folded import ends_of, folded, whole
from history.group_log_builder import classic
from history.offset_logs import LOG_PARTITION, START_MS, batch_of
from history.test_gaps import BEHIND, COMPLETE, commit, unreadable
from kohort.cli.app import run
from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
)
from kohort.history.schema import RECORDS
from kohort.history_files.building import add_batch, planned
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.folding import fold_ranges
from kohort.history_files.reading import GroupReader


def groups(recording):
    return sorted({row["group"] for row in whole(recording.name).generations})


def test_rows_of_groups_are_those_of_the_fold(out, recording):
    directory = HistoryDirectory(LocalFiles(out))
    for group in groups(recording):
        reader = GroupReader(directory, group)
        assert reader.is_certain()
        for table in ("generations", "members", "assignments", "rebalances", "groups"):
            expected = [row for row in whole(recording.name).tables[table] if row["group"] == group]
            assert sorted(map(repr, reader.rows(table))) == sorted(map(repr, expected)), table


def test_rows_at_a_time_are_those_of_the_log_up_to_there(out, recording):
    snapshot = recording.snapshots[len(recording.snapshots) // 2]
    moment = datetime.fromtimestamp(snapshot["at"] / 1000, UTC)
    then = folded(recording, "whole", ends_of(snapshot))
    columns = ("group", "member_id", "from_offset", "to_offset", "ended_by")
    for group in groups(recording):
        reader = GroupReader(HistoryDirectory(LocalFiles(out)), group, moment)
        rows = [[row[name] for name in columns] for row in reader.rows("members")]
        expected = [
            [row[name] for name in columns] for row in then.members if row["group"] == group
        ]
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))


def shown(capsys, *arguments):
    code = run(["history", "show", *map(str, arguments)])
    return code, capsys.readouterr()


def test_every_group_has_a_timeline_of_its_generations(capsys, out, recording):
    for group in groups(recording):
        code, printed = shown(capsys, out, group, "--output", "json", "--last", "10000")
        assert code == 0
        found = json.loads(printed.out)
        assert found["certainty"] == "exact"
        generations = [
            event["generation"] for event in found["events"] if event["generation"] is not None
        ]
        expected = [row for row in whole(recording.name).generations if row["group"] == group]
        expected.sort(key=lambda row: row["log_offset"])
        assert generations == [row["generation"] for row in expected]


def test_committed_offsets_are_those_in_force(capsys, out, recording):
    last = {}
    for row in sorted(whole(recording.name).commits, key=lambda row: row["log_offset"]):
        if row["in_force"] is not None and row["kind"] != "superseded":
            last[row["group"], row["topic"], row["partition"]] = row["committed"]
    for group in groups(recording):
        _, printed = shown(capsys, out, group, "--output", "json")
        found = {
            (group, row["topic"], row["partition"]): row["committed"]
            for row in json.loads(printed.out)["partitions"]
        }
        assert found == {
            key: value for key, value in last.items() if key[0] == group and value is not None
        }


def test_the_table_names_members_and_what_changed(capsys, out, recording):
    group = max(groups(recording), key=lambda name: sum(
        row["group"] == name for row in whole(recording.name).generations
    ))  # fmt: skip
    code, printed = shown(capsys, out, group, "--last", "5")
    assert code == 0
    lines = printed.out.splitlines()
    assert lines[0].split() == ["TIME", "EVENT", "GENERATION", "#MEMBERS", "CHANGES"]
    assert "earlier events are not shown" in printed.err
    assert any(line.startswith("TOPIC") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["GROUP", "--at", "2026-01-31T10:42"], 2, "--at 2026-01-31T10:42: has no zone"),
        (["GROUP", "--at", "noon"], 2, "--at noon: is not a time in ISO 8601 with a zone"),
        (["GROUP", "--last", "0"], 2, "--last 0: is not a number of events"),
        (["GROUP", "--output", "xml"], 2, "--output xml"),
        (["no-such-group"], 1, "group no-such-group has no record in"),
    ],
)
def test_a_wrong_argument_is_named(capsys, out, recording, arguments, code, text):
    group = groups(recording)[0]
    words = [group if word == "GROUP" else word for word in arguments]
    result, printed = shown(capsys, out, *words)
    assert (result, text in printed.err) == (code, True), printed.err


def test_a_near_group_is_offered(capsys, out, recording):
    group = groups(recording)[0]
    code, printed = shown(capsys, out, f"{group}x")
    assert code == 1
    assert f"did you mean {group}?" in printed.err


def test_a_directory_of_something_else_is_refused(capsys, tmp_path):
    code, printed = shown(capsys, tmp_path / "nowhere", "billing")
    assert code == 2
    assert "is not the directory of a history: it is empty" in printed.err
    (tmp_path / "notes").touch()
    code, printed = shown(capsys, tmp_path, "billing")
    assert code == 2
    assert "it has no _history.json" in printed.err


@pytest.mark.parametrize(
    ("pattern", "damaged"),
    [
        ("commits/*.parquet", lambda data: data[:-100]),
        ("commits/*.parquet", lambda data: data[:8]),
        ("state/*/*.arrow", lambda data: data[: len(data) // 2]),
        ("_batches/*.json", lambda data: b"[]"),
        ("_batches/*.json", lambda data: re.sub(rb'(_partitions": ){.*?}}', rb"\1[]", data)),
    ],
    ids=["a cut table", "hardly a table", "a cut state", "another JSON", "a list for a map"],
)  # fmt: skip
def test_a_damaged_file_is_named(capsys, out, recording, tmp_path, pattern, damaged):
    broken = tmp_path / "broken"
    shutil.copytree(out, broken)
    for path in broken.glob(pattern):
        path.write_bytes(damaged(path.read_bytes()))
    for group in groups(recording):
        code, printed = shown(capsys, broken, group)
        assert code == 1
        assert pattern.partition("/")[0] in printed.err
        assert "Traceback" not in printed.err


def test_a_history_that_began_after_compaction_is_incomplete(capsys, compacted, recording):
    codes = {shown(capsys, compacted, group)[0] for group in groups(recording)}
    assert codes <= {0, 1, 3}


def partitions(capsys, out, group, *options):
    """Code, certainty of all, and (committed, certainty) of each partition."""
    code, printed = shown(capsys, out, group, "--output", "json", *options)
    found = json.loads(printed.out)
    rows = [(row["committed"], row["certainty"]) for row in found["partitions"]]
    return code, found["certainty"], rows


def test_offsets_behind_a_later_gap_are_unknown_up_to_the_next_record(capsys, tmp_path):
    build_parts([COMPLETE, BEHIND[:2]], tmp_path / "idle")
    build_parts([COMPLETE, BEHIND], tmp_path / "back")
    idle, back = tmp_path / "idle", tmp_path / "back"
    assert partitions(capsys, idle, "busy") == (0, "exact", [(51, "exact")])
    assert partitions(capsys, idle, "idle") == (3, "unknown", [(None, "unknown")])
    assert partitions(capsys, back, "idle") == (0, "exact", [(8, "exact")])
    at = ("--at", "1970-01-01T00:01:41Z")
    assert partitions(capsys, back, "idle", *at) == (3, "unknown", [(None, "unknown")])
    at = ("--at", "1970-01-01T00:00:03Z")
    assert partitions(capsys, back, "busy", *at)[2] == [(None, "unknown")]
    _, printed = shown(capsys, idle, "idle")
    assert "CERTAINTY" in printed.out
    assert "incomplete: 1 of the committed offsets are unknown" in printed.err


def test_an_offset_behind_which_a_record_cannot_be_decoded_is_unknown(capsys, tmp_path):
    build_parts([[*COMPLETE, unreadable(3, "idle")]], tmp_path / "h")
    assert partitions(capsys, tmp_path / "h", "idle") == (3, "unknown", [(None, "unknown")])
    assert partitions(capsys, tmp_path / "h", "busy") == (0, "exact", [(2, "exact")])
    _, printed = shown(capsys, tmp_path / "h", "idle")
    assert "1 of the committed offsets are unknown" in printed.err
    assert "cannot be decoded" in printed.err


def test_a_group_in_several_log_partitions_is_shown_with_a_warning(capsys, tmp_path):
    logs = {
        number: pa.Table.from_batches([batch_of([commit(offset, "g", 5) | {"partition": number}])])
        for number, offset in ((1, 0), (3, 7))
    }
    build_logs(logs, tmp_path / "h")
    code, printed = shown(capsys, tmp_path / "h", "g", "--output", "json")
    found = json.loads(printed.out)
    assert code == 3  # offsets before 7 are missing
    assert (found["log_partition"], found["other_log_partitions"]) == (3, [1])
    assert "group g has records in several log partitions" in printed.err


@pytest.mark.parametrize("command", [("show", "busy"), ("audit", "busy"), ("check",)])
def test_a_state_of_an_earlier_version_is_refused_with_what_to_do(capsys, tmp_path, command):
    build_parts([COMPLETE], tmp_path / "h")
    (state,) = (tmp_path / "h" / "state" / str(LOG_PARTITION)).iterdir()
    data = state.read_bytes()
    state.write_bytes(data[:8] + (1).to_bytes(2, "big") + data[10:])
    name, *group = command
    assert run(["history", name, str(tmp_path / "h"), *group]) == 1
    assert "has version 1, this program reads version" in (error := capsys.readouterr().err)
    assert error.strip().endswith("build the history into another directory")


def test_behind_data_loss_a_group_may_have_had_offsets_before_its_first_commit(capsys, tmp_path):
    log = [COMPLETE, [*BEHIND[:2], commit(102, "busy", 52), commit(103, "new", 1)]]
    for name, log_start, expected in (
        ("compacted", 0, (0, "exact", [])),
        ("lost", 100, (3, "unknown", [(None, "unknown")])),
    ):
        build_parts(log, tmp_path / name, log_start)
        at = ("--at", "1970-01-01T00:01:42Z")
        assert partitions(capsys, tmp_path / name, "new", *at) == expected


# --- logs that no coordinator wrote


def commit_at(offset, time_ms, committed, *, group="g", topic="t", commit_time=0):
    value = None
    if committed is not None:
        value = OffsetCommitValue(committed, -1, "", commit_time)
    return record_at(offset, time_ms, OffsetCommitRecord(OffsetCommitKey(group, topic, 0), value))


def record_at(offset, time_ms, record):
    key, value = encode(record)
    return {
        "partition": 0, "offset": offset, "timestamp": time_ms * 1000, "batchOffset": offset,
        "transactional": False, "key": key, "value": value,
    }  # fmt: skip


def history_of(directory, *records):
    files = LocalFiles(directory)

    def read(_):
        return [pa.RecordBatch.from_pylist(list(records), RECORDS)]

    def run_tasks(tasks):
        return [fold_ranges(files, ranges, read) for ranges in tasks]

    with opened_for_writing(files, 0) as history:
        ranges = planned(history.current, {}, {0: len(records)})
        add_batch(history, ranges, run_tasks, tasks=1, now_ms=0)
    return str(directory)


def test_a_tombstone_whose_cause_is_open_is_later_than_the_time(capsys, tmp_path):
    """It waits in the state, and no stored row is later."""
    out = history_of(tmp_path, commit_at(0, START_MS, 7), commit_at(1, START_MS + 60_000, None))
    then = datetime.fromtimestamp(START_MS / 1000 + 30, UTC).isoformat()
    assert run(["history", "show", out, "g", "--at", then, "--output", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["events"] == []
    assert [row["committed"] for row in shown["partitions"]] == [7]
    assert run(["history", "show", out, "g", "--output", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [event["event"] for event in shown["events"]] == ["removed"]
    assert shown["partitions"] == []


@pytest.mark.parametrize("ms", [2**53, -(2**53), 253_402_300_800_000, -62_135_596_800_001, -1, -5])
def test_a_time_that_no_calendar_has_is_unknown(capsys, tmp_path, ms):
    """And it does not become the time of the log, behind which `--at` would see nothing."""
    generation = classic(1, {"a": [0]}, joined=ms)
    out = history_of(
        tmp_path,
        commit_at(0, ms, 7, commit_time=ms),
        record_at(1, ms, generation),
        commit_at(2, ms, 5),
        commit_at(3, START_MS, 6),
        commit_at(4, START_MS + 1_000, 4),
    )
    at = datetime.fromtimestamp(START_MS / 1000, UTC).isoformat()
    for arguments, last in (([], 4), (["--at", at], 6)):
        assert run(["history", "show", out, "g", "--output", "json", *arguments]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [row["committed"] for row in shown["partitions"]] == [last]
        assert [event["time"] for event in shown["events"]][:2] == [None, None]
    assert run(["history", "show", out, "g"]) == 0


@pytest.mark.parametrize("group", ["\udcff", "x" * 40_000, "", "../../x"])
def test_a_group_that_cannot_be_there_is_not_there(capsys, out, group):
    assert run(["history", "show", str(out), group]) == 1
    assert "has no record in" in capsys.readouterr().err


def test_show_prints_no_terminal_controls(capsys, tmp_path):
    evil = "\x1b]0;evil\x07\u202e\x9b2J"
    out = history_of(
        tmp_path,
        commit_at(0, START_MS, 7, group=evil, topic=evil),
        record_at(1, START_MS, classic(1, {evil: [0]}, joined=START_MS, group=evil)),
        commit_at(2, START_MS, 5, group=evil, topic=evil),
    )
    assert run(["history", "show", out, evil]) == 0
    printed = capsys.readouterr().out
    assert "rewind" in printed
    assert all(character.isprintable() or character == "\n" for character in printed)
