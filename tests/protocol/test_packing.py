"""Primitive types by hand, against kio's."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import readers, writers

from kohort.protocol import packing
from kohort.protocol.framing import MalformedError


def written(write, value) -> bytes:
    buffer = BytesIO()
    write(buffer, value)
    return buffer.getvalue()


@given(st.integers(0, 2**31 - 1) | st.sampled_from([0, 127, 128, 16383, 16384]))
def test_varints_are_packed_as_kio_writes_them(value: int) -> None:
    packed = packing.pack_varint(value)
    assert packed == written(writers.write_unsigned_varint, value)
    assert packing.read_varint(b"x" + packed + b"y", 1) == (value, 1 + len(packed))


def test_varint_too_long_or_cut_short() -> None:
    assert packing.read_varint(b"\xff\xff\xff\xff\x7f", 0)[1] == 5
    with pytest.raises(MalformedError):
        packing.read_varint(b"\xff\xff\xff\xff\xff\x01", 0)
    with pytest.raises(IndexError):
        packing.read_varint(b"\xff\xff", 0)


@given(st.none() | st.text(max_size=200))
def test_strings_are_packed_as_kio_writes_them(value: str | None) -> None:
    assert packing.pack_string(value) == written(writers.write_nullable_legacy_string, value)
    compact = packing.pack_compact_string(value)
    assert compact == written(writers.write_nullable_compact_string, value)
    assert readers.read_compact_string_nullable(compact, 0) == (value, len(compact))


@given(st.none() | st.binary(max_size=200))
def test_byte_fields_are_packed_as_kio_writes_them(value: bytes | None) -> None:
    assert packing.pack_bytes(value) == written(writers.write_nullable_legacy_bytes, value)
    assert packing.pack_compact_bytes(value) == written(
        writers.write_nullable_compact_string, value
    )


@pytest.mark.parametrize("count", [0, 1, 126, 127, 128, 70_000])
def test_array_lengths_are_packed_as_kio_writes_them(count: int) -> None:
    assert packing.pack_array(count) == written(writers.write_legacy_array_length, count)
    assert packing.pack_compact_array(count) == written(writers.write_compact_array_length, count)
