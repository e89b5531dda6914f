"""The tables of recorded logs."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from history.committed_offsets import Key, Row, last_counted
from history.recorded import Recording, load
from kohort.history.fold import fold
from kohort.history.group_fold import GroupOptions
from kohort.history.schema import TABLES
from kohort.history.state import State

OPTIONS = GroupOptions(
    retention_ms=60_000, consumer_session_timeout_ms=10_000, consumer_heartbeat_interval_ms=500
)
"""Those of the broker: `history.recording.broker`."""


class Folded(NamedTuple):
    """The tables of a log, with the rows that have not ended."""

    tables: Mapping[str, list[Row]]
    coverage: list[Row]

    def __getattr__(self, table: str) -> list[Row]:
        return self.tables[table]


def folded(recording: Recording, log: str, ends: Mapping[int, int] | None = None) -> Folded:
    """All log partitions, up to these ends."""
    records = {number: recording.records(log, number) for number in recording.log_partitions}
    if ends is not None:
        records = {
            number: table.filter(pc.less(table["offset"], ends[number]))
            for number, table in records.items()
        }
    return fold_all(records, OPTIONS)


def fold_all(records: Mapping[int, pa.Table], options: GroupOptions | None = None) -> Folded:
    """The records of each log partition."""
    tables: dict[str, list[Row]] = defaultdict(list)
    coverage: list[Row] = []
    for number, table in records.items():
        state = State.new(number, options)
        parts = []
        for batch in table.to_batches():
            rows, state = fold(state, batch)
            parts.append(rows)
        for rows in (*parts, state.open_rows()):
            for name, batch in rows.items():
                tables[name] += batch.to_pylist()
        coverage += state.coverage_row().to_pylist()
    return Folded({name: tables[name] for name in TABLES}, coverage)


@cache
def whole(name: str) -> Folded:
    return folded(load(name), "whole")


@cache
def compacted(name: str) -> Folded:
    return folded(load(name), "compacted")


def ends_of(snapshot: Row) -> dict[int, int]:
    """The end of each log partition at a snapshot."""
    return {int(number): end for number, end in snapshot["ends"].items()}


def in_force(commits: list[Row], ends: Mapping[int, int]) -> dict[Key, Row]:
    """The commit of each partition at these ends of the log partitions, tombstones left out."""
    return last_counted(
        row
        for row in commits
        if row["in_force"] is not None and row["in_force"] < ends[row["log_partition"]]
    )


def shown(snapshot: Row) -> dict[Key, int]:
    """The committed offsets that kafka-consumer-groups showed."""
    return {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): int(row["CURRENT-OFFSET"])
        for row in snapshot["offsets"]
        if row["CURRENT-OFFSET"] != "-"
    }
