"""The bytes of `__transaction_state`, as a broker of Apache Kafka 4.3 wrote them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator_common import CorruptRecordError
from kohort.transactions.records import (
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
    decode,
    encode,
    encode_value,
)

KEY = bytes.fromhex("0000000161")
TV1 = [
    # InitProducerId, AddPartitionsToTxn, EndTxn (abort), end of the markers
    (
        "0001000000000000000000000000ea600000000001a2044e5296ffffffffffffffff01000800000000000000"
        "00",
        TransactionMetadata(
            0, 0, 60_000, TransactionState.EMPTY, {}, 1795368571542, -1, 0
        ),
    ),
    (
        "0001000000000000000000000000ea60010203747803000000010000000000000001a2044e52d2000001a204"
        "4e52d20100080000000000000000",
        TransactionMetadata(
            0, 0, 60_000, TransactionState.ONGOING, {"tx": frozenset({0, 1})},
            1795368571602, 1795368571602, 0,
        ),
    ),
    (
        "0001000000000000000000000000ea600501000001a2044e530f000001a2044e52d201000800000000000000"
        "00",
        TransactionMetadata(
            0, 0, 60_000, TransactionState.COMPLETE_ABORT, {}, 1795368571663, 1795368571602, 0
        ),
    ),
]  # fmt: skip
TV2 = [
    # The first Produce v12, and the abort by a second InitProducerId.
    (
        "000100000000000000010000000003e80102037478020000000000000001a2044e5447000001a2044e544702"
        "0008000000000000000102020002",
        TransactionMetadata(
            1, 0, 1_000, TransactionState.ONGOING, {"tx": frozenset({0})},
            1795368571975, 1795368571975, 1, client_version=2,
        ),
    ),
    (
        "000100000000000000010001000003e80302037478020000000000000001a2044e544c000001a2044e544702"
        "0008000000000000000102020002",
        TransactionMetadata(
            1, 1, 1_000, TransactionState.PREPARE_ABORT, {"tx": frozenset({0})},
            1795368571980, 1795368571975, 1, client_version=2,
        ),
    ),
]  # fmt: skip


def in_kafkas_order(data):
    """Kafka writes the partitions of a topic in the order of a hash table."""
    return data.replace("0300000001" + "00000000", "0300000000" + "00000001")


@pytest.mark.parametrize(("data", "value"), [*TV1, *TV2])
def test_reads_and_writes_what_kafka_writes(data, value):
    assert decode(KEY, bytes.fromhex(data)) == TransactionRecord("a", value)
    key, written = encode(TransactionRecord("a", value))
    assert key == KEY
    assert written.hex() == in_kafkas_order(data)


def test_reads_version_0():
    data = (
        "0000" "0000000000000007" "0003" "0000ea60" "01" "00000001" "0002" "7478" "00000002"
        "00000000" "00000005" "0000000000000064" "0000000000000032"
    )  # fmt: skip
    assert decode(KEY, bytes.fromhex(data)).value == TransactionMetadata(
        7, 3, 60_000, TransactionState.ONGOING, {"tx": frozenset({0, 5})}, 100, 50
    )
    empty = "0000000000000000000700030000ea6000ffffffff" + "0" * 15 + "1" + "f" * 16
    assert decode(KEY, bytes.fromhex(empty)).value == TransactionMetadata(
        7, 3, 60_000, TransactionState.EMPTY, {}, 1, -1
    )


def test_a_null_value_is_a_tombstone():
    assert decode(KEY, None) == TransactionRecord("a", None)
    assert encode(TransactionRecord("a", None)) == (KEY, None)


def test_a_key_of_another_type_is_skipped():
    assert decode(bytes.fromhex("0001000161"), b"") is None


values = st.builds(
    TransactionMetadata,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.integers(1, 2**31 - 1),
    st.sampled_from(sorted(set(TransactionState) - {TransactionState.EMPTY})),
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=150),
        st.frozensets(st.integers(0, 2**31 - 1), min_size=1, max_size=200),
        max_size=3,
    ),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.sampled_from((0, 2)),
)


@given(values)
def test_every_value_is_read_as_it_was_written(value):
    assert decode(KEY, encode_value(value)).value == value


@given(values, st.data())
def test_damaged_bytes_are_reported_as_such(value, data):
    whole = encode_value(value)
    with pytest.raises(CorruptRecordError):
        decode(KEY, whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_an_unknown_version_or_state_is_reported():
    whole = bytes.fromhex(TV1[0][0])
    for spoiled in (b"\x00\x02" + whole[2:], whole[:16] + b"\x09" + whole[17:]):
        with pytest.raises(CorruptRecordError):
            decode(KEY, spoiled)


def test_a_null_id_or_topic_is_damage():
    """The schema allows neither; read as "" it would be a transactional id of that name."""
    with pytest.raises(CorruptRecordError, match="null where a string"):
        decode(b"\x00\x00\xff\xff", None)
    with pytest.raises(CorruptRecordError, match="null where a string"):
        decode(KEY, struct.pack(">hqhibih", 0, 1, 0, 60_000, 1, 1, -1) + bytes(20))
