"""Faults of groups on an Apache Kafka are found by its log; groups without a fault have none."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

import pytest

from history.built import build_logs
from interop.planted import CALM, PLANTED, SETTINGS, group_of, play
from interop.planted_site import THRESHOLDS, Plan
from interop.targets import ApacheKafka
from interop.tools import Tools
from kohort.findings.finding import Finding
from kohort.history.group_fold import GroupOptions
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.finding_search import search_groups
from kohort.history_files.samples import add_samples
from peers import kafka

pytestmark = [pytest.mark.interop, pytest.mark.clients]

SUBJECTS = {
    "out-of-poll-loop": "slow at 127.0.0.1",
    "zombie-commit": "zombie-0",
    "rewind": "rewound",
    "manual-reset": "reset",
    "hot-partition": "hot-0",
    "uneven-assignment": "a at 127.0.0.1",
    "idle-member": "b at 127.0.0.1",
    "unassigned": "unassigned",
    "stuck-commit": "stuck-0",
    "session-too-short": "worker at 127.0.0.1",
    "stranger": "rdkafka at 127.0.0.2",
    "too-often": "often",
    "too-rarely": "rare",
    "topic-recreated": "recreated",
    "stopped": "halted-1",
    "zombie-member": "b at 127.0.0.1",
    "max-lag": "behind",
    "never-commits": "a at 127.0.0.1",
    "data-loss": "lost-0",
}
"""What these findings are about."""

Found = Mapping[str, list[Finding]]


@pytest.fixture(scope="module")
def found(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The findings of each group."""
    if reason := kafka.missing_tools():
        pytest.skip(reason)
    node = ApacheKafka(kafka.free_port(1), SETTINGS)
    try:
        node.warm_up()
        played = asyncio.run(play(node.address, tools))
    finally:
        node.stop()
    directory = tmp_path_factory.mktemp("planted") / "out"
    build_logs(played.records, directory, options=GroupOptions())
    files = LocalFiles(directory)
    with opened_for_writing(files, 0) as history:
        add_samples(history, played.samples, 0)
    by_group: dict[str, list[Finding]] = defaultdict(list)
    for finding in search_groups(HistoryDirectory(files), THRESHOLDS).findings:
        by_group[finding.group].append(finding)
    return by_group


@pytest.mark.parametrize("plan", PLANTED, ids=group_of)
def test_a_planted_fault_is_found_and_nothing_else(found: Found, plan: Plan) -> None:
    of_group = found.get(group_of(plan), [])
    assert {finding.id for finding in of_group} == PLANTED[plan], of_group
    for finding in of_group:
        assert finding.subject == SUBJECTS.get(finding.id, finding.subject), finding
        assert finding.evidence


@pytest.mark.parametrize("plan", CALM, ids=group_of)
def test_a_group_without_a_fault_has_no_findings(found: Found, plan: Plan) -> None:
    assert found.get(group_of(plan), []) == []


def test_a_flapping_member_is_named(found: Found) -> None:
    (flapping,) = (each for each in found["flapping"] if each.id == "flapping-member")
    assert flapping.subject == "worker at 127.0.0.1"
    (instance,) = found["collision"]
    assert instance.subject == "till"
    assert "several processes with this group.instance.id look the same" in instance.text


def test_offsets_that_a_deleted_topic_took_along_are_not_named(found: Found) -> None:
    (recreated,) = found["recreated"]
    assert recreated.severity == "info"
    assert "is that of" not in recreated.text


def test_no_other_group_has_findings(found: Found) -> None:
    assert found.keys() <= {group_of(plan) for plan in (*PLANTED, *CALM)}
