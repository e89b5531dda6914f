"""Why a generation began, in words and as a mark of a chart, by rows of the history.

The rows are those of `generations` and `rebalances` that have the same key. Departures are
inferred (see `kohort.history.departures`), and null where records are missing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kohort.report.names import listed

Row = Mapping[str, Any]
Name = Callable[[str], str]
"""Member id → its name."""

MAX_SHOWN: Final = 6
"""Members that are named; more are counted."""
DEPARTURES: Final[Mapping[str, str]] = {
    "left": "left",
    "vanished": "vanished (session expired)",
    "out_of_poll_loop": "left the poll loop",
    "replaced": "replaced",
    "unknown": "gone (cause unknown)",
}
"""Column of `rebalances` → how it is shown."""
ENDS: Final[Mapping[str, str]] = {
    "deleted": "the group was deleted",
    "expired": "the group expired",
    "converted": "the group was converted to another protocol",
}
"""`ended_by` of a generation that is no later generation → how it is shown."""
_NO_MEMBERS: Final = {True: "the group was created", False: "no members"}
"""Whether it is the first generation → what a generation without members is."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The symbol of a cause in a chart."""

    symbol: str
    kind: str
    text: str


VANISHED: Final = Mark("×", "vanished", "a member's session expired")
POLL: Final = Mark("!", "poll", "a member left the poll loop")
LEFT: Final = Mark("−", "left", "a member left")
REPLACED: Final = Mark("=", "replaced", "a static member was replaced")
JOINED: Final = Mark("+", "joined", "a member joined")
UNKNOWN: Final = Mark("?", "unknown", "cause not known")
OTHER: Final = Mark("·", "other", "the same members: topics or partitions changed, or a restart")
MARKS: Final = (VANISHED, POLL, LEFT, REPLACED, JOINED, UNKNOWN, OTHER)
"""In the order of a legend; the first one that fits marks a rebalance."""
_COLUMNS: Final = (
    ("vanished", VANISHED), ("out_of_poll_loop", POLL), ("left", LEFT), ("replaced", REPLACED),
    ("joined", JOINED), ("unknown", UNKNOWN),
)  # fmt: skip


def key_of(row: Row) -> tuple[object, ...]:
    """What a row of `generations` and its row of `rebalances` have in common."""
    return row["log_partition"], row["life"], row["type"], row["generation"], row["log_offset"]


def mark_of(rebalance: Row) -> Mark:
    if not rebalance["complete"]:
        return UNKNOWN
    return next((mark for column, mark in _COLUMNS if rebalance[column]), OTHER)


def cause_text(generation: Row, rebalance: Row | None, name: Name) -> str:
    """What a generation changed: "billing-2 joined; partitions: 3 moved"."""
    members = generation["members"] or []
    if changes := "; ".join(_changes(generation, rebalance, name)):
        return changes
    return "the same members" if members else _NO_MEMBERS[generation["generation"] == 0]


def _changes(generation: Row, rebalance: Row | None, name: Name) -> Iterator[str]:
    if generation["skipped"]:
        count = generation["skipped"]
        yield f"{count} generation{'s' if count > 1 else ''} before it never synced"
    if rebalance is None:
        if generation["members"]:
            yield f"members {_names(generation['members'], name)}"
        return
    if joined := rebalance["joined"]:
        yield f"{_names(joined, name)} joined"
    for column, text in DEPARTURES.items():
        if gone := rebalance[column]:
            yield f"{_names(gone, name)} {text}"
    counts = ((rebalance[column], column) for column in ("moved", "added", "unassigned"))
    if moves := [f"{count} {column}" for count, column in counts if count]:
        yield f"partitions: {', '.join(moves)}"


def _names(members: Sequence[str], name: Name) -> str:
    names = sorted(map(name, members))
    return f"{len(names)} members" if len(names) > MAX_SHOWN else listed(names)
