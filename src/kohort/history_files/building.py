"""The batches of a build: from where the history ends to given offsets, each made visible."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from kohort.errors import KohortError
from kohort.history_files.directory import WritableHistory
from kohort.history_files.folding import LogRange, TaskResult
from kohort.history_files.snapshot import Snapshot, StoredFile, StoredState

Tasks: TypeAlias = Sequence[Sequence[LogRange]]
Runner: TypeAlias = Callable[[Tasks], Iterable[TaskResult]]
"""Runs tasks, each by `fold_ranges`, and returns what those wrote that succeeded."""

RECORDS_PER_BATCH: Final = 100_000_000
FIXED_COST: Final = 50_000
"""What opening a log partition costs, in records."""

_log: Final = logging.getLogger("kohort.history")


def planned(
    snapshot: Snapshot,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    after_pause: bool = False,
    is_archive: bool = False,
    damaged: Collection[int] = (),
) -> list[LogRange]:
    """The ranges from where the history ends to `ends`, by log partition.

    `starts`: the first offsets in the log, or in an archive of it. `after_pause`: the log may have
    been compacted since the history was written, as it is when a build begins. `damaged`: log
    partitions whose end is damaged, and which may have more records.

    Raises KohortError if a log ends before its history.
    """
    ranges = []
    for number, end in sorted(ends.items()):
        stored = snapshot.log_partitions.get(number) or StoredState(starts.get(number, 0), None)
        if end < stored.end:
            if number in damaged:
                _log.warning(
                    "log partition %d is damaged at its end, near offset %d, and the history has "
                    "read it up to %d: what follows is read when another segment begins",
                    number, end, stored.end,
                )  # fmt: skip
                continue
            raise KohortError(
                f"log partition {number} ends at offset {end}, and the history has read it up to "
                f"{stored.end}: the topic was recreated or is of another cluster, or its log was "
                "cut; build into another directory"
            )
        if (first := starts.get(number, 0)) > stored.end:
            _log.warning(
                "log partition %d begins at offset %d, and the history ends at %d: records "
                "between them were deleted before they were read", number, first, stored.end,
            )  # fmt: skip
        if end > stored.end:
            log_start = None if is_archive else first
            ranges.append(LogRange(number, stored.end, end, stored.state, after_pause, log_start))
    return ranges


def steps(ranges: Sequence[LogRange], limit: int = RECORDS_PER_BATCH) -> list[dict[int, int]]:
    """The end offsets of batches of at most about `limit` records, until `ranges` are done."""
    total = sum(log_range.size for log_range in ranges)
    count = max(-(-total // limit), 1) if ranges else 0
    return [
        {
            log_range.log_partition: log_range.start + log_range.size * step // count
            for log_range in ranges
        }
        for step in range(1, count + 1)
    ]


def divided(ranges: Sequence[LogRange], tasks: int) -> list[list[LogRange]]:
    """At most `tasks` tasks of like size, each with the ranges of whole log partitions."""
    loads = [0] * max(min(tasks, len(ranges)), 1)
    parts: list[list[LogRange]] = [[] for _ in loads]
    for log_range in sorted(ranges, key=lambda each: each.size, reverse=True):
        least = loads.index(min(loads))
        loads[least] += log_range.size + FIXED_COST
        parts[least].append(log_range)
    ordered = [sorted(part, key=lambda each: each.log_partition) for part in parts]
    return [part for part in ordered if part]


def add_batch(
    history: WritableHistory,
    ranges: Sequence[LogRange],
    run: Runner,
    *,
    tasks: int,
    now_ms: int,
    cluster: str | None = None,
    topic_id: str | None = None,
) -> Snapshot:
    """Fold `ranges` by `run`, and make the batch visible.

    Raises KohortError if a task returned nothing.
    """
    files: list[StoredFile] = []
    states: dict[int, StoredState] = {}
    for result in run(divided(ranges, tasks)):
        files += result.files
        states |= result.states
        for warning in result.warnings:
            _log.warning("%s", warning)
    if missing := {log_range.log_partition for log_range in ranges} - states.keys():
        raise KohortError(f"no task has folded the log partitions {sorted(missing)}")
    return history.add_batch(files, states, now_ms, cluster=cluster, topic_id=topic_id)
