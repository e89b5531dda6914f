"""Findings as the page shows them: the worst first, with the time and the words."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kohort.findings.finding import SEVERITIES as FROM_THE_LEAST
from kohort.findings.finding import Finding
from kohort.report.names import shown
from kohort.report.spans import Span, clock_range, milliseconds

SEVERITIES: Final = tuple(reversed(FROM_THE_LEAST))
"""The worst first."""
_LONGEST_TEXT: Final = 600


@dataclass(frozen=True, slots=True)
class FindingView:
    severity: str
    id: str
    subject: str
    when: str
    text: str
    begin: float
    """Where it begins in the charts, as a share of the width."""


def severity_rank(severity: str) -> int:
    """0: the worst."""
    return SEVERITIES.index(severity)


def finding_views(findings: Iterable[Finding], span: Span, most: int) -> list[FindingView]:
    """The findings, the worst first, then by time; at most so many."""
    ordered = sorted(findings, key=lambda one: (severity_rank(one.severity), one.since))
    return [_view(finding, span) for finding in ordered[:most]]


def _view(finding: Finding, span: Span) -> FindingView:
    since = milliseconds(finding.since)
    until = max(milliseconds(finding.until), since)
    return FindingView(
        severity=finding.severity,
        id=shown(finding.id),
        subject=shown(finding.subject) if finding.subject else "",
        when=clock_range(since, until),
        text=shown(finding.text, _LONGEST_TEXT),
        begin=span.position(since),
    )
