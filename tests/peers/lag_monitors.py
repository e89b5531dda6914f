"""What Burrow, kafka-lag-exporter and klag say of the lag of a group in one partition.

Their rules, as their sources of these versions have them and with their defaults, as pure functions
of a `Scene`: commits of a group, and ends of the log. They are written anew here, from what is
published:

- Burrow 1.9: `core/internal/evaluator/caching.go`, `core/internal/storage/inmemory.go`, and the
  wiki page *Consumer Lag Evaluation Rules*. It reads `__consumer_offsets`, and asks for ends each
  10 s. Ten commits and ten ends of a partition are its window.
- kafka-lag-exporter 0.8: `LookupTable.scala`, `ConsumerGroupCollector.scala`. It asks for offsets
  and ends each 30 s. The last 60 ends tell the time of an offset.
- klag 0.2.5 (github.com/themoah/klag): `metrics/`, and the rules of `mcp/Diagnoser.java`. It asks
  for offsets and ends each 60 s. Its velocity is a linear regression of the last 20 lags.

Times are in seconds; each monitor has watched since 0.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple


class Commit(NamedTuple):
    time: int
    offset: int


class Ends(NamedTuple):
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What happens in one partition. `ends` never go back."""

    commits: Sequence[Commit]
    ends: Callable[[int], Ends]
    """Log start offset and end at a time."""
    left_at: int | None = None
    """When the members left; None: they are there."""

    def committed(self, at: int) -> int | None:
        """The committed offset at a time."""
        return next((each.offset for each in reversed(self.commits) if each.time <= at), None)

    def has_members(self, at: int) -> bool:
        return self.left_at is None or at < self.left_at

    def appended(self, offset: int, until: int) -> int:
        """When the end of the log passed an offset that it has passed until then."""
        low, high = 0, until
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.ends(middle).end > offset else (middle + 1, high)
        return low


# --- Burrow

BURROW_REFRESH_S: Final = 10
"""`offset-refresh`."""
BURROW_INTERVALS: Final = 10
"""`intervals`: commits, and ends, that are kept."""


class _Kept(NamedTuple):
    """A commit in Burrow's window."""

    time: int
    offset: int
    lag: int
    """By the last end that Burrow knew when it read the commit."""


def burrow(scene: Scene, at: int) -> str:
    """The status of the partition."""
    kept = [
        _Kept(time, offset, max(_known_end(scene, time) - offset, 0))
        for time, offset in scene.commits
        if time <= at
    ][-BURROW_INTERVALS:]
    if not kept:
        return "no status"
    last = _refreshes(at)
    ends = [scene.ends(each).end for each in range(0, last + 1, BURROW_REFRESH_S)]
    return burrow_status(kept, ends[-BURROW_INTERVALS:], at)


def _refreshes(at: int) -> int:
    """The time of the last refresh of ends."""
    return at // BURROW_REFRESH_S * BURROW_REFRESH_S


def _known_end(scene: Scene, at: int) -> int:
    return scene.ends(_refreshes(at)).end


def burrow_status(kept: Sequence[tuple[int, int, int]], ends: Sequence[int], at: int) -> str:
    """The first rule that fits. `kept`: time, offset and lag of the last commits."""
    times, offsets, lags = zip(*kept, strict=True)
    if ends[-1] <= offsets[-1]:
        return "OK"
    caught_up_recently = any(end <= offsets[-1] for end in ends)
    if at - times[-1] > times[-1] - times[0] and not caught_up_recently:
        return "STOP"
    if _is_rewound(offsets):
        return "REWIND"
    if 0 in lags:
        return "OK"
    if len(set(offsets)) == 1:
        return "STALL"
    is_falling = any(later < earlier for earlier, later in itertools.pairwise(lags))
    return "OK" if is_falling else "WARN"


def _is_rewound(offsets: Sequence[int]) -> bool:
    """Whether an offset is below the one before, which is not reached again."""
    for index, (before, offset) in enumerate(itertools.pairwise(offsets), 1):
        if offset < before:
            return all(later < before for later in offsets[index:])
    return False


# --- kafka-lag-exporter

EXPORTER_POLL_S: Final = 30
"""`poll-interval`."""
EXPORTER_POINTS: Final = 60
"""`lookup-table-size`."""


class Exported(NamedTuple):
    """Its metrics of a partition; NaN: not known."""

    lag: float
    seconds: float


def kafka_lag_exporter(scene: Scene, at: int) -> Exported:
    """`kafka_consumergroup_group_lag` and `…_lag_seconds`."""
    now = at // EXPORTER_POLL_S * EXPORTER_POLL_S
    points: list[Commit] = []
    for time in range(0, now + 1, EXPORTER_POLL_S):
        _add_point(points, Commit(time, scene.ends(time).end))
    committed = scene.committed(now)
    if committed is None:
        return Exported(math.nan, math.nan)
    lag = max(points[-1].offset - committed, 0)
    return Exported(lag, now - offset_time(points, committed) if points else math.nan)


def _add_point(points: list[Commit], point: Commit) -> None:
    """Add an end; of a flat line the first and the last point stay."""
    if len(points) > 1 and points[-1].offset == points[-2].offset == point.offset:
        points[-1] = point
        return
    points.append(point)
    del points[:-EXPORTER_POINTS]


def offset_time(points: Sequence[Commit], offset: int) -> float:
    """The time of an offset on the line between two points, or through the first and the last.

    NaN with a single point.
    """
    if offset == points[-1].offset:
        return points[-1].time
    if len(points) < 2:
        return math.nan
    pairs = list(itertools.pairwise(points))
    left, right = next(
        ((one, two) for one, two in reversed(pairs) if one.offset <= offset <= two.offset),
        (points[0], points[-1]),
    )
    back, rise = right.offset - offset, right.offset - left.offset
    if not rise:
        return -math.copysign(math.inf, back)
    return right.time - back * (right.time - left.time) / rise


# --- klag

KLAG_INTERVAL_S: Final = 60
"""`METRICS_INTERVAL_MS`."""
KLAG_SAMPLES: Final = 20
KLAG_MIN_SAMPLES: Final = 3
KLAG_POINTS: Final = 60
"""`TIME_LAG_INTERPOLATION_BUFFER_SIZE`."""
STUCK_S: Final = 300
LOSS_PERCENT, RETENTION_PERCENT = 100, 80


class Watched(NamedTuple):
    """Its metrics of a partition, and what its `diagnose` says; None: no metric."""

    lag: int
    velocity: float | None
    lag_s: float | None
    retention_percent: float | None
    diagnosis: tuple[str, ...]


def klag(scene: Scene, at: int) -> Watched | None:
    """None without a commit: it looks at committed partitions."""
    now = at // KLAG_INTERVAL_S * KLAG_INTERVAL_S
    committed, (start, end) = scene.committed(now), scene.ends(now)
    if committed is None:
        return None
    times = [
        time for time in range(0, now + 1, KLAG_INTERVAL_S) if scene.committed(time) is not None
    ]
    lags = [max(scene.ends(time).end - (scene.committed(time) or 0), 0) for time in times]
    speed = velocity(times[-KLAG_SAMPLES:], lags[-KLAG_SAMPLES:])
    percent = 100 * lags[-1] / (end - start) if end > start else None
    found = []
    if not scene.has_members(now):
        found.append("No active members")
    if percent is not None and percent >= RETENTION_PERCENT:
        is_lost = percent >= LOSS_PERCENT
        found.append("Data loss risk" if is_lost else "Approaching retention limit")
    if speed is not None and speed > 0 and lags[-1] > 0:
        found.append("Lag growing")
    if lags[-1] > 0 and now - _last_move(scene, times) >= STUCK_S:
        found.append("Stuck consumer")
    return Watched(lags[-1], speed, _klag_s(scene, committed, now), percent, tuple(found))


def velocity(times: Sequence[float], lags: Sequence[float]) -> float | None:
    """The slope of a linear regression, in records/s; None with fewer than three lags."""
    if len(times) < KLAG_MIN_SAMPLES:
        return None
    mean_time, mean_lag = sum(times) / len(times), sum(lags) / len(lags)
    products = [
        (time - mean_time) * (lag - mean_lag) for time, lag in zip(times, lags, strict=True)
    ]
    return sum(products) / sum((time - mean_time) ** 2 for time in times)


def _last_move(scene: Scene, times: Sequence[int]) -> int:
    """When it saw the committed offset change last."""
    seen = [scene.committed(time) for time in times]
    changes = [
        time
        for before, offset, time in zip(seen, seen[1:], times[1:], strict=False)
        if before != offset
    ]
    return changes[-1] if changes else times[0]


def _klag_s(scene: Scene, committed: int, now: int) -> float | None:
    """Lag in time, on the line between the first and the last record of the log."""
    start, end = scene.ends(now)
    if committed >= end:
        return 0.0
    if end - 1 <= start or committed < start:
        return _by_ends(scene, committed, now)
    last_time = scene.appended(end - 1, now)
    if committed >= end - 1:
        return float(now - last_time)
    first_time = scene.appended(start, now)
    share = (committed - start) / (end - 1 - start)
    return now - (first_time + share * (last_time - first_time))


def _by_ends(scene: Scene, committed: int, now: int) -> float | None:
    """The same by the ends that it saw, if one of them was not above the commit."""
    first = max(now - (KLAG_POINTS - 1) * KLAG_INTERVAL_S, 0)
    times = range(first, now + 1, KLAG_INTERVAL_S)
    points = [Commit(time, scene.ends(time).end) for time in times]
    for left, right in itertools.pairwise(points):
        if left.offset <= committed <= right.offset:
            rise = right.offset - left.offset
            share = (committed - left.offset) / rise if rise else 0.0
            return now - (left.time + share * (right.time - left.time))
    return None
