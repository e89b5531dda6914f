"""Findings that builds write: in the groups that they changed, as often as time allows."""

import logging

import pytest

from findings.group_log import GROUP
from findings.test_member_rules import flapping
from history.test_finding_files import Builds
from kohort.history_files.directory import opened_for_writing
from kohort.history_files.finding_files import stored_findings
from kohort.spark import history
from kohort.spark.history import finding
from kohort.spark.history.finding import FindingSearch


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


@pytest.mark.clients
def test_a_build_writes_findings_and_read_shows_each_once(session, builds, tmp_path):
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
