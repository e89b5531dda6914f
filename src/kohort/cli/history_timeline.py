"""The timeline of a group: generations with what changed, departures, resets and deletions."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kohort.history_files.reading import GroupReader, Row, text_of
from kohort.report.causes import ENDS, MAX_SHOWN, cause_text, key_of

_NOTABLE: Final = [("kind", "in", ["rewind", "tombstone"])]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the timeline."""

    time: datetime | None
    offset: int
    event: str
    generation: int | None
    members: int | None
    changes: str

    def row(self) -> tuple[object, ...]:
        return text_of(self.time), self.event, self.generation, self.members, self.changes

    def as_json(self) -> dict[str, Any]:
        return {
            "time": text_of(self.time), "log_offset": self.offset, "event": self.event,
            "generation": self.generation, "members": self.members, "changes": self.changes,
        }  # fmt: skip


def timeline(reader: GroupReader) -> list[Event]:
    """All events of a group, in the order of the log."""
    name = _namer(reader.rows("members"))
    events = [*_generations(reader, name), *_commit_events(reader, name)]
    return sorted(events, key=lambda event: event.offset)


def _generations(reader: GroupReader, name: Callable[[str], str]) -> Iterator[Event]:
    rebalances = {key_of(row): row for row in reader.rows("rebalances")}
    for row in reader.rows("generations"):
        rebalance = rebalances.get(key_of(row))
        changes = cause_text(row, rebalance, name)
        if rebalance is not None and (standstill := rebalance["standstill_ms"]) is not None:
            changes += f"; standstill {standstill:,} ms"
        members = len(row["members"] or [])
        yield Event(
            row["time"], row["log_offset"], row["type"], row["generation"], members, changes
        )
        if row["ended_by"] in ENDS and row["ended_offset"] is not None:
            end = row["ended_by"]
            yield Event(row["ended"], row["ended_offset"], end, None, 0, ENDS[end])


def _commit_events(reader: GroupReader, name: Callable[[str], str]) -> Iterator[Event]:
    """Resets and deletions of offsets: rewinds and tombstones, those of one moment together."""
    grouped: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in reader.table("commits", _NOTABLE).to_pylist():
        if row["in_force"] < reader.cut:
            by = row["member_id"] if row["origin"] == "member" else row["origin"]
            key = row["kind"], row["in_force_time"], row["topic"], by, row["cause"]
            grouped[key].append(row)
    for (kind, time, topic, by, cause), rows in grouped.items():
        rows.sort(key=lambda row: int(row["partition"]))
        offset = min(row["in_force"] for row in rows)
        if kind == "tombstone":
            text = f"offsets of {topic} {_partitions(rows)} removed: {cause or 'cause unknown'}"
            yield Event(_time(time), offset, "removed", None, None, text)
        else:
            who = "from outside" if by == "outside" else f"by {name(str(by))}"
            texts = [f"{row['partition']}: {row['previous']} → {row['committed']}" for row in rows]
            shown = ", ".join(texts[:MAX_SHOWN])
            more = f" and {len(texts) - MAX_SHOWN} more" if len(texts) > MAX_SHOWN else ""
            yield Event(_time(time), offset, "rewind", None, None, f"{topic} {shown}{more} ({who})")


def _time(time: object) -> datetime | None:
    return time if isinstance(time, datetime) else None


def _partitions(rows: Sequence[Row]) -> str:
    if len(rows) > MAX_SHOWN:
        return f"({len(rows)} partitions)"
    return ",".join(str(row["partition"]) for row in rows)


def _namer(members: Iterable[Row]) -> Callable[[str], str]:
    """A function that names a member by instance id, unique client id, or member id."""
    rows = {row["member_id"]: row for row in members}
    count = Counter(row["client_id"] for row in rows.values())

    def name(member_id: str) -> str:
        row = rows.get(member_id)
        if row is None:
            return member_id
        if row["instance_id"] is not None:
            return str(row["instance_id"])
        is_unique = row["client_id"] and count[row["client_id"]] == 1
        return str(row["client_id"]) if is_unique else member_id

    return name


def partitions(reader: GroupReader) -> list[dict[str, Any]]:
    """The partitions that the group committed: the commit in force, its time, and the owner.

    What is in force is null if it is unknown.
    """
    owners = {
        (row["topic"], row["partition"]): row
        for row in reader.rows("assignments")
        if row["to_offset"] is None
    }
    name = _namer(reader.rows("members"))
    found = []
    for offset in reader.offsets_at():
        owner = owners.get((offset.topic, offset.partition))
        commit = offset.commit or _NO_COMMIT
        found.append({
            "topic": offset.topic, "partition": offset.partition, "committed": commit["committed"],
            "time": text_of(commit["in_force_time"]), "commits": offset.commits,
            "certainty": offset.certainty,
            "owner": None if owner is None else name(owner["member_id"]),
            "metadata": commit["metadata"],
        })  # fmt: skip
    return found


_NO_COMMIT: Final[Row] = dict.fromkeys(("committed", "in_force_time", "metadata"))
