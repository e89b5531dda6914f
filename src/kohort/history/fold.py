"""The fold of one log partition of `__consumer_offsets` into the rows of all tables.

    state = State.new(log_partition=7)
    rows, state = fold(state, records)     # `records`: `schema.RECORDS`, in offset order
    data = state.to_arrow()                # and later State.from_arrow(data)

Wherever the log is cut, the rows and the state are the same. Only the order of rows may differ.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.coordinator.records import NO_TIMESTAMP, OffsetCommitRecord, decode
from kohort.coordinator_common import CorruptRecordError
from kohort.history.schema import COMMITS, GROUPS, TABLES
from kohort.history.state import Slot, State, minute_row

Rows: TypeAlias = Mapping[str, pa.RecordBatch]
"""Rows by table, for each table of `schema.TABLES`."""
_Row: TypeAlias = dict[str, Any]

_MINUTE: int = 60_000_000
_IDLE_MINUTES = 15


def fold(state: State, records: pa.RecordBatch) -> tuple[Rows, State]:
    """Fold records of `schema.RECORDS` that follow those that the state has seen.

    The state is consumed: it may be changed in place. Never raises for what records contain.
    """
    run = _Run(state)
    numbers = records.set_column(
        records.schema.get_field_index("timestamp"),
        "timestamp",
        records.column("timestamp").cast(pa.int64()),
    )
    for record in numbers.to_pylist():
        run.record(record)
    return {name: _batch(run.rows[name], schema) for name, schema in TABLES.items()}, state


def _batch(rows: list[_Row], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


class _Run:
    def __init__(self, state: State) -> None:
        self.state = state
        self.rows: dict[str, list[_Row]] = {name: [] for name in TABLES}

    def record(self, record: _Row) -> None:
        state = self.state
        offset, time = record["offset"], record["timestamp"]
        key, value, control = record["key"], record["value"], record["control"]
        if state.first is None:
            state.first, state.first_time = offset, time
        if offset != state.next_offset:
            state.holes += 1
            if state.first_hole is None:
                state.first_hole = offset
        state.next_offset = offset + 1
        state.records += 1
        state.size += len(key or b"") + len(value or b"")
        if record["batchOffset"] is not None and record["batchOffset"] != state.batch_offset:
            state.batches += 1
            state.batch_offset = record["batchOffset"]
        if state.last_time is None or time > state.last_time:
            state.last_time = time
            self.close_minutes(time // _MINUTE - _IDLE_MINUTES)
        if control is not None:
            state.control_records += 1
            self.marker(record)
            return
        if key is not None and state.complete_from is None:
            if key in state.seen:
                state.complete_from, state.complete_from_time = offset, time
                state.seen = set()
            else:
                state.seen.add(key)
        if key is not None and key[:2] in (b"\0\0", b"\0\1"):
            self.offset(record)

    @property
    def certainty(self) -> str:
        state = self.state
        exact = state.first_hole is None or state.complete_from is not None
        return "exact" if exact else "unknown"

    def marker(self, record: _Row) -> None:
        self.rows["groups"].append(
            {
                **self.position(record),
                "txn": None,
                "in_force": record["offset"],
                "type": "marker",
                "other": {"kind": record["control"], "json": None},
            }
        )
        if record["control"] not in ("commit", "abort"):
            return
        pending = self.state.pending.pop(record["producerId"], [])
        for row in reversed(pending):
            if record["control"] == "abort":
                row["txn"] = "aborted"
            else:
                row |= {"txn": "committed", "in_force": record["offset"]}
                row["in_force_time"] = record["timestamp"]
                self.in_force(row)
            self.rows["commits"].append(row)

    def position(self, record: _Row) -> _Row:
        return {
            "log_partition": self.state.log_partition,
            "log_offset": record["offset"],
            "time": record["timestamp"],
            "log_leader_epoch": record["partitionLeaderEpoch"],
            "batch_offset": record["batchOffset"],
            "producer_id": record["producerId"],
            "producer_epoch": record["producerEpoch"],
        }

    def offset(self, record: _Row) -> None:
        row = self.position(record) | {"type": "offset"}
        row["txn"] = "assumed" if record["transactional"] is None else None
        try:
            decoded = decode(record["key"], record["value"])
        except CorruptRecordError as error:
            self.state.errors += 1
            row |= {"error": str(error), "raw_key": record["key"], "raw_value": record["value"]}
            try:
                decoded = decode(record["key"], None)
            except CorruptRecordError:
                decoded = None
        if isinstance(decoded, OffsetCommitRecord):
            group, topic, partition = decoded.key
            life = self.state.lives.setdefault(group, record["offset"])
            row |= {"group": group, "topic": topic, "partition": partition, "life": life}
        value = decoded.value if isinstance(decoded, OffsetCommitRecord) else None
        if "error" in row:
            self.rows["commits"].append(row)
            return
        slot = self.state.slots.setdefault((group, topic, partition), Slot())
        if value is None:
            row |= {"in_force": record["offset"], "in_force_time": record["timestamp"]}
            self.in_force(row)
            self.rows["commits"].append(row)
            return
        row |= {
            "version": int.from_bytes(record["value"][:2], "big"),
            "topic_id": None if value.topic_id is None else str(value.topic_id),
            "committed": value.offset,
            "leader_epoch": None if value.leader_epoch == -1 else value.leader_epoch,
            "metadata": value.metadata,
            "commit_time": _microseconds(value.commit_timestamp),
            "expire_time": _microseconds(value.expire_timestamp),
            "origin": "transaction" if record["transactional"] else "outside",
        }
        if slot.owner is not None:
            row |= slot.owner._asdict() | {"origin": row["origin"].replace("outside", "member")}
        if record["transactional"] and record["producerId"] is not None:
            row["txn"] = "open"
            self.state.pending.setdefault(record["producerId"], []).append(row)
            return
        row |= {"in_force": record["offset"], "in_force_time": record["timestamp"]}
        self.in_force(row)
        self.rows["commits"].append(row)

    def in_force(self, row: _Row) -> None:
        """Apply a row that counts from now on."""
        state = self.state
        row["certainty"] = self.certainty
        key = row["group"], row["topic"], row["partition"]
        slot = state.slots.setdefault(key, Slot())
        if row["log_offset"] < slot.log_offset:
            row["kind"] = "superseded"
            return
        row |= {"previous": slot.committed, "previous_time": slot.time}
        committed = row.get("committed")
        slot.log_offset = row["log_offset"]
        if committed is None:
            row["kind"] = "tombstone"
            self.close_minute(key, slot)
            slot.forget()
            return
        if slot.committed is None:
            row["kind"] = "first"
        else:
            row["advance"] = advance = committed - slot.committed
            row["kind"] = "advance" if advance > 0 else "rewind" if advance else "repeat"
            if advance < 0:
                row["kind"] = "rewind"
        time = row["in_force_time"]
        gap = None if slot.time is None else min(max(time - slot.time, 0) // 1000, 2**31 - 1)
        if gap is not None:
            slot.gaps = [*slot.gaps[-9:], gap]
        slot.committed, slot.time = committed, time
        assert state.last_time is not None
        minute = state.last_time // _MINUTE
        if slot.minute is not None and slot.minute["minute"] != minute:
            self.close_minute(key, slot)
        if slot.minute is None:
            slot.minute = {
                "minute": minute,
                "commits": 0,
                "sum_advance": 0,
                "least_advance": None,
                "longest_gap_ms": None,
            }
        slot.minute["commits"] += 1
        slot.minute |= {"last": committed, "log_offset": row["log_offset"]}
        if row.get("advance") is not None:
            slot.minute["sum_advance"] += row["advance"]
            slot.minute["least_advance"] = _least(slot.minute["least_advance"], row["advance"])
        if gap is not None:
            slot.minute["longest_gap_ms"] = max(slot.minute["longest_gap_ms"] or 0, gap)

    def close_minutes(self, until: int) -> None:
        for key, slot in self.state.slots.items():
            if slot.minute is not None and slot.minute["minute"] <= until:
                self.close_minute(key, slot)

    def close_minute(self, key: tuple[str, str, int], slot: Slot) -> None:
        if slot.minute is not None:
            self.rows["minutes"].append(minute_row(self.state.log_partition, key, slot.minute))
            slot.minute = None


def _least(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def _microseconds(ms: int) -> int | None:
    latest = (2**63 - 1) // 1000
    return None if ms == NO_TIMESTAMP else min(max(ms, -latest), latest) * 1000


assert COMMITS.names[:16] == GROUPS.names[:16]
