"""`kohort history show` on the history of a log that Apache Kafka wrote."""

import json
import re
import shutil
from datetime import UTC, datetime

import pytest

from history.built import build
from history.folded import ends_of, folded, whole
from history.recorded import load
from kohort.cli.app import run
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.reading import GroupReader


@pytest.fixture(scope="module")
def recording():
    return load("classic")


@pytest.fixture(scope="module")
def out(recording, tmp_path_factory):
    directory = tmp_path_factory.mktemp("history") / "out"
    build(recording, directory)
    return directory


@pytest.fixture(scope="module")
def compacted(recording, tmp_path_factory):
    directory = tmp_path_factory.mktemp("history") / "compacted"
    build(recording, directory, "compacted")
    return directory


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
