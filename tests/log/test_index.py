"""The sparse index: what is looked up is what a search through all rows finds, wherever the rows
are.
"""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.log import index
from kohort.log.index import OFFSET_ROW, SparseIndex
from kohort.log.stores import MemoryStore


class CountingStore(MemoryStore):
    """Tells how often it is read."""

    reads = 0

    def read(self, position: int, count: int) -> bytes:
        self.reads += 1
        return super().read(position, count)


def naive_floor(rows: list[tuple[int, int]], target: int, column: int) -> tuple[int, int] | None:
    return max((row for row in rows if row[column] <= target), default=None)


@settings(max_examples=examples(200))
@given(st.data())
def test_floor_is_the_last_row_that_is_not_beyond(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "ROWS_PER_BLOCK", data.draw(st.integers(1, 5)))
        table, rows = SparseIndex(MemoryStore(), OFFSET_ROW), list[tuple[int, int]]()
        for _ in range(data.draw(st.integers(1, 12))):
            match data.draw(
                st.sampled_from(["add", "add", "look", "look", "look", "write", "clear"])
            ):
                case "add":
                    steps = data.draw(st.lists(st.integers(1, 3), max_size=10))
                    last = rows[-1][0] if rows else 0
                    for number in list(accumulate(steps, initial=last))[1:]:
                        table.add(number, 10 * number)
                        rows.append((number, 10 * number))
                case "look":
                    column = data.draw(st.integers(0, 1))
                    target = data.draw(st.integers(-1, (rows[-1][column] if rows else 0) + 2))
                    assert table.floor(target, column) == naive_floor(rows, target, column)
                case "write":
                    table.write()
                case "clear":
                    table.clear()
                    rows.clear()
            assert table.last() == (rows[-1] if rows else None)
            assert len(table) == len(rows)


def test_sequential_lookups_read_the_index_seldom() -> None:
    store = CountingStore()
    table = SparseIndex(store, OFFSET_ROW)
    for number in range(20_000):
        table.add(number, 10 * number)
    table.write()
    for number in range(20_000):
        assert table.floor(number) == (number, 10 * number)
    assert store.reads < 500
