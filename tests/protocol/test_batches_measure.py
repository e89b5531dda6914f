"""Counting records by their lengths, with its short cut for records of one size, against the plain
way.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import KafkaError
from kohort.protocol.records import encode_varint, measure

sizes = st.lists(
    st.one_of(
        # a size, and how often it comes in a row
        st.tuples(st.integers(6, 400), st.integers(1, 150)),
        st.tuples(st.sampled_from([6, 63, 64, 8_191, 8_192]), st.integers(1, 8)),
    ),
    min_size=1,
    max_size=6,
)


def laid_out(sizes):
    return [encode_varint(size) + bytes(size) for size, times in sizes for _ in range(times)]


@settings(max_examples=examples(150))
@given(sizes)
def test_whole_records_pass(sizes):
    found = laid_out(sizes)
    measure(b"head" + b"".join(found), 4, len(found))


def fills(data, count):
    """The plain way."""
    position = 0
    for _ in range(count):
        raw = shift = 0
        while True:
            if position >= len(data):
                return False
            byte = data[position]
            raw |= (byte & 127) << shift
            position, shift = position + 1, shift + 7
            if byte < 128:
                break
        if raw & 1 or raw >> 1 < 6:
            return False
        position += raw >> 1
    return position == len(data)


@settings(max_examples=examples(150))
@given(sizes, st.data())
def test_damaged_records_do_not_pass(sizes, data):
    found = laid_out(sizes)
    whole = b"".join(found)
    at = data.draw(st.integers(0, len(found) - 1))
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    for content, count in (
        (whole[: data.draw(st.integers(0, len(whole) - 1))], len(found)),
        (whole + b"\x00", len(found)),
        (whole, len(found) + 1),
        (whole, len(found) - 1),
        (
            b"".join(
                [*found[:at], encode_varint(data.draw(st.integers(-3, 500))), *found[at + 1 :]]
            ),
            len(found),
        ),
        (bytes(changed), len(found)),
    ):
        if count * 7 <= len(content) and fills(content, count):
            measure(content, 0, count)
        else:
            with pytest.raises(KafkaError):
                measure(content, 0, count)
