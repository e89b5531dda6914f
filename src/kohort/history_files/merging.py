"""Replaces small files by larger ones, and removes rows that are older than `--keep`.

A file belongs to the day (UTC) of its latest row. Files of a day that is over become one. Of the
present day 16 files of about the same size become one, so a row is written a few times only.

Old rows are removed by the file. Of commits the last one of each partition stays: it is in force
until the next one.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kohort.history.schema import COMMITS, STORED_TABLES
from kohort.history_files.directory import WritableHistory
from kohort.history_files.file_system import Files
from kohort.history_files.parquet_reading import parquet_errors
from kohort.history_files.snapshot import StoredFile
from kohort.history_files.table_files import (
    ROWS_PER_FILE,
    ROWS_PER_GROUP,
    TableFiles,
)

DAY_MS: Final = 24 * 3_600_000
TIER: Final = 16
SMALL_ROWS: Final = ROWS_PER_FILE // 8
"""Files with more rows stay as they are."""
_KEY: Final = ["log_partition", "group", "topic", "partition"]
_NAME_BYTES: Final = 6


def merge(history: WritableHistory, now_ms: int) -> None:
    """Replace small files, if there are enough of them."""
    groups = list(_mergeable(history.current.files, now_ms))
    if not groups:
        return
    merged = {id(group): _merged(history.files, group) for group in groups}
    replaced = {file.path: group for group in groups for file in group}
    files: list[StoredFile] = []
    for file in history.current.files:
        if (group := replaced.get(file.path)) is None:
            files.append(file)
        elif file is group[0]:
            files += merged[id(group)]
    history.replace(replace(history.current, files=tuple(files)), sorted(replaced), now_ms)


def _mergeable(files: Iterable[StoredFile], now_ms: int) -> Iterator[list[StoredFile]]:
    """Groups of files to be merged, each of one table and at most about ROWS_PER_FILE rows."""
    days: dict[tuple[str, int, int], list[StoredFile]] = defaultdict(list)
    today = now_ms // DAY_MS
    for file in files:
        if file.carried or file.last_ms is None or file.rows > SMALL_ROWS:
            continue
        day = file.last_ms // DAY_MS
        tier = -1 if day < today else (file.rows.bit_length() - 1) // 4
        days[file.table, day, tier].append(file)
    for (_, _, tier), group in sorted(days.items()):
        for part in _limited(group):
            if len(part) >= (2 if tier < 0 else TIER):
                yield part


def _limited(files: Sequence[StoredFile]) -> Iterator[list[StoredFile]]:
    part: list[StoredFile] = []
    for file in files:
        if part and sum(other.rows for other in part) + file.rows > ROWS_PER_FILE:
            yield part
            part = []
        part.append(file)
    yield part


def _merged(files: Files, group: Sequence[StoredFile]) -> list[StoredFile]:
    day = (group[0].last_ms or 0) // DAY_MS
    tables = TableFiles(files, f"day{day}", secrets.token_hex(_NAME_BYTES))
    for file in group:
        for rows in _batches(files, file):
            tables.write(file.table, rows)
    return tables.close()


def _batches(files: Files, file: StoredFile) -> Iterator[pa.RecordBatch]:
    """The rows of a file. Raises KohortError if it is damaged."""
    with files.open(file.path) as source, parquet_errors(file.path):
        for rows in pq.ParquetFile(source).iter_batches(ROWS_PER_GROUP):
            schema = STORED_TABLES[file.table]
            yield rows.cast(schema) if rows.schema != schema else rows


def remove_older(history: WritableHistory, until_ms: int, now_ms: int) -> None:
    """Remove the files whose rows are all older than `until_ms`, but for commits in force then."""
    current = history.current
    old = [file for file in current.files if _is_old(file, until_ms)]
    if not old:
        return
    carried = [file for file in current.files if file.carried]
    expired = [file for file in old if file.table == "commits"]
    replaced = [*old, *(carried if expired else [])]
    paths = {file.path for file in replaced}
    files = [file for file in current.files if file.path not in paths]
    if expired:
        # The commit that a tombstone ended may be in a file that stays, beside newer rows.
        has_earlier = any(
            file.table == "commits" and (file.first_ms or 0) < until_ms for file in files
        )
        last = _carried(history.files, [*carried, *expired], tombstones=has_earlier)
        files = [*last, *files]
    removed_until = max(until_ms, current.removed_until_ms or until_ms)
    history.replace(
        replace(current, files=tuple(files), removed_until_ms=removed_until), sorted(paths), now_ms
    )


def _is_old(file: StoredFile, until_ms: int) -> bool:
    return not file.carried and file.last_ms is not None and file.last_ms < until_ms


def _carried(files: Files, expired: Sequence[StoredFile], *, tombstones: bool) -> list[StoredFile]:
    """The last commits in `expired` of each partition as new files; `tombstones`: these too.

    A last record that cannot be decoded stays: without it the commit before would be in force.
    """
    last: Any = COMMITS.empty_table()
    for file in expired:
        for rows in _batches(files, file):
            counted = rows.filter(pc.or_(pc.is_valid(rows.column("in_force")), _unreadable(rows)))
            last = _last_of_each(pa.concat_tables([last, pa.Table.from_batches([counted])]))
    if not tombstones:
        last = last.filter(pc.or_(pc.is_valid(last["committed"]), _unreadable(last)))
    tables = TableFiles(files, "carried", secrets.token_hex(_NAME_BYTES))
    for rows in last.to_batches(ROWS_PER_GROUP):
        tables.write("commits", rows)
    return [replace(file, carried=True) for file in tables.close()]


def _unreadable(commits: pa.RecordBatch | pa.Table) -> Any:
    """Which records have a partition and a value that cannot be decoded."""
    return pc.and_(pc.is_valid(commits.column("error")), pc.is_valid(commits.column("topic")))


def _last_of_each(commits: pa.Table) -> pa.Table:
    """Of each partition the commit with the highest offset in the log."""
    last = commits.group_by(_KEY).aggregate([("log_offset", "max")])
    places = last.select(["log_partition", "log_offset_max"])
    places = places.rename_columns(["log_partition", "log_offset"])
    return (
        commits.join(places, ["log_partition", "log_offset"], join_type="left semi")
        .select(COMMITS.names)
        .cast(COMMITS)
    )
