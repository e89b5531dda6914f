"""The bytes of a state: Arrow streams by name, in one more Arrow stream behind a checksum.

Equal states have equal bytes, wherever the log was cut: partitions are in the order of their keys,
numbers for names are given anew, and what no longer matters is left out.
"""

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import xxhash

from kohort.columnar import commit_kernels as ck
from kohort.columnar import commit_tables as fk
from kohort.errors import KohortError
from kohort.history.arrow_columns import strings
from kohort.history.coverage import Coverage
from kohort.history.gaps import Gap
from kohort.history.interface import Owner
from kohort.history.last_record import LastRecord
from kohort.history.partitions import Partitions
from kohort.history.record_table import Pending

Array: TypeAlias = Any

VERSION: Final = 2
BUILD_ANEW: Final = "build the history into another directory"
"""What to do with files that another version of Kohort has written."""
_NEVER: Final = 2**63 - 1
_MAGIC: Final = b"KohortHS"
_HEAD: Final = struct.Struct(">8sHQ")
"""What this is, version, checksum."""
_SCHEMA: Final = pa.schema([pa.field("name", pa.string()), pa.field("data", pa.binary())])
_ZSTD: Final = pa.ipc.IpcWriteOptions(compression="zstd")

_SLOT_COLUMNS: Final = {
    "last_seen": fk.LAST_SEEN,
    "last_kind": fk.LAST_KIND,
    "unreadable": fk.UNREADABLE,
    "owner": fk.OWNER_OF,
    "record": fk.RECORD,
    "has_value": fk.HAS_VALUE,
    "value": fk.VALUE,
    "time": fk.VALUE_TIME,
    "commit_time": fk.VALUE_COMMIT_TIME,
    "expire_time": fk.VALUE_EXPIRE_TIME,
    "before_assigned": fk.BEFORE_ASSIGNED,
    "since_assigned": fk.SINCE_ASSIGNED,
    "minute": fk.MINUTE,
    "minute_commits": fk.MINUTE_COMMITS,
    "minute_sum": fk.MINUTE_SUM,
    "minute_least": fk.MINUTE_LEAST,
    "minute_gap": fk.MINUTE_GAP,
    "gaps": fk.GAPS,
    **{f"gap{at}": fk.FIRST_GAP + at for at in range(fk.KEPT_GAPS)},
}
_PENDING_LINES: Final = {
    "kind": ck.KEY_KIND,
    "group_size": ck.GROUP_SIZE,
    "partition": ck.PARTITION,
    "version": ck.VERSION,
    "committed": ck.COMMITTED,
    "leader_epoch": ck.LEADER_EPOCH,
    "commit_time": ck.COMMIT_TIME,
    "expire_time": ck.EXPIRE_TIME,
    "has_id": ck.HAS_ID,
    "id_high": ck.ID_HIGH,
    "id_low": ck.ID_LOW,
    "log_offset": fk.LOG_OFFSET,
    "time": fk.TIME,
    "log_leader_epoch": fk.LOG_LEADER_EPOCH,
    "batch_offset": fk.BATCH_OFFSET,
    "producer_id": fk.PRODUCER_ID,
    "producer_epoch": fk.PRODUCER_EPOCH,
    "owner": fk.OWNER,
    "origin": fk.ORIGIN,
    "life": fk.LIFE,
    "slot": fk.SLOT,
}


# --- the container


def pack(parts: Mapping[str, bytes]) -> bytes:
    """The parts in one stream behind a head with the version and a checksum."""
    names, data = pa.array(parts.keys(), pa.string()), pa.array(parts.values(), pa.binary())
    stream = batch_to_bytes(pa.RecordBatch.from_arrays([names, data], schema=_SCHEMA))
    return _HEAD.pack(_MAGIC, VERSION, xxhash.xxh3_64_intdigest(stream)) + stream


def unpack(data: bytes) -> dict[str, bytes]:
    """The parts. Raises KohortError if they are damaged, or of another version of the format."""
    if len(data) < _HEAD.size:
        raise KohortError(f"the state of a history is damaged: it has {len(data)} bytes")
    magic, version, checksum = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise KohortError("the state of a history is damaged, or this is none")
    if version != VERSION:
        raise KohortError(
            f"the state of a history has version {version}, this program reads version {VERSION}: "
            f"it was written by another version of Kohort; {BUILD_ANEW}"
        )
    stream = data[_HEAD.size :]
    if xxhash.xxh3_64_intdigest(stream) != checksum:  # Arrow trusts what it reads
        raise KohortError("the state of a history is damaged: its checksum is another")
    columns = [column.to_pylist() for column in batch_from_bytes(stream).columns]
    return dict(zip(*columns, strict=True))


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_ZSTD) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def batch_from_bytes(data: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(data).read_next_batch()


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()


# --- partitions


class PartitionsDump:
    """The slots in the order of their keys, and numbers for the owners that are left."""

    def __init__(self, partitions: Partitions, pending: Pending, seen_since: int) -> None:
        """`seen_since`: which keys occurred before this offset does not matter any more."""
        self._seen_since = seen_since
        self._partitions = partitions
        self._pending = pending
        slots = partitions.slots
        slots = slots[: partitions.registers[fk.SLOTS]]
        says_nothing = (
            (slots[:, fk.HAS_VALUE] == 0)
            & (slots[:, fk.PENDING] == 0)
            & (slots[:, fk.UNREADABLE] < 0)
            & (slots[:, fk.OWNER_OF] < 0)
            & (slots[:, fk.LAST_SEEN] < seen_since)
        )
        used = np.flatnonzero((slots[:, fk.IS_USED] != 0) & ~says_nothing)
        keys = strings(*partitions.keys(used), kind=pa.binary())
        order = pc.sort_indices(keys)
        self._keys = keys.take(order)
        self._slots = used[order.to_numpy()]
        self._places = np.full(len(slots), -1, np.int64)
        self._places[self._slots] = np.arange(len(used))

    def parts(self) -> dict[str, bytes]:
        values: Array = self._partitions.slots[self._slots]
        first_pending: Array = np.full(len(values), _NEVER, np.int64)
        rows = self._pending.rows
        np.minimum.at(first_pending, self._places[rows[fk.SLOT]], rows[fk.LOG_OFFSET])
        _leave_out(values, first_pending)
        is_unseen = values[:, fk.LAST_SEEN] < self._seen_since
        values[is_unseen, fk.LAST_SEEN], values[is_unseen, fk.LAST_KIND] = -1, 0
        owners = _Renumbered()
        values[:, fk.OWNER_OF] = owners.numbers(values[:, fk.OWNER_OF])
        columns = {"key": self._keys}
        columns |= {name: pa.array(values[:, at]) for name, at in _SLOT_COLUMNS.items()}
        pending = self._pending_columns(owners)
        used = [self._partitions.owners.values[number] for number in owners.used]
        owner_rows = [owner._asdict() for owner in used]
        return {
            "partitions": batch_to_bytes(pa.RecordBatch.from_pydict(columns)),
            "groups": batch_to_bytes(self._groups()),
            "pending": batch_to_bytes(pa.RecordBatch.from_pydict(pending)),
            "owners": to_json(owner_rows),
        }

    def _groups(self) -> pa.RecordBatch:
        names, groups = self._partitions.group_names.values, self._partitions.groups
        kept = groups[: len(names)]
        is_kept = (kept[:, fk.GROUP_LIFE] >= 0) | (kept[:, fk.GROUP_HAS_MEMBERS] != 0)
        at = sorted(np.flatnonzero(is_kept).tolist(), key=names.__getitem__)
        return pa.RecordBatch.from_pydict({
            "group": pa.array([names[number] for number in at], pa.string()),
            "life": pa.array(kept[at, fk.GROUP_LIFE]),
            "has_members": pa.array(kept[at, fk.GROUP_HAS_MEMBERS]),
        })  # fmt: skip

    def _pending_columns(self, owners: "_Renumbered") -> dict[str, pa.Array]:
        rows = self._pending.rows.copy()
        rows[fk.SLOT] = self._places[rows[fk.SLOT]]
        rows[fk.OWNER] = owners.numbers(rows[fk.OWNER])
        columns = {name: pa.array(rows[at]) for name, at in _PENDING_LINES.items()}
        sizes = rows[ck.METADATA_SIZE]
        columns["metadata"] = strings(self._pending.metadata, sizes)
        return columns


class _Renumbered:
    """Numbers from 0 on for others, in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {-1: -1}

    def numbers(self, old: Array) -> Array:
        new = [self._numbers.setdefault(number, len(self._numbers) - 1) for number in old.tolist()]
        return np.array(new, np.int64)

    @property
    def used(self) -> list[int]:
        return list(self._numbers)[1:]


def _leave_out(values: Array, first_pending: Array) -> None:
    """Overwrite what says nothing, such as the gaps before a tombstone.

    `first_pending`: log offset of the first record of an open transaction, by slot.
    """
    supersedes_none = values[:, fk.RECORD] < first_pending
    values[(values[:, fk.HAS_VALUE] == 0) & supersedes_none, fk.RECORD] = -1
    values[values[:, fk.MINUTE] == fk.NONE, fk.MINUTE_COMMITS : fk.MINUTE_GAP + 1] = 0
    for at in range(fk.KEPT_GAPS):
        values[values[:, fk.GAPS] <= at, fk.FIRST_GAP + at] = 0


def load_partitions(
    parts: Mapping[str, bytes], registers: Mapping[str, int]
) -> tuple[Partitions, Pending]:
    """What `PartitionsDump` has written."""
    table = batch_from_bytes(parts["partitions"])
    partitions = Partitions()
    slots = partitions.create(table.column("key"))
    values = partitions.slots
    for name, at in _SLOT_COLUMNS.items():
        values[slots, at] = table.column(name).to_numpy()
    for owner in json.loads(parts["owners"]):
        partitions.owners.number(Owner(**owner))
    groups = batch_from_bytes(parts["groups"])
    numbers = [partitions.group_number(group) for group in groups.column("group").to_pylist()]
    partitions.groups[numbers, fk.GROUP_LIFE] = groups.column("life").to_numpy()
    partitions.groups[numbers, fk.GROUP_HAS_MEMBERS] = groups.column("has_members").to_numpy()
    pending = _load_pending(batch_from_bytes(parts["pending"]), partitions, slots)
    minutes = values[slots, fk.MINUTE]
    is_open = minutes != fk.NONE
    partitions.registers[fk.OPEN_MINUTES] = np.count_nonzero(is_open)
    partitions.registers[fk.OLDEST_MINUTE] = np.min(minutes, where=is_open, initial=_NEVER)
    partitions.registers[fk.LOG_TIME] = registers["log_time"]
    partitions.registers[fk.LOG_MINUTE] = registers["log_minute"]
    return partitions, pending


def _load_pending(batch: pa.RecordBatch, partitions: Partitions, slots: Array) -> Pending:
    rows: Array = np.zeros((fk.RECORD_LINES, batch.num_rows), np.int64)
    for name, at in _PENDING_LINES.items():
        rows[at] = batch.column(name).to_numpy()
    rows[ck.CLASS], rows[fk.IS_TRANSACTIONAL], rows[fk.IS_PENDING] = ck.COMMIT, 1, 1
    rows[fk.SLOT] = slots[rows[fk.SLOT]]
    np.add.at(partitions.slots, (rows[fk.SLOT], fk.PENDING), 1)
    rows[fk.TOPIC_ID] = [
        partitions.topic_ids.number(UUID(bytes=np.array(pair, ">i8").tobytes())) if has_id else -1
        for has_id, *pair in rows[[ck.HAS_ID, ck.ID_HIGH, ck.ID_LOW]].T.tolist()
    ]
    texts = [text.encode() for text in batch.column("metadata").to_pylist()]
    rows[ck.METADATA_SIZE] = [len(text) for text in texts]
    return Pending.of(rows, np.frombuffer(b"".join(texts), np.uint8))


# --- the rest


def coverage_to_json(coverage: Coverage) -> dict[str, Any]:
    seen = sorted((b64encode(key).decode(), at) for key, at in coverage.seen.items())
    return asdict(coverage) | {"seen": seen, "open_then": sorted(coverage.open_then)}


def coverage_from_json(values: dict[str, Any]) -> Coverage:
    last = values["last_record"]
    return Coverage(
        **values
        | {
            "seen": {b64decode(key): at for key, at in values["seen"]},
            "compaction_gaps": [Gap(*gap) for gap in values["compaction_gaps"]],
            "open_then": set(values["open_then"]),
            "last_record": None if last is None else LastRecord(*last),
        }
    )
