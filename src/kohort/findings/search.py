"""`find`: the findings of a group."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from kohort.findings.assignment_rules import ASSIGNMENT_RULES
from kohort.findings.commit_rules import COMMIT_RULES
from kohort.findings.facts import Facts, History
from kohort.findings.finding import SEVERITIES, Finding
from kohort.findings.lag_rules import LAG_RULES
from kohort.findings.member_rules import MEMBER_RULES
from kohort.findings.rebalance_rules import REBALANCE_RULES
from kohort.findings.thresholds import Thresholds

ALL_RULES = (
    *MEMBER_RULES,
    *REBALANCE_RULES,
    *COMMIT_RULES,
    *ASSIGNMENT_RULES,
    *LAG_RULES,
)
"""Functions by the ids of their rules, with "_" for "-"."""


def find(
    history: History,
    thresholds: Thresholds,
    at: datetime,
    ids: Collection[str] | None = None,
) -> list[Finding]:
    """All findings of a group, or those of the rules `ids`: the gravest first, then by time.

    `at`: the moment that the rows are as of.
    """
    facts = Facts(history, thresholds, at)
    found = [
        finding
        for rule in ALL_RULES
        if ids is None or id_of(rule.__name__) in ids
        for finding in rule(facts)
    ]
    return ordered(found)


def id_of(name: str) -> str:
    """The id of the rule of a function."""
    return name.replace("_", "-")


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first, then by group and time."""
    return sorted(
        findings,
        key=lambda each: (
            -SEVERITIES.index(each.severity),
            each.group,
            each.since,
            each.id,
            each.subject,
        ),
    )


def joined(findings: Iterable[Finding], earlier: Iterable[Finding]) -> list[Finding]:
    """`findings`, each with the begin of the earlier one that it continues.

    A window of the last hours moves on, so that the begin of a finding falls out of it. It is the
    same one as long as their times overlap.
    """
    known: dict[tuple[str, str, str], list[Finding]] = {}
    for each in earlier:
        known.setdefault((each.group, each.id, each.subject), []).append(each)
    return [
        _continued(each, known.get((each.group, each.id, each.subject), ())) for each in findings
    ]


def _continued(finding: Finding, earlier: Iterable[Finding]) -> Finding:
    from dataclasses import replace

    since = min(
        (
            each.since
            for each in earlier
            if each.until + _SLACK >= finding.since and each.since <= finding.until
        ),
        default=finding.since,
    )
    return finding if since >= finding.since else replace(finding, since=since)


_SLACK = timedelta(minutes=1)
