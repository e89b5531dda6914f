"""The loops over commits and samples of partitions that compute lags.

They follow `kohort.lag`, for all moments at once. Commits are in the order of their keys, which are
a partition of a group each, and then of the log. Samples are in the order of their partitions, and
then of time. Times are in ms. `kohort.history.lag` fills and reads the tables.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.commit_tables import NONE
from kohort.columnar.compiling import FLOAT64, INT64, NUMBER, TABLE, helper, kernel

Array: TypeAlias = Any
Number: TypeAlias = Any
"""An int64, or a float64, whatever numpy calls it."""

# Lines of samples.
SAMPLE_TIME: Final = 0
SAMPLE_START: Final = 1
"""NONE: not known."""
SAMPLE_END: Final = 2
SAMPLE_ID: Final = 3
"""Number of the topic's id; -1: not known."""
SAMPLE_IS_GRID: Final = 4
SAMPLE_RUN: Final = 5
"""Place of the first sample of the same log, up to which ends ascend."""
SAMPLE_LINES: Final = 6

# Lines of commits.
COMMIT_AT: Final = 0
COMMIT_OFFSET: Final = 1
"""NONE: a tombstone."""
COMMIT_ID: Final = 2
COMMIT_LINES: Final = 3

# Lines of keys.
KEY_COMMITS: Final = 0
KEY_COMMITS_END: Final = 1
KEY_SAMPLES: Final = 2
KEY_SAMPLES_END: Final = 3
KEY_LINES: Final = 4

# Lines of the points of a key: its samples with a known lag.
POINT_TIME: Final = 0
POINT_LAG: Final = 1
POINT_END: Final = 2
POINT_COMMITTED: Final = 3
START_TIME: Final = 4
"""Of those whose log start is known; so are the next two."""
START: Final = 5
START_JUMPS: Final = 6
"""How often the log start grew up to this point."""
POINT_LINES: Final = 7

# Registers of a key.
POINTS: Final = 0
STARTS: Final = 1
RECENT: Final = 2
"""First point of the last ten minutes."""
RECENT_START: Final = 3
"""First start of the last six hours."""
WINDOW: Final = 4
"""How many of the last commits are known; their times and offsets follow."""
KEPT_COMMITS: Final = 10
WINDOW_TIMES: Final = 5
WINDOW_OFFSETS: Final = WINDOW_TIMES + KEPT_COMMITS
COMMIT_INDEX: Final = WINDOW_OFFSETS + KEPT_COMMITS
"""Last commit up to the sample; -1: none."""
COMMIT_SAMPLE: Final = COMMIT_INDEX + 1
"""First sample at or after it."""
REPEAT_SAMPLE: Final = COMMIT_INDEX + 2
"""First sample at or after the first commit of the same offset."""
IS_WRITTEN: Final = COMMIT_INDEX + 3
"""Whether the key has a row; what that says follows."""
WRITTEN_TIME: Final = COMMIT_INDEX + 4
WRITTEN_COMMITTED: Final = COMMIT_INDEX + 5
WRITTEN_END: Final = COMMIT_INDEX + 6
WRITTEN_START: Final = COMMIT_INDEX + 7
WRITTEN_CASE: Final = COMMIT_INDEX + 8
OUT: Final = COMMIT_INDEX + 9
"""How many rows are written, of all keys."""
REGISTERS: Final = COMMIT_INDEX + 10

# Lines of rows.
ROW_KEY: Final = 0
ROW_SAMPLE: Final = 1
ROW_COMMITTED: Final = 2
ROW_LAG: Final = 3
ROW_LAG_MS: Final = 4
ROW_LOST: Final = 5
ROW_CONFIDENCE: Final = 6
ROW_TREND: Final = 7
ROW_CATCH_UP: Final = 8
ROW_LOSS: Final = 9
ROW_CASE: Final = 10
ROW_COMMIT_TIME: Final = 11
ROW_GAP: Final = 12
ROW_REPEATS: Final = 13
ROW_GROWN: Final = 14
ROW_GROWN_REPEATED: Final = 15
ROW_REWOUND: Final = 16
ROW_LINES: Final = 17

# Cases of `kohort.lag`.
OK: Final = 0
NO_COMMIT: Final = 1
RETENTION_PASSED: Final = 2
STALE_END: Final = 3
# Trends.
GROWING: Final = 0
FALLING: Final = 1
STEADY: Final = 2

APART_MS: Final = 1_000
"""Commits that are less apart count as one in the window."""
QUIET_MS: Final = 600_000
"""A row is written at least so often while samples go on."""
WINDOW_MS: Final = 10 * 60_000
MIN_SPAN_MS: Final = 30_000
LOSS_WINDOW_MS: Final = 6 * 3_600_000
MIN_JUMPS: Final = 2
DEAD_BAND: Final = 1.0
DEAD_BAND_OF_RATE: Final = 0.01
MAX_AHEAD_MS: Final = 365.0 * 86_400_000


@kernel(TABLE, INT64)
def link_samples(samples: Array, bounds: Array) -> Any:
    """Make the ends of each partition ascend, and find where its log is another one.

    `bounds` are the places where partitions begin, and the end. The ends of a grid are by other
    clocks than sampled ones, and yield to these.
    """
    for partition in range(bounds.size - 1):
        first, end = bounds[partition], bounds[partition + 1]
        run = first
        start = NONE
        for at in range(first, end):
            before = at - 1
            if at > first:
                is_other = (
                    samples[SAMPLE_ID, at] >= 0
                    and samples[SAMPLE_ID, before] >= 0
                    and samples[SAMPLE_ID, at] != samples[SAMPLE_ID, before]
                )
                if samples[SAMPLE_END, at] < samples[SAMPLE_END, before] and not is_other:
                    if samples[SAMPLE_IS_GRID, at] != 0:
                        samples[SAMPLE_END, at] = samples[SAMPLE_END, before]
                    else:
                        while (
                            before >= run
                            and samples[SAMPLE_IS_GRID, before] != 0
                            and samples[SAMPLE_END, before] > samples[SAMPLE_END, at]
                        ):
                            samples[SAMPLE_END, before] = samples[SAMPLE_END, at]
                            before -= 1
                        is_other = before >= run and (
                            samples[SAMPLE_END, before] > samples[SAMPLE_END, at]
                        )
                if is_other:
                    run = at
                    start = NONE
            samples[SAMPLE_RUN, at] = run
            if samples[SAMPLE_START, at] == NONE:
                samples[SAMPLE_START, at] = start
            else:
                start = samples[SAMPLE_START, at]
    return bounds.size - 1


@helper
def _clear(registers: Array) -> None:
    """Make the registers those of a key without commits."""
    for register in range(OUT):
        registers[register] = 0
    registers[COMMIT_INDEX] = -1


@helper
def _commit(commits: Array, at: Number, sample: Number, registers: Array) -> None:
    """Apply a commit; `sample` is the first one at or after it."""
    time, offset = commits[COMMIT_AT, at], commits[COMMIT_OFFSET, at]
    count = registers[WINDOW]
    before = registers[COMMIT_INDEX]
    registers[COMMIT_INDEX] = at
    registers[COMMIT_SAMPLE] = sample
    if before < 0 or commits[COMMIT_OFFSET, before] != offset:
        registers[REPEAT_SAMPLE] = sample
    if offset < 0:
        registers[WINDOW] = 0
        return
    if count > 0 and time - registers[WINDOW_TIMES + count - 1] < APART_MS:
        registers[WINDOW_OFFSETS + count - 1] = offset
        return
    if count == KEPT_COMMITS:
        for place in range(count - 1):
            registers[WINDOW_TIMES + place] = registers[WINDOW_TIMES + place + 1]
            registers[WINDOW_OFFSETS + place] = registers[WINDOW_OFFSETS + place + 1]
        count -= 1
    registers[WINDOW_TIMES + count] = time
    registers[WINDOW_OFFSETS + count] = offset
    registers[WINDOW] = count + 1


@helper
def _sort(values: Array, count: Number) -> None:
    """Sort the first values in place (Shell's method: nothing is allocated)."""
    gap = count // 2
    while gap > 0:
        for at in range(gap, count):
            value = values[at]
            place = at
            while place >= gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 2


@helper
def _median(values: Array, count: Number) -> Number:
    """The median of the first values, which it sorts; `count` is not 0."""
    _sort(values, count)
    middle = count // 2
    if count % 2 == 1:
        return values[middle]
    return (values[middle - 1] + values[middle]) / 2.0


@helper
def _slopes(points: Array, line: Number, first: Number, end: Number, slopes: Array) -> Number:
    """Write the slopes per second between points half of them apart; how many there are."""
    total = end - first
    if total < 2 or points[POINT_TIME, end - 1] - points[POINT_TIME, first] < MIN_SPAN_MS:
        return 0
    apart = (total + 1) // 2
    count = 0
    for at in range(first, end - apart):
        took = points[POINT_TIME, at + apart] - points[POINT_TIME, at]
        if took > 0:
            grown = np.float64(points[line, at + apart] - points[line, at])
            slopes[count] = grown * 1000.0 / np.float64(took)
            count += 1
    return count


@helper
def _ahead(records: Number, per_second: Number) -> Number:
    """The time in ms for so many records, or NONE for more than a year."""
    thousands = np.float64(records) * 1000.0
    if thousands > MAX_AHEAD_MS * per_second:
        return NONE
    return np.int64(thousands / per_second)


@helper
def _start_rate(points: Array, first: Number, end: Number) -> Number:
    """The mean rate of the log start per second; 0 before its second jump."""
    if end - first < 2:
        return 0.0
    last = end - 1
    span = points[START_TIME, last] - points[START_TIME, first]
    jumps = points[START_JUMPS, last] - points[START_JUMPS, first]
    grown = points[START, last] - points[START, first]
    if jumps < MIN_JUMPS or span < MIN_SPAN_MS or grown <= 0:
        return 0.0
    return np.float64(grown) * 1000.0 / np.float64(span)


@helper
def _trend(
    points: Array,
    registers: Array,
    slopes: Array,
    start: Number,
    rows: Array,
    row: Number,
    velocities: Array,
) -> None:
    """Write the trend at the last point, whose log start is `start`."""
    end = registers[POINTS]
    last = end - 1
    time = points[POINT_TIME, last]
    while points[POINT_TIME, registers[RECENT]] < time - WINDOW_MS:
        registers[RECENT] += 1
    first = registers[RECENT]
    count = _slopes(points, POINT_LAG, first, end, slopes)
    if count == 0:
        return
    velocity = np.float64(_median(slopes, count))
    count = _slopes(points, POINT_END, first, end, slopes)
    band = max(DEAD_BAND, DEAD_BAND_OF_RATE * _median(slopes, count))
    velocities[row] = velocity
    lag = points[POINT_LAG, last]
    if velocity > band:
        rows[ROW_TREND, row] = GROWING
    elif velocity < -band:
        rows[ROW_TREND, row] = FALLING
        rows[ROW_CATCH_UP, row] = _ahead(lag, -velocity)
    else:
        rows[ROW_TREND, row] = STEADY
    if lag == 0:
        rows[ROW_CATCH_UP, row] = 0
    if start == NONE:
        return
    committed = points[POINT_COMMITTED, last]
    if committed < start:
        rows[ROW_LOSS, row] = 0
        return
    starts = registers[STARTS]
    while (
        registers[RECENT_START] < starts
        and points[START_TIME, registers[RECENT_START]] < time - LOSS_WINDOW_MS
    ):
        registers[RECENT_START] += 1
    count = _slopes(points, POINT_COMMITTED, first, end, slopes)
    closing = _start_rate(points, registers[RECENT_START], starts) - _median(slopes, count)
    if closing > 0.0:
        rows[ROW_LOSS, row] = _ahead(committed - start, closing)


@helper
def _last_at_or_below(samples: Array, first: Number, end: Number, position: Number) -> Number:
    """The last sample in [first, end) whose end is not above a position, or first - 1.

    Ends ascend there.
    """
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if samples[SAMPLE_END, middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low - 1


@helper
def _lag_ms(samples: Array, sample: Number, position: Number, rows: Array, row: Number) -> None:
    """Write how long ago the end passed a position below it."""
    run = samples[SAMPLE_RUN, sample]
    before = _last_at_or_below(samples, run, sample, position)
    if before < run:
        return
    since = samples[SAMPLE_TIME, before]
    took = samples[SAMPLE_TIME, before + 1] - since
    grown = samples[SAMPLE_END, before + 1] - samples[SAMPLE_END, before]
    share = np.float64(position - samples[SAMPLE_END, before]) / np.float64(grown)
    passed = since + np.int64(np.float64(took) * share)
    rows[ROW_LAG_MS, row] = max(samples[SAMPLE_TIME, sample] - passed, 0)
    rows[ROW_CONFIDENCE, row] = (took + 1) // 2


@helper
def _window(
    samples: Array, sample: Number, registers: Array, gaps: Array, rows: Array, row: Number
) -> None:
    """Write what the last commits were like."""
    run = samples[SAMPLE_RUN, sample]
    end = samples[SAMPLE_END, sample]
    since = max(registers[COMMIT_SAMPLE], run)
    rows[ROW_GROWN, row] = end - samples[SAMPLE_END, since]
    since = max(registers[REPEAT_SAMPLE], run)
    rows[ROW_GROWN_REPEATED, row] = end - samples[SAMPLE_END, since]
    count = registers[WINDOW]
    committed = registers[WINDOW_OFFSETS + count - 1]
    highest = committed
    repeats = 0
    for place in range(count - 1):
        gaps[place] = np.float64(
            registers[WINDOW_TIMES + place + 1] - registers[WINDOW_TIMES + place]
        )
        offset = registers[WINDOW_OFFSETS + place]
        highest = max(highest, offset)
        repeats = repeats + 1 if offset == committed else 0
    rows[ROW_REWOUND, row] = highest - committed
    rows[ROW_REPEATS, row] = repeats
    if count > 1:
        rows[ROW_GAP, row] = np.int64(_median(gaps, count - 1))


@helper
def _is_notable(
    registers: Array, time: Number, committed: Number, lag: Number, start: Number, end: Number,
    case: Number,
) -> Any:  # fmt: skip
    """Whether a row says more than the one before."""
    if registers[IS_WRITTEN] == 0 or registers[WRITTEN_COMMITTED] != committed:
        return True
    if committed < 0:
        return False
    return (
        lag > 0
        or registers[WRITTEN_CASE] != case
        or registers[WRITTEN_END] != end
        or registers[WRITTEN_START] != start
        or time - registers[WRITTEN_TIME] >= QUIET_MS
    )


@helper
def _add_point(
    points: Array, registers: Array, time: Number, lag: Number, end: Number, committed: Number,
    start: Number,
) -> None:  # fmt: skip
    at = registers[POINTS]
    points[POINT_TIME, at], points[POINT_LAG, at] = time, lag
    points[POINT_END, at], points[POINT_COMMITTED, at] = end, committed
    registers[POINTS] = at + 1
    if start == NONE:
        return
    at = registers[STARTS]
    points[START_TIME, at], points[START, at] = time, start
    points[START_JUMPS, at] = 0
    if at > 0:
        points[START_JUMPS, at] = points[START_JUMPS, at - 1]
        if points[START, at - 1] < start:
            points[START_JUMPS, at] += 1
    registers[STARTS] = at + 1


@helper
def _row(
    key: Number, commits: Array, samples: Array, sample: Number, is_wanted: Number, points: Array,
    slopes: Array, registers: Array, rows: Array, velocities: Array,
) -> None:  # fmt: skip
    """Compute the lag at a sample, after a commit, and write its row if it is wanted or notable.

    `is_wanted`: 1 always, 0 if it is notable, -1 never.
    """
    time, end = samples[SAMPLE_TIME, sample], samples[SAMPLE_END, sample]
    start = samples[SAMPLE_START, sample]
    at = registers[COMMIT_INDEX]
    committed = commits[COMMIT_OFFSET, at]
    if committed < 0 or (
        commits[COMMIT_ID, at] >= 0
        and samples[SAMPLE_ID, sample] >= 0
        and commits[COMMIT_ID, at] != samples[SAMPLE_ID, sample]
    ):
        committed = NONE
    if samples[SAMPLE_RUN, sample] == sample:  # another log
        registers[POINTS] = registers[STARTS] = 0
        registers[RECENT] = registers[RECENT_START] = 0
    first = max(start, 0)
    lag, lost, case = NONE, 0, NO_COMMIT
    if committed != NONE:
        lost = max(first - committed, 0)
        lag = max(end - max(committed, first), 0)
        case = OK
        if lost > 0:
            case = RETENTION_PASSED
        elif committed > end:
            case = STALE_END
        _add_point(points, registers, time, lag, end, committed, start)
    if is_wanted < 0 or (
        is_wanted == 0 and not _is_notable(registers, time, committed, lag, start, end, case)
    ):
        return
    registers[IS_WRITTEN], registers[WRITTEN_TIME] = 1, time
    registers[WRITTEN_COMMITTED], registers[WRITTEN_END] = committed, end
    registers[WRITTEN_START], registers[WRITTEN_CASE] = start, case
    row = registers[OUT]
    registers[OUT] = row + 1
    for line in range(ROW_LINES):
        rows[line, row] = NONE
    velocities[row] = np.nan
    rows[ROW_KEY, row], rows[ROW_SAMPLE, row] = key, sample
    rows[ROW_COMMITTED, row], rows[ROW_LAG, row] = committed, lag
    rows[ROW_LOST, row], rows[ROW_CASE, row] = lost, case
    if commits[COMMIT_OFFSET, at] >= 0:
        rows[ROW_COMMIT_TIME, row] = commits[COMMIT_AT, at]
    if committed == NONE:
        return
    if lag == 0:
        rows[ROW_LAG_MS, row] = rows[ROW_CONFIDENCE, row] = 0
    else:
        _lag_ms(samples, sample, max(committed, first), rows, row)
    _trend(points, registers, slopes, start, rows, row, velocities)
    _window(samples, sample, registers, slopes, rows, row)


@kernel(NUMBER, NUMBER, TABLE, TABLE, TABLE, TABLE, FLOAT64, INT64, TABLE, FLOAT64)
def compute_lags(
    first_key: Number, last_only: Number, keys: Array, commits: Array, samples: Array,
    points: Array, slopes: Array, registers: Array, rows: Array, velocities: Array,
) -> Any:  # fmt: skip
    """Write the rows of keys from `first_key` on, as long as those of a key fit certainly.

    `last_only`: 1: only the row at the last sample of each key. Returns the next key. `points` and
    `slopes` have room for the samples of a partition, `slopes` for KEPT_COMMITS too.
    """
    registers[OUT] = 0
    for key in range(first_key, keys.shape[1]):
        since, until = keys[KEY_SAMPLES, key], keys[KEY_SAMPLES_END, key]
        if registers[OUT] + until - since > velocities.size:
            return key
        at, end = keys[KEY_COMMITS, key], keys[KEY_COMMITS_END, key]
        _clear(registers)
        for sample in range(since, until):
            while at < end and commits[COMMIT_AT, at] <= samples[SAMPLE_TIME, sample]:
                _commit(commits, at, sample, registers)
                at += 1
            if registers[COMMIT_INDEX] < 0:
                continue
            is_wanted = 0
            if last_only != 0:
                is_wanted = 1 if sample == until - 1 else -1
            _row(
                key, commits, samples, sample, is_wanted, points, slopes, registers, rows,
                velocities,
            )  # fmt: skip
    return keys.shape[1]
