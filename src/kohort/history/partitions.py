"""The partitions of all groups of a log partition: a slot for each, and names for their numbers.

A slot is freed when its offset is deleted, no open transaction has one, and nobody owns it. It
stays if a record behind the deletion cannot be decoded: there may be an offset. Until the offset is
found from which on the log is complete, slots stay: a key that occurs again shows it.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import commit_kernels as ck
from kohort.columnar import commit_tables as fk
from kohort.columnar import slot_kernels
from kohort.columnar.compiling import BoundKernel
from kohort.history.interface import Owner
from kohort.history.record_table import RecordTable, Strings
from kohort.protocol.packing import pack_int32, pack_string
from kohort.types import TopicPartition

Array: TypeAlias = Any

_FIRST_SLOTS: Final = 1024
_FIRST_ARENA: Final = 1 << 16
_LONGEST_KEY: Final = 2 * (2 + 2**15) + 4
_NOTHING: Final[Array] = np.empty(0, np.uint8)
_UNCREATED, _CREATED, _OCCURRED = range(3)
"""What `find_slots` does with an unknown key."""


class Names:
    """Numbers for values that occur often, in order of their first occurrence."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.values: list[Any] = list(values)
        self._numbers: dict[Any, int] = {value: at for at, value in enumerate(self.values)}
        self._arrow = pa.array([], pa.string())

    def __len__(self) -> int:
        return len(self.values)

    def number(self, value: Any) -> int:
        """Its number, a new one if it has none."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number

    def find(self, value: Any) -> int | None:
        return self._numbers.get(value)

    @property
    def arrow(self) -> pa.Array:
        """The values as strings."""
        if len(self._arrow) != len(self.values):
            self._arrow = pa.array(map(str, self.values), pa.string())
        return self._arrow


class Partitions:
    """Slots by key. `registers` are those of the kernels of the fold."""

    def __init__(self) -> None:
        self.slots: Array = np.empty((_FIRST_SLOTS, fk.SLOT_COLUMNS), np.int64)
        self.heads: Array = np.full(_FIRST_SLOTS, -1, np.int64)
        self.arena: Array = np.empty(_FIRST_ARENA, np.uint8)
        """Keys of the slots, from the group on."""
        self.registers: Array = np.zeros(fk.REGISTERS, np.int64)
        self.registers[[fk.FREE, fk.LOG_TIME, fk.LOG_MINUTE]] = -1, fk.NONE, fk.NONE
        self.group_names, self.topics = Names(), Names()
        self.topic_ids: Names = Names()
        self.owners: Names = Names()
        self.groups: Array = np.empty((_FIRST_SLOTS, fk.GROUP_COLUMNS), np.int64)
        """Row by number of `group_names`."""
        self._found: dict[tuple[str, TopicPartition], int] = {}
        """Slots that were looked up by name."""
        self._key: Array = np.empty(_LONGEST_KEY, np.uint8)
        self._key_row: Array = np.zeros((fk.RECORD_LINES, 1), np.int64)
        self._key_row[ck.CLASS] = ck.TOMBSTONE
        self._created: Array = np.empty(1, np.int64)
        self._finder: BoundKernel | None = None
        """Looks up one key; made anew when arrays grow."""
        self._garbage = 0
        """Bytes in `arena` that no slot has."""

    # --- keys

    def find(self, table: RecordTable) -> Array:
        """Set slots and topic ids of the records of a call.

        Returns the records that are the first ones with their topic id.
        """
        self._find(table.keys.data, table.rows, table.first, _OCCURRED)
        return self._resolve_topic_ids(table.rows, table.first)

    def _find(self, keys: Array, rows: Array, start: int, creates: int) -> None:
        created = np.empty(rows.shape[1] - start, np.int64)
        while True:
            self.registers[fk.CREATED] = 0
            start = slot_kernels.find_slots(
                keys, start, creates, rows, self.slots, self.heads, self.arena, created,
                self.registers,
            )  # fmt: skip
            if self.registers[fk.CREATED]:
                self._name(created[: self.registers[fk.CREATED]])
            if start == rows.shape[1]:
                return
            self._grow(int(rows[ck.KEY_SIZE, start]))

    def _name(self, created: Array) -> None:
        """Number the groups and topics of new slots."""
        slots, arena = self.slots, memoryview(self.arena)
        lines = slots[created, fk.ARENA_AT : fk.GROUP_BYTES + 1].tolist()
        pairs: dict[bytes, tuple[int, int]] = {}
        numbers = []
        for at, size, group_size in lines:
            names = bytes(arena[at : at + size - 4])
            pair = pairs.get(names)
            if pair is None:
                group, topic = names[2 : 2 + group_size], names[4 + group_size :]
                pair = self.group_number(group.decode()), self.topics.number(topic.decode())
                pairs[names] = pair
            numbers.append(pair)
        slots[created, fk.GROUP], slots[created, fk.TOPIC] = np.array(numbers, np.int64).T

    def group_number(self, group: str) -> int:
        """The row of `groups` of a group, a new one if it has none."""
        new = len(self.group_names)
        number = self.group_names.number(group)
        if number == new:
            if number == len(self.groups):
                self.groups = _grown(self.groups, 2 * number)
            self.groups[number] = -1, 0
        return number

    def _grow(self, key_size: int) -> None:
        """Make room for a slot, and for a key of this size."""
        used, self._finder = int(self.registers[fk.ARENA_USED]), None
        if len(self.arena) - used < key_size:
            if self._garbage > used // 2:
                self._compact_arena()
            else:
                self.arena = _grown(self.arena, 2 * len(self.arena) + key_size)
        if self.registers[fk.SLOTS] == len(self.slots):
            self.slots = _grown(self.slots, 2 * len(self.slots))
        self.heads = np.full(len(self.slots), -1, np.int64)
        slot_kernels.link_slots(self.slots, self.heads, self.registers)

    def _compact_arena(self) -> None:
        used = np.flatnonzero(self.slots[: self.registers[fk.SLOTS], fk.IS_USED])
        keys, sizes = self.keys(used)
        self.slots[used, fk.ARENA_AT] = np.cumsum(sizes) - sizes
        self.arena = np.empty(len(self.arena), np.uint8)
        self.arena[: len(keys)] = keys
        self.registers[fk.ARENA_USED], self._garbage = len(keys), 0

    def keys(self, slots: Array) -> tuple[Array, Array]:
        """The keys of slots from the group on, one after the other, and their sizes."""
        parts = np.ascontiguousarray(self.slots[slots][:, [fk.ARENA_AT, fk.ARENA_SIZE]].T)
        keys: Array = np.empty(int(parts[1].sum()), np.uint8)
        ck.gather(self.arena, _NOTHING, len(keys), parts, keys)
        return keys, parts[1]

    def free(self) -> None:
        """Free slots without state, if records have ended that may have been theirs."""
        if self.registers[fk.MAYBE_FREE]:
            self._garbage += slot_kernels.free_slots(self.slots, self.heads, self.registers)
            self.registers[fk.MAYBE_FREE] = 0
            self._found.clear()

    def _resolve_topic_ids(self, rows: Array, start: int) -> Array:
        unresolved = start + np.flatnonzero(rows[fk.TOPIC_ID, start:] == fk.UNRESOLVED)
        if not len(unresolved):
            return unresolved
        pairs = np.ascontiguousarray(rows[[ck.ID_HIGH, ck.ID_LOW]][:, unresolved].T)
        ids, firsts, which = np.unique(
            pairs.view(np.dtype((np.void, 16))).ravel(), return_index=True, return_inverse=True
        )
        first_new = len(self.topic_ids)
        uuids = [UUID(bytes=pairs[at].astype(">i8").tobytes()) for at in firsts.tolist()]
        order = np.argsort(firsts)
        numbers = np.empty(len(ids), np.int64)
        for at in order.tolist():
            numbers[at] = self.topic_ids.number(uuids[at])
        rows[fk.TOPIC_ID, unresolved] = numbers[which]
        slots = rows[fk.SLOT, unresolved]
        self.slots[slots, fk.SLOT_HAS_ID] = 1  # of several rows the last one counts
        self.slots[slots, fk.SLOT_ID_HIGH] = pairs[:, 0]
        self.slots[slots, fk.SLOT_ID_LOW] = pairs[:, 1]
        self.slots[slots, fk.SLOT_TOPIC_ID] = rows[fk.TOPIC_ID, unresolved]
        return np.sort(unresolved[firsts[numbers >= first_new]])

    def create(self, keys: pa.Array) -> Array:
        """Slots of keys that have none; `keys` from the group on."""
        strings = Strings.of(keys)
        rows: Array = np.zeros((fk.RECORD_LINES, len(keys)), np.int64)
        rows[ck.CLASS] = ck.TOMBSTONE
        at = rows[ck.KEY_AT] = strings.ends[:-1].astype(np.int64)
        rows[ck.KEY_SIZE] = np.diff(strings.ends)
        rows[ck.GROUP_SIZE] = _big_endian(strings.data, at, 2)
        rows[ck.PARTITION] = _big_endian(strings.data, at + rows[ck.KEY_SIZE] - 4, 4)
        rows[ck.PARTITION] = rows[ck.PARTITION].astype(np.int32)
        self._find(strings.data, rows, 0, _CREATED)
        return rows[fk.SLOT]

    def open_minutes(self) -> Array:
        """Lines of the minutes that have not ended, in the order of their commits."""
        slots = self.slots[: self.registers[fk.SLOTS]]
        slots = slots[(slots[:, fk.IS_USED] != 0) & (slots[:, fk.MINUTE] != fk.NONE)]
        slots = slots[np.argsort(slots[:, fk.RECORD])]
        columns = [fk.GROUP, fk.TOPIC, fk.NUMBER_OF, fk.MINUTE, fk.RECORD, fk.MINUTE_COMMITS]
        columns += [fk.VALUE, fk.MINUTE_SUM, fk.MINUTE_LEAST, fk.MINUTE_GAP]
        return np.ascontiguousarray(slots[:, columns].T)

    def committed(self) -> Array:
        """Lines of the known commits in force: group, topic, partition, offset, time in µs."""
        slots = self.slots[: self.registers[fk.SLOTS]]
        is_known = (slots[:, fk.HAS_VALUE] != 0) & (slots[:, fk.UNREADABLE] < 0)
        slots = slots[(slots[:, fk.IS_USED] != 0) & is_known]
        columns = [fk.GROUP, fk.TOPIC, fk.NUMBER_OF, fk.VALUE, fk.VALUE_TIME]
        return np.ascontiguousarray(slots[:, columns].T)

    def slot(self, group: str, tp: TopicPartition, *, create: bool = False) -> int:
        """The slot of a partition; -1 if it has none."""
        slot = self._found.get((group, tp), -1)
        if slot < 0:
            slot = self._look_up(group, tp, create=create)
            if slot >= 0:
                self._found[group, tp] = slot
        return slot

    def _look_up(self, group: str, tp: TopicPartition, *, create: bool) -> int:
        start = pack_string(group)
        key = start + pack_string(tp.topic) + pack_int32(tp.partition)
        row = self._key_row
        self._key[: len(key)] = np.frombuffer(key, np.uint8)
        row[ck.KEY_SIZE], row[ck.GROUP_SIZE] = len(key), len(start) - 2
        row[ck.PARTITION] = tp.partition
        creates = _CREATED if create else _UNCREATED
        if self._finder is None:
            self._finder = slot_kernels.find_slots.bind(
                self._key, 0, 0, row, self.slots, self.heads, self.arena, self._created,
                self.registers,
            )  # fmt: skip
        self.registers[fk.CREATED] = 0
        if not self._finder(0, creates):  # no room
            self._find(self._key, row, 0, creates)
        elif self.registers[fk.CREATED]:
            names = self.group_number(group), self.topics.number(tp.topic)
            self.slots[self._created[0], fk.GROUP : fk.TOPIC + 1] = names
        return int(row[fk.SLOT, 0])

    @property
    def names(self) -> int:
        """How many names have numbers; they keep them, also when nothing has the name any more."""
        named = self.group_names, self.topics, self.topic_ids, self.owners
        return sum(map(len, named))

    # --- owners

    def assign(self, group: str, tp: TopicPartition, owner: Owner | None) -> None:
        """From now on commits of `tp` are this owner's; None: nobody's."""
        slot = self.slot(group, tp, create=owner is not None)
        if slot < 0:
            return
        values = self.slots[slot]
        before = int(values[fk.OWNER_OF])
        values[fk.OWNER_OF] = -1 if owner is None else self.owners.number(owner)
        former = None if before < 0 else self.owners.values[before].member_id
        if former == (None if owner is None else owner.member_id):
            return
        values[fk.BEFORE_ASSIGNED] = values[fk.VALUE_TIME] if values[fk.HAS_VALUE] else fk.NONE
        values[fk.SINCE_ASSIGNED] = fk.NONE
        self.registers[fk.MAYBE_FREE] = 1

    def owner_columns(self) -> dict[str, pa.Array]:
        """The fields of all owners, by number."""
        kinds = (pa.string(), pa.string(), pa.string(), pa.int32())
        return {
            name: pa.array([owner[at] for owner in self.owners.values], kind)
            for at, (name, kind) in enumerate(zip(Owner._fields, kinds, strict=True))
        }


def _big_endian(data: Array, at: Array, size: int) -> Array:
    number = np.zeros(len(at), np.int64)
    for index in range(size):
        number = number << 8 | data[at + index]
    return number


def _grown(array: Array, length: int) -> Array:
    grown = np.empty((length, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
