"""`kohort history audit`: who committed what, from where, and which commits were a reset."""

import csv
import io
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from cli.running import Outcome, Run, runner
from cli.test_hostile_names import HOSTILE, SHOWN, acts
from history.built import build, build_logs
from history.folded import whole
from history.group_log_builder import Log
from history.offset_logs import LOG_PARTITION, batch_of
from history.recorded import load
from history.test_gaps import commit, unreadable
from kohort.coordinator.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from kohort.history.schema import RECORDS

MS = 1_769_860_800_000
"""2026-01-31T12:00:00Z."""
SECOND = 1_000


def written(log: Log, directory: Path, first: int = 0) -> Path:
    """The history of a log from this offset on."""
    rows = [
        {
            "key": record.key,
            "value": record.value,
            "partition": 0,
            "offset": record.at.offset,
            "timestamp": record.at.timestamp * 1000,
            "batchOffset": record.at.batch_offset,
            "partitionLeaderEpoch": 0,
            "transactional": False,
        }
        for record in log.records[first:]
    ]
    build_logs({0: pa.Table.from_pylist(rows, RECORDS)}, directory)
    return directory


def story(member: str = "m", metadata: str = "") -> Log:
    """A member works for five seconds, and leaves. A tool sets its offsets back. It works again."""
    log = Log()
    log.classic(MS, 1, {member: [0, 1, 2]})
    for second in range(1, 6):
        log.commit(MS + second * SECOND, 0, 1, 2, offset=10 * second)
    log.classic(MS + 6 * SECOND, 2)
    value = OffsetCommitValue(5, -1, metadata, MS + 7 * SECOND)
    keys = [OffsetCommitKey("g", "t", partition) for partition in (0, 1)]
    log.write(MS + 7 * SECOND, *(OffsetCommitRecord(key, value) for key in keys))
    log.classic(MS + 8 * SECOND, 3, {member: [0, 1, 2]})
    log.commit(MS + 9 * SECOND, 0, 1, 2, offset=60)
    return log


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


def audit(run: Run, directory: Path, *words: str, group: str = "g") -> Outcome:
    return run("history", "audit", str(directory), group, *words)


def test_each_commit_has_its_owner_marked_as_inferred_and_resets_stand_out(
    run: Run, tmp_path: Path
) -> None:
    told = audit(run, written(story(), tmp_path / "h"))
    assert told.exit_code == 0, told.stderr
    lines = told.output.splitlines()[1:]
    assert len(lines) == 5 * 3 + 2 + 3
    assert all("m (inferred)  client-m   /host" in line for line in lines[:15])
    for line in lines[15:17]:
        assert line.split()[3:7] == ["RESET", "50", "5", "outside"]
    assert not any("RESET" in line for line in (*lines[:15], *lines[17:]))
    assert told.stderr == (
        "kohort: reset at 2026-01-31T12:00:07.000Z: topic t, 2 of 3 partitions: "
        "0: 50 → 5, 1: 50 → 5\n"
    )


def test_json_has_every_field_and_csv_has_what_the_table_has(run: Run, tmp_path: Path) -> None:
    directory = written(story(metadata="by hand"), tmp_path / "h")
    told = audit(run, directory, "--output", "json").json
    first, reset = told["commits"][0], told["commits"][15]
    assert first["owner"] == {
        "member_id": "m",
        "client_id": "client-m",
        "client_host": "/host",
        "generation": 1,
        "inferred": True,
    }
    assert (reset["owner"], reset["origin"], reset["reset"]) == (None, "outside", True)
    assert (reset["previous"], reset["committed"], reset["metadata"]) == (50, 5, "by hand")
    assert [len(each["partitions"]) for each in told["resets"]] == [2]
    rows = list(csv.DictReader(io.StringIO(audit(run, directory, "--output", "csv").output)))
    assert len(rows) == len(told["commits"])
    assert rows[15]["kind"] == "RESET"


def test_times_and_partitions_choose_commits_and_their_resets(run: Run, tmp_path: Path) -> None:
    directory = written(story(), tmp_path / "h")

    def chosen(*words: str) -> tuple[list[int], int]:
        told = audit(run, directory, *words, "--output", "json").json
        return [commit["committed"] for commit in told["commits"]], len(told["resets"])

    at = "2026-01-31T12:00:0"
    assert chosen("--since", f"{at}7Z", "--until", f"{at}8Z") == ([5, 5], 1)
    assert chosen("--until", f"{at}1Z") == ([10, 10, 10], 0)
    assert chosen("--since", f"{at}9Z") == ([60, 60, 60], 0)
    assert chosen("--topic", "t:1", "--since", f"{at}5Z") == ([50, 5, 60], 1)
    assert chosen("--topic", "other") == ([], 0)


def test_a_history_that_lacks_records_of_the_time_is_incomplete(run: Run, tmp_path: Path) -> None:
    """Keys repeat from the fifth second on: from there on nothing is missing."""
    directory = written(story(), tmp_path / "h", first=10)
    told = audit(run, directory)
    assert told.exit_code == 3
    assert "incomplete: records were removed before they were collected" in told.stderr
    assert "first?" in told.output
    assert audit(run, directory, "--since", "2026-01-31T12:00:09Z").exit_code == 0


def test_hostile_ids_and_metadata_reach_no_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = written(story(HOSTILE, HOSTILE), tmp_path / "h")
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setenv("TERM", "dumb")
        told = audit(run, directory)
        assert acts(told.output + told.stderr) == []
        assert told.output.count(f"client-{SHOWN}") == 18
        assert told.output.count(f"{SHOWN} (inferred)") == 18
    commits = audit(run, directory, "--output", "json").json["commits"]
    assert commits[0]["owner"]["client_id"] == f"client-{HOSTILE}"
    assert commits[15]["metadata"] == HOSTILE


@pytest.mark.parametrize("name", ["classic", "offsets"])
def test_commits_of_a_recorded_log_are_those_of_the_fold(
    run: Run, tmp_path: Path, name: str
) -> None:
    recording = load(name)
    build(recording, tmp_path / "h")
    rows = [row for row in whole(name).commits if row["in_force"] is not None]
    for group in sorted({row["group"] for row in rows if row["group"]}):
        told = audit(run, tmp_path / "h", "--output", "json", group=group)
        assert told.exit_code == 0
        places = [row["log_offset"] for row in told.json["commits"]]
        assert sorted(places) == sorted(row["log_offset"] for row in rows if row["group"] == group)
        for reset in told.json["resets"]:
            assert 2 * len(reset["partitions"]) >= reset["known_partitions"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--since", "2026-01-31T10:42"), 2, "--since 2026-01-31T10:42: has no zone"),
        (("--until", "noon"), 2, "--until noon: is not a time"),
        (("--since", "2026-01-31T10:42Z", "--until", "2026-01-30T10:42Z"), 2, "is after --until"),
        (("--topic", "t:x"), 2, "partitions are numbers"),
        (("--output", "xml"), 2, "--output xml"),
    ],
)
def test_a_wrong_argument_is_named(
    run: Run, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = audit(run, written(story(), tmp_path / "h"), *words)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr


def test_an_unknown_group_has_a_hint(run: Run, tmp_path: Path) -> None:
    log = story()
    log.classic(MS + 10 * SECOND, 1, {"m": [0]}, group="billing")
    refused = audit(run, written(log, tmp_path / "h"), group="biling")
    assert (refused.exit_code, "did you mean billing?" in refused.stderr) == (1, True)


def test_a_commit_that_cannot_be_decoded_is_shown_and_the_next_one_is_doubted(
    run: Run, tmp_path: Path
) -> None:
    log = [commit(0, "g", 5), unreadable(1, "g"), commit(2, "g", 9), commit(3, "g", 10)]
    records = pa.Table.from_batches([batch_of(log)])
    build_logs({LOG_PARTITION: records}, tmp_path / "h")
    told = audit(run, tmp_path / "h")
    assert told.exit_code == 0, told.stderr
    kinds = [line.split()[3] for line in told.output.splitlines()[1:]]
    assert kinds == ["first", "unreadable", "advance?", "advance"]
    rows = audit(run, tmp_path / "h", "--output", "json").json["commits"]
    assert [row["certainty"] for row in rows] == ["exact", None, "unknown", "exact"]
    assert "version" in rows[1]["error"]
    assert rows[1]["time"] == "1970-01-01T00:00:01.000Z"
    later = audit(run, tmp_path / "h", "--since", "1970-01-01T00:00:02Z")
    assert len(later.output.splitlines()) == 1 + 2
