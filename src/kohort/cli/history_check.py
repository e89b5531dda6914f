"""Look for faults in the history of groups, and say what to do about them.

A fault is one of a list of rules (docs/history.md): members that flap, commits that are stuck,
partitions that nobody reads. Those of the last 24 hours of the history are shown, the gravest
first. --max-lag and --max-lag-seconds limit the lag of each partition; that needs samples in the
history. Spark is not needed.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.history_source import moment_of, with_history
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.errors import ConfigError
from kohort.findings.catalogue import RULES
from kohort.findings.finding import SEVERITIES
from kohort.findings.thresholds import Thresholds
from kohort.util.text import did_you_mean, join_names

if TYPE_CHECKING:
    from kohort.findings.finding import Finding
    from kohort.history_files.directory import HistoryDirectory

_COLUMNS: Final = ("SEVERITY", "GROUP", "FINDING", "SINCE", "UNTIL", "TEXT")
_WINDOW: Final = timedelta(hours=24)
_DEFAULT_SEVERITY: Final = "warning"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", metavar="DIR", help="directory or URL of the history")
    add("groups", metavar="GROUP", nargs="*", help="group ids (default: all groups)")
    add(
        "--max-lag", metavar="N", type=int, help="find partitions with a lag of more than N records"
    )
    add(
        "--max-lag-seconds",
        metavar="N",
        type=int,
        help="find partitions whose oldest unread record is older than N seconds",
    )
    add(
        "--finding",
        metavar="ID",
        action="append",
        default=[],
        help="look for this finding only, of any severity; repeatable",
    )
    add(
        "--severity",
        metavar="|".join(SEVERITIES),
        default=None,
        help=f"show findings of this severity and above (default: {_DEFAULT_SEVERITY})",
    )
    add(
        "--since", metavar="TIME", help="look at the time from then on (default: the last 24 hours)"
    )
    add("--at", metavar="TIME", help="look at the history as it was, as 2026-01-31T10:42Z")
    add(
        "--set",
        metavar="THRESHOLD=VALUE",
        action="append",
        default=[],
        help="change a threshold of a rule, as flapping_joins=6; repeatable",
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    search = _Search.of(options)
    return with_history(options.directory, lambda directory: _check(options, directory, search))


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for."""

    thresholds: Thresholds
    ids: frozenset[str] | None
    severity: str
    since: datetime | None
    at: datetime | None

    @classmethod
    def of(cls, options: argparse.Namespace) -> "_Search":
        """Raises RefusedError."""
        ids = _ids(options.finding)
        severity = options.severity or (SEVERITIES[0] if ids else _DEFAULT_SEVERITY)
        if severity not in SEVERITIES:
            raise RefusedError(f"--severity {severity}: is not one of {' | '.join(SEVERITIES)}")
        since, at = moment_of("--since", options.since), moment_of("--at", options.at)
        if since is not None and at is not None and since >= at:
            raise RefusedError(f"--since {options.since}: is not before --at {options.at}")
        return cls(_thresholds(options), ids, severity, since, at)


def _ids(names: Sequence[str]) -> frozenset[str] | None:
    for name in names:
        if name not in RULES:
            raise RefusedError(
                f"--finding {name}: is not one of {join_names(RULES, len(RULES))}"
                f"{did_you_mean(name, RULES)}"
            )
    return frozenset(names) or None


def _thresholds(options: argparse.Namespace) -> Thresholds:
    known = {field.name: field.type for field in fields(Thresholds)}
    values: dict[str, Any] = {}
    for text in options.set:
        name, _, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise RefusedError(f"--set {text}: no such threshold{did_you_mean(name, known)}")
        values[name] = _number(f"--set {text}", value, is_whole=known[name] is not float)
    for option, name in (("--max-lag", "max_lag"), ("--max-lag-seconds", "max_lag_s")):
        value = getattr(options, option[2:].replace("-", "_"))
        if value is not None:
            values[name] = _number(f"{option} {value}", str(value), is_whole=True)
    return replace(Thresholds(), **values)


def _number(option: str, text: str, *, is_whole: bool) -> float:
    try:
        value = int(text) if is_whole else float(text)
    except ValueError:
        raise RefusedError(
            f"{option}: {text!r} is not a {'whole number' if is_whole else 'number'}"
        ) from None
    if not 0 <= value < 1e15:
        raise RefusedError(f"{option}: is not a number from 0 on")
    return value


def _check(options: argparse.Namespace, directory: "HistoryDirectory", search: _Search) -> int:
    from kohort.history_files.finding_search import search_groups
    from kohort.history_files.group_history import end_of

    groups = options.groups or None
    at = search.at or end_of(directory)
    if at is None:
        print_message(f"{options.directory}: the history has no records yet")
        return FAILED
    since = search.since if search.since is not None else at - _WINDOW
    if since >= at:
        raise ConfigError(f"--since {options.since}: the history ends at {at.isoformat()}")
    result = search_groups(
        directory, search.thresholds, groups=groups, since=since, at=search.at, ids=search.ids
    )
    if groups is not None and (missing := set(groups) - result.groups):
        print_message(
            f"{options.directory} has no record of {join_names(missing)} from {since.isoformat()} "
            f"to {at.isoformat()}"
        )
        return FAILED
    shown, hidden = _chosen(result.findings, search.severity)
    _print(options.output, shown)
    return _conclude(search, result, shown, hidden)


def _chosen(findings: Iterable["Finding"], severity: str) -> tuple[list["Finding"], int]:
    """Findings of at least this severity, and how many others there are."""
    some = list(findings)
    least = SEVERITIES.index(severity)
    shown = [each for each in some if SEVERITIES.index(each.severity) >= least]
    return shown, len(some) - len(shown)


def _print(output: str, findings: Sequence["Finding"]) -> None:
    from kohort.history_files.reading import text_of

    rows = [
        (each.severity, each.group, each.id, text_of(each.since), text_of(each.until), each.text)
        for each in findings
    ]
    as_json = [
        {
            "id": each.id, "group": each.group, "subject": each.subject,
            "severity": each.severity, "since": text_of(each.since),
            "until": text_of(each.until), "text": each.text,
            "evidence": [place._asdict() for place in each.evidence],
        }
        for each in findings
    ]  # fmt: skip
    if findings or output != "table":
        show(output, Table(_COLUMNS, rows), as_json)


def _conclude(search: _Search, result: Any, shown: Sequence["Finding"], hidden: int) -> int:
    """Say what the findings do not, and choose the exit code."""
    code = FOUND if shown else 0
    if hidden:
        print_message(f"{hidden:,} findings of lower severity are not shown; --severity info does")
    limits = search.thresholds
    is_limited = limits.max_lag is not None or limits.max_lag_s is not None
    if is_limited and result.without_samples:
        print_message(
            f"the lag of {join_names(result.without_samples)} is unknown: the history has no "
            "samples of their topics from that time"
        )
        code = FOUND
    for group, since in sorted(result.shortened.items()):
        print_message(
            f"{group}: only its latest commits, from {since.isoformat()} on, were searched, as it "
            "has too many for memory; --at searches earlier ones"
        )
    if result.incomplete:
        print_message(
            f"incomplete: compaction had removed records of {join_names(result.incomplete)} before "
            "they were collected, so that faults may be missing"
        )
        code = FOUND
    return code
