"""The table `findings` of a history: what micro-batches find, each finding once."""

from dataclasses import replace

import pytest

from findings.group_log import GROUP, GroupLog, at
from findings.test_commit_rules import group as quiet_group
from findings.test_member_rules import flapping
from history.offset_logs import batch_of
from kohort.findings.finding import Finding
from kohort.findings.search import joined
from kohort.history_files.building import add_batch, planned
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.finding_files import (
    add_findings,
    changed_groups,
    stored_findings,
    unsearched_groups,
)
from kohort.history_files.folding import fold_ranges
from kohort.history_files.merging import merge, remove_older

DAY_MS = 24 * 3_600_000


class Builds:
    """Builds the history of a log, batch by batch."""

    def __init__(self, directory, log: GroupLog) -> None:
        self.log, self.files = log, LocalFiles(directory)

    def _read(self, log_range):
        yield batch_of(self.log.rows[log_range.start : log_range.end])

    def _run(self, tasks):
        return [fold_ranges(self.files, ranges, self._read) for ranges in tasks]

    def add(self, end: int, now_ms: int = 0) -> int:
        """A batch up to this offset; the number of files of findings that it wrote."""
        with opened_for_writing(self.files, now_ms) as history:
            before = set(history.current.paths())
            self.fold(history, end)
            new = [file for file in history.current.files if file.path not in before]
            return len(add_findings(history, changed_groups(history, new), now_ms))

    def fold(self, history, end: int) -> None:
        ranges = planned(history.current, {}, {self.log.rows[0]["partition"]: end})
        add_batch(history, ranges, self._run, tasks=1, now_ms=0)

    def findings(self):
        return stored_findings(HistoryDirectory(self.files))


@pytest.fixture
def log():
    return flapping(6)


def test_a_batch_writes_what_it_finds(tmp_path, log):
    builds = Builds(tmp_path / "out", log)
    assert builds.add(len(log.rows)) == 1
    found = {each.id: each for each in builds.findings()}
    assert found["flapping-member"].group == GROUP
    assert found["flapping-member"].evidence
    assert found["flapping-member"].since == at(3_600)


def test_a_finding_that_goes_on_is_there_once(tmp_path, log):
    builds = Builds(tmp_path / "out", log)
    for share in (0.9, 0.95, 1.0):
        builds.add(int(len(log.rows) * share))
    (finding,) = [each for each in builds.findings() if each.id == "flapping-member"]
    assert "joined 6 times" in finding.text


def test_a_batch_without_news_writes_nothing(tmp_path, log):
    builds = Builds(tmp_path / "out", log)
    builds.add(len(log.rows) - 1)
    assert builds.add(len(log.rows)) == 0


def test_findings_are_merged_and_removed_as_other_rows(tmp_path, log):
    builds = Builds(tmp_path / "out", log)
    builds.add(len(log.rows) - 200)
    builds.add(len(log.rows))
    expected = builds.findings()
    now_ms = int(at(0).timestamp() * 1000) + 3 * DAY_MS
    with opened_for_writing(builds.files, now_ms) as history:
        merge(history, now_ms)
    assert builds.findings() == expected
    with opened_for_writing(builds.files, now_ms) as history:
        remove_older(history, now_ms, now_ms)
    assert builds.findings() == []


def test_a_killed_build_leaves_no_findings(tmp_path, log):
    builds = Builds(tmp_path / "out", log)
    builds.add(len(log.rows))
    (tmp_path / "out" / "findings" / "found-0-00-1.parquet").write_bytes(b"x")
    with opened_for_writing(builds.files, 0):
        pass
    assert len(list((tmp_path / "out" / "findings").iterdir())) == 1


# --- what was searched


def test_groups_are_unsearched_until_a_search_even_if_that_finds_nothing(tmp_path):
    builds = Builds(tmp_path / "out", quiet_group())
    with opened_for_writing(builds.files, 0) as history:
        builds.fold(history, len(builds.log.rows))
        assert not history.current.is_searched
        assert unsearched_groups(history) == {GROUP}
        assert add_findings(history, {GROUP}, 0) == []
        assert unsearched_groups(history) == set()
    snapshot = HistoryDirectory(builds.files).snapshot()
    assert snapshot.searched == snapshot.ends() != {}


def test_only_groups_behind_the_last_search_are_unsearched(tmp_path):
    log, other = quiet_group(), GroupLog(group="audit", now=3 * 3_600)
    first = len(log.rows)
    other.join("app-0")
    other.work(600)
    log.rows += [
        row | {"offset": first + row["offset"], "batchOffset": first + row["batchOffset"]}
        for row in other.rows
    ]
    builds = Builds(tmp_path / "out", log)
    builds.add(first)
    with opened_for_writing(builds.files, 0) as history:
        builds.fold(history, len(log.rows))
        assert unsearched_groups(history) == {"audit"}


# --- `joined`

FINDING = Finding(
    id="stopped", group=GROUP, subject="orders-0", since=at(100), until=at(200),
    severity="error", text="It stopped.",
)  # fmt: skip


def test_a_finding_whose_begin_has_left_the_window_keeps_it():
    later = replace(FINDING, since=at(150), until=at(300))
    assert joined([later], [FINDING]) == [replace(later, since=at(100))]


@pytest.mark.parametrize(
    "changes",
    [{"since": at(300), "until": at(400)}, {"subject": "orders-1"}, {"id": "rewind"},
     {"group": "other"}],
    ids=["later", "another subject", "another rule", "another group"],
)  # fmt: skip
def test_another_finding_keeps_its_own_begin(changes):
    other = replace(FINDING, **{"since": at(150)} | changes)
    assert joined([other], [FINDING]) == [other]
