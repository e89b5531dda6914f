"""The loops that find the slot of each key, a partition of a group, and free those without use.

Slots of equal hash are a list, which begins in `heads`. The caller (`history.partitions`) checks
that the tables are large enough, and the keys are those that `commit_kernels` has found.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.commit_kernels import (
    BAD_KEY,
    CLASS,
    CONTROL,
    GROUP_SIZE,
    HAS_ID,
    ID_HIGH,
    ID_LOW,
    KEY_AT,
    KEY_KIND,
    KEY_SIZE,
    OTHER,
    PARTITION,
)
from kohort.columnar.commit_tables import (
    ARENA_AT,
    ARENA_SIZE,
    ARENA_USED,
    BEFORE_ASSIGNED,
    CREATED,
    FREE,
    GROUP_BYTES,
    HAS_VALUE,
    HASH,
    IS_USED,
    LAST_KIND,
    LAST_SEEN,
    LOG_OFFSET,
    MINUTE,
    NEXT,
    NONE,
    NUMBER_OF,
    OWNER_OF,
    PENDING,
    RECORD,
    SEEN,
    SINCE_ASSIGNED,
    SLOT,
    SLOT_COLUMNS,
    SLOT_HAS_ID,
    SLOT_ID_HIGH,
    SLOT_ID_LOW,
    SLOT_TOPIC_ID,
    SLOTS,
    TOPIC_ID,
    UNREADABLE,
    UNRESOLVED,
)
from kohort.columnar.compiling import BYTES, INPUT, INT64, NUMBER, TABLE, copy, helper, kernel

Array: TypeAlias = Any
Number: TypeAlias = Any
"""An int64, whatever numpy calls it."""

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
    slots[slot, LAST_SEEN] = slots[slot, UNREADABLE] = -1
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

    `creates`: 0 leaves the slot of a new key -1, 1 makes one, 2 also sets `LAST_SEEN`. `created`
    has the new slots. A topic id that is not the slot's last one is `UNRESOLVED`. Returns the first
    row that is not done: there is no room for another slot, or for its key in `arena`.
    """
    mask = np.int64(len(heads) - 1)
    for row in range(start, rows.shape[1]):
        rows[SLOT, row] = rows[TOPIC_ID, row] = -1
        rows[SEEN, row] = -1
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
        if slots[slot, LAST_KIND] == rows[KEY_KIND, row]:
            rows[SEEN, row] = slots[slot, LAST_SEEN]
        if creates == 2:
            slots[slot, LAST_SEEN] = rows[LOG_OFFSET, row]
            slots[slot, LAST_KIND] = rows[KEY_KIND, row]
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
    """Free the slots without a value, an owner and records that may still count.

    Returns how many bytes their keys have.
    """
    mask = np.int64(len(heads) - 1)
    freed = np.int64(0)
    for slot in range(registers[SLOTS]):
        if (
            slots[slot, IS_USED] == 0
            or slots[slot, HAS_VALUE] != 0
            or slots[slot, PENDING] != 0
            or slots[slot, UNREADABLE] >= 0
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
