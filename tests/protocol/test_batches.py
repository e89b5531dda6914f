"""Record batches: round trips through our own bytes and through those of two other libraries."""

import struct

import pytest
from aiokafka.record._crecords import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record._crecords import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from effort import examples
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import batches
from kohort.protocol.batches import Codec, Record
from kohort.protocol.compression import compress, decompress

NOW = 1_700_000_000_000
quick = settings(max_examples=examples(60))

contents = st.one_of(
    st.none(), st.binary(max_size=40), st.integers(60, 9_000).map(lambda size: b"x" * size)
)
headers = st.lists(
    st.tuples(st.text(max_size=20), st.one_of(st.none(), st.binary(max_size=20))), max_size=3
)
timestamps = st.one_of(st.integers(NOW - 10**6, NOW + 10**6), st.integers(-1, 2**50))
a_record = st.builds(Record, contents, contents, headers.map(tuple), timestamps)
some_records = st.lists(a_record, min_size=1, max_size=8)
codecs = st.sampled_from(Codec)


def plain(record):
    return record._replace(offset=-1)


class TestRoundTrip:
    @quick
    @given(some_records, codecs, st.integers(0, 2**40))
    def test_built_batches_decode_to_their_records(self, content, codec, base_offset):
        batch = batches.build(content, codec=codec, base_offset=base_offset)
        decoded = list(batches.decode_records(batch))
        assert list(map(plain, decoded)) == list(map(plain, content))
        assert [record.offset for record in decoded] == [
            base_offset + at for at in range(len(content))
        ]

    @quick
    @given(some_records, codecs)
    def test_the_header_tells_what_is_inside(self, content, codec):
        batch = batches.build(
            content, codec=codec, producer_id=7, producer_epoch=2, base_sequence=5
        )
        header = batches.read_header(batch)
        assert (header.size, header.magic, header.record_count) == (len(batch), 2, len(content))
        assert (header.codec, header.last_offset_delta) == (codec, len(content) - 1)
        assert header.max_timestamp == max(record.timestamp for record in content)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
        assert header.last_sequence == 5 + len(content) - 1
        assert batches.crc_is_right(batch, header)

    @quick
    @given(st.lists(st.tuples(contents, contents), min_size=1, max_size=20), timestamps)
    def test_pack_is_a_faster_build(self, pairs, timestamp):
        records = [Record(key, value, (), timestamp) for key, value in pairs]
        assert batches.pack(pairs, timestamp) == batches.build(records)

    def test_more_records_than_there_are_ready_made_numbers(self):
        pairs = [(b"%d" % at, None) for at in range(3_000)]
        batch = batches.pack(pairs, NOW)
        assert batch == batches.build([Record(key, None, (), NOW) for key, _ in pairs])
        assert [record.offset for record in batches.decode_records(batch)] == list(range(3_000))

    @quick
    @given(
        st.binary(max_size=60),
        st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=99),
        st.integers(0, 400),
        st.sampled_from([0, 1, 60, 63, 64, 1_000, 1_023, 1_024, 8_190]),
    )
    def test_a_run_is_its_pairs(self, start, ends, size, delta):
        values = [bytes([at]) * size for at in range(len(ends))]
        keys = [start + end.to_bytes(4, "big", signed=True) for end in ends]
        pairs = zip(keys, values, strict=True)
        run = batches.encode_run(batches.key_head(start), ends, values, delta)
        assert run == b"".join(
            batches.encode_pair(*pair, at) for at, pair in enumerate(pairs, delta)
        )

    def test_a_header_is_that_of_a_whole_batch(self):
        batch = batches.build(
            [Record(b"k", b"v", (), NOW), Record(b"l", None, (), NOW)], base_offset=5
        )
        content = batch[batches.HEADER_SIZE :]
        assert batches.head(5, -1, content, 2, NOW) + content == batch
        stamped = batches.head(5, 0, content, 2, NOW, batches.LOG_APPEND_TIME) + content
        assert batches.read_header(stamped).is_log_append_time
        assert batches.crc_is_right(stamped, batches.read_header(stamped))

    def test_a_batch_has_a_record(self):
        with pytest.raises(ValueError, match="at least one"):
            batches.build([])
        with pytest.raises(ValueError, match="at least one"):
            batches.pack([], NOW)

    def test_header_names_that_are_not_utf_8_come_back_as_they_were(self):
        name = b"\xff\xfe".decode(errors="surrogateescape")
        batch = batches.build([Record(b"k", b"v", ((name, b"x"),), NOW)])
        (record,) = batches.decode_records(batch)
        assert record.headers == ((name, b"x"),)

    @quick
    @given(st.lists(some_records, min_size=1, max_size=4), st.integers(0, 200))
    def test_iterate_steps_over_batches_and_leaves_out_a_cut_one(self, contents, cut):
        whole = [batches.build(content) for content in contents]
        data = b"".join(whole)
        data = data[: max(len(data) - cut, 0)]
        positions = [position for position, _ in batches.iterate(data)]
        starts = [sum(map(len, whole[:at])) for at in range(len(whole))]
        assert positions == [
            at for at, batch in zip(starts, whole, strict=True) if at + len(batch) <= len(data)
        ]


class TestOthersAgree:
    """kafka-python and aiokafka (in C) judge what is written here, and the other way round."""

    @quick
    @given(some_records, codecs)
    def test_kafka_python_reads_our_batches(self, content, codec):
        theirs = KafkaPythonBatch(batches.build(content, codec=codec, base_offset=40))
        assert theirs.validate_crc()
        assert [(r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in theirs] == [
            record._replace(offset=40 + at) for at, record in enumerate(content)
        ]

    @quick
    @given(some_records, codecs)
    def test_aiokafka_reads_our_batches(self, content, codec):
        theirs = AiokafkaBatch(batches.build(content, codec=codec, base_offset=40))
        assert theirs.validate_crc()
        assert [(r.key, r.value, tuple(r.headers), r.offset) for r in theirs] == [
            (record.key, record.value, record.headers, 40 + at) for at, record in enumerate(content)
        ]

    @pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder])
    @pytest.mark.parametrize("codec", Codec)
    def test_batches_of_other_clients_are_read(self, builder, codec):
        content = [
            Record(b"k%d" % at, b"v" * 50 * at, (("h", b"%d" % at),), NOW + at) for at in range(90)
        ]
        theirs = builder(
            magic=2, compression_type=codec, is_transactional=0, producer_id=9, producer_epoch=1,
            base_sequence=4,
            batch_size=1 << 20,
        )  # fmt: skip
        for at, record in enumerate(content):
            theirs.append(at, record.timestamp, record.key, record.value, list(record.headers))
        batch = bytes(theirs.build())
        assert list(map(plain, batches.decode_records(batch))) == content
        assert bytes(batches.validate(batch, batches.Rules(), NOW)) == batch
        header = batches.read_header(batch)
        assert (header.codec, header.producer_id, header.base_sequence, header.last_sequence) == (
            codec,
            9,
            4,
            93,
        )


class TestCodecs:
    @quick
    @given(
        codecs,
        st.one_of(
            st.binary(max_size=5_000), st.integers(0, 300_000).map(lambda size: b"ab" * size)
        ),
    )
    def test_compressed_bytes_decompress_to_the_same(self, codec, data):
        assert bytes(decompress(codec, compress(codec, data))) == data

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
    def test_a_bomb_is_refused_before_it_grows(self, codec):
        bomb = compress(codec, bytes(3_000_000))
        with pytest.raises(KafkaError) as refused:
            decompress(codec, bomb, limit=1_000_000)
        assert refused.value.code is ErrorCode.message_too_large
        assert len(decompress(codec, bomb, limit=3_000_000)) == 3_000_000

    def test_snappy_is_read_raw_too(self):
        import cramjam

        assert (
            bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"x" * 999))))
            == b"x" * 999
        )

    def test_lz4_frames_are_of_the_kind_that_java_reads(self):
        frame = compress(Codec.LZ4, b"x" * 100_000)
        assert frame[:4] == b"\x04\x22\x4d\x18"
        assert frame[4] & 0x20, "Kafka's reader refuses frames of dependent blocks"

    def test_a_codec_that_does_not_exist(self):
        with pytest.raises(KafkaError) as refused:
            decompress(6, b"")
        assert refused.value.code is ErrorCode.unsupported_compression_type


class TestCorruptBytes:
    """Whatever the bytes, nothing but KafkaError comes out."""

    @staticmethod
    def decode(data):
        try:
            for position, header in batches.iterate(data):
                batches.crc_is_right(memoryview(data)[position:], header)
                list(batches.decode_records(data, position))
        except KafkaError:
            pass
        try:
            batches.validate(data, batches.Rules(compacted=True), NOW)
        except KafkaError:
            pass

    @quick
    @given(st.binary(max_size=300))
    def test_random_bytes_decode_or_are_refused(self, data):
        self.decode(data)

    @settings(max_examples=examples(300))
    @given(some_records, codecs, st.data())
    def test_a_batch_with_one_changed_byte_decodes_or_is_refused(self, content, codec, data):
        batch = bytearray(batches.build(content[:3], codec=codec))
        batch[data.draw(st.integers(0, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
        self.decode(bytes(batch))

    @settings(max_examples=examples(300))
    @given(codecs, st.binary(max_size=120), st.integers(0, 5))
    def test_a_right_crc_over_any_records(self, codec, payload, count):
        self.decode(with_payload(codec, payload, count))

    @quick
    @given(st.binary(max_size=60), st.integers(1, 3))
    def test_any_records_behind_a_codec(self, content, count):
        for codec in Codec:
            self.decode(with_payload(codec, compress(codec, content), count))

    @pytest.mark.parametrize("codec", Codec)
    def test_a_batch_cut_at_any_byte_is_refused(self, codec):
        batch = batches.build([Record(b"key", b"value" * 9, (("h", None),), NOW)] * 3, codec=codec)
        for end in range(len(batch)):
            self.decode(batch[:end])
            with pytest.raises(KafkaError):
                batches.validate(batch[:end], batches.Rules(), NOW)

    def test_numbers_of_endless_length(self):
        self.decode(with_payload(Codec.NONE, b"\xff" * 5_000, 1))


def with_payload(codec, payload, count):
    """A batch whose header and CRC are right, around anything."""
    from crc32c import crc32c

    body = struct.pack(">hiqqqhii", codec, max(count - 1, 0), NOW, NOW, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(body) + 9, -1, 2, crc32c(body)) + body


class TestRewriting:
    def test_stamping_the_append_time(self):
        batch = batches.build(
            [Record(b"k", b"v", (), 5), Record(b"l", b"w", (), 9)], codec=Codec.ZSTD
        )
        header = batches.read_header(batch)
        stamped = batches.stamp_append_time(batch, header, NOW) + batch[batches.HEADER_SIZE :]
        after = batches.read_header(stamped)
        assert batches.crc_is_right(stamped, after)
        assert after.is_log_append_time
        assert after.max_timestamp == NOW
        assert [record.timestamp for record in batches.decode_records(stamped)] == [NOW, NOW]
        assert [record.timestamp for record in KafkaPythonBatch(stamped)] == [NOW, NOW]

    @pytest.mark.parametrize("codec", Codec)
    def test_a_batch_without_records_keeps_its_place(self, codec):
        header = batches.read_header(
            batches.build(
                [Record(b"k", b"v", (), NOW)] * 3,
                codec=codec,
                base_offset=10,
                producer_id=4,
                base_sequence=8,
            )
        )
        bare = batches.replace_records(header, b"", 0, header.max_timestamp)
        after = batches.read_header(bare)
        place = (after.base_offset, after.last_offset, after.record_count, after.size)
        assert place == (10, 12, 0, batches.HEADER_SIZE)
        assert (after.producer_id, after.base_sequence, after.last_sequence) == (4, 8, 10)
        assert batches.crc_is_right(bare, after)
        assert list(batches.decode_records(bare)) == []
        assert list(KafkaPythonBatch(bare)) == []

    @pytest.mark.parametrize("codec", Codec)
    def test_a_delete_horizon_does_not_change_what_is_read(self, codec):
        content = [Record(b"a", b"1", (), NOW), Record(b"b", None, (("h", b"x"),), NOW + 7)]
        header = batches.read_header(batches.build(content, codec=codec, base_offset=3))
        marked = batches.set_delete_horizon(header, list(enumerate(content)), NOW + 86_400_000)
        after = batches.read_header(marked)
        assert batches.crc_is_right(marked, after)
        assert (after.delete_horizon, header.delete_horizon) == (NOW + 86_400_000, None)
        assert after.max_timestamp == NOW + 7
        assert list(map(plain, batches.decode_records(marked))) == content
        assert [record.timestamp for record in KafkaPythonBatch(marked)] == [NOW, NOW + 7]

    def test_sequences_start_again_after_the_largest(self):
        assert batches.increment_sequence(2**31 - 1, 1) == 0
        assert batches.increment_sequence(2**31 - 2, 3) == 1
        assert batches.increment_sequence(5, 0) == 5


class TestMarkers:
    @pytest.mark.parametrize(("commit", "kind"), [(True, 1), (False, 0)])
    def test_a_marker_is_the_control_batch_that_kafka_writes(self, commit, kind):
        batch = batches.control_batch(9, 4, commit=commit, coordinator_epoch=3, timestamp=NOW)
        header = batches.read_header(batch)
        assert (len(batch), header.attributes, header.record_count) == (78, 0x30, 1)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 4, -1)
        assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW)
        assert batches.crc_is_right(batch, header)
        body = f"20000000080000000{kind}0c00000000000300"
        assert batch[batches.HEADER_SIZE :].hex() == body
        assert batches.read_marker(batch) == (commit, 3)

    def test_a_batch_that_ends_no_transaction_is_no_marker(self):
        of_a_leader = Record(b"\0\0\0\2", b"", timestamp=NOW)
        batch = batches.build([of_a_leader], attributes=batches.CONTROL)
        assert batches.read_marker(batch) is None
        emptied = batches.replace_records(batches.read_header(batch), b"", 0, NOW)
        assert batches.read_marker(emptied) is None

    def test_a_marker_without_coordinator_epoch_is_refused(self):
        cut = batches.build([Record(batches.COMMIT_KEY, b"\0\0")], attributes=batches.CONTROL)
        with pytest.raises(KafkaError) as caught:
            batches.read_marker(cut)
        assert caught.value.code is ErrorCode.invalid_record
