"""What a produced payload is answered. The codes were seen on a running Kafka 4.4 with the same
bytes.
"""

import struct

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import batches
from kohort.protocol.batches import Codec, InvalidRecordsError, Record, Rules, validate
from kohort.protocol.compression import compress
from kohort.protocol.records import encode, measure
from turns import cpu_ms

NOW = 1_700_000_000_000
HOUR = 3_600_000
THREE = [Record(b"k%d" % at, b"v", (), NOW) for at in range(3)]
GOOD = batches.build(THREE)
CONTENT = [encode(record, at, NOW) for at, record in enumerate(THREE)]


def changed(batch=GOOD, *, crc=None, **fields):
    """`batch` with other header fields, and a CRC to match."""
    header = batches.read_header(batch)._replace(**fields)
    body = struct.pack(">hiqqqhii", *header[5:]) + batch[batches.HEADER_SIZE :]
    return struct.pack(">qiibI", *header[:4], crc32c(body) if crc is None else crc) + body


def offsets_of(batch):
    return [record.offset for record in batches.decode_records(bytes(batch))]


def values_of(batch):
    return [record.value for record in batches.decode_records(bytes(batch))]


def holding(content, count=3, codec=Codec.NONE, payload=None):
    """A batch whose header says `count` records, around any content."""
    payload = compress(codec, content) if payload is None else payload
    header = batches.read_header(GOOD)
    return changed(
        GOOD[: batches.HEADER_SIZE] + payload,
        attributes=int(codec), record_count=count, last_offset_delta=count - 1,
        length=batches.HEADER_SIZE - 12 + len(payload), base_timestamp=header.base_timestamp,
    )  # fmt: skip


ACCEPTED = {
    "as it is": GOOD,
    "another leader epoch": changed(partition_leader_epoch=5),
    "a tail too short for a batch": GOOD + b"abc",
    "a cut second batch": GOOD + GOOD[:-1],
    "a producer with epoch -1": changed(producer_id=5, producer_epoch=-1, base_sequence=0),
    "a producer id below -1": changed(producer_id=-2, producer_epoch=0, base_sequence=0),
    "unknown attributes": changed(attributes=0x100),
    "no timestamps": batches.build([Record(b"k", b"v")]),
    "negative timestamps": batches.build([Record(b"k", b"v", (), -5)]),
    "very old": batches.build([Record(b"k", b"v", (), 1000)]),
    ("offset deltas that are wrong, not compressed"): holding(
        b"".join([CONTENT[0], CONTENT[2], CONTENT[1]])
    ),
    "raw snappy": holding(
        b"", codec=Codec.SNAPPY, payload=bytes(cramjam.snappy.compress_raw(b"".join(CONTENT)))
    ),
    **{f"{codec.name} codec": batches.build(THREE, codec=codec) for codec in Codec},
}

REFUSED = {
    "nothing": (b"", ErrorCode.invalid_record),
    "less than a length": (GOOD[:11], ErrorCode.invalid_record),
    "less than a magic": (GOOD[:16], ErrorCode.invalid_record),
    "a cut batch": (GOOD[:-1], ErrorCode.invalid_record),
    "noise behind it": (GOOD + b"\xff" * 20, ErrorCode.corrupt_message),
    "zeros behind it": (GOOD + bytes(20), ErrorCode.corrupt_message),
    "two batches": (GOOD + GOOD, ErrorCode.invalid_record),
    "magic 0": (changed(magic=0), ErrorCode.invalid_record),
    "magic 1": (changed(magic=1), ErrorCode.invalid_record),
    "magic 3": (changed(magic=3), ErrorCode.corrupt_message),
    "another base offset": (changed(base_offset=7), ErrorCode.invalid_record),
    "a wrong crc": (changed(crc=1), ErrorCode.corrupt_message),
    "a length of 13": (struct.pack(">qi", 0, 13) + GOOD[12:], ErrorCode.corrupt_message),
    "a length of 48": (struct.pack(">qi", 0, 48) + GOOD[12:60], ErrorCode.corrupt_message),
    "no records": (changed(record_count=0), ErrorCode.invalid_record),
    "a count that is too small": (changed(record_count=2), ErrorCode.invalid_record),
    "a negative count": (changed(record_count=-1), ErrorCode.invalid_record),
    "a negative last offset delta": (changed(last_offset_delta=-1), ErrorCode.invalid_record),
    "no records and a delta of -1": (
        changed(record_count=0, last_offset_delta=-1),
        ErrorCode.invalid_record,
    ),
    "a record less than it says": (holding(b"".join(CONTENT[:2])), ErrorCode.invalid_record),
    "a record more than it says": (holding(b"".join(CONTENT), count=2), ErrorCode.invalid_record),
    "a byte behind the records": (holding(b"".join(CONTENT) + b"\x00"), ErrorCode.invalid_record),
    "a record of negative length": (
        holding(b"".join(CONTENT[:2]) + b"\x01"),
        ErrorCode.invalid_record,
    ),
    "a compressed record too few": (
        holding(b"".join(CONTENT[:2]), codec=Codec.GZIP),
        ErrorCode.invalid_record,
    ),
    "a compressed record too many": (
        holding(b"".join(CONTENT), 2, Codec.LZ4),
        ErrorCode.invalid_record,
    ),
    "control records": (changed(attributes=batches.CONTROL), ErrorCode.invalid_record),
    "a producer without a sequence": (
        changed(producer_id=5, producer_epoch=0),
        ErrorCode.invalid_record,
    ),
    "codec 5": (changed(attributes=5), ErrorCode.unknown_server_error),
    "codec 7": (changed(attributes=7), ErrorCode.unknown_server_error),
    **{
        f"records that are not {codec.name}": (
            changed(attributes=int(codec)),
            ErrorCode.unknown_server_error,
        )
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    },
    "the timestamp type of the log, no timestamp": (
        changed(batches.build([Record(b"k", b"v")]), attributes=batches.LOG_APPEND_TIME),
        ErrorCode.invalid_timestamp,
    ),
    "two hours ahead": (
        batches.build([Record(b"k", b"v", (), NOW + 2 * HOUR)]),
        ErrorCode.invalid_timestamp,
    ),
    "two hours ahead, and a header that denies it": (
        changed(batches.build([Record(b"k", b"v", (), NOW + 2 * HOUR)]), max_timestamp=NOW),
        ErrorCode.invalid_timestamp,
    ),
}


@pytest.mark.parametrize("payload", ACCEPTED.values(), ids=ACCEPTED)
def test_valid_batches_are_accepted(payload):
    batch = validate(payload, Rules(), NOW)
    assert bytes(batch) == payload[: batches.read_header(payload).size]


@pytest.mark.parametrize(("payload", "code"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_invalid_batches_are_refused(payload, code, form):
    with pytest.raises(KafkaError) as refused:
        validate(form(payload), Rules(), NOW)
    assert refused.value.code is code


DEFAULTS = Rules()


def code_of(payload, rules=DEFAULTS, **options):
    try:
        validate(payload, rules, NOW, **options)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def test_zstd_needs_produce_v7():
    payload = batches.build(THREE, codec=Codec.ZSTD)
    assert code_of(payload, zstd=False) is ErrorCode.unsupported_compression_type
    assert code_of(batches.build(THREE, codec=Codec.LZ4), zstd=False) is ErrorCode.none


def test_a_batch_larger_than_max_message_bytes_is_refused():
    assert code_of(GOOD, Rules(max_message_bytes=len(GOOD))) is ErrorCode.none
    small = Rules(max_message_bytes=len(GOOD) - 1)
    assert code_of(GOOD, small) is ErrorCode.message_too_large
    assert code_of(changed(crc=1), small) is ErrorCode.message_too_large, "before the CRC"
    assert code_of(changed(base_offset=3), small) is ErrorCode.invalid_record, (
        "after the base offset"
    )


@pytest.mark.parametrize("codec", list(Codec)[1:])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_compressed_batch_with_a_record_beyond_the_limit_is_refused(codec, compacted):
    """The limit is for each record alone, without the length in front of it."""
    sizes = [len(encode(record, number, NOW)) for number, record in enumerate(THREE)]
    assert max(sizes) < 64, "the length in front has one byte"
    for limit, error in (
        (max(sizes) - 1, ErrorCode.none),
        (max(sizes) - 2, ErrorCode.invalid_record),
        (1, ErrorCode.invalid_record),
    ):
        rules = Rules(max_decompressed_bytes=limit, compacted=compacted)
        assert code_of(batches.build(THREE, codec=codec), rules) is error
        assert code_of(batches.build(THREE), rules) is ErrorCode.none


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("count", [10_000_000, 2**31 - 1])
def test_a_count_that_nobody_should_count_to(count, compacted):
    zeros = holding(bytes(20_000_000), count=count, codec=Codec.ZSTD)
    codes = []
    taken_ms = cpu_ms(lambda: codes.append(code_of(zeros, Rules(compacted=compacted))))
    assert codes == [ErrorCode.invalid_record]
    assert taken_ms < 1_000


class TestCompactedTopics:
    rules = Rules(compacted=True)

    @pytest.mark.parametrize("codec", Codec)
    def test_each_record_without_a_key_is_named(self, codec):
        content = [
            Record(None, b"v", (), NOW),
            Record(b"k", b"v", (), NOW),
            Record(None, b"v", (), NOW),
        ]
        with pytest.raises(InvalidRecordsError) as refused:
            validate(batches.build(content, codec=codec), self.rules, NOW)
        assert refused.value.code is ErrorCode.invalid_record
        assert [error.batch_index for error in refused.value.record_errors] == [0, 2]

    def test_a_bad_timestamp_decides_the_code(self):
        content = [Record(None, b"v", (), NOW), Record(b"k", b"v", (), NOW + 2 * HOUR)]
        with pytest.raises(InvalidRecordsError) as refused:
            validate(batches.build(content), self.rules, NOW)
        assert refused.value.code is ErrorCode.invalid_timestamp
        assert [error.batch_index for error in refused.value.record_errors] == [0, 1]

    def test_keys_and_tombstones_are_fine(self):
        assert (
            code_of(
                batches.build([Record(b"k", None, (), NOW), Record(b"", b"", (), NOW)]), self.rules
            )
            == 0
        )

    def test_wrong_deltas_in_a_compressed_batch(self):
        content = b"".join([CONTENT[0], CONTENT[2], CONTENT[1]])
        assert (
            code_of(holding(content, codec=Codec.ZSTD), self.rules)
            is ErrorCode.unknown_server_error
        )

    @pytest.mark.parametrize("deltas", [(0, 2, 1), (0, 5, 9), (0, 1, 1_000), (0, -1, 2), (0, 0, 0)])
    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
    def test_wrong_deltas_as_kafka_sees_them(self, deltas, codec):
        """Each outcome was observed on Kafka 4.4."""
        content = b"".join(
            encode(record, delta, NOW) for record, delta in zip(THREE, deltas, strict=True)
        )
        for rules in (Rules(), Rules(log_append_time=True), self.rules):
            assert code_of(holding(content, codec=codec), rules) is ErrorCode.unknown_server_error
            assert code_of(holding(content), rules) == 0
            assert offsets_of(validate(holding(content), rules, NOW)) == list(deltas)
        for target in Codec:
            rules = Rules(compression=target)
            if target is not codec:
                stored = validate(holding(content, codec=codec), rules, NOW)
                assert offsets_of(stored) == [0, 1, 2]
                assert values_of(stored) == [record.value for record in THREE]
            if target:
                assert offsets_of(validate(holding(content), rules, NOW)) == [0, 1, 2]

    def test_missing_keys_are_told_before_wrong_deltas(self):
        keyless = [Record(None, b"v", (), NOW) for _ in THREE]
        content = b"".join(
            encode(record, delta, NOW) for record, delta in zip(keyless, (0, 2, 1), strict=True)
        )
        code = code_of(holding(content, codec=Codec.ZSTD), self.rules)
        assert code is ErrorCode.invalid_record

    def test_the_inside_of_a_record_is_looked_at(self):
        broken = bytearray(CONTENT[0])
        broken[4] ^= 2  # the length of the key
        assert code_of(holding(bytes(broken), count=1), self.rules) is ErrorCode.invalid_record


class TestTimestamps:
    def test_timestamps_are_bounded_before_and_after_now(self):
        rules = Rules(timestamp_before_max_ms=1_000, timestamp_after_max_ms=500)
        for timestamp, code in (
            (NOW - 1_001, ErrorCode.invalid_timestamp),
            (NOW - 1_000, ErrorCode.none),
            (NOW + 500, ErrorCode.none),
            (NOW + 501, ErrorCode.invalid_timestamp),
            (-1, ErrorCode.none),
        ):
            assert code_of(batches.build([Record(b"k", b"v", (), timestamp)]), rules) is code, (
                timestamp
            )

    def test_a_header_that_exaggerates_is_mended(self):
        corrected = validate(changed(max_timestamp=NOW + 2 * HOUR), Rules(), NOW)
        header = batches.read_header(corrected)
        assert header.max_timestamp == NOW
        assert batches.crc_is_right(corrected, header)
        assert list(batches.decode_records(corrected)) == list(batches.decode_records(GOOD))

    def test_the_bit_of_the_log_is_taken_away(self):
        corrected = validate(changed(attributes=batches.LOG_APPEND_TIME), Rules(), NOW)
        assert not batches.read_header(corrected).is_log_append_time
        assert batches.crc_is_right(corrected, batches.read_header(corrected))

    def test_a_log_with_its_own_time_does_not_care(self):
        rules = Rules(log_append_time=True)
        assert (
            code_of(batches.build([Record(b"k", b"v", (), NOW + 2 * HOUR)]), rules)
            is ErrorCode.none
        )
        assert (
            code_of(changed(attributes=batches.LOG_APPEND_TIME), rules)
            is ErrorCode.invalid_timestamp
        )


class TestCompressionType:
    @pytest.mark.parametrize("source", Codec)
    @pytest.mark.parametrize("target", Codec)
    def test_a_batch_is_stored_with_the_codec_of_the_topic(self, source, target):
        stored = validate(batches.build(THREE, codec=source), Rules(compression=target), NOW)
        header = batches.read_header(stored)
        assert header.codec == target
        assert batches.crc_is_right(stored, header)
        assert list(batches.decode_records(stored)) == list(batches.decode_records(GOOD))

    def test_a_recompressed_batch_obeys_max_message_bytes(self):
        batch = batches.build([Record(b"k", bytes(5_000), (), NOW)], codec=Codec.GZIP)
        assert code_of(batch, Rules(max_message_bytes=1_000)) is ErrorCode.none
        assert (
            code_of(batch, Rules(max_message_bytes=1_000, compression=Codec.NONE))
            is ErrorCode.message_too_large
        )


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("claimed", [NOW - 40 * 86_400_000, NOW + 1, NOW + 60_000, NOW + 90 * HOUR])
def test_the_max_timestamp_is_that_of_the_records_whatever_the_header_says(codec, claimed):
    """As Kafka's LogValidator: else retention deletes new records, and lookups miss them."""
    times = [NOW - 5, NOW + 9, NOW - 3_000_000]
    batch = batches.build([Record(b"k", b"v", (), time) for time in times], codec=codec)
    corrected = validate(changed(batch, max_timestamp=claimed), Rules(), NOW)
    header = batches.read_header(corrected)
    assert header.max_timestamp == NOW + 9
    assert batches.crc_is_right(corrected, header)
    assert [record.timestamp for record in batches.decode_records(corrected)] == times


_anything = st.tuples(st.integers(-(2**41), 2**41), st.integers(0, 300))
# Runs of one size are read by columns: deltas of one and of two bytes, their limits, and negatives.
_DELTAS = ([0, 1, 2, 62, 63], [64, 65, 191, 192, 8_191], [63, 64, 8_191, 8_192], [-1, 3, -65, 64])
_of_one_size = st.sampled_from(_DELTAS).flatmap(
    lambda deltas: st.lists(st.tuples(st.sampled_from(deltas), st.just(5)), min_size=1)
)


@settings(deadline=None)
@given(st.lists(_anything, min_size=1) | _of_one_size)
@example([(number // 9, 100) for number in range(3_000)])
@example([(0, 5), *[(63 - number % 64, 5) for number in range(300)]])
def test_the_largest_timestamp_delta_is_that_of_a_full_walk(found):
    times = [NOW + delta for delta, _ in found]
    batch = batches.build(
        [Record(None, bytes(size), (), time) for time, (_, size) in zip(times, found, strict=True)]
    )
    header = batches.read_header(batch)
    largest = measure(batch, batches.HEADER_SIZE, len(found))
    assert header.base_timestamp + largest == max(times)
