"""The order of rows by several numbers."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.history.numbering import are_ascending, order_of, values_in

LARGEST = st.sampled_from([1, 2**10, 2**20, 2**40, 2**63 - 1])


@settings(max_examples=examples(100))
@given(st.data())
def test_rows_are_in_the_order_of_their_keys(data):
    count = data.draw(st.integers(0, 8))
    keys = []
    for _ in range(data.draw(st.integers(1, 3))):
        largest = data.draw(LARGEST)
        least = data.draw(st.sampled_from([0, -largest]))
        numbers = st.lists(st.integers(least, largest), min_size=count, max_size=count)
        keys.append(np.array(data.draw(numbers), np.int64))
    rows = list(zip(*(key.tolist() for key in keys), strict=True))
    order = order_of(*keys)
    expected = sorted(range(count), key=lambda place: rows[place])
    assert (list(range(count)) if order is None else order.tolist()) == expected
    assert are_ascending(*keys) == (order is None)


@pytest.mark.parametrize("largest", [9, 2**20, 2**62])
def test_rows_with_equal_keys_stay_in_their_order(largest):
    key = np.array([largest, 0] * 20)
    order = order_of(key)
    assert order is not None
    assert order.tolist() == [*range(1, 40, 2), *range(0, 40, 2)]


def test_values_are_those_of_the_rows_and_not_of_a_dictionary():
    column = pa.chunked_array([pa.array(["a", "b", None, "c"]).dictionary_encode()])
    assert values_in(column.slice(1, 2)) == {"b"}
    assert values_in(column.cast(pa.string())) == {"a", "b", "c"}
