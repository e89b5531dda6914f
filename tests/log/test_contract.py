"""What every log does, whatever it is made of."""

import asyncio
from itertools import accumulate, chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Appended, LogConfig
from kohort.log.memory import memory_log
from kohort.protocol import batches
from kohort.protocol.batch_writing import replace_timestamps
from kohort.protocol.batches import Codec, Record

from .conftest import (
    NOW,
    ORDERS,
    ORDERS_ID,
    batch,
    fill,
    from_producer,
    looked_up,
    records_of,
    values_of,
)


def code_of(call, *arguments, **options):
    with pytest.raises(KafkaError) as refused:
        call(*arguments, **options)
    return refused.value.code


class TestAppend:
    def test_offsets_are_given_out_in_order(self, log):
        assert log.append(batch(b"a", b"b"), NOW) == Appended(0, 1, -1)
        assert log.append(batch(b"c"), NOW) == Appended(2, 2, -1)
        assert (log.start_offset, log.end_offset) == (0, 3)
        assert [(record.offset, record.value) for record in records_of(log)] == [
            (0, b"a"),
            (1, b"b"),
            (2, b"c"),
        ]

    @pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
    @pytest.mark.parametrize("codec", Codec)
    def test_a_batch_is_stored_as_it_came(self, log, codec, form):
        sent = batch(b"a" * 500, b"b", codec=codec)
        log.append(form(sent), NOW)
        log.append(form(sent), NOW)
        stored = bytes(log.read(2, 1 << 20))
        header = batches.read_header(stored)
        assert (header.base_offset, header.partition_leader_epoch) == (2, 0)
        assert stored[16:] == sent[16:]
        assert sent == batch(b"a" * 500, b"b", codec=codec), "the caller's bytes are the caller's"

    def test_size_is_that_of_all_batches(self, log):
        assert log.size == 0
        log.append(batch(b"a"), NOW)
        assert log.size == len(batch(b"a"))

    def test_the_append_time_of_the_log(self, open_log):
        log = open_log(log_append_time=True)
        assert log.append(batch(b"a", timestamp=5, codec=Codec.GZIP), NOW) == Appended(0, 0, NOW)
        assert [record.timestamp for record in records_of(log)] == [NOW]
        assert looked_up(log.max_timestamp()) == (0, NOW)

    def test_batch_larger_than_a_segment_is_refused(self, open_log):
        log = open_log(segment_bytes=100)
        assert code_of(log.append, batch(bytes(100)), NOW) is ErrorCode.record_list_too_large
        assert log.end_offset == 0

    def test_transactional_batches_need_a_transaction(self, log):
        sent = batch(
            b"a", attributes=batches.TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0
        )
        assert code_of(log.append, sent, NOW) is ErrorCode.invalid_txn_state

    def test_new_configs_act_from_the_next_append_on(self, log):
        log.configure(LogConfig(log_append_time=True))
        assert log.append(batch(b"a"), NOW).append_time == NOW


class TestRead:
    def test_read_at_the_end_is_empty(self, log):
        assert bytes(log.read(0, 1000)) == b""
        log.append(batch(b"a"), NOW)
        assert bytes(log.read(1, 1000)) == b""

    def test_read_out_of_range_is_refused(self, log):
        log.append(batch(b"a", b"b"), NOW)
        assert code_of(log.read, 3, 1000) is ErrorCode.offset_out_of_range
        assert code_of(log.read, -1, 1000) is ErrorCode.offset_out_of_range

    def test_whole_batches_of_at_most_so_many_bytes(self, log):
        size = len(batch(b"%08d" % 0 + bytes(100)))
        fill(log, 10)
        for limit in range(0, 4 * size, 7):
            fitting = limit // size
            assert len(log.read(3, limit, at_least_one=False)) == fitting * size
            assert len(log.read(3, limit)) == max(fitting, 1) * size
        assert values_of(log, 3) == [b"%08d" % at + bytes(100) for at in range(3, 10)]

    def test_read_in_the_middle_of_a_batch_gives_all_of_it(self, log):
        log.append(batch(b"a"), NOW)
        log.append(batch(b"b", b"c", b"d"), NOW)
        first = batches.read_header(log.read(2, 1000))
        assert (first.base_offset, first.last_offset) == (1, 3)

    def test_a_read_stays_within_a_segment(self, open_log):
        log = open_log(segment_bytes=1000)
        fill(log, 50)
        assert len(log.segments) > 5
        for segment in log.segments:
            assert len(log.read(segment.base_offset, 1 << 20)) == segment.size
        assert [record.offset for record in records_of(log)] == list(range(50))

    @settings(max_examples=examples(100))
    @given(st.data())
    def test_read_from_any_offset_with_any_limit(self, data):
        """As many whole batches as fit, from the one that holds the offset to the end of its
        segment.
        """
        log = memory_log(
            ORDERS,
            LogConfig(
                segment_bytes=20_000, index_interval_bytes=data.draw(st.sampled_from([0, 300]))
            ),
        )
        stored = {}  # by segment: its batches, as (last offset, bytes)
        for size in data.draw(st.lists(st.integers(0, 2_000), min_size=1, max_size=60)):
            placed = log.append(batch(*[b"x" * (size // 3)] * (1 + size % 3)), NOW)
            taken = stored.setdefault(log.segments[-1].base_offset, [])
            taken.append((placed.last_offset, bytes(log.read(placed.base_offset, 1 << 20))))
        for _ in range(20):
            offset = data.draw(st.integers(0, log.end_offset - 1))
            limit, at_least_one = data.draw(st.integers(0, 25_000)), data.draw(st.booleans())
            segment = max(base for base in stored if base <= offset)
            following = [content for last, content in stored[segment] if last >= offset]
            fitting = [joined for joined in accumulate(following) if len(joined) <= limit]
            expected = fitting[-1] if fitting else following[0] if at_least_one else b""
            assert bytes(log.read(offset, limit, at_least_one=at_least_one)) == expected

    def test_a_consumer_that_follows_the_end(self, log):
        for at in range(300):
            log.append(batch(b"%d" % at), NOW)
            assert values_of(log, at) == [b"%d" % at]


class TestTimestamps:
    def test_the_first_record_that_is_not_older(self, open_log):
        log = open_log(segment_bytes=3_000, index_interval_bytes=200)
        for at in range(100):
            content = [
                Record(b"k", bytes(20), (), 10_000 + 100 * at + 10 * inner) for inner in range(3)
            ]
            log.append(batches.build(content, codec=Codec.LZ4), NOW)
        assert len(log.segments) > 3
        for timestamp in (0, 10_000, 10_001, 10_010, 10_011, 10_021, 14_999, 19_920):
            expected = next(
                (r.offset, r.timestamp) for r in records_of(log) if r.timestamp >= timestamp
            )
            assert looked_up(log.offset_for_timestamp(timestamp)) == expected
        assert looked_up(log.offset_for_timestamp(19_921)) is None

    def test_timestamps_that_go_back_and_forth(self, log):
        times = [50, 20, 90, 10, 90, 30]
        for time in times:
            log.append(batch(b"v", timestamp=time), NOW)
        assert [looked_up(log.offset_for_timestamp(time)) for time in (0, 51, 90)] == [
            (0, 50),
            (2, 90),
            (2, 90),
        ]
        assert looked_up(log.max_timestamp()) == (2, 90)

    @settings(max_examples=examples(60))
    @given(
        st.lists(st.lists(st.integers(-1, 50), min_size=1, max_size=3), min_size=1, max_size=40),
        st.data(),
    )
    def test_lookups_by_time_find_what_a_list_search_finds(self, times, data):
        log = memory_log(ORDERS, LogConfig(segment_bytes=500, index_interval_bytes=100))
        for group in times:
            log.append(batches.build([Record(b"k", b"v" * 20, (), time) for time in group]), NOW)
        log.trim(data.draw(st.integers(0, log.end_offset)))
        flat = [
            (at, time)
            for at, time in enumerate(chain.from_iterable(times))
            if at >= log.start_offset
        ]
        for timestamp in range(52):
            expected = next((entry for entry in flat if entry[1] >= timestamp), None)
            assert looked_up(log.offset_for_timestamp(timestamp)) == expected
        largest = max((time for _, time in flat), default=None)
        assert looked_up(log.max_timestamp()) == next(
            (entry for entry in flat if entry[1] == largest), None
        )

    def test_a_header_that_is_not_true(self, log):
        log.append(batch(b"a", timestamp=10), NOW)
        sent = batch(b"b", timestamp=5)
        header = batches.read_header(sent)
        log.append(
            replace_timestamps(sent, header, header.attributes, 99) + sent[batches.HEADER_SIZE :],
            NOW,
        )
        assert looked_up(log.max_timestamp()) == (0, 10)
        assert looked_up(log.offset_for_timestamp(11)) is None

    def test_lookups_by_time_in_an_empty_log(self, log):
        assert looked_up(log.offset_for_timestamp(0)) is None
        assert looked_up(log.max_timestamp()) is None


class TestTrim:
    def test_trimmed_records_cannot_be_read(self, log):
        fill(log, 10)
        log.trim(4)
        assert (log.start_offset, log.end_offset) == (4, 10)
        assert code_of(log.read, 3, 1000) is ErrorCode.offset_out_of_range
        assert [record.offset for record in records_of(log)] == [4, 5, 6, 7, 8, 9]

    def test_trim_never_moves_the_start_backwards(self, log):
        fill(log, 10)
        log.trim(4)
        log.trim(2)
        assert log.start_offset == 4

    def test_a_log_is_trimmed_to_its_end_and_not_beyond(self, log):
        fill(log, 10)
        assert code_of(log.trim, 11) is ErrorCode.offset_out_of_range
        log.trim(10)
        assert (log.start_offset, log.end_offset) == (10, 10)
        assert bytes(log.read(10, 1000)) == b""
        assert log.append(batch(b"a"), NOW).base_offset == 10

    def test_lookups_by_time_leave_out_trimmed_records(self, log):
        content = [Record(b"k", b"v", (), time) for time in (90, 10, 20)]
        log.append(batches.build(content), NOW)
        log.trim(1)
        assert looked_up(log.max_timestamp()) == (2, 20)
        assert looked_up(log.offset_for_timestamp(5)) == (1, 10)


class TestWaiting:
    async def test_wait_beyond_returns_when_records_come(self, log):
        log.append(batch(b"a"), NOW)
        await log.wait_beyond(0)
        waiting = asyncio.ensure_future(log.wait_beyond(2))
        await asyncio.sleep(0)
        log.append(batch(b"b"), NOW)
        await asyncio.sleep(0)
        assert not waiting.done()
        log.append(batch(b"c"), NOW)
        await asyncio.wait_for(waiting, 60)

    async def test_callbacks_are_called_for_appends_until_they_are_stopped(self, log):
        seen = []
        stop = log.on_append(lambda: seen.append(log.end_offset))
        log.append(batch(b"a"), NOW)
        await log.durable()
        log.append(batch(b"b"), NOW)
        await log.durable()
        log.trim(1)
        stop()
        stop()
        log.append(batch(b"c"), NOW)
        await log.durable()
        assert seen == [1, 2, 2]

    async def test_a_cancelled_waiter_leaves_nothing(self, log):
        waiting = asyncio.ensure_future(log.wait_beyond(0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        log.append(batch(b"a"), NOW)

    async def test_many_appends_become_durable_together(self, log):
        for at in range(5):
            log.append(batch(b"%d" % at), NOW)
        await asyncio.gather(*(log.durable() for _ in range(20)))
        await log.durable()


class TestTheEnd:
    async def test_a_removed_log_says_so(self, directory, log):
        log.append(batch(b"a"), NOW)
        woken = []
        log.on_append(lambda: woken.append(True))
        waiting = asyncio.ensure_future(log.wait_beyond(5))
        await asyncio.sleep(0)
        directory.remove(ORDERS, ORDERS_ID)
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.unknown_topic_or_partition
        assert woken == [True]
        for call in (
            lambda: log.append(batch(b"a"), NOW),
            lambda: log.read(0, 10),
            lambda: log.trim(0),
            lambda: looked_up(log.offset_for_timestamp(0)),
            lambda: looked_up(log.max_timestamp()),
        ):
            assert code_of(call) is ErrorCode.unknown_topic_or_partition
        with pytest.raises(KafkaError) as refused:
            await log.retain(NOW)
        assert refused.value.code is ErrorCode.unknown_topic_or_partition

    def test_a_new_log_of_the_same_name_is_empty(self, directory, log):
        log.append(batch(b"a"), NOW)
        directory.remove(ORDERS, ORDERS_ID)
        again = directory.open(ORDERS, LogConfig())
        assert (again.start_offset, again.end_offset) == (0, 0)
        assert again.append(batch(b"b"), NOW).base_offset == 0
        assert values_of(again) == [b"b"]

    def test_closed_log_refuses_appends_and_keeps_its_offsets(self, directory, log):
        log.append(batch(b"a"), NOW)
        log.close()
        log.close()
        assert code_of(log.append, batch(b"a"), NOW) is ErrorCode.not_leader_or_follower
        assert (log.start_offset, log.end_offset) == (0, 1)

    def test_the_same_object_while_it_is_open(self, directory, log):
        assert directory.open(ORDERS, LogConfig()) is log
        assert list(directory.names()) == [ORDERS]
        directory.remove(ORDERS, ORDERS_ID)
        assert list(directory.names()) == []
        directory.remove(ORDERS, ORDERS_ID)


class TestProducers:
    def test_a_retry_is_answered_as_the_first_time(self, log):
        first = log.append(from_producer(7, 0, 0, count=3), NOW)
        log.append(from_producer(7, 0, 3), NOW)
        again = log.append(from_producer(7, 0, 0, count=3), NOW)
        assert (again.base_offset, again.last_offset, again.duplicate) == (
            first.base_offset,
            first.last_offset,
            True,
        )
        assert again.append_time == NOW, "as in Kafka, the timestamp that was stored"
        assert log.end_offset == 4

    def test_refused_batch_is_not_appended(self, log):
        log.append(from_producer(7, 1, 0), NOW)
        assert (
            code_of(log.append, from_producer(7, 1, 5), NOW)
            is ErrorCode.out_of_order_sequence_number
        )
        assert code_of(log.append, from_producer(7, 0, 1), NOW) is ErrorCode.invalid_producer_epoch
        assert log.end_offset == 1

    async def test_idle_producers_are_forgotten(self, open_log):
        log = open_log(producer_id_expiration_ms=1_000, retention_ms=-1)
        log.append(from_producer(7, 0, 0), NOW)
        await log.retain(NOW + 999)
        assert log.append(from_producer(7, 0, 0), NOW).duplicate
        await log.retain(NOW + 1_000)
        assert not log.append(from_producer(7, 0, 0), NOW).duplicate
