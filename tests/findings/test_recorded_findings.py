"""Findings in logs that Apache Kafka 4.4 wrote for Java, librdkafka, franz-go and our own clients.

The recorded scenarios do much in a few minutes: members are started, killed and stalled, offsets
are reset. So the findings here are right, and there are no others.
"""

import pytest

from history.built import build
from history.recorded import load
from kohort.findings.thresholds import Thresholds
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.finding_search import SearchResult, search_groups

COMMITS_EACH_RECORD = {
    # Records come at 2 a second for all partitions of a topic; these clients commit each poll.
    "classic": {("cooperative", "payments"), ("eager", "orders"), ("stalled", "views"),
                ("static", "clicks")},
    "consumer": {("converted", "rides"), ("new", "trips"), ("resident", "stays")},
    "offsets": set(),
}  # fmt: skip
STORMS = {
    # Three members are started, one after the other; one leaves, one is killed, the broker is
    # restarted, one more joins: 7 to 9 rebalances in 100 s, more than a restart of each member.
    "classic": {"cooperative", "eager", "stalled"},
    # The same, and the group is converted to KIP-848 and back.
    "consumer": {"converted"},
    "offsets": set(),
}


def search(name: str, log: str, directory) -> SearchResult:
    build(load(name), directory / "out", log)
    return search_groups(HistoryDirectory(LocalFiles(directory / "out")), Thresholds())


@pytest.mark.parametrize("name", sorted(STORMS))
def test_findings_are_what_was_done_to_the_clients(name, tmp_path):
    found = [
        (each.group, each.id, each.subject) for each in search(name, "whole", tmp_path).findings
    ]
    expected = [(group, "too-often", topic) for group, topic in COMMITS_EACH_RECORD[name]]
    expected += [(group, "rebalance-storm", "") for group in STORMS[name]]
    if name == "classic":  # It slept for 22 s with a max.poll.interval.ms of 15 s.
        expected.append(("stalled", "out-of-poll-loop", "stalled-java at 127.0.0.1"))
    if name == "offsets":  # kafka-consumer-groups --to-earliest, then --shift-by 2.
        expected += [("billing", "manual-reset", "orders")] * 2
    assert sorted(found) == sorted(expected)


def test_the_stalled_member_is_found_with_its_timeout(tmp_path):
    (finding,) = [
        each
        for each in search("classic", "whole", tmp_path).findings
        if each.id == "out-of-poll-loop"
    ]
    assert (
        "longest time without a commit was 15 s, with max.poll.interval.ms of 15 s" in finding.text
    )


def test_groups_of_single_requests_have_few_findings(tmp_path):
    """407 groups, each with the requests of one scenario of the conformance suite."""
    found = {(each.group, each.id) for each in search("others", "whole", tmp_path).findings}
    assert found == {
        # Nobody but a tool commits without members; each sets an offset once.
        ("commits.after-everybody-left-group", "manual-reset"),
        ("commits.backwards-group", "manual-reset"),
        # One instance joins again by each version of JoinGroup.
        ("static-members.restart-of-a-follower-by-version-group", "flapping-member"),
        ("static-members.restart-of-the-leader-before-version-9-group", "flapping-member"),
        # Two or three members change their subscriptions within seconds.
        ("consumer-leaving.static-member-for-good-group", "rebalance-storm"),
        ("consumer-reconciling.assignors-that-bump-nothing-group", "rebalance-storm"),
        ("consumer-reconciling.sheds-while-revoking-group", "rebalance-storm"),
        ("syncing.old-versions-name-no-protocol-group", "rebalance-storm"),
    }


@pytest.mark.parametrize("name", sorted(STORMS))
def test_compaction_hides_findings_and_makes_none(name, tmp_path):
    result = search(name, "compacted", tmp_path)
    assert result.incomplete == result.groups
    whole = search(name, "whole", tmp_path / "whole").findings
    known = {(each.group, each.id, each.subject) for each in whole}
    assert {(each.group, each.id, each.subject) for each in result.findings} <= known
