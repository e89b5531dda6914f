"""Arrow from record batches: what `protocol.batches` reads record by record is the judge."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.columnar import RECORDS, RECORDS_WITH_HEADERS, decode, decode_batches, kernels
from kohort.columnar.payloads import as_bytes
from kohort.columnar.selection import scan
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import batches
from kohort.protocol.batches import Codec, Record
from kohort.protocol.compression import compress
from kohort.protocol.records import encode_varint

NOW = 1_700_000_000_000
quick = settings(max_examples=examples(80))
thorough = settings(max_examples=examples(400))

contents = st.one_of(
    st.none(), st.binary(max_size=40), st.integers(60, 9_000).map(lambda size: b"x" * size)
)
names = st.text(max_size=20)
headers = st.lists(st.tuples(names, st.one_of(st.none(), st.binary(max_size=20))), max_size=3).map(
    tuple
)
timestamps = st.one_of(st.integers(NOW - 10**6, NOW + 10**6), st.integers(-1, 2**50))
some_records = st.lists(
    st.builds(Record, contents, contents, headers, timestamps), min_size=1, max_size=8
)
codecs = st.sampled_from(Codec)


def read(data, **options):
    """What `decode` makes of it, as Python values."""
    found = decode(data, topic="t", partition=3, **options)
    found.validate(full=True)
    timestamps = found.column("timestamp").cast(pa.int64())  # Python's dates end with the year 9999
    return found.set_column(
        found.schema.get_field_index("timestamp"), "timestamp", timestamps
    ).to_pylist()


def expected(data, from_offset=0, to_offset=2**63 - 1, include_headers=False):
    rows = []
    for position, header in batches.iterate(data):
        found = [] if header.is_control else batches.decode_records(data, position)
        wanted = [record for record in found if from_offset <= record.offset < to_offset]
        rows += [
            row_of(record, int(header.is_log_append_time), include_headers) for record in wanted
        ]
    return rows


def row_of(record, timestamp_type, include_headers):
    row = {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 3,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": timestamp_type,
    }
    if include_headers:
        readable = [
            (name.encode(errors="surrogateescape").decode(errors="replace"), v)
            for name, v in record.headers
        ]
        row["headers"] = [{"key": name, "value": content} for name, content in readable] or None
    return row


class TestWhatIsThere:
    @quick
    @given(
        st.lists(st.tuples(some_records, codecs), min_size=1, max_size=4), st.booleans(), st.data()
    )
    def test_decoded_rows_are_the_records_of_the_range(self, batched, include_headers, draw):
        data, end = b"", 7
        for content, codec in batched:
            data += batches.build(content, codec=codec, base_offset=end)
            end += len(content)
        cut = {
            "from_offset": draw.draw(st.integers(0, end)),
            "to_offset": draw.draw(st.integers(0, end + 1)),
            "include_headers": include_headers,
        }
        assert read(data, include_headers=include_headers) == expected(
            data, include_headers=include_headers
        )
        assert read(data, **cut) == expected(data, **cut)

    def test_the_columns_are_those_of_sparks_source(self):
        data = batches.build([Record(None, None, (), NOW)])
        assert decode(data, topic="t", partition=0).schema.equals(RECORDS)
        assert decode(data, topic="t", partition=0, include_headers=True).schema.equals(
            RECORDS_WITH_HEADERS
        )
        assert str(RECORDS.field("timestamp").type) == "timestamp[us, tz=UTC]"

    @pytest.mark.parametrize("include_headers", [True, False])
    def test_no_bytes_give_a_batch_without_rows(self, include_headers):
        assert read(b"", include_headers=include_headers) == []
        assert list(decode_batches(b"", topic="t", partition=0)) == []

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_any_buffer_is_decoded(self, kind):
        data = batches.build([Record(b"k", b"v", (), NOW)])
        assert read(kind(data)) == expected(data)

    def test_the_last_batch_may_be_cut(self):
        first = batches.build([Record(b"k", b"v", (), NOW)], base_offset=1)
        second = batches.build([Record(b"k", b"v", (), NOW)] * 5, base_offset=2)
        for cut in range(len(second)):
            assert read(first + second[:cut]) == expected(first)

    def test_log_append_time_is_that_of_every_record(self):
        batch = batches.build([Record(b"a", b"1", (), 5), Record(b"b", b"2", (), 9)])
        stamped = (
            batches.stamp_append_time(batch, batches.read_header(batch), NOW)
            + batch[batches.HEADER_SIZE :]
        )
        rows = read(stamped)
        assert rows == expected(stamped)
        assert [row["timestampType"] for row in rows] == [1, 1]
        assert len({row["timestamp"] for row in rows}) == 1

    def test_a_compacted_batch_has_holes(self):
        content = [Record(b"%d" % at, b"v", (), NOW + at) for at in range(6)]
        header = batches.read_header(batches.build(content, base_offset=10, codec=Codec.LZ4))
        whole = batches.build(content, base_offset=10)
        raw = list(batches.records.walk(whole[batches.HEADER_SIZE :], 0, 6))
        payload = whole[batches.HEADER_SIZE :]
        kept = [payload[record[0] : record[1]] for record in raw if record[3] in (1, 4)]
        data = batches.replace_records(header, b"".join(kept), len(kept), NOW)
        data += batches.replace_records(header._replace(base_offset=16), b"", 0, NOW)
        assert read(data) == expected(data)
        assert [row["offset"] for row in read(data)] == [11, 14]

    def test_a_header_name_that_is_not_utf_8_is_replaced_as_java_does(self):
        name = b"a\xff\xfeb".decode(errors="surrogateescape")
        data = batches.build([Record(b"k", b"v", ((name, b"x"), ("ok", None)), NOW)] * 2)
        assert read(data, include_headers=True) == expected(data, include_headers=True)
        assert read(data, include_headers=True)[0]["headers"][0]["key"] == "a\ufffd\ufffdb"

    def test_headers_of_records_that_are_not_read_cost_nothing(self):
        content = [Record(b"k", b"v", (("h", b"%d" % at),) * (at % 3), NOW) for at in range(9)]
        data = batches.build(content)
        assert read(data, from_offset=4, to_offset=7, include_headers=True) == expected(
            data, 4, 7, True
        )

    def test_a_timestamp_that_microseconds_cannot_hold_is_the_nearest_that_they_can(self):
        late, early = (
            batches.build([Record(b"", b"", (), 2**62)]),
            batches.build([Record(b"", b"", (), -(2**62))]),
        )
        found = (
            decode(late + early, topic="t", partition=0)
            .column("timestamp")
            .cast(pa.int64())
            .to_pylist()
        )
        assert found == [(2**63 - 1) // 1000 * 1000, -((2**63 - 1) // 1000) * 1000]


class TestBatchesOfRows:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    @pytest.mark.parametrize("max_rows", [1, 7, 100, 1_000])
    def test_batches_have_at_most_max_rows(self, codec, max_rows):
        data = b"".join(
            batches.build([Record(b"%d" % at, None, (), NOW)] * 10, base_offset=at, codec=codec)
            for at in range(0, 300, 10)
        )
        found = list(decode_batches(data, topic="t", partition=3, max_rows=max_rows))
        assert [row["key"] for batch in found for row in batch.to_pylist()] == [
            row["key"] for row in expected(data)
        ]
        assert max(batch.num_rows for batch in found) == min(max_rows, 300)

    def test_batches_are_bounded_in_decompressed_bytes(self):
        large = batches.build([Record(None, bytes(3 << 19), (), NOW)], codec=Codec.ZSTD)
        found = list(decode_batches(large * 5, topic="t", partition=0))
        assert [batch.num_rows for batch in found] == [2, 2, 1]

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
    def test_two_may_be_read_in_turns(self, codec):
        """What is inflated is put where the next will be: nothing of it may be needed any more."""
        one, other = (
            b"".join(
                batches.build([Record(key, b"%d" % at, (), NOW)], base_offset=at, codec=codec)
                for at in range(9)
            )
            for key in (b"one", b"other")
        )
        in_turns = [
            decode_batches(data, topic="t", partition=0, max_rows=2) for data in (one, other)
        ]
        found = [batch.to_pylist() for both in zip(*in_turns, strict=True) for batch in both]
        assert [{row["key"] for row in rows} for rows in found] == [{b"one"}, {b"other"}] * 5
        assert [row["value"] for rows in found[::2] for row in rows] == [
            b"%d" % at for at in range(9)
        ]

    def test_codecs_may_alternate(self):
        data = b"".join(
            batches.build(
                [Record(b"%d" % at, b"v" * at, (), NOW)], base_offset=at, codec=list(Codec)[at % 5]
            )
            for at in range(40)
        )
        assert read(data) == expected(data)


class TestTransactions:
    """Two producers interleaved; which of it counts is as in Kafka's CompletedFetch."""

    @staticmethod
    def batch(offset, producer_id, *, transactional=True):
        attributes = batches.TRANSACTIONAL if transactional else 0
        content = [Record(b"p%d" % producer_id, b"v", (), NOW)] * 2
        return batches.build(
            content, base_offset=offset, producer_id=producer_id, attributes=attributes
        )

    @staticmethod
    def marker(offset, producer_id, *, commit):
        key = b"\x00\x00\x00\x01" if commit else b"\x00\x00\x00\x00"
        attributes = batches.TRANSACTIONAL | batches.CONTROL
        content = [Record(key, b"\x00\x00\x00\x00\x00\x00", (), NOW)]
        return batches.build(
            content, base_offset=offset, producer_id=producer_id, attributes=attributes
        )

    @pytest.fixture
    def log(self):
        return b"".join(
            [
                self.batch(0, 1),
                self.batch(2, 2),
                self.batch(4, 3, transactional=False),
                self.marker(6, 1, commit=False),
                self.batch(7, 1),
                self.marker(9, 2, commit=True),
                self.batch(10, 2),
                self.marker(12, 1, commit=True),
                self.batch(13, 1),
                self.marker(15, 1, commit=False),
                self.marker(16, 2, commit=False),
            ]
        )

    def test_markers_are_no_records(self, log):
        assert [row["offset"] for row in read(log)] == [0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 13, 14]

    def test_aborted_ones_are_left_out_up_to_their_marker(self, log):
        aborted = [(1, 13), (2, 10), (1, 0)]
        assert [row["offset"] for row in read(log, aborted=aborted)] == [2, 3, 4, 5, 7, 8]

    def test_a_transaction_that_began_before_what_was_fetched(self, log):
        tail = log[len(self.batch(0, 1)) :]
        assert [row["offset"] for row in read(tail, aborted=[(1, 0)])] == [
            2,
            3,
            4,
            5,
            7,
            8,
            10,
            11,
            13,
            14,
        ]

    def test_markers_behind_the_end_of_the_range_do_not_matter(self, log):
        assert [row["offset"] for row in read(log, to_offset=8, aborted=[(1, 0)])] == [
            2,
            3,
            4,
            5,
            7,
        ]


@quick
@given(st.lists(some_records, max_size=4), codecs, st.integers(0, 100))
def test_the_walk_in_machine_code_meets_the_same_batches(contents, codec, missing):
    data = b"".join(batches.build(content, codec=codec) for content in contents)
    data = data[: len(data) - missing]
    table = scan(as_bytes(data)).tolist()
    assert [(row[kernels.POSITION], row[kernels.CRC], row[kernels.COUNT]) for row in table] == [
        (position, header.crc, header.record_count) for position, header in batches.iterate(data)
    ]


class TestCorruptBytes:
    """Whatever the bytes, nothing but KafkaError comes out, and nothing is read that was not
    written.
    """

    @staticmethod
    def agrees(data):
        """Refused wherever the judge refuses; the same rows wherever both read."""
        try:
            found = read(data, from_offset=-(2**63), include_headers=True, check_crcs=False)
        except KafkaError:
            return
        assert found == expected(data, -(2**63), include_headers=True) or _beyond_64_bits(data)

    @quick
    @given(st.binary(max_size=300))
    def test_random_bytes_decode_as_by_the_record_decoder(self, data):
        self.agrees(data)

    @thorough
    @given(some_records, codecs, st.data())
    def test_batches_with_changed_bytes_decode_as_by_the_record_decoder(self, content, codec, draw):
        data = bytearray(batches.build(content[:3], codec=codec))
        for _ in range(draw.draw(st.integers(1, 3))):
            at = draw.draw(st.integers(batches.HEADER_SIZE - 8, len(data) - 1))
            data[at] ^= draw.draw(st.integers(1, 255))
        self.agrees(bytes(data))

    @thorough
    @given(st.binary(max_size=120), st.integers(-1, 5), codecs)
    def test_any_payload_decodes_as_by_the_record_decoder(self, payload, count, codec):
        self.agrees(with_payload(codec, compress(codec, payload), count))

    @thorough
    @given(
        st.lists(
            st.one_of(st.integers(-3, 70), st.sampled_from([2**31, 2**62, -(2**63)])), max_size=30
        )
    )
    def test_any_varints_decode_as_by_the_record_decoder(self, numbers):
        payload = b"".join(map(encode_varint, numbers))
        for count in (1, 2, 3):
            self.agrees(with_payload(Codec.NONE, payload, count))

    @pytest.mark.parametrize("count", [2**31 - 1, 2, -1])
    def test_a_count_that_is_not_true(self, count):
        payload = batches.build([Record(b"key", b"value", (), NOW)])[batches.HEADER_SIZE :]
        data = with_payload(Codec.NONE, payload, count)
        with pytest.raises(KafkaError, match=r"t-3: the batch at offset 0 has") as refused:
            read(data, check_crcs=False)
        assert refused.value.code is ErrorCode.corrupt_message

    def test_no_batch_at_all(self):
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: t-3: no record batch at position 0"):
            read(bytes(100))

    def test_varints_of_endless_length_are_refused(self):
        for size in (9, 10, 11, 5_000):
            with pytest.raises(KafkaError):
                read(with_payload(Codec.NONE, b"\xff" * size, 1))

    def test_a_wrong_crc_is_refused_when_it_is_checked(self):
        data = bytearray(batches.build([Record(b"key", b"value", (), NOW)], base_offset=5))
        data[-3] ^= 1
        with pytest.raises(
            KafkaError, match=(r"CORRUPT_MESSAGE: t-3: the batch at offset 5 .* \(CRC\)")
        ):
            read(data)
        assert read(data, check_crcs=False)[0]["value"] != b"value"

    def test_a_decompression_bomb_is_refused(self):
        with pytest.raises(KafkaError) as refused:
            read(with_payload(Codec.ZSTD, compress(Codec.ZSTD, bytes(80 << 20)), 1))
        assert refused.value.code is ErrorCode.message_too_large

    def test_a_batch_beyond_the_usual_limit(self):
        data = batches.build([Record(None, bytes(65 << 20), (), NOW)], codec=Codec.ZSTD)
        with pytest.raises(KafkaError, match=r"MESSAGE_TOO_LARGE: t-3: .* than 67108864 bytes"):
            list(decode_batches(data, topic="t", partition=3))
        (found,) = decode_batches(data, topic="t", partition=3, max_inflated=66 << 20)
        assert len(found["value"][0].as_buffer()) == 65 << 20

    def test_a_codec_that_does_not_exist(self):
        with pytest.raises(KafkaError) as refused:
            read(with_payload(6, b"xxxxxxxxxxx", 1))
        assert refused.value.code is ErrorCode.unsupported_compression_type


def _beyond_64_bits(data):
    """Offsets and timestamps wrap where Python's grow: no log has such a record."""
    found = [
        r for position, _ in batches.iterate(data) for r in batches.decode_records(data, position)
    ]
    return any(
        not -(2**53) < number < 2**53
        for record in found
        for number in (record.offset, record.timestamp)
    )


def with_payload(codec, payload, count):
    """A batch whose header and CRC are right, around anything."""
    import struct

    from crc32c import crc32c

    body = struct.pack(">hiqqqhii", codec, max(count - 1, 0), NOW, NOW, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(body)) + body
