"""The timeline of a group: generations with what changed, departures, resets and deletions."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kohort.history_files.reading import GroupReader, Row, text_of
from kohort.util.text import join_names

MAX_SHOWN: Final = 6
"""Members or partitions that are named; more are counted."""
_DEPARTURES: Final[Mapping[str, str]] = {
    "left": "left",
    "vanished": "vanished (session expired)",
    "out_of_poll_loop": "left the poll loop",
    "replaced": "replaced",
    "unknown": "gone (cause unknown)",
}
"""Column of `rebalances` → how it is shown."""
_ENDS: Final[Mapping[str, str]] = {
    "deleted": "the group was deleted",
    "expired": "the group expired",
    "converted": "the group was converted to another protocol",
}
_NO_MEMBERS: Final = {True: "the group was created", False: "no members"}
"""Whether it is the first generation → what a generation without members is."""
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
    rebalances = {_key(row): row for row in reader.rows("rebalances")}
    for row in reader.rows("generations"):
        members = row["members"] or []
        changes = "; ".join(_changes(row, rebalances.get(_key(row)), name))
        if not changes:
            changes = "the same members" if members else _NO_MEMBERS[row["generation"] == 0]
        yield Event(
            row["time"], row["log_offset"], row["type"], row["generation"], len(members), changes
        )
        if row["ended_by"] in _ENDS and row["ended_offset"] is not None:
            end = row["ended_by"]
            yield Event(row["ended"], row["ended_offset"], end, None, 0, _ENDS[end])


def _key(row: Row) -> tuple[object, ...]:
    return row["life"], row["type"], row["generation"], row["log_offset"]


def _changes(generation: Row, rebalance: Row | None, name: Callable[[str], str]) -> Iterator[str]:
    if generation["skipped"]:
        count = generation["skipped"]
        yield f"{count} generation{'s' if count > 1 else ''} before it never synced"
    if rebalance is None:
        if generation["members"]:
            yield f"members {_names(generation['members'], name)}"
        return
    if joined := rebalance["joined"]:
        yield f"{_names(joined, name)} joined"
    for column, text in _DEPARTURES.items():
        if gone := rebalance[column]:
            yield f"{_names(gone, name)} {text}"
    counts = ((rebalance[column], column) for column in ("moved", "added", "unassigned"))
    if moves := [f"{count} {column}" for count, column in counts if count]:
        yield f"partitions: {', '.join(moves)}"
    if (standstill := rebalance["standstill_ms"]) is not None:
        yield f"standstill {standstill:,} ms"


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


def _names(members: Iterable[str], name: Callable[[str], str]) -> str:
    names = list(map(name, members))
    return f"{len(names)} members" if len(names) > MAX_SHOWN else join_names(names)


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
    """The partitions that the group committed: the commit in force, its time, and the owner."""
    commits = reader.table("commits", [("in_force", "<", reader.cut)])
    owners = {
        (row["topic"], row["partition"]): row
        for row in reader.rows("assignments")
        if row["to_offset"] is None
    }
    name = _namer(reader.rows("members"))
    counts = Counter[tuple[str, int]]()
    last: dict[tuple[str, int], tuple[int, int]] = {}
    keys = zip(
        commits["topic"].to_pylist(), commits["partition"].to_pylist(),
        commits["log_offset"].to_pylist(), strict=True,
    )  # fmt: skip
    for index, (topic, partition, offset) in enumerate(keys):
        counts[topic, partition] += 1
        last[topic, partition] = max(last.get((topic, partition), (-1, 0)), (offset, index))
    found = []
    for (topic, partition), (_, index) in sorted(last.items()):
        row = commits.slice(index, 1).to_pylist()[0]
        if row["committed"] is None:
            continue
        owner = owners.get((topic, partition))
        found.append({
            "topic": topic, "partition": partition, "committed": row["committed"],
            "time": text_of(row["in_force_time"]), "commits": counts[topic, partition],
            "owner": None if owner is None else name(owner["member_id"]),
            "metadata": row["metadata"],
        })  # fmt: skip
    return found
