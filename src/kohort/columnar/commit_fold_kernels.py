"""The loop that folds committed offsets: what each record changes in its slot, and its row.

It does not check the tables that `slot_kernels` and `history.call` have filled.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.commit_kernels import (
    BAD_KEY,
    BAD_VALUE,
    CLASS,
    COMMIT_TIME,
    COMMITTED,
    CONTROL,
    EXPIRE_TIME,
    OTHER,
    TOMBSTONE,
)
from kohort.columnar.commit_tables import (
    ADVANCE,
    BEFORE_ASSIGNED,
    COMMIT_MARKER,
    FIRST,
    FIRST_GAP,
    GAPS,
    GROUP,
    GROUP_HAS_MEMBERS,
    GROUP_LIFE,
    HAS_VALUE,
    IDLE_MINUTES,
    IS_PENDING,
    IS_TRANSACTIONAL,
    IS_USED,
    KEPT_GAPS,
    LIFE,
    LOG_MINUTE,
    LOG_OFFSET,
    LOG_TIME,
    MARKER,
    MAYBE_FREE,
    MEMBER,
    MINUTE,
    MINUTE_COMMITS,
    MINUTE_GAP,
    MINUTE_LEAST,
    MINUTE_SUM,
    MINUTE_US,
    MINUTES_COMMITS,
    MINUTES_GAP,
    MINUTES_GROUP,
    MINUTES_LAST,
    MINUTES_LEAST,
    MINUTES_MINUTE,
    MINUTES_OFFSET,
    MINUTES_OUT,
    MINUTES_PARTITION,
    MINUTES_SUM,
    MINUTES_TOPIC,
    NONE,
    NOTHING,
    NUMBER_OF,
    OLDEST_MINUTE,
    OPEN_MINUTES,
    ORIGIN,
    OTHER_MARKER,
    OUT,
    OUT_GROUP,
    OUT_HAS_PREVIOUS,
    OUT_HAS_UNREADABLE,
    OUT_IN_FORCE,
    OUT_IN_FORCE_TIME,
    OUT_KIND,
    OUT_PREVIOUS,
    OUT_PREVIOUS_COMMIT_TIME,
    OUT_PREVIOUS_EXPIRE_TIME,
    OUT_PREVIOUS_RECORD,
    OUT_PREVIOUS_TIME,
    OUT_ROW,
    OUT_TOPIC,
    OUTSIDE,
    OWNER,
    OWNER_OF,
    PENDING,
    PRODUCER,
    RECORD,
    REPEAT,
    REWIND,
    SINCE_ASSIGNED,
    SLOT,
    SLOTS,
    SUPERSEDED,
    TIME,
    TOMBSTONED,
    TOMBSTONES,
    TOPIC,
    TRANSACTION,
    UNREADABLE,
    VALUE,
    VALUE_COMMIT_TIME,
    VALUE_EXPIRE_TIME,
    VALUE_TIME,
)
from kohort.columnar.compiling import INT64, NUMBER, TABLE, helper, kernel

Array: TypeAlias = Any
Number: TypeAlias = Any
"""An int64, whatever numpy calls it."""

_LONGEST_GAP: Final = 2**31 - 1
_MOST: Final = 2**63 - 1


@helper
def _sum(one: Number, other: Number) -> Number:
    """The sum, or the nearest number that 64 bits hold: a client may commit any offset."""
    if other > 0 and one > _MOST - other:
        return np.int64(_MOST)
    if other < 0 and one < -_MOST - 1 - other:
        return np.int64(-_MOST - 1)
    return one + other


@helper
def _difference(one: Number, other: Number) -> Number:
    """The difference, or the nearest number that 64 bits hold."""
    if other < 0 and one > _MOST + other:
        return np.int64(_MOST)
    if other > 0 and one < -_MOST - 1 + other:
        return np.int64(-_MOST - 1)
    return one - other


@helper
def _close_minute(slots: Array, slot: Number, minutes: Array, registers: Array) -> None:
    """Write the row of a slot's minute, which is open."""
    index = registers[MINUTES_OUT]
    registers[MINUTES_OUT] += 1
    registers[OPEN_MINUTES] -= 1
    minutes[MINUTES_GROUP, index] = slots[slot, GROUP]
    minutes[MINUTES_TOPIC, index] = slots[slot, TOPIC]
    minutes[MINUTES_PARTITION, index] = slots[slot, NUMBER_OF]
    minutes[MINUTES_MINUTE, index] = slots[slot, MINUTE]
    minutes[MINUTES_OFFSET, index] = slots[slot, RECORD]
    minutes[MINUTES_COMMITS, index] = slots[slot, MINUTE_COMMITS]
    minutes[MINUTES_LAST, index] = slots[slot, VALUE]
    minutes[MINUTES_SUM, index] = slots[slot, MINUTE_SUM]
    minutes[MINUTES_LEAST, index] = slots[slot, MINUTE_LEAST]
    minutes[MINUTES_GAP, index] = slots[slot, MINUTE_GAP]
    slots[slot, MINUTE] = NONE


@helper
def _advance_time(time: Number, slots: Array, minutes: Array, registers: Array) -> None:
    """Set the largest time of the log so far, and close the minutes that end by it."""
    registers[LOG_TIME] = time
    minute = time // MINUTE_US
    if minute == registers[LOG_MINUTE]:
        return
    registers[LOG_MINUTE] = minute
    if registers[OPEN_MINUTES] == 0 or registers[OLDEST_MINUTE] > minute - IDLE_MINUTES:
        return
    oldest = minute
    for slot in range(registers[SLOTS]):
        if slots[slot, IS_USED] == 0 or slots[slot, MINUTE] == NONE:
            continue
        if slots[slot, MINUTE] <= minute - IDLE_MINUTES:
            _close_minute(slots, slot, minutes, registers)
        else:
            oldest = min(oldest, slots[slot, MINUTE])
    registers[OLDEST_MINUTE] = oldest


@helper
def _count(slots: Array, slot: Number, advance: Number, gap: Number, registers: Array) -> None:
    """Count a commit in its minute. `gap`: -1 of the first, which has no advance either."""
    if slots[slot, MINUTE] == NONE:
        if registers[OPEN_MINUTES] == 0:
            registers[OLDEST_MINUTE] = registers[LOG_MINUTE]
        registers[OPEN_MINUTES] += 1
        slots[slot, MINUTE] = registers[LOG_MINUTE]
        slots[slot, MINUTE_COMMITS] = slots[slot, MINUTE_SUM] = slots[slot, MINUTE_LEAST] = 0
        slots[slot, MINUTE_GAP] = -1
    slots[slot, MINUTE_COMMITS] += 1
    if gap >= 0:
        slots[slot, MINUTE_SUM] = _sum(slots[slot, MINUTE_SUM], advance)
        if slots[slot, MINUTE_GAP] < 0 or advance < slots[slot, MINUTE_LEAST]:
            slots[slot, MINUTE_LEAST] = advance
        slots[slot, MINUTE_GAP] = max(slots[slot, MINUTE_GAP], gap)


@helper
def _emit(rows: Array, row: Number, slots: Array, out: Array, registers: Array) -> Number:
    """Write the row of a record that is not applied; returns its place in `out`."""
    at = registers[OUT]
    registers[OUT] += 1
    out[OUT_ROW, at] = row
    out[OUT_IN_FORCE, at] = out[OUT_IN_FORCE_TIME, at] = 0
    out[OUT_KIND, at] = NOTHING
    out[OUT_HAS_PREVIOUS, at] = out[OUT_PREVIOUS, at] = out[OUT_PREVIOUS_TIME, at] = 0
    out[OUT_PREVIOUS_RECORD, at] = -1
    out[OUT_HAS_UNREADABLE, at] = 0
    out[OUT_GROUP, at] = out[OUT_TOPIC, at] = -1
    slot = rows[SLOT, row]
    if slot >= 0:
        out[OUT_GROUP, at] = slots[slot, GROUP]
        out[OUT_TOPIC, at] = slots[slot, TOPIC]
    return at


@helper
def _apply(
    rows: Array,
    row: Number,
    position: Number,
    time: Number,
    slots: Array,
    out: Array,
    minutes: Array,
    registers: Array,
) -> None:
    """Apply a record that counts from `position` on, and write its row."""
    at = _emit(rows, row, slots, out, registers)
    out[OUT_IN_FORCE, at] = position
    out[OUT_IN_FORCE_TIME, at] = time
    slot = rows[SLOT, row]
    if rows[LOG_OFFSET, row] < slots[slot, RECORD]:
        out[OUT_KIND, at] = SUPERSEDED
        return
    if slots[slot, UNREADABLE] >= 0:
        out[OUT_HAS_UNREADABLE, at] = 1
        if rows[LOG_OFFSET, row] > slots[slot, UNREADABLE]:
            slots[slot, UNREADABLE] = -1
    has_value = slots[slot, HAS_VALUE]
    before, before_time = slots[slot, VALUE], slots[slot, VALUE_TIME]
    if has_value != 0:
        out[OUT_HAS_PREVIOUS, at] = 1
        out[OUT_PREVIOUS, at] = before
        out[OUT_PREVIOUS_TIME, at] = before_time
        out[OUT_PREVIOUS_RECORD, at] = slots[slot, RECORD]
    if rows[CLASS, row] == TOMBSTONE:
        out[OUT_KIND, at] = TOMBSTONED
        out[OUT_PREVIOUS_COMMIT_TIME, at] = slots[slot, VALUE_COMMIT_TIME]
        out[OUT_PREVIOUS_EXPIRE_TIME, at] = slots[slot, VALUE_EXPIRE_TIME]
        if slots[slot, MINUTE] != NONE:
            _close_minute(slots, slot, minutes, registers)
        slots[slot, RECORD] = rows[LOG_OFFSET, row]
        slots[slot, HAS_VALUE] = slots[slot, VALUE] = slots[slot, VALUE_TIME] = 0
        slots[slot, VALUE_COMMIT_TIME] = slots[slot, VALUE_EXPIRE_TIME] = 0
        slots[slot, BEFORE_ASSIGNED] = slots[slot, SINCE_ASSIGNED] = NONE
        slots[slot, GAPS] = 0
        registers[TOMBSTONES] += 1
        registers[MAYBE_FREE] = 1
        return
    value = rows[COMMITTED, row]
    gap, advance = np.int64(-1), np.int64(0)
    if has_value == 0:
        out[OUT_KIND, at] = FIRST
    else:
        advance = _difference(value, before)
        out[OUT_KIND, at] = ADVANCE if value > before else REPEAT if value == before else REWIND
        gap = min(max(np.int64((time - before_time) // 1000), np.int64(0)), np.int64(_LONGEST_GAP))
        slots[slot, FIRST_GAP + slots[slot, GAPS] % KEPT_GAPS] = gap
        slots[slot, GAPS] += 1
    if slots[slot, MINUTE] != NONE and slots[slot, MINUTE] != registers[LOG_MINUTE]:
        _close_minute(slots, slot, minutes, registers)
    slots[slot, RECORD] = rows[LOG_OFFSET, row]
    slots[slot, HAS_VALUE] = 1
    slots[slot, VALUE] = value
    slots[slot, VALUE_TIME] = time
    slots[slot, VALUE_COMMIT_TIME] = rows[COMMIT_TIME, row]
    slots[slot, VALUE_EXPIRE_TIME] = rows[EXPIRE_TIME, row]
    if slots[slot, OWNER_OF] >= 0 and slots[slot, SINCE_ASSIGNED] == NONE:
        slots[slot, SINCE_ASSIGNED] = time
    _count(slots, slot, advance, gap, registers)


@kernel(NUMBER, NUMBER, NUMBER, TABLE, TABLE, TABLE, INT64, INT64, TABLE, TABLE, INT64)
def fold_commits(
    earlier: Number,
    start: Number,
    stop: Number,
    rows: Array,
    slots: Array,
    groups: Array,
    heads: Array,
    links: Array,
    out: Array,
    minutes: Array,
    registers: Array,
) -> Number:
    """Fold the records from `start` to `stop`; write rows of commits to `out`, and of minutes.

    The first `earlier` records are those of open transactions, from before. `heads` has the last
    record of each, `links` the one before a record. `out` has room for each record, `minutes` for
    each that is open and each record.
    """
    for row in range(start, stop):
        if row < earlier:
            links[row] = heads[rows[PRODUCER, row]]
            heads[rows[PRODUCER, row]] = row
            continue
        rows[OWNER, row] = rows[LIFE, row] = -1
        rows[ORIGIN, row] = rows[IS_PENDING, row] = 0
        time = rows[TIME, row]
        if time > registers[LOG_TIME]:
            _advance_time(time, slots, minutes, registers)
        class_ = rows[CLASS, row]
        if class_ == CONTROL:
            producer, marker = rows[PRODUCER, row], rows[MARKER, row]
            if producer < 0 or marker == OTHER_MARKER:
                continue
            ended = heads[producer]
            heads[producer] = -1
            while ended >= 0:
                rows[IS_PENDING, ended] = 0
                slots[rows[SLOT, ended], PENDING] -= 1
                if marker == COMMIT_MARKER:
                    _apply(rows, ended, rows[LOG_OFFSET, row], time, slots, out, minutes, registers)
                else:
                    _emit(rows, ended, slots, out, registers)
                ended = links[ended]
            registers[MAYBE_FREE] = 1
            continue
        if class_ == OTHER:
            continue
        if class_ == BAD_KEY:
            _emit(rows, row, slots, out, registers)
            continue
        slot = rows[SLOT, row]
        group = slots[slot, GROUP]
        if groups[group, GROUP_LIFE] < 0:
            groups[group, GROUP_LIFE] = rows[LOG_OFFSET, row]
        rows[LIFE, row] = groups[group, GROUP_LIFE]
        if class_ == BAD_VALUE:
            slots[slot, UNREADABLE] = rows[LOG_OFFSET, row]
            _emit(rows, row, slots, out, registers)
            registers[MAYBE_FREE] = 1
            continue
        if class_ != TOMBSTONE:
            rows[OWNER, row] = slots[slot, OWNER_OF]
            if rows[IS_TRANSACTIONAL, row] == 1:
                rows[ORIGIN, row] = TRANSACTION
            elif slots[slot, OWNER_OF] >= 0 or groups[group, GROUP_HAS_MEMBERS] != 0:
                rows[ORIGIN, row] = MEMBER
            else:
                rows[ORIGIN, row] = OUTSIDE
            if rows[PRODUCER, row] >= 0:
                rows[IS_PENDING, row] = 1
                slots[slot, PENDING] += 1
                links[row] = heads[rows[PRODUCER, row]]
                heads[rows[PRODUCER, row]] = row
                continue
        _apply(rows, row, rows[LOG_OFFSET, row], time, slots, out, minutes, registers)
    return stop
