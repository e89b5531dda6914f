"""Records decoded by `Batch`, in Python and by machine code: as the slow and careful way decodes
them, without what does not count.
"""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kohort.client.fetch.batch import Batch, scan
from kohort.client.fetch.decoding import decode, decode_in_python
from kohort.client.fetch.machine_code import machine_code
from kohort.client.record import Record as Decoded
from kohort.client.record import TimestampType
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import batches
from kohort.protocol.aborted_transactions import committed_batches
from kohort.protocol.batch_writing import replace_records, stamp_append_time
from kohort.protocol.batches import CONTROL, TRANSACTIONAL, Codec, Record
from kohort.types import TopicPartition

TP = TopicPartition("orders", 3)
SIZES = st.one_of(st.integers(0, 200), st.sampled_from([63, 64, 127, 128, 8191, 8192, 20_000]))
BYTES = st.none() | SIZES.map(lambda size: bytes(at % 251 for at in range(size)))
RECORDS = st.lists(
    st.builds(
        Record,
        BYTES,
        BYTES,
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(
            tuple
        ),
        st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=20,
)


both_ways = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True, params=["Python", "machine code"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How records are decoded."""
    decoder = None
    if request.param == "machine code":
        pytest.importorskip("llvmlite")
        decoder = pytest.importorskip("kohort.columnar.fields")
    monkeypatch.setattr(machine_code, "decoder", decoder)
    monkeypatch.setattr(machine_code, "min_bytes", 0)


def batch_of(
    data: bytes, first: int, behind: int, aborted: tuple[tuple[int, int], ...] = ()
) -> Batch:
    return Batch(TP, memoryview(data), first, behind, aborted=aborted)


@both_ways
@given(st.lists(RECORDS, min_size=1, max_size=3), st.sampled_from(Codec), st.data())
def test_records_are_decoded_as_they_were_encoded(
    content: list[list[Record]], codec: Codec, data: st.DataObject
) -> None:
    encoded, offset = b"", 10
    expected = []
    for records in content:
        encoded += batches.build(records, base_offset=offset, codec=codec)
        expected += [record._replace(offset=offset + at) for at, record in enumerate(records)]
        offset += len(records)
    first = data.draw(st.integers(10, offset - 1))
    behind = data.draw(st.integers(first, offset))
    found = batch_of(encoded, first, behind).records
    assert [
        (each.key, each.value, each.headers, each.timestamp, each.offset) for each in found
    ] == [tuple(each) for each in expected if first <= each.offset < behind]
    assert all(
        (each.topic, each.partition, each.timestamp_type) == ("orders", 3, 0) for each in found
    )


def test_the_append_time_of_a_batch_is_that_of_its_records() -> None:
    made = batches.build([Record(None, b"a", (), 5), Record(None, b"b", (), 6)])
    stamped = stamp_append_time(made, batches.read_header(made), 99) + made[batches.HEADER_SIZE :]
    found = batch_of(stamped, 0, 2).records
    assert [(each.timestamp, each.timestamp_type) for each in found] == [
        (99, TimestampType.LOG_APPEND_TIME)
    ] * 2


@both_ways
@given(st.binary(min_size=1, max_size=100), st.integers(1, 2**31 - 1))
def test_malformed_records_are_an_error(payload: bytes, count: int) -> None:
    made = bytearray(batches.build([Record(None, b"x", (), 1)]))
    made[57:61] = count.to_bytes(4, "big")
    made[batches.HEADER_SIZE :] = payload
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    whole = batch_of(bytes(made), 0, 2**62)
    try:
        assert len(whole.records) <= count
    except KafkaError as error:
        refused = error.code, "orders-3" in str(error)
    else:
        refused = ErrorCode.invalid_record, True
    assert refused in {(ErrorCode.invalid_record, True), (ErrorCode.corrupt_message, True)}


@both_ways
@given(RECORDS, RECORDS, st.integers(0, 2**32), st.integers(1, 255))
def test_python_and_machine_code_agree_on_a_flipped_byte(
    first: list[Record], second: list[Record], at: int, change: int
) -> None:
    data = bytearray(
        batches.build(first) + batches.build(second, base_offset=len(first), codec=Codec.NONE)
    )
    data[batches.HEADER_SIZE + at % (len(data) - batches.HEADER_SIZE)] ^= change
    wanted = -(2**62), 2**62  # all: nothing is told of the headers of others
    assert outcome(decode(TP, data, *wanted)) == outcome(decode_in_python(TP, data, *wanted))


def outcome(lists: Iterator[Iterable[Decoded]]) -> tuple[list[Decoded], str]:
    """What there is before the error, and the error."""
    found: list[Decoded] = []
    try:
        for each in lists:
            found += each
    except KafkaError as error:
        return found, str(error)
    return found, ""


# Transactions


def of(producer: int, offset: int, attributes: int = TRANSACTIONAL, value: bytes = b"v") -> bytes:
    return batches.build(
        [Record(b"k", value, (), 1)],
        base_offset=offset,
        producer_id=producer,
        attributes=attributes,
    )


def marker(producer: int, offset: int, kind: int) -> bytes:
    key = b"\0\0" + kind.to_bytes(2, "big")
    record = Record(key, b"\0\0\0\0\0\0", (), 1)
    return batches.build(
        [record], base_offset=offset, producer_id=producer, attributes=TRANSACTIONAL | CONTROL
    )


def test_records_of_aborted_transactions_are_skipped() -> None:
    log = b"".join(
        (
            # 1 will abort, 2 commit, 9 has no transaction
            of(1, 0), of(2, 1), of(9, 2, attributes=0),
            marker(1, 3, 0), of(1, 4), marker(2, 5, 1),  # 1 begins again, and commits
            marker(1, 6, 1), of(2, 7), marker(2, 8, 0),  # 2 begins again, and aborts
            of(2, 9),
        )
    )  # fmt: skip
    found = batch_of(log, 0, 10, aborted=((2, 7), (1, 0)))
    assert [record.offset for record in found] == [1, 2, 4, 9]
    # Without isolation all count but the markers.
    assert [record.offset for record in batch_of(log, 0, 10)] == [0, 1, 2, 4, 7, 9]


def test_arrow_has_the_same_records() -> None:
    pytest.importorskip("pyarrow")
    log = of(1, 0) + of(2, 1, value=b"kept") + marker(1, 2, 0) + of(1, 3, attributes=0)
    found = batch_of(log, 1, 4, aborted=((1, 0),))
    arrow = found.to_arrow(include_headers=True)
    assert arrow["offset"].to_pylist() == [record.offset for record in found.records] == [1, 3]
    assert arrow["value"].to_pylist() == [b"kept", b"v"]


def test_a_batch_emptied_by_compaction_has_no_records() -> None:
    made = of(1, 5, attributes=0)
    emptied = replace_records(batches.read_header(made), b"", 0, 1)
    assert list(committed_batches(emptied)) == []
    assert scan(TP, memoryview(emptied), 5, check_crcs=True).next_offset == 6


# What a fetch brought


def test_an_incomplete_batch_waits_for_the_next_fetch() -> None:
    whole = of(1, 0) + of(1, 1)
    found = scan(TP, memoryview(whole + of(1, 2)[:-1]), 0, check_crcs=True)
    assert found == (len(whole), 2, -1, 2)


def test_only_a_part_of_a_batch_is_an_error_with_advice() -> None:
    with pytest.raises(KafkaError, match=r"orders-3 at offset 7.*raise max_partition_fetch_bytes"):
        scan(TP, memoryview(of(1, 7)[:-1]), 7, check_crcs=True)


def test_a_batch_with_a_wrong_crc_is_an_error() -> None:
    good, bad = of(1, 0), bytearray(of(1, 1))
    bad[-2] ^= 1
    with pytest.raises(KafkaError, match=r"orders-3, batch at offset 1: .*the CRC is wrong"):
        scan(TP, memoryview(bad), 1, check_crcs=True)
    # What comes before it can be read; it is the first of the next fetch.
    assert scan(TP, memoryview(good + bad), 0, check_crcs=True).next_offset == 1
    assert scan(TP, memoryview(good + bad), 0, check_crcs=False).next_offset == 2


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_formats_before_v2_are_an_error(magic: int) -> None:
    old = bytearray(of(1, 0))
    old[16] = magic
    with pytest.raises(KafkaError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
        scan(TP, memoryview(old), 0, check_crcs=True)
    if magic < 2:
        with pytest.raises(KafkaError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
            scan(TP, memoryview(old[:30]), 0, check_crcs=True)


@both_ways
@given(st.binary(max_size=200))
def test_any_bytes_are_scanned_or_an_error(data: bytes) -> None:
    try:
        found = scan(TP, memoryview(data), 0, check_crcs=True)
    except KafkaError:
        return
    assert found.size <= len(data)


def test_arrow_needs_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins
    import sys

    real = builtins.__import__

    def without(name: str, *args: object) -> object:
        if name.split(".")[0] in ("llvmlite", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
        return real(name, *args)  # type: ignore[arg-type]

    for name in [name for name in sys.modules if name.startswith("kohort.columnar")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Exception, match=r"pip install 'kohort\[arrow\]'"):
        batch_of(of(1, 0), 0, 1).to_arrow()
