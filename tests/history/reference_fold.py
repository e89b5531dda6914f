"""The fold of commits once more, record by record and by dictionaries: what the kernels must equal.

Without groups: the logs that it folds have records of offsets only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kohort.coordinator.records import OffsetCommitRecord, OffsetCommitValue, decode
from kohort.coordinator_common import CorruptRecordError
from kohort.history.schema import LATEST_MS

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, int]
MINUTE = 60_000_000


@dataclass
class Slot:
    committed: int | None = None
    log_offset: int = -1
    time: int = 0
    minute: Row | None = None
    unreadable: int = -1
    """Log offset of the last record that cannot be decoded, if none counts behind it."""


@dataclass
class Reference:
    """Tables and state of one log partition."""

    log_partition: int
    log_start: int | None = 0
    """First offset that the log has; None: unknown, as of an archive."""
    commits: list[Row] = field(default_factory=list)
    minutes: list[Row] = field(default_factory=list)
    slots: dict[Key, Slot] = field(default_factory=dict)
    pending: dict[int, list[Row]] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    seen: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """Last record of a key, by the key without its type: offset and key."""
    end: int = 0
    log_time: int | None = None
    gaps: list[list[int | None]] = field(default_factory=list)
    """Hole, from where on complete again, whether it is a later one, and data loss."""
    first: int | None = None
    holes: int = 0
    last_hole: int = 0
    complete_from: int | None = None
    open_then: set[int] | None = None
    """Transactions that are open since the first repeated key."""
    errors: int = 0

    def fold(self, records: Iterable[Row]) -> "Reference":
        for record in records:
            self.record(record)
        return self

    def known_gaps(self) -> list[list[int | None]]:
        """With the one that no record follows."""
        is_cut = self.log_start is not None and self.log_start > self.end
        end: list[int | None] = [self.end, None, self.first is not None, True]
        return [*self.gaps, *([end] if is_cut else [])]

    def record(self, record: Row) -> None:
        offset, time, key = record["offset"], record["timestamp"], record["key"]
        if offset != self.end:
            self.holes += 1
            self.last_hole = offset
            is_loss = self.log_start is None or self.end < self.log_start
            if not self.gaps or self.complete_from is not None or is_loss:
                is_later = self.complete_from is not None or (is_loss and self.first is not None)
                for gap in self.gaps[-1:]:
                    gap[1] = offset if gap[1] is None else gap[1]
                self.gaps.append([offset, None, is_later, is_loss])
                self.complete_from = self.open_then = None
            self.open_then = None if self.complete_from is None else self.open_then
        self.first = offset if self.first is None else self.first
        self.end = offset + 1
        if self.log_time is None or time > self.log_time:
            self.log_time = time
            for each, slot in self.slots.items():
                if slot.minute and slot.minute["minute"] <= time // MINUTE - 15:
                    self.close_minute(each, slot)
        if record["control"] is not None:
            self.marker(record)
            return
        before, seen_key = self.seen.get(key[2:], (-1, b""))
        if self.open_then is None and seen_key == key and before >= self.last_hole:
            self.open_then = set(self.pending)
            if not self.open_then:
                self.complete(offset)
        self.seen[key[2:]] = offset, key
        self.offset(record)

    def complete(self, offset: int) -> None:
        self.complete_from = offset
        for gap in self.gaps[-1:]:
            gap[1] = offset

    def marker(self, record: Row) -> None:
        if record["control"] == "other" or record["producerId"] is None:
            return
        if self.open_then and self.complete_from is None:
            self.open_then.discard(record["producerId"])
            if not self.open_then:
                self.complete(record["offset"] + 1)
        for row in reversed(self.pending.pop(record["producerId"], [])):
            if record["control"] == "abort":
                self.commits.append(row | {"txn": "aborted"})
            else:
                self.count(row | {"txn": "committed"}, record["offset"], record["timestamp"])

    def offset(self, record: Row) -> None:
        key, value = record["key"], record["value"]
        row: Row = {
            "log_partition": self.log_partition,
            "log_offset": record["offset"],
            "time": record["timestamp"],
            "log_leader_epoch": record["partitionLeaderEpoch"],
            "batch_offset": record["batchOffset"],
            "producer_id": record["producerId"],
            "producer_epoch": record["producerEpoch"],
            "txn": "assumed" if record["transactional"] is None else None,
            "type": "offset",
        }
        try:
            parsed = decode(key, None)
            assert isinstance(parsed, OffsetCommitRecord)
            group, topic, partition = parsed.key
            life = self.lives.setdefault(group, record["offset"])
            row |= {"group": group, "topic": topic, "partition": partition, "life": life}
            parsed = decode(key, value)
            assert isinstance(parsed, OffsetCommitRecord)
        except CorruptRecordError as error:
            self.errors += 1
            if "group" in row:
                slot = row["group"], row["topic"], row["partition"]
                self.slots.setdefault(slot, Slot()).unreadable = record["offset"]
            self.commits.append(row | {"error": str(error), "raw_key": key, "raw_value": value})
            return
        if parsed.value is None:
            self.count(row, record["offset"], record["timestamp"])
            return
        row |= value_columns(parsed.value) | {"version": int.from_bytes(value[:2], "big")}
        row["origin"] = "transaction" if record["transactional"] else "outside"
        if record["transactional"] and record["producerId"] is not None:
            self.pending.setdefault(record["producerId"], []).append(row | {"txn": "open"})
        else:
            self.count(row, record["offset"], record["timestamp"])

    def count(self, row: Row, in_force: int, time: int) -> None:
        """The row counts from now on."""
        row |= {"in_force": in_force, "in_force_time": time}
        self.commits.append(row)
        key = row["group"], row["topic"], row["partition"]
        slot = self.slots.setdefault(key, Slot())
        complete = self.complete_from
        is_exact = not self.gaps or (complete is not None and in_force >= complete)
        later = max((gap[0] for gap in self.gaps if gap[2]), default=-1)
        is_superseded = row["log_offset"] < slot.log_offset
        if slot.committed is not None and not is_superseded and slot.log_offset < later:
            is_exact = False
        if slot.committed is None and not is_superseded and any(gap[3] for gap in self.gaps):
            is_exact = False
        if slot.unreadable >= 0 and not is_superseded:
            is_exact = False
            if row["log_offset"] > slot.unreadable:
                slot.unreadable = -1
        row |= {"certainty": "exact" if is_exact else "unknown"}
        if is_superseded:
            row["kind"] = "superseded"
            return
        before, committed = slot.committed, row.get("committed")
        if before is not None:
            row |= {"previous": before, "previous_time": slot.time}
        slot.log_offset = row["log_offset"]
        if committed is None:
            row["kind"] = "tombstone"
            self.close_minute(key, slot)
            slot.committed = None
            return
        advance = gap = None
        if before is None:
            row["kind"] = "first"
        else:
            advance = nearest(committed - before)
            row["advance"] = advance
            row["kind"] = (
                "advance" if committed > before else "repeat" if committed == before else "rewind"
            )
            gap = min(max((time - slot.time) // 1000, 0), 2**31 - 1)
        self.minute(key, slot, row, advance, gap)
        slot.committed, slot.time = committed, time

    def minute(self, key: Key, slot: Slot, row: Row, advance: int | None, gap: int | None) -> None:
        assert self.log_time is not None
        now = self.log_time // MINUTE
        if slot.minute and slot.minute["minute"] != now:
            self.close_minute(key, slot)
        if slot.minute is None:
            slot.minute = {"minute": now, "commits": 0, "sum_advance": 0}
            slot.minute |= {"least_advance": None, "longest_gap_ms": None}
        minute = slot.minute
        minute["commits"] += 1
        minute |= {"last": row["committed"], "log_offset": row["log_offset"]}
        if advance is not None and gap is not None:
            minute["sum_advance"] = nearest(minute["sum_advance"] + advance)
            least, longest = minute["least_advance"], minute["longest_gap_ms"]
            minute["least_advance"] = advance if least is None else min(least, advance)
            minute["longest_gap_ms"] = gap if longest is None else max(longest, gap)

    def close_minute(self, key: Key, slot: Slot) -> None:
        if slot.minute:
            self.minutes.append(self.minute_row(key, slot.minute))
            slot.minute = None

    def minute_row(self, key: Key, minute: Row) -> Row:
        named = dict(zip(("group", "topic", "partition"), key, strict=True))
        row = {"log_partition": self.log_partition, **named, **minute}
        return row | {"minute": minute["minute"] * MINUTE}

    def open_minutes(self) -> list[Row]:
        return [
            self.minute_row(key, slot.minute) for key, slot in self.slots.items() if slot.minute
        ]

    def committed(self) -> dict[Key, int]:
        """The offsets that are known to be in force."""
        return {
            key: slot.committed
            for key, slot in self.slots.items()
            if slot.committed is not None and slot.unreadable < 0
        }


def value_columns(value: OffsetCommitValue) -> Row:
    return {
        "topic_id": None if value.topic_id is None else str(value.topic_id),
        "committed": value.offset,
        "leader_epoch": None if value.leader_epoch < 0 else value.leader_epoch,
        "metadata": value.metadata,
        "commit_time": microseconds(value.commit_timestamp),
        "expire_time": microseconds(value.expire_timestamp),
    }


def microseconds(ms: int) -> int | None:
    return ms * 1000 if 0 <= ms <= LATEST_MS else None


def nearest(number: int) -> int:
    """The nearest number that 64 bits hold."""
    return min(max(number, -(2**63)), 2**63 - 1)
