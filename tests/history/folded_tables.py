"""All tables of a log that is folded in parts."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from history.committed_offsets import Key, Row, last_counted
from history.offset_logs import batch_of
from kohort.history.fold import fold
from kohort.history.state import State


class FoldedTables(NamedTuple):
    """Rows by table; `open` has those that have not ended."""

    closed: dict[str, list[Row]]
    open: dict[str, list[Row]]

    @classmethod
    def of(cls, parts: Iterable[list[Row]]) -> "FoldedTables":
        """The state is written and read after each part."""
        closed: dict[str, list[Row]] = defaultdict(list)
        state = State.new(0)
        for part in parts:
            rows, state = fold(state, batch_of(part))
            for name, some in rows.items():
                closed[name] += some.to_pylist()
            state = State.from_arrow(state.to_arrow())
        open_rows = {name: rows.to_pylist() for name, rows in state.open_rows().items()}
        return cls(closed, open_rows)

    def __getattr__(self, table: str) -> list[Row]:
        return self.closed[table]

    def committed(self) -> dict[Key, int]:
        """The committed offsets at the end."""
        last = last_counted((*self.closed["commits"], *self.open["commits"]))
        return {key: row["committed"] for key, row in last.items()}

    def is_same_as(self, other: "FoldedTables") -> bool:
        """Whether the rows are the same, in any order."""
        return all(
            sorted(map(repr, mine[name])) == sorted(map(repr, theirs[name]))
            for mine, theirs in zip(self, other, strict=True)
            for name in mine.keys() | theirs.keys()
        )

    def is_exact_in(self, compacted: "FoldedTables") -> None:
        """Assert that rows of the compacted log that are exact are rows of this one."""
        for table, (position, *inferred) in _EXACT.items():
            mine = {_place(row, position): row for row in (*self.closed[table], *self.open[table])}
            for row in (*compacted.closed[table], *compacted.open[table]):
                if row.get("complete") or row.get("certainty") == "exact":
                    whole = mine[_place(row, position)]
                    differing = {
                        name: (value, whole[name])
                        for name, value in row.items()
                        if value != whole[name] and name not in ("life", *inferred)
                    }
                    assert not differing, (table, row, whole)


_EXACT: dict[str, tuple[str, ...]] = {
    "commits": ("log_offset",),
    "generations": ("log_offset",),
    # How a member ended is inferred from its commits, which may be unknown after compaction.
    "rebalances": (
        *("log_offset", "left", "vanished", "out_of_poll_loop", "unknown"),
        "standstill_ms",
    ),
    "members": ("from_offset", "ended_by"),
}
"""Table → the column of its position, and columns that may be less certain after compaction."""


def _place(row: Row, position: str) -> Any:
    return row["group"], row[position], row.get("member_id") if position == "from_offset" else None
