"""The table `findings`: what a build and each micro-batch find in the groups that they changed.

A micro-batch looks at the last 24 hours, so it finds again what the one before has found. A row
is written if it is new, or says more: the one that was found last counts, by group, id, subject and
`since`. A finding whose beginning has left the 24 hours keeps its `since`.
"""

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.findings.finding import Finding, Position
from kohort.findings.search import joined
from kohort.findings.thresholds import Thresholds
from kohort.history.numbering import values_in
from kohort.history.schema import FINDINGS
from kohort.history_files.directory import HistoryDirectory, WritableHistory
from kohort.history_files.file_system import Files
from kohort.history_files.finding_search import RunParts, search_groups
from kohort.history_files.group_history import end_of
from kohort.history_files.snapshot import Snapshot, StoredFile
from kohort.history_files.stored_rows import RECORDED, Filter, StoredRows
from kohort.history_files.table_files import TableFiles

WINDOW: Final = timedelta(hours=24)
TABLE: Final = "findings"
_NAME_BYTES: Final = 6
_PLACES: Final = ["log_partition", "log_offset", "group"]


def add_findings(
    history: WritableHistory, groups: Collection[str], now_ms: int, run: RunParts = map
) -> list[StoredFile]:
    """Look at the last 24 hours of these groups, and make new findings visible.

    `groups`: at least those that have changed since the search before. `run`: as that of
    `search_groups`. Raises KohortError.
    """
    end = end_of(history)
    if end is None or not groups:
        return []
    since = end - WINDOW
    result = search_groups(history, Thresholds(), groups=groups, since=since, run=run)
    earlier = stored_findings(history, groups, since)
    known = {each.key: each for each in earlier}
    found = [each for each in joined(result.findings, earlier) if known.get(each.key) != each]
    files = _written(history.files, found, end, now_ms) if found else []
    history.add_findings(files, now_ms)
    return files


def _written(
    files: Files, found: Iterable[Finding], end: datetime, now_ms: int
) -> list[StoredFile]:
    tables = TableFiles(files, f"found-{now_ms}", secrets.token_hex(_NAME_BYTES))
    for rows in _rows(found, end).to_batches():
        tables.write(TABLE, rows)
    return tables.close()


def changed_groups(history: HistoryDirectory, files: Iterable[StoredFile]) -> set[str]:
    """The groups that have records in these files."""
    chosen = tuple(file for file in files if file.table in RECORDED)
    rows = StoredRows(history.files, Snapshot(files=chosen))
    parts = (part for table in RECORDED for part in rows.parts(table, (), ["group"]))
    return set[str]().union(*(values_in(part["group"]) for part in parts))


def unsearched_groups(history: HistoryDirectory) -> set[str]:
    """The groups with records of the last 24 hours behind the last search.

    There are some if a build was killed before its search. Raises KohortError.
    """
    snapshot = history.snapshot()
    end = end_of(history)
    if snapshot.is_searched or end is None:
        return set()
    numbers = pa.array(sorted(snapshot.log_partitions), pa.int32())
    searched = pa.array([snapshot.searched.get(each, 0) for each in numbers.to_pylist()])
    rows = StoredRows(history.files, snapshot)
    names: set[str] = set()
    for table in RECORDED:
        for part in rows.parts(table, (), _PLACES, since=end - WINDOW):
            until = pc.take(searched, pc.index_in(part["log_partition"], numbers))
            behind = part.filter(pc.greater_equal(part["log_offset"], until))
            names |= values_in(behind["group"])
    return names


def stored_findings(
    directory: HistoryDirectory,
    groups: Collection[str] | None = None,
    since: datetime | None = None,
) -> list[Finding]:
    """Findings that had not ended before `since`, each as it was found last, by time."""
    filters: list[Filter] = [] if groups is None else [("group", "in", sorted(groups))]
    if since is not None:
        filters.append(("until", ">=", since))
    stored = StoredRows(directory.files, directory.snapshot())
    rows = stored.read(TABLE, filters, since=since).sort_by("found").to_pylist()
    latest = {finding.key: finding for finding in map(_finding, rows)}
    return sorted(latest.values(), key=lambda each: each.since)


def _rows(findings: Iterable[Finding], found: datetime) -> pa.Table:
    rows = [
        {
            "group": each.group, "id": each.id, "subject": each.subject, "since": each.since,
            "until": each.until, "found": found, "severity": each.severity, "text": each.text,
            "evidence": [place._asdict() for place in each.evidence],
        }
        for each in findings
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, FINDINGS)


def _finding(row: dict[str, Any]) -> Finding:
    return Finding(
        id=row["id"], group=row["group"], subject=row["subject"], since=row["since"],
        until=row["until"], severity=row["severity"], text=row["text"],
        evidence=tuple(Position(**place) for place in row["evidence"] or ()),
    )  # fmt: skip
