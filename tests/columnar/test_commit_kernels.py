"""Committed offsets in columns: `coordinator.records.decode` is the judge."""

import ctypes
import mmap
import struct
import sys
from uuid import UUID

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.columnar import commit_kernels as k
from kohort.columnar.payloads import as_bytes
from kohort.coordinator.records import OffsetCommitRecord, decode, pack_offset
from kohort.coordinator_common import CorruptRecordError
from kohort.protocol.packing import pack_string, pack_varint

quick = settings(max_examples=examples(200))
thorough = settings(max_examples=examples(600))

texts = st.one_of(st.text(max_size=6), st.just("a" * 40), st.just("ÿ€𐍈"))
numbers = st.integers(-(2**63), 2**63 - 1)
ids = st.none() | st.builds(lambda data: UUID(bytes=data), st.binary(min_size=16, max_size=16))


def key_of(group, topic, partition, type_=1):
    return struct.pack(">h", type_) + pack_string(group) + pack_string(topic) + partition


keys = st.builds(
    key_of, texts, texts, st.binary(min_size=4, max_size=4), st.sampled_from([0, 1, 1, 1])
)


def old_value(version, offset, epoch, metadata, times):
    data = struct.pack(">hq", version, offset)
    if version >= 3:
        data += struct.pack(">i", epoch)
    data += pack_string(metadata) + struct.pack(">q", times[0])
    return data + (struct.pack(">q", times[1]) if version == 1 else b"")


def tagged(value, fields):
    """`value`, v4, with these tagged fields in place of its own."""
    data = b"".join(pack_varint(tag) + pack_varint(len(part)) + part for tag, part in fields)
    return value[:-1] + pack_varint(len(fields)) + data


epochs = st.integers(-1, 2**31 - 1)
plain_values = st.builds(pack_offset, numbers, epochs, texts, numbers)
values = st.one_of(
    st.builds(old_value, st.integers(0, 3), numbers, epochs, texts, st.tuples(numbers, numbers)),
    st.builds(pack_offset, numbers, epochs, texts, numbers, st.just(-1), ids),
    st.builds(
        tagged,
        plain_values,
        st.lists(
            st.tuples(
                st.sampled_from([0, 0, 1, 300]),
                st.one_of(st.binary(max_size=3), st.binary(min_size=16, max_size=16)),
            ),
            max_size=3,
        ),
    ),
)


@st.composite
def damaged(draw, parts):
    """Bytes with some of them changed, cut, or followed by others."""
    data = bytearray(draw(parts))
    for at in draw(st.lists(st.integers(0, max(len(data) - 1, 0)), max_size=2)):
        if data:
            data[at] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] + draw(st.binary(max_size=3)))


any_key = st.one_of(keys, damaged(keys), st.binary(max_size=12), st.none())
any_value = st.one_of(values, damaged(values), st.binary(max_size=20), st.none())
records = st.lists(st.tuples(any_key, any_value), max_size=6)


def column(parts):
    ends = np.cumsum([0, *(len(part or b"") for part in parts)]).astype(np.int32)
    nulls = np.array([part is None for part in parts], np.uint8)
    return as_bytes(b"".join(part or b"" for part in parts)), ends, nulls


def decoded(pairs):
    rows = np.full((k.DECODED, len(pairs) + 1), 77, np.int64)
    keys, values = column([key for key, _ in pairs]), column([value for _, value in pairs])
    k.decode_commits(*keys, *values, 1, rows)
    return rows[:, 1:], keys[0].tobytes(), values[0].tobytes()


def record_of(row, keys, values):
    """The record that the kernel found, as `decode` says it."""
    at, size = int(row[k.KEY_AT]), int(row[k.GROUP_SIZE])
    group, rest = keys[at + 2 : at + 2 + size], keys[at + 2 + size : at + row[k.KEY_SIZE]]
    key = group.decode(), rest[2:-4].decode(), int(row[k.PARTITION])
    assert rest[-4:] == struct.pack(">i", key[2])
    if row[k.CLASS] == k.TOMBSTONE:
        return key, None
    at = int(row[k.METADATA_AT])
    topic_id = struct.pack(">qq", row[k.ID_HIGH], row[k.ID_LOW]) if row[k.HAS_ID] else None
    return key, (
        int(row[k.COMMITTED]),
        int(row[k.LEADER_EPOCH]),
        values[at : at + int(row[k.METADATA_SIZE])].decode(),
        int(row[k.COMMIT_TIME]),
        int(row[k.EXPIRE_TIME]),
        None if topic_id is None else UUID(bytes=topic_id),
    )


def expected(key, value):
    """Class and record by `decode`."""
    if key is None or key[:2] not in (b"\0\0", b"\0\1"):
        return k.OTHER, None
    try:
        decode(key, None)
    except CorruptRecordError:
        return k.BAD_KEY, None
    try:
        record = decode(key, value)
    except CorruptRecordError:
        return k.BAD_VALUE, None
    assert isinstance(record, OffsetCommitRecord)
    class_ = k.TOMBSTONE if value is None else k.COMMIT
    return class_, (tuple(record.key), None if record.value is None else tuple(record.value))


@thorough
@given(records)
@example([(key_of("g", "t", bytes(4)), b"\0\4" + bytes(12) + b"\xff\xff\xff\xff\xff" + bytes(9))])
@example([(b"\0\1\x7f\xff", b"")])
def test_commits_are_decoded_as_by_the_record_decoder(pairs):
    rows, keys, values = decoded(pairs)
    for row, (key, value) in zip(rows.T, pairs, strict=True):
        class_, record = expected(key, value)
        if class_ == k.OTHER and row[k.CLASS] != k.OTHER:  # with the prefix of a tombstone
            assert value is None
            assert key[:4] == struct.pack("<i", len(key) - 4)
            class_, record = expected(key[4:], value)
        assert row[k.CLASS] == class_
        if record is not None:
            assert record_of(row, keys, values) == record


@quick
@given(st.sampled_from([0, 1]), texts)
def test_every_prefix_of_a_key_is_refused(type_, group):
    key = key_of(group, "topic", bytes(4), type_)
    rows, *_ = decoded([(key[:size], None) for size in range(2, len(key))])
    assert set(rows[k.CLASS]) == {k.BAD_KEY}


@quick
@given(values)
def test_every_prefix_of_a_value_is_decoded_as_by_the_record_decoder(value):
    key = key_of("g", "t", bytes(4))
    pairs = [(key, value[:size]) for size in range(len(value) + 1)]
    rows, keys, values = decoded(pairs)
    for row, (_, part) in zip(rows.T, pairs, strict=True):
        class_, record = expected(key, part)
        assert row[k.CLASS] == class_
        if record is not None:
            assert record_of(row, keys, values) == record


@quick
@given(keys, st.binary(max_size=8))
def test_tombstones_of_redpanda_have_the_size_of_their_key_before_it(key, value):
    prefixed = struct.pack("<i", len(key)) + key
    rows, keys, values = decoded([(prefixed, None), (prefixed, value)])
    assert rows[k.CLASS].tolist() == [k.TOMBSTONE, k.OTHER]
    assert record_of(rows.T[0], keys, values) == expected(key, None)[1]


@quick
@given(st.binary(max_size=8), st.binary(min_size=1, max_size=4))
def test_text_is_utf_8_as_python_reads_it(start, end):
    for name in (start + end, b"a" * 16 + end):
        key = b"\0\1" + struct.pack(">h", len(name)) + name + b"\0\0" + bytes(4)
        rows, *_ = decoded([(key, None)])
        try:
            name.decode()
        except UnicodeDecodeError:
            assert rows[k.CLASS].tolist() == [k.BAD_KEY]
        else:
            assert rows[k.CLASS].tolist() == [k.TOMBSTONE]


@pytest.mark.parametrize("first", range(0xC0, 0x100, 3))
def test_all_second_bytes_of_utf_8_are_judged_as_by_python(first):
    names = [
        bytes([first, second, 0x80, 0x80][:size]) for second in range(256) for size in (2, 3, 4)
    ]
    head = b"\0\1" + b"%b" + b"\0\0" + bytes(4)
    pairs = [(head % (struct.pack(">h", len(name)) + name), None) for name in names]
    rows, *_ = decoded(pairs)
    assert rows[k.CLASS].tolist() == [expected(*pair)[0] for pair in pairs]


def test_byte_strings_are_gathered_from_two_sources():
    out = np.zeros(7, np.uint8)
    parts = np.array([[1, -3, 0], [2, 3, 2]], np.int64)
    assert k.gather(as_bytes(b"abcd"), as_bytes(b"uvwxyz"), 7, parts, out) == 7
    assert out.tobytes() == b"bcxyzab"


_PROT_NONE = 0


def guarded(data):
    """A read-only array of `data`; behind its end is memory that nobody may read."""
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + size), size, _PROT_NONE) == 0
    memory[size - len(data) : size] = data
    array = np.frombuffer(memory, np.uint8)[size - len(data) : size]
    array.flags.writeable = False
    return array


@pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
@quick
@given(damaged(keys), damaged(values))
def test_keys_and_values_are_read_up_to_their_end_only(key, value):
    (rows, *_), (_, key_ends, nulls) = decoded([(key, value)]), column([key])
    found = np.full((k.DECODED, 1), 77, np.int64)
    value_ends = column([value])[1]
    k.decode_commits(guarded(key), key_ends, nulls, guarded(value), value_ends, nulls, 0, found)
    assert (found == rows).all()


def test_a_bound_kernel_is_called_with_its_numbers():
    out, parts = np.zeros(4, np.uint8), np.array([[0], [4]], np.int64)
    bound = k.gather.bind(as_bytes(b"abcd"), as_bytes(b""), 0, parts, out)
    assert (bound(3), bound(4)) == (0, 4)
    assert out.tobytes() == b"abcd"
    with pytest.raises(ValueError, match="zip"):
        bound()
    with pytest.raises(TypeError, match="is needed, not"):
        k.gather.bind(as_bytes(b"abcd"), as_bytes(b""), 0, parts, out.view(np.int8))
