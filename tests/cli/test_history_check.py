"""`kohort history check` on histories with planted faults, and on one of Apache Kafka's log."""

import json
from datetime import timedelta

import pytest

from cli.running import runner
from findings.group_log import GROUP, START, GroupLog
from findings.test_commit_rules import group as quiet_group
from findings.test_member_rules import flapping
from history.offset_logs import batch_of
from kohort.history_files import finding_search, group_history
from kohort.history_files.building import add_batch, planned
from kohort.history_files.directory import opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.folding import fold_ranges

HOUR = 3_600


def build(directory, log: GroupLog, *, without: range = range(0)) -> None:
    """Write the history of a log; `without`: offsets that compaction removed."""
    files = LocalFiles(directory)

    def read(log_range):
        rows = log.rows[log_range.start : log_range.end]
        yield batch_of([row for row in rows if row["offset"] not in without])

    def run(tasks):
        return [fold_ranges(files, ranges, read) for ranges in tasks]

    number = log.rows[0]["partition"]
    with opened_for_writing(files, 0) as history:
        ranges = planned(history.current, {}, {number: len(log.rows)})
        add_batch(history, ranges, run, tasks=1, now_ms=0)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    directory = tmp_path_factory.mktemp("faulty") / "out"
    log = flapping(5)
    log.leave(*log.members.values())
    log.now += 60
    log.commit(dict.fromkeys(range(6), 500))
    build(directory, log)
    return directory


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    directory = tmp_path_factory.mktemp("quiet") / "out"
    build(directory, quiet_group())
    return directory


@pytest.fixture
def check(capsys):
    run = runner(capsys)
    return lambda *words: run("history", "check", *map(str, words))


def test_a_fault_is_printed_with_what_to_do(check, faulty):
    ran = check(faulty)
    assert ran.exit_code == 3
    header, *lines = ran.output.splitlines()
    assert header.split() == ["SEVERITY", "GROUP", "FINDING", "SINCE", "UNTIL", "TEXT"]
    (line,) = [line for line in lines if "flapping-member" in line]
    assert "2026-01-31T07:00:00.000Z" in line
    assert "worker at 10.0.0.9 joined 5 times in 6 min; its members ended by: 5 × left." in line
    assert "Read the log of this client" in line


def test_a_history_without_faults_prints_nothing(check, quiet):
    ran = check(quiet)
    assert (ran.exit_code, ran.output, ran.stderr) == (0, "", "")
    ran = check(quiet, "--output", "json")
    assert (ran.exit_code, json.loads(ran.output)) == (0, [])


def test_a_group_with_too_many_commits_is_named(check, faulty, monkeypatch):
    monkeypatch.setattr(finding_search, "MOST_COMMITS", 5)
    monkeypatch.setattr(group_history, "PART_ROWS", 1)
    ran = check(faulty)
    assert f"{GROUP}: only its latest commits, from 2026-01-31T" in ran.stderr
    assert "--at searches earlier ones" in ran.stderr


def test_json_has_the_evidence(check, faulty):
    ran = check(faulty, GROUP, "--output", "json", "--severity", "info")
    found = {each["id"]: each for each in json.loads(ran.output)}
    reset = found["manual-reset"]
    assert reset["severity"] == "info"
    assert [place["log_partition"] for place in reset["evidence"]] == [3] * 6


def test_findings_of_lower_severity_are_counted_only(check, faulty):
    ran = check(faulty)
    assert "manual-reset" not in ran.output
    assert "of lower severity are not shown; --severity info does" in ran.stderr


def test_one_finding_can_be_asked_for(check, faulty):
    ran = check(faulty, "--finding", "manual-reset")
    assert (ran.exit_code, "manual-reset" in ran.output) == (3, True)
    assert "flapping-member" not in ran.output
    assert check(faulty, "--finding", "too-often").exit_code == 0


def test_another_threshold_finds_less(check, faulty):
    ran = check(faulty, "--finding", "flapping-member", "--set", "flapping-joins=6")
    assert (ran.exit_code, ran.output) == (0, "")


def test_the_history_is_checked_as_it_was(check, faulty):
    before = (START + timedelta(seconds=HOUR)).isoformat()
    assert check(faulty, "--at", before).exit_code == 0
    since = (START + timedelta(seconds=HOUR + 900)).isoformat()
    assert "flapping-member" not in check(faulty, "--since", since).output


def test_a_lag_without_samples_is_unknown(check, quiet):
    ran = check(quiet, "--max-lag", "10")
    assert ran.exit_code == 3
    assert f"the lag of {GROUP} is unknown: the history has no samples" in ran.stderr


def test_a_gap_of_the_log_may_hide_faults(check, tmp_path):
    log = quiet_group()
    build(tmp_path / "out", log, without=range(100, 200))
    ran = check(tmp_path / "out")
    assert (ran.exit_code, ran.output) == (3, "")
    assert f"incomplete: compaction had removed records of {GROUP}" in ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--finding", "flapping"], 2, "--finding flapping: is not one of"),
        (["--finding", "flapping"], 2, "did you mean flapping-member?"),
        (["--severity", "fatal"], 2, "--severity fatal: is not one of info | warning | error"),
        (["--set", "flaping_joins=3"], 2, "no such threshold; did you mean flapping_joins?"),
        (["--set", "flapping_joins=many"], 2, "'many' is not a whole number"),
        (["--set", "flapping_joins"], 2, "'' is not a whole number"),
        (["--set", "hot_share=nan"], 2, "is not a number from 0 on"),
        (["--max-lag", "-1"], 2, "--max-lag -1: is not a number from 0 on"),
        (["--at", "2026-01-31T10:42"], 2, "--at 2026-01-31T10:42: has no zone"),
        (["--since", "noon"], 2, "--since noon: is not a time"),
        (["--since", "2026-01-31T10:42Z", "--at", "2026-01-31T10:41Z"], 2, "is not before --at"),
        (["--since", "2100-01-31T10:42Z"], 2, "the history ends at"),
        (["no-such-group"], 1, "has no record of no-such-group"),
        (["--output", "xml"], 2, "--output xml"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(check, quiet, words, code, text):
    ran = check(quiet, *words)
    assert (ran.exit_code, text in ran.stderr) == (code, True), ran.stderr


def test_a_directory_of_something_else_is_refused(check, tmp_path):
    assert check(tmp_path / "nowhere").exit_code == 2
    with opened_for_writing(LocalFiles(tmp_path / "empty"), 0):
        pass
    ran = check(tmp_path / "empty")
    assert (ran.exit_code, "the history has no records yet" in ran.stderr) == (1, True)
