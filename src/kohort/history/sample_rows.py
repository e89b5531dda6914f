"""Rows of `samples`: ends of partitions as they are now, and as they were by a grid of times.

The past is what ListOffsets tells of the records that are still there: the first offset whose
record is at or after a time was the end of the log at that time. That is so where times ascend. It
always does with LogAppendTime. With CreateTime a producer may write any time. So a partition has no
grid if a record is later than the present, or if the offsets do not ascend.

A grid has no row where the end cannot be known: at or below the log start, as records before it
are gone, and above the last stable offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.history.schema import LATEST_MS, SAMPLES
from kohort.types import TopicPartition

SAMPLED: Final = "sampled"
GRID: Final = "grid"
SAMPLE_INTERVAL_MS: Final = 30_000
FUTURE_MS: Final = 60_000
"""How far the clocks of brokers and of this process may differ."""
MAX_TIMES: Final = 500
MAX_LOOKUPS: Final = 50_000
"""Of a grid: partitions × times. A broker reads an index and a batch for each."""
NOT_FOUND: Final = -1
"""ListOffsets: no record is at or after the time."""


class Ends(NamedTuple):
    """Offsets of a partition at one time."""

    start: int
    """Log start offset."""
    end: int
    """High watermark."""
    stable: int | None = None
    """Last stable offset; None: not known."""


def sampled_rows(
    time_ms: int, ends: Mapping[TopicPartition, Ends], topic_ids: Mapping[str, str]
) -> pa.RecordBatch:
    """The rows of what the brokers have responded at `time_ms`. `topic_ids`: topic → id."""
    return _rows(
        (tp, time_ms, each.start, each.end, each.stable, topic_ids.get(tp.topic), SAMPLED)
        for tp, each in sorted(ends.items())
    )


def grid_times(since_ms: int, until_ms: int, partitions: int) -> list[int]:
    """Times in [since, until) for which a grid asks, ascending and at least 30 s apart.

    Their number is bounded, and less if there are many partitions.
    """
    span = until_ms - since_ms
    if span <= 0 or not partitions:
        return []
    most = max(min(MAX_TIMES, MAX_LOOKUPS // partitions), 1)
    count = min(max(span // SAMPLE_INTERVAL_MS, 1), most)
    return [until_ms - span * step // count for step in range(count, 0, -1)]


def grid_rows(
    times: Sequence[int],
    found: Sequence[Mapping[TopicPartition, int]],
    present: Mapping[TopicPartition, Ends],
    topic_ids: Mapping[str, str],
) -> pa.RecordBatch:
    """The rows of a grid.

    `times` ascend; the last one is the present + FUTURE_MS. `found`: of each time the offset of the
    first record at or after it, or NOT_FOUND; without partitions whose brokers did not respond.
    `present`: what was sampled before the grid was asked for.
    """
    return _rows(
        (tp, time, None, end, None, topic_ids.get(tp.topic), GRID)
        for tp, now in sorted(present.items())
        for time, end in _known(times, [offsets.get(tp) for offsets in found], now)
    )


def _known(
    times: Sequence[int], found: Sequence[int | None], now: Ends
) -> Iterator[tuple[int, int]]:
    """Times and ends of a partition, those that are certain."""
    ends = [now.end if offset == NOT_FOUND else offset for offset in found]
    if not ends or ends[-1] is None or ends[-1] < now.end:
        return  # a record is later than the present
    answered = [end for end in ends if end is not None]
    if answered != sorted(answered):
        return
    limit = now.end if now.stable is None else now.stable
    for time, end in zip(times[:-1], ends[:-1], strict=True):
        if end is not None and (now.start < end or now.start == 0) and end <= limit:
            yield time, end


def _rows(rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * 7
    tps, times, *others = columns
    values = [
        [tp.topic for tp in tps],
        [tp.partition for tp in tps],
        [min(time, LATEST_MS) * 1000 for time in times],
        *map(list, others),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(values, SAMPLES, strict=True)],
        schema=SAMPLES,
    )
