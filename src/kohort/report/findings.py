"""Findings as the page shows them: the worst first, with the time and the words."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from kohort.report.names import shown
from kohort.report.spans import Span, clock_range, milliseconds

SEVERITIES: Final = ("error", "warning", "info")
"""The worst first. Others count as the last one."""
_LONGEST_TEXT: Final = 600


class Finding(Protocol):
    """What a page needs of a finding."""

    @property
    def id(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def since(self) -> datetime: ...
    @property
    def until(self) -> datetime | None: ...
    @property
    def severity(self) -> str: ...
    @property
    def text(self) -> str: ...


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
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES) - 1


def finding_views(findings: Iterable[Finding], span: Span) -> list[FindingView]:
    """The findings, the worst first, then by time."""
    ordered = sorted(findings, key=lambda one: (severity_rank(one.severity), one.since))
    return [_view(finding, span) for finding in ordered]


def _view(finding: Finding, span: Span) -> FindingView:
    since = milliseconds(finding.since)
    until = span.until if finding.until is None else milliseconds(finding.until)
    return FindingView(
        severity=SEVERITIES[severity_rank(finding.severity)],
        id=shown(finding.id),
        subject=shown(finding.subject),
        when=clock_range(since, max(until, since)),
        text=shown(finding.text, _LONGEST_TEXT),
        begin=span.position(since),
    )
