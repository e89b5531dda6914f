"""Findings that builds write: in the groups that they changed, as often as time allows."""

import logging

import pytest

from findings.group_log import GROUP, sampled
from findings.test_commit_rules import group as quiet_group
from findings.test_lag_rules import growing
from findings.test_member_rules import flapping
from history.test_finding_files import Builds
from kohort.history_files.directory import opened_for_writing
from kohort.history_files.finding_files import stored_findings
from kohort.history_files.samples import add_samples
from kohort.spark import history
from kohort.spark.history import finding
from kohort.spark.history.finding import FIRST_LOOK_S, FindingSearch


@pytest.fixture
def builds(tmp_path):
    """A history that has not been searched."""
    return Builds(tmp_path / "out", flapping(6))


def test_a_batch_soon_after_a_long_search_is_searched_with_the_next_one(builds):
    seconds = iter([0.0, 0.0, 10.0, 20.0, 500.0, 501.0])
    with opened_for_writing(builds.files, 0) as directory:
        search = FindingSearch(directory, lambda: 0, lambda: next(seconds))
        builds.fold(directory, len(builds.log.rows) - 400)
        search.after_batch()
        first = stored_findings(directory)
        builds.fold(directory, len(builds.log.rows))
        search.after_batch()
        assert stored_findings(directory) == first
        search.after_batch()
        (found,) = [each for each in stored_findings(directory) if each.id == "flapping-member"]
    assert "joined 6 times" in found.text


def test_a_search_that_fails_leaves_the_history_whole(builds, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(finding, "add_findings", fail)
    with opened_for_writing(builds.files, 0) as directory, caplog.at_level(logging.ERROR):
        search = FindingSearch(directory, lambda: 0)
        builds.fold(directory, len(builds.log.rows))
        search.after_batch(at_once=True)
        assert directory.current.files
    assert "findings are missing; the other tables are whole" in caplog.text


def test_the_first_search_is_of_what_a_killed_build_left_too(builds):
    with opened_for_writing(builds.files, 0) as directory:
        builds.fold(directory, len(builds.log.rows))  # and is killed
    with opened_for_writing(builds.files, 0) as directory:
        FindingSearch(directory, lambda: 0).after_batch(at_once=True)
        assert "flapping-member" in {each.id for each in stored_findings(directory)}


def test_a_group_that_does_not_change_is_searched_after_ever_longer_times(builds, monkeypatch):
    clock, searches = [0.0], []
    monkeypatch.setattr(
        finding, "add_findings", lambda _, groups, *__: searches.append((clock[0], set(groups)))
    )
    with opened_for_writing(builds.files, 0) as directory:
        search = FindingSearch(directory, lambda: 0, lambda: clock[0])
        builds.fold(directory, len(builds.log.rows))
        for minute in range(2 * 24 * 60):
            clock[0] = 60.0 * minute
            search.after_batch()
            search.end_batch()
    assert {group for _, groups in searches for group in groups} == {GROUP}
    minutes = [int(seconds) // 60 for seconds, _ in searches]
    assert minutes == [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]


def test_a_group_that_stops_as_a_whole_is_found_by_its_samples(tmp_path):
    builds, clock = Builds(tmp_path / "out", quiet_group()), [0.0]
    with opened_for_writing(builds.files, 0) as directory:
        search = FindingSearch(directory, lambda: 0, lambda: clock[0])
        builds.fold(directory, len(builds.log.rows))
        search.after_batch()
        assert stored_findings(directory) == []
        stopped_at = builds.log.now
        builds.log.now += 300
        add_samples(directory, sampled(builds.log, growing, since=stopped_at).to_batches(), 0)
        clock[0] = FIRST_LOOK_S
        search.after_batch()
        found = {(each.id, each.subject) for each in stored_findings(directory)}
    assert found == {("stopped", f"orders-{number}") for number in range(6)}


@pytest.mark.clients
@pytest.mark.parametrize("rows_in_driver", [0, 10**9], ids=["in tasks", "in the driver"])
def test_a_build_writes_findings_and_read_shows_each_once(
    session, builds, tmp_path, monkeypatch, rows_in_driver
):
    monkeypatch.setattr(finding, "ROWS_IN_DRIVER", rows_in_driver)
    rows = [
        {name: row[name] for name in ("key", "value", "partition", "offset", "timestamp")}
        for row in builds.log.rows
    ]
    archive = session.createDataFrame(
        rows, "key binary, value binary, partition int, offset long, timestamp timestamp"
    )
    out = str(tmp_path / "built")
    for end in (len(rows) - 300, len(rows)):
        history.build(session, archive.where(f"offset < {end}"), out)
    tables = history.read(session, out)
    (row,) = tables.findings.where("id = 'flapping-member'").collect()
    assert (row["group"], row["severity"]) == (GROUP, "warning")
    assert "joined 6 times" in row["text"]
    assert row["evidence"][0]["log_partition"] == builds.log.rows[0]["partition"]
    assert tables.at("2026-01-31T06:30Z").findings.count() == 0
