"""The loops that fold committed offsets by key: the slot of each key, what a record changes.

A slot is a row of a table: one partition of one group. Slots of equal hash are a list, which begins
in `heads`. Records are columns of a table whose lines `commit_kernels` and this module name.

Both trust what Python made of the records (`history.partitions`): sizes are checked there.
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
    DECODED,
    EXPIRE_TIME,
    GROUP_SIZE,
    HAS_ID,
    ID_HIGH,
    ID_LOW,
    KEY_AT,
    KEY_KIND,
    KEY_SIZE,
    OTHER,
    PARTITION,
    TOMBSTONE,
)
from kohort.columnar.compiling import BYTES, INPUT, INT64, NUMBER, TABLE, copy, helper, kernel

Array: TypeAlias = Any
Number: TypeAlias = Any
"""An int64, whatever numpy calls it."""

NONE: Final = -(2**63)
"""A time or number that is not known."""

# More lines of the table of records. From the batch:
LOG_OFFSET: Final = DECODED
TIME: Final = DECODED + 1
LOG_LEADER_EPOCH: Final = DECODED + 2
BATCH_OFFSET: Final = DECODED + 3
PRODUCER_ID: Final = DECODED + 4
PRODUCER_EPOCH: Final = DECODED + 5
IS_TRANSACTIONAL: Final = DECODED + 6
MARKER: Final = DECODED + 7
# Found by Python and `find_slots`:
PRODUCER: Final = DECODED + 8
"""Index in the lists of open transactions; -1: none."""
SLOT: Final = DECODED + 9
SEEN: Final = DECODED + 10
"""Whether the key occurred before."""
TOPIC_ID: Final = DECODED + 11
"""Index; -1: none."""
# As of the record, by `fold_commits`:
OWNER: Final = DECODED + 12
ORIGIN: Final = DECODED + 13
LIFE: Final = DECODED + 14
IS_PENDING: Final = DECODED + 15
RECORD_LINES: Final = DECODED + 16

COMMIT_MARKER: Final = 1
ABORT_MARKER: Final = 2
OTHER_MARKER: Final = 3
UNRESOLVED: Final = -2

# Columns of the table of slots.
HASH: Final = 0
NEXT: Final = 1
"""Slot of the same list; of a free slot the next free one."""
IS_USED: Final = 2
ARENA_AT: Final = 3
ARENA_SIZE: Final = 4
GROUP_BYTES: Final = 5
GROUP: Final = 6
TOPIC: Final = 7
NUMBER_OF: Final = 8
"""Number of the partition."""
WAS_SEEN: Final = 9
"""A bit for each `KEY_KIND` that occurred."""
OWNER_OF: Final = 10
PENDING: Final = 11
"""Records of open transactions."""
RECORD: Final = 12
"""Log offset of the record that counts; of a tombstone too, while transactions are open."""
HAS_VALUE: Final = 13
VALUE: Final = 14
VALUE_TIME: Final = 15
VALUE_COMMIT_TIME: Final = 16
VALUE_EXPIRE_TIME: Final = 17
BEFORE_ASSIGNED: Final = 18
SINCE_ASSIGNED: Final = 19
SLOT_HAS_ID: Final = 20
SLOT_ID_HIGH: Final = 21
SLOT_ID_LOW: Final = 22
SLOT_TOPIC_ID: Final = 23
MINUTE: Final = 24
MINUTE_COMMITS: Final = 25
MINUTE_SUM: Final = 26
MINUTE_LEAST: Final = 27
"""Least advance, if the longest gap is not below 0: then there was one."""
MINUTE_GAP: Final = 28
GAPS: Final = 29
"""How many gaps there were; the last ten follow, as a ring."""
FIRST_GAP: Final = 30
KEPT_GAPS: Final = 10
SLOT_COLUMNS: Final = FIRST_GAP + KEPT_GAPS

# Columns of the table of groups.
GROUP_LIFE: Final = 0
GROUP_HAS_MEMBERS: Final = 1
GROUP_COLUMNS: Final = 2

# Registers of the slots.
SLOTS: Final = 0
FREE: Final = 1
ARENA_USED: Final = 2
CREATED: Final = 3
# Registers of the fold.
LOG_TIME: Final = 4
LOG_MINUTE: Final = 5
OPEN_MINUTES: Final = 6
OUT: Final = 7
MINUTES_OUT: Final = 8
MAYBE_FREE: Final = 9
TOMBSTONES: Final = 10
"""How many were written."""
REGISTERS: Final = 11

# Lines of what the fold writes: rows of commits.
OUT_ROW: Final = 0
OUT_IN_FORCE: Final = 1
OUT_IN_FORCE_TIME: Final = 2
OUT_KIND: Final = 3
OUT_HAS_PREVIOUS: Final = 4
OUT_PREVIOUS: Final = 5
OUT_PREVIOUS_TIME: Final = 6
OUT_GROUP: Final = 7
OUT_TOPIC: Final = 8
OUT_PREVIOUS_COMMIT_TIME: Final = 9
OUT_PREVIOUS_EXPIRE_TIME: Final = 10
OUT_LINES: Final = 11

# Kinds of rows, and origins.
NOTHING: Final = 0
FIRST: Final = 1
ADVANCE: Final = 2
REPEAT: Final = 3
REWIND: Final = 4
SUPERSEDED: Final = 5
TOMBSTONED: Final = 6
MEMBER: Final = 1
OUTSIDE: Final = 2
TRANSACTION: Final = 3

# Lines of minutes.
MINUTES_GROUP: Final = 0
MINUTES_TOPIC: Final = 1
MINUTES_PARTITION: Final = 2
MINUTES_MINUTE: Final = 3
MINUTES_OFFSET: Final = 4
MINUTES_COMMITS: Final = 5
MINUTES_LAST: Final = 6
MINUTES_SUM: Final = 7
MINUTES_LEAST: Final = 8
MINUTES_GAP: Final = 9
MINUTES_LINES: Final = 10

MINUTE_US: Final = 60_000_000
IDLE_MINUTES: Final = 15
"""Minutes of the log after which a partition's last minute has ended."""
_LONGEST_GAP: Final = 2**31 - 1
_PRIME: Final = 0x9E3779B97F4A7C15


@helper
def _word(data: Array, at: Number) -> Number:
    """Eight bytes as a number, in one load."""
    low = np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)
    low |= np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 3]) << np.uint64(24)
    low |= np.uint64(data[at + 4]) << np.uint64(32) | np.uint64(data[at + 5]) << np.uint64(40)
    return low | np.uint64(data[at + 6]) << np.uint64(48) | np.uint64(data[at + 7]) << np.uint64(56)


@helper
def _hash(data: Array, at: Number, size: Number) -> Number:
    hash_ = np.uint64(size) * np.uint64(_PRIME)
    end = at + size
    while end - at >= 8:
        hash_ = (hash_ ^ _word(data, at)) * np.uint64(_PRIME)
        hash_ ^= hash_ >> np.uint64(29)
        at += 8
    rest = np.uint64(0)
    while at < end:
        rest = rest << np.uint64(8) | np.uint64(data[at])
        at += 1
    hash_ = (hash_ ^ rest) * np.uint64(_PRIME)
    return np.int64((hash_ ^ hash_ >> np.uint64(32)) & np.uint64(0x7FFFFFFFFFFFFFFF))


@helper
def _is_equal(one: Array, at: Number, other: Array, other_at: Number, size: Number) -> Number:
    while size >= 8:
        if _word(one, at) != _word(other, other_at):
            return False
        at += 8
        other_at += 8
        size -= 8
    for index in range(size):  # noqa: SIM110, kernels have no generators
        if one[at + index] != other[other_at + index]:
            return False
    return True


@helper
def _new_slot(slots: Array, registers: Array) -> Number:
    """A free slot with nothing in it; -1 if there is no room."""
    slot = registers[FREE]
    if slot >= 0:
        registers[FREE] = slots[slot, NEXT]
    elif registers[SLOTS] < len(slots):
        slot = registers[SLOTS]
        registers[SLOTS] += 1
    else:
        return np.int64(-1)
    for column in range(SLOT_COLUMNS):
        slots[slot, column] = 0
    slots[slot, IS_USED] = 1
    slots[slot, OWNER_OF] = slots[slot, RECORD] = slots[slot, SLOT_TOPIC_ID] = -1
    slots[slot, BEFORE_ASSIGNED] = slots[slot, SINCE_ASSIGNED] = slots[slot, MINUTE] = NONE
    return slot


@kernel(INPUT, NUMBER, NUMBER, TABLE, TABLE, INT64, BYTES, INT64, INT64)
def find_slots(
    keys: Array,
    start: Number,
    creates: Number,
    rows: Array,
    slots: Array,
    heads: Array,
    arena: Array,
    created: Array,
    registers: Array,
) -> Number:
    """Set `SLOT`, `SEEN` and `TOPIC_ID` of the rows from `start` on.

    `creates`: 0 leaves the slot of an unknown key -1, 1 makes one, and 2 notes that the key occurs.
    New slots are in `created`. A topic id that is not the slot's last one is `UNRESOLVED`. Returns
    the first row that is not done: there is no room for another slot, or for its key in `arena`.
    """
    mask = np.int64(len(heads) - 1)
    for row in range(start, rows.shape[1]):
        rows[SLOT, row] = rows[TOPIC_ID, row] = -1
        rows[SEEN, row] = 0
        class_ = rows[CLASS, row]
        if class_ in (OTHER, BAD_KEY, CONTROL):
            continue
        at, size = rows[KEY_AT, row], rows[KEY_SIZE, row]
        hash_ = _hash(keys, at, size)
        slot = heads[hash_ & mask]
        while slot >= 0 and not (
            slots[slot, HASH] == hash_
            and slots[slot, ARENA_SIZE] == size
            and _is_equal(keys, at, arena, slots[slot, ARENA_AT], size)
        ):
            slot = slots[slot, NEXT]
        if slot < 0:
            if creates == 0:
                continue
            if size > len(arena) - registers[ARENA_USED]:
                return row
            slot = _new_slot(slots, registers)
            if slot < 0:
                return row
            copy(arena, registers[ARENA_USED], keys, at, size)
            slots[slot, HASH] = hash_
            slots[slot, ARENA_AT] = registers[ARENA_USED]
            slots[slot, ARENA_SIZE] = size
            slots[slot, GROUP_BYTES] = rows[GROUP_SIZE, row]
            slots[slot, NUMBER_OF] = rows[PARTITION, row]
            slots[slot, NEXT] = heads[hash_ & mask]
            heads[hash_ & mask] = slot
            registers[ARENA_USED] += size
            created[registers[CREATED]] = slot
            registers[CREATED] += 1
        rows[SLOT, row] = slot
        kind = np.int64(1) << rows[KEY_KIND, row]
        rows[SEEN, row] = np.int64(slots[slot, WAS_SEEN] & kind != 0)
        if creates == 2:
            slots[slot, WAS_SEEN] |= kind
        if rows[HAS_ID, row] != 0:
            rows[TOPIC_ID, row] = UNRESOLVED
            if (
                slots[slot, SLOT_HAS_ID] != 0
                and slots[slot, SLOT_ID_HIGH] == rows[ID_HIGH, row]
                and slots[slot, SLOT_ID_LOW] == rows[ID_LOW, row]
            ):
                rows[TOPIC_ID, row] = slots[slot, SLOT_TOPIC_ID]
    return rows.shape[1]


@kernel(TABLE, INT64, INT64)
def link_slots(slots: Array, heads: Array, registers: Array) -> Number:
    """Put all slots into the lists of `heads`, whose elements are -1; the others are free."""
    mask = np.int64(len(heads) - 1)
    registers[FREE] = -1
    for slot in range(registers[SLOTS]):
        if slots[slot, IS_USED] != 0:
            bucket = slots[slot, HASH] & mask
            slots[slot, NEXT] = heads[bucket]
            heads[bucket] = slot
        else:
            slots[slot, NEXT] = registers[FREE]
            registers[FREE] = slot
    return 0


@kernel(TABLE, INT64, INT64)
def free_slots(slots: Array, heads: Array, registers: Array) -> Number:
    """Free the slots that say nothing any more. Returns how many bytes of keys they had."""
    mask = np.int64(len(heads) - 1)
    freed = np.int64(0)
    for slot in range(registers[SLOTS]):
        if (
            slots[slot, IS_USED] == 0
            or slots[slot, HAS_VALUE] != 0
            or slots[slot, PENDING] != 0
            or slots[slot, OWNER_OF] >= 0
        ):
            continue
        bucket = slots[slot, HASH] & mask
        if heads[bucket] == slot:
            heads[bucket] = slots[slot, NEXT]
        else:
            before = heads[bucket]
            while slots[before, NEXT] != slot:
                before = slots[before, NEXT]
            slots[before, NEXT] = slots[slot, NEXT]
        slots[slot, IS_USED] = 0
        slots[slot, NEXT] = registers[FREE]
        registers[FREE] = slot
        freed += slots[slot, ARENA_SIZE]
    return freed


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
    """The running maximum of record time, and the minutes that end by it."""
    registers[LOG_TIME] = time
    minute = time // MINUTE_US
    if minute == registers[LOG_MINUTE]:
        return
    registers[LOG_MINUTE] = minute
    if registers[OPEN_MINUTES] == 0:
        return
    for slot in range(registers[SLOTS]):
        if (
            slots[slot, IS_USED] != 0
            and slots[slot, MINUTE] != NONE
            and slots[slot, MINUTE] <= minute - IDLE_MINUTES
        ):
            _close_minute(slots, slot, minutes, registers)


@helper
def _count(slots: Array, slot: Number, advance: Number, gap: Number, registers: Array) -> None:
    """Count a commit in its minute. `gap`: -1 of the first, which has no advance either."""
    if slots[slot, MINUTE] == NONE:
        registers[OPEN_MINUTES] += 1
        slots[slot, MINUTE] = registers[LOG_MINUTE]
        slots[slot, MINUTE_COMMITS] = slots[slot, MINUTE_SUM] = slots[slot, MINUTE_LEAST] = 0
        slots[slot, MINUTE_GAP] = -1
    slots[slot, MINUTE_COMMITS] += 1
    if gap >= 0:
        slots[slot, MINUTE_SUM] += advance
        if slots[slot, MINUTE_GAP] < 0 or advance < slots[slot, MINUTE_LEAST]:
            slots[slot, MINUTE_LEAST] = advance
        slots[slot, MINUTE_GAP] = max(slots[slot, MINUTE_GAP], gap)


@helper
def _emit(rows: Array, row: Number, slots: Array, out: Array, registers: Array) -> Number:
    """A row of commits that never counts; where it is."""
    at = registers[OUT]
    registers[OUT] += 1
    out[OUT_ROW, at] = row
    out[OUT_IN_FORCE, at] = out[OUT_IN_FORCE_TIME, at] = 0
    out[OUT_KIND, at] = NOTHING
    out[OUT_HAS_PREVIOUS, at] = out[OUT_PREVIOUS, at] = out[OUT_PREVIOUS_TIME, at] = 0
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
    has_value = slots[slot, HAS_VALUE]
    before, before_time = slots[slot, VALUE], slots[slot, VALUE_TIME]
    if has_value != 0:
        out[OUT_HAS_PREVIOUS, at] = 1
        out[OUT_PREVIOUS, at] = before
        out[OUT_PREVIOUS_TIME, at] = before_time
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
        advance = value - before
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
