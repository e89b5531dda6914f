"""Samples in the directory of a history: which topics need them, how they are written and read."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kohort.history.schema import SAMPLES, TIME
from kohort.history_files.directory import HistoryDirectory, WritableHistory
from kohort.history_files.file_system import Files
from kohort.history_files.parquet_reading import parquet_errors, read_rows
from kohort.history_files.snapshot import Snapshot, StoredFile
from kohort.history_files.table_files import ROWS_PER_GROUP, TableFiles

TABLE: Final = "samples"
_NAME_BYTES: Final = 6


class CommittedTopics:
    """The topics that groups commit, by the commits in a history; each file is read once."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._paths: set[str] = set()
        self.since_ms: dict[str, int] = {}
        """Topic → least time of the files that have it, in ms."""

    def update(self, snapshot: Snapshot) -> set[str]:
        """Read the files that are new in `snapshot`; the topics that they have and none before.

        Raises KohortError, OSError.
        """
        before = set(self.since_ms)
        stored = {file.path: file for file in snapshot.files_of("commits")}
        for path in stored.keys() - self._paths:
            first_ms = stored[path].first_ms
            for topic in _topics(self._files, path) if first_ms is not None else ():
                self.since_ms[topic] = min(first_ms or 0, self.since_ms.get(topic, first_ms or 0))
        self._paths = set(stored)
        return self.since_ms.keys() - before


def _topics(files: Files, path: str) -> set[str]:
    topics: set[str] = set()
    with files.open(path) as source, parquet_errors(path):
        file = pq.ParquetFile(source, read_dictionary=["topic"])
        for rows in file.iter_batches(ROWS_PER_GROUP, columns=["topic"]):
            topics.update(pc.unique(rows.column(0)).drop_null().to_pylist())
    return topics


def last_sample_ms(snapshot: Snapshot) -> int | None:
    """The time of the last sample in a history, in ms; None: it has none."""
    times = (file.last_ms for file in snapshot.files_of(TABLE))
    return max((time for time in times if time is not None), default=None)


def add_samples(history: WritableHistory, samples: Sequence[pa.RecordBatch], now_ms: int) -> None:
    """Write samples, and make them visible, all at once."""
    if files := _written(history.files, samples, now_ms):
        history.add_files(files, now_ms)


def _written(files: Files, samples: Iterable[pa.RecordBatch], now_ms: int) -> list[StoredFile]:
    tables = TableFiles(files, str(now_ms), secrets.token_hex(_NAME_BYTES))
    try:
        for rows in samples:
            tables.write(TABLE, rows)
        return tables.close()
    except BaseException:
        tables.abandon()
        raise


def read_samples(
    directory: HistoryDirectory,
    moment: datetime | None = None,
    *,
    topics: Iterable[str] | None = None,
    since: datetime | None = None,
) -> pa.Table:
    """The samples up to `moment`, by topic, partition and time.

    `topics`: only of these. `since`: only from then on. Raises KohortError.
    """
    rows = read_stored_samples(
        directory.files, directory.snapshot(), moment, topics=topics, since=since
    )
    return rows.sort_by([(name, "ascending") for name in ("topic", "partition", "time")])


def read_stored_samples(
    files: Files,
    snapshot: Snapshot,
    moment: datetime | None = None,
    *,
    topics: Iterable[str] | None = None,
    since: datetime | None = None,
) -> pa.Table:
    """`read_samples` of a snapshot, in any order."""
    parts = sample_parts(files, snapshot, moment, topics=topics, since=since)
    return pa.concat_tables([SAMPLES.empty_table(), *parts])


def sample_parts(
    files: Files,
    snapshot: Snapshot,
    moment: datetime | None = None,
    *,
    topics: Iterable[str] | None = None,
    since: datetime | None = None,
) -> Iterator[pa.Table]:
    """`read_stored_samples` file by file."""
    wanted: Any = pc.scalar(True)
    if moment is not None:
        wanted &= pc.field("time") <= pa.scalar(moment, TIME)
    if since is not None:
        wanted &= pc.field("time") >= pa.scalar(since, TIME)
    if topics is not None:
        wanted &= pc.field("topic").isin(pa.array(list(topics), pa.string()))
    for file in snapshot.files_of(TABLE, since, moment):
        yield read_rows(files, file.path, SAMPLES.names, wanted).cast(SAMPLES)
