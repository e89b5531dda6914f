"""Builds of a history without Spark: a log in memory, and one process."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from kohort.history.sample_rows import Ends, sampled_rows
from kohort.history.schema import RECORDS
from kohort.history_files.building import add_batch, planned
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.folding import fold_ranges
from kohort.history_files.merging import merge, remove_older
from kohort.history_files.samples import add_samples
from kohort.types import TopicPartition

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
HOUR_MS = 3_600_000


def log(partitions=3, records=20, every=timedelta(hours=1)):
    """Log partition → its records, one each hour up to `NOW`."""
    return {
        number: [
            {"key": b"topic-%d" % (offset % 4), "value": b"v", "partition": number,
             "offset": offset, "timestamp": NOW - every * (records - offset)}
            for offset in range(records)
        ]
        for number in range(partitions)
    }  # fmt: skip


def add_ends(files):
    """Samples of the ends of three topics, two minutes and one minute ago, and now."""
    with opened_for_writing(files, NOW_MS) as history:
        for ago in (120, 60, 0):
            ends = {
                TopicPartition(f"topic-{number}", 0): Ends(0, 45 - ago // 10, 45)
                for number in range(3)
            }
            add_samples(history, [sampled_rows(NOW_MS - ago * 1000, ends, {})], NOW_MS)


class Builder:
    """Builds the history of a log, in several batches."""

    def __init__(self, log, files, step=7):
        self.log, self.files, self.step = log, files, step

    def read(self, log_range):
        records = self.log[log_range.log_partition][log_range.start : log_range.end]
        for start in range(0, len(records), 3):
            yield pa.RecordBatch.from_pylist(records[start : start + 3], schema=RECORDS)

    def run(self, tasks):
        return [fold_ranges(self.files, ranges, self.read) for ranges in tasks]

    def build(self, now_ms=NOW_MS, keep_ms=None):
        """Everything that is in the log, and then the maintenance."""
        with opened_for_writing(self.files, now_ms) as history:
            done = 0
            while done < max(map(len, self.log.values())):
                done += self.step
                ends = {number: min(done, len(records)) for number, records in self.log.items()}
                reached = history.current.ends()
                ends = {number: max(end, reached.get(number, 0)) for number, end in ends.items()}
                if ranges := planned(history.current, {}, ends):
                    add_batch(history, ranges, self.run, tasks=2, now_ms=now_ms)
                    merge(history, now_ms)
            if keep_ms is not None:
                remove_older(history, now_ms - keep_ms, now_ms)


def rows(files, table):
    """The stored rows of a table, in the order of the log."""
    snapshot = HistoryDirectory(files).snapshot()
    found = []
    for file in snapshot.files:
        if file.table == table:
            with files.open(file.path) as source:
                read = pq.read_table(source).to_pylist()
            assert len(read) == file.rows
            found += read
    return sorted(found, key=lambda row: (row["log_partition"], row["log_offset"]))


def tables(files):
    """All that readers see: rows, and how far the states are."""
    snapshot = HistoryDirectory(files).snapshot()
    states = {
        number: (stored.end, files.read(stored.state))
        for number, stored in snapshot.log_partitions.items()
    }
    return rows(files, "commits"), rows(files, "generations"), states
