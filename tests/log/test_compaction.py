"""Compaction: the last record of every key stays, offsets never change, tombstones go in their
time.
"""

import asyncio
from time import process_time
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from gate import Gate
from kohort.errors import KafkaError
from kohort.log import compaction
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.memory import INTERNAL_SEGMENT, MemoryDirectory, memory_log
from kohort.protocol import batches
from kohort.protocol.batch_writing import recompress
from kohort.protocol.batches import Codec, Record
from kohort.types import TopicPartition
from turns import BOUND_MS, longest_turn_ms

from .conftest import NOW, ORDERS, ORDERS_ID, batch, from_producer, records_of

COMPACT = frozenset({"compact"})
DAY = 86_400_000


def compacted(**configs):
    return LogConfig(
        cleanup_policy=COMPACT, **{"segment_bytes": 1_000, "index_interval_bytes": 200, **configs}
    )


@pytest.fixture
def log(directory):
    return directory.open(ORDERS, compacted())


def put(log, key, value, now=NOW, **options):
    log.append(batches.build([Record(key, value, (), now)], **options), now)


def put_many(log, count, keys=7, first=0):
    for at in range(first, first + count):
        put(log, b"k%d" % (at % keys), b"%d" % at + bytes(30))


async def compact(log, now):
    """Compact what was appended, which has to be durable."""
    await log.durable()
    return await log.compact(now)


def latest(records):
    """What a reader makes of a log: the value of each key."""
    return {record.key: record.value for record in records}


def living(records):
    return {key: value for key, value in latest(records).items() if value is not None}


class TestWhatStays:
    async def test_the_last_record_of_each_key_at_its_offset(self, log):
        put_many(log, 100)
        before = records_of(log)
        size = log.size
        active = log.segments[-1].base_offset
        assert await compact(log, NOW)
        after = records_of(log)
        assert latest(after) == latest(before)
        assert set(after) <= set(before), "same offsets, keys, values, timestamps"
        closed = [record for record in after if record.offset < active]
        assert len(closed) == len({record.key for record in closed})
        assert log.size < size / 2
        assert (log.start_offset, log.end_offset) == (0, 100)

    async def test_compacted_log_is_read_from_any_offset(self, log):
        put_many(log, 100)
        await compact(log, NOW)
        after = records_of(log)
        for offset in range(101):
            assert records_of(log, offset) == [
                record for record in after if record.offset >= offset
            ]

    async def test_compaction_joins_small_segments(self, log):
        put_many(log, 100)
        count = len(log.segments)
        await compact(log, NOW)
        assert len(log.segments) < count / 2

    async def test_next_run_begins_where_the_last_one_stopped(self, log):
        put_many(log, 100)
        await compact(log, NOW)
        assert not await compact(log, NOW), "nothing is dirty"
        put_many(log, 100, keys=3, first=100)
        assert await compact(log, NOW)
        assert {record.key for record in records_of(log)} == {b"k%d" % at for at in range(7)}

    @pytest.mark.parametrize("codec", Codec)
    async def test_compaction_removes_a_part_of_a_batch(self, log, codec):
        content = [Record(b"%d" % at, b"first", (("h", b"x"),), NOW + at) for at in range(10)]
        log.append(batches.build(content, codec=codec), NOW)
        put(log, b"3", b"second")
        put(log, b"9", b"second")
        put(log, b"filler", bytes(900))
        assert await compact(log, NOW)
        data = log.read(0, 10_000)
        header = batches.read_header(data)
        assert (header.base_offset, header.last_offset, header.record_count, header.codec) == (
            0,
            9,
            8,
            codec,
        )
        assert header.max_timestamp == NOW + 8
        assert records_of(log)[:8] == [
            record._replace(offset=at)
            for at, record in enumerate(content)
            if record.key not in (b"3", b"9")
        ]

    async def test_a_batch_that_needs_no_change_is_copied(self, log):
        put(log, b"a", b"1")
        put(log, b"b", b"2", codec=Codec.GZIP)
        before = bytes(log.read(0, 10_000))
        put(log, b"filler", bytes(900))
        await compact(log, NOW)
        assert bytes(log.read(0, 10_000))[: len(before)] == before

    async def test_compaction_keeps_batches_that_cannot_be_read(self, log):
        sent = batch(b"x", key=b"a")
        broken = bytearray(sent)
        broken[21:23] = b"\x00\x04"  # says zstd
        from crc32c import crc32c

        broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4)
        log.append(bytes(broken), NOW)
        put(log, b"a", b"2")
        put(log, b"filler", bytes(900))
        await compact(log, NOW)
        assert batches.read_header(log.read(0, 10_000)).codec == Codec.ZSTD

    async def test_records_without_a_key_go(self, directory):
        log = directory.open(ORDERS, compacted(segment_bytes=300))
        log.append(batch(b"x", b"y", key=None), NOW)
        put(log, b"a", b"1")
        put(log, b"filler", bytes(200))
        await compact(log, NOW)
        assert [record.key for record in records_of(log)] == [b"a", b"filler"]


class TestTombstones:
    async def test_tombstones_are_kept_until_readers_have_seen_them(self, directory):
        log = directory.open(
            ORDERS, compacted(delete_retention_ms=1_000, min_cleanable_dirty_ratio=0)
        )
        put(log, b"a", b"1")
        put(log, b"a", None)
        put(log, b"b", b"2")
        put(log, b"filler", bytes(900))
        assert await compact(log, NOW)
        assert [(r.key, r.value, r.timestamp) for r in records_of(log)][:2] == [
            (b"a", None, NOW),
            (b"b", b"2", NOW),
        ]
        horizon = batches.read_header(log.read(1, 10_000)).delete_horizon
        assert horizon == NOW + 1_000

        put(log, b"filler", bytes(900))
        assert await compact(log, NOW + 999)
        assert b"a" in latest(records_of(log))
        assert batches.read_header(log.read(1, 10_000)).delete_horizon == horizon, (
            "the first time counts"
        )
        put(log, b"filler", bytes(900))
        assert await compact(log, NOW + 1_000)
        assert b"a" not in latest(records_of(log))
        assert records_of(log)[0] == Record(b"b", b"2", (), NOW, 2)

    async def test_a_later_value_wins_over_an_old_tombstone(self, log):
        put(log, b"a", None)
        put(log, b"a", b"1")
        put(log, b"filler", bytes(900))
        await compact(log, NOW)
        assert latest(records_of(log))[b"a"] == b"1"


class TestEmptyBatches:
    async def test_the_last_batch_of_a_producer_keeps_its_header(self, data):
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, compacted())
        for at in range(3):
            log.append(from_producer(5, 0, at), NOW)
        log.append(batch(b"new", key=b"k"), NOW)
        put(log, b"filler", bytes(900))
        await compact(log, NOW)
        headers = [header for _, header in batches.iterate(log.read(0, 10_000))]
        assert [
            (h.base_offset, h.record_count, h.producer_id, h.base_sequence) for h in headers[:2]
        ] == [
            (2, 0, 5, 2),
            (3, 1, -1, -1),
        ]
        directory.close()
        (data / "orders-0" / "producers").unlink()
        with_header_only = LocalDirectory(data)
        log = with_header_only.open(ORDERS, compacted())
        assert log.append(from_producer(5, 0, 2), NOW).duplicate
        assert log.append(from_producer(5, 0, 3), NOW).base_offset == 5
        with_header_only.close()

    async def test_the_end_of_the_compacted_part_is_kept(self, directory):
        log = directory.open(ORDERS, compacted(segment_bytes=300))
        put(log, b"a", b"1" * 150)
        put(log, b"a", b"2" * 150)
        put(log, b"a", b"3" * 150)
        assert await compact(log, NOW)
        headers = [header for _, header in batches.iterate(log.read(0, 10_000))]
        assert headers[-1].last_offset == log.segments[0].end_offset - 1
        assert [record.offset for record in records_of(log)] == [1, 2]


class TestWhenItIsDue:
    async def test_no_compaction_without_the_policy(self, directory):
        log = directory.open(ORDERS, LogConfig(segment_bytes=1_000))
        put_many(log, 100)
        assert not await compact(log, NOW)

    async def test_active_segment_is_not_compacted(self, log):
        put(log, b"a", b"1")
        put(log, b"a", b"2")
        assert not await compact(log, NOW)

    async def test_compaction_waits_for_the_dirty_ratio(self, directory):
        log = directory.open(ORDERS, compacted(min_cleanable_dirty_ratio=0.5))
        put_many(log, 100, keys=1_000)
        assert await compact(log, NOW)
        clean = log.size
        at = 100
        while not await compact(log, NOW):
            put_many(log, 1, keys=1_000, first=at)
            at += 1
        assert log.size > 1.9 * clean

    async def test_compaction_waits_for_min_compaction_lag(self, directory):
        log = directory.open(ORDERS, compacted(min_compaction_lag_ms=1_000))
        put_many(log, 100)
        assert not await compact(log, NOW + 999)
        assert await compact(log, NOW + 1_000)

    async def test_compaction_is_due_after_max_compaction_lag(self, directory):
        log = directory.open(
            ORDERS,
            compacted(
                segment_bytes=100_000, max_compaction_lag_ms=1_000, min_cleanable_dirty_ratio=1
            ),
        )
        put(log, b"a", b"1")
        put(log, b"a", b"2", now=NOW + 1_001)
        assert len(log.segments) == 2, (
            "an active segment cannot be compacted, so it ends with the lag"
        )
        assert await compact(log, NOW + 1_001)

    async def test_log_is_compacted_and_deleted_by_both_policies(self, directory):
        both = frozenset({"compact", "delete"})
        log = directory.open(
            ORDERS, LogConfig(cleanup_policy=both, segment_bytes=1_000, retention_ms=1_000)
        )
        put_many(log, 100)
        assert await compact(log, NOW)
        await log.durable()
        assert await log.retain(NOW + 2_000)
        assert log.start_offset == 100

    async def test_one_run_takes_a_bounded_number_of_keys(self, log, monkeypatch):
        monkeypatch.setattr(compaction, "MAX_KEYS", 20)
        put_many(log, 100, keys=50)
        before = latest(records_of(log))
        runs = 0
        log.configure(compacted(min_cleanable_dirty_ratio=0))
        while await compact(log, NOW):
            runs += 1
        assert runs > 1
        assert latest(records_of(log)) == before

    async def test_a_run_ends_in_the_middle_of_a_segment(self, directory, monkeypatch):
        monkeypatch.setattr(compaction, "MAX_KEYS", 10)
        log = directory.open(ORDERS, compacted(segment_bytes=100_000, min_cleanable_dirty_ratio=0))
        put_many(log, 100, keys=100)
        put_many(log, 100, keys=100, first=100)
        log.configure(compacted(segment_bytes=1_000, min_cleanable_dirty_ratio=0))
        put(log, b"filler", bytes(900))
        assert len(log.segments) == 2
        before = latest(records_of(log))
        ends = []
        while await compact(log, NOW):
            ends.append(log.checkpoint.cleaned)
            assert latest(records_of(log)) == before
        assert ends == [*range(10, 201, 10)]
        assert [record.offset for record in records_of(log)] == [*range(100, 201)]

    async def test_a_batch_with_more_keys_than_fit(self, log, monkeypatch):
        monkeypatch.setattr(compaction, "MAX_KEYS", 3)
        log.configure(compacted(min_cleanable_dirty_ratio=0))
        put_many(log, 8)
        log.append(batches.build([Record(b"k%d" % at, b"new", (), NOW) for at in range(7)]), NOW)
        put(log, b"filler", bytes(900))
        before = latest(records_of(log))
        while await compact(log, NOW):
            assert latest(records_of(log)) == before
        assert [record.offset for record in records_of(log)] == [*range(8, 16)]


class TestMemory:
    """Without a disk, what nobody can read any more takes memory."""

    async def test_the_state_of_coordinators_is_compacted_early(self):
        configs = {"cleanup_policy": COMPACT, "segment_bytes": 100 << 20}
        offsets = memory_log(TopicPartition("__consumer_offsets", 7), LogConfig(**configs))
        users = memory_log(ORDERS, LogConfig(**configs))
        for log in (offsets, users):
            for _ in range(5):
                put_many(log, 5_000)
                await compact(log, NOW)
        assert offsets.size < 2 * INTERNAL_SEGMENT < users.size
        assert latest(records_of(offsets)) == latest(records_of(users))

    async def test_a_batch_that_is_larger_than_such_a_segment(self):
        config = LogConfig(cleanup_policy=COMPACT)
        log = memory_log(TopicPartition("__transaction_state", 0), config)
        put(log, b"a", bytes(2 * INTERNAL_SEGMENT))
        put(log, b"a", b"1")
        assert [record.key for record in records_of(log)] == [b"a", b"a"]


class TestMeanwhile:
    async def test_log_appends_and_reads_during_compaction(self, log):
        """Every read is consistent while appends go on and another thread compacts."""
        put_many(log, 400)
        expected = latest(records_of(log))
        await log.durable()
        compacting = asyncio.ensure_future(log.compact(NOW))
        at = 400
        while not compacting.done():
            put_many(log, 1, first=at)
            expected[b"k%d" % (at % 7)] = b"%d" % at + bytes(30)
            at += 1
            assert latest(records_of(log)) == expected
            await asyncio.sleep((at - 400) / 10_000)  # longer and longer: all is read each time
        assert await compacting
        assert latest(records_of(log)) == expected
        assert log.end_offset == at

    async def test_segments_that_are_deleted_meanwhile_stay_deleted(self, log):
        put_many(log, 200)
        await log.durable()
        compacting = asyncio.ensure_future(log.compact(NOW))
        await asyncio.sleep(0)
        log.trim(150)
        await log.retain(NOW)
        await compacting
        assert log.start_offset == 150
        assert all(record.offset >= 150 for record in records_of(log))
        assert log.segments[0].base_offset > 0

    async def test_a_log_that_is_removed_meanwhile(self, directory, log):
        put_many(log, 200)
        await log.durable()
        compacting = asyncio.ensure_future(log.compact(NOW))
        await asyncio.sleep(0)
        directory.remove(ORDERS, ORDERS_ID)
        await asyncio.gather(compacting, return_exceptions=True)
        directory.directories.make({ORDERS: UUID(int=8)})
        again = directory.open(ORDERS, compacted())
        assert (again.start_offset, again.end_offset) == (0, 0)

    @pytest.mark.parametrize("how", ["closed", "cancelled"])
    async def test_the_thread_does_not_hold_up_the_end(self, log, how, monkeypatch):
        put_many(log, 100)
        gate, batches_seen = Gate(), []
        intact = compaction.scan.intact

        def slow(*arguments):
            for found in intact(*arguments):
                batches_seen.append(found)
                gate.wait()
                yield found

        monkeypatch.setattr(compaction.scan, "intact", slow)
        await log.durable()
        compacting = asyncio.ensure_future(log.compact(NOW))
        await gate.reached()
        if how == "closed":
            log.close()
            gate.open()
            assert not await compacting
        else:
            compacting.cancel()
            asyncio.get_running_loop().call_later(0.01, gate.open)
            await asyncio.gather(compacting, return_exceptions=True)
        await asyncio.sleep(0.03)
        assert len(batches_seen) <= 2

    async def test_one_compaction_of_a_log_at_a_time(self, log):
        put_many(log, 200)
        await log.durable()
        assert sorted(await asyncio.gather(log.compact(NOW), log.compact(NOW))) == [False, True]

    async def test_the_directory_cleans_all_and_survives_one_that_fails(
        self, directory, log, caplog
    ):
        put_many(log, 100)
        other = directory.open(ORDERS._replace(partition=1), compacted())
        put_many(other, 100)
        await asyncio.gather(log.durable(), other.durable())
        broken = log.segments[0].log
        broken.size -= 1
        await directory.compact(NOW)
        broken.size += 1
        assert "cleaning orders-0 failed" in caplog.text
        assert len(other.segments) < len(log.segments)

    async def test_a_segment_that_is_broken_is_left_alone(self, log):
        put_many(log, 100)
        before = records_of(log)
        log.segments[2].log.size -= 1
        with pytest.raises(KafkaError):
            await compact(log, NOW)
        log.segments[2].log.size += 1
        assert records_of(log) == before


class TestTurns:
    async def test_a_batch_of_very_many_keys_holds_up_nobody(self):
        worst = BOUND_MS
        for _ in range(5):  # on a busy machine the loop also waits for a core
            worst = min(worst, await self.longest_turn())
            if worst < BOUND_MS:
                break
        assert worst < BOUND_MS

    async def longest_turn(self):
        log = memory_log(ORDERS, compacted(segment_bytes=50_000_000))
        count = 150_000
        content = batches.encode_run(
            batches.key_head(b"key-"), range(count), [b"%08d" % at for at in range(count)], 0
        )
        head = batches.head(0, -1, content, count, NOW)
        log.append(recompress(batches.read_header(head), content, Codec.ZSTD), NOW)
        half = batches.encode_run(
            batches.key_head(b"key-"), range(0, count, 2), [b"x"] * (count // 2), 0
        )
        log.append(batches.head(0, -1, half, count // 2, NOW) + half, NOW)
        log.configure(compacted(segment_bytes=1_000))
        put(log, b"filler", b"")
        log.configure(compacted(segment_bytes=50_000_000))
        await log.durable()
        worst, compacted_it = await longest_turn_ms(log.compact(NOW), process_time)
        print(f"{worst:.0f} ms")
        assert compacted_it
        kept = batches.read_header(log.read(0, 1_000))
        assert (kept.record_count, kept.codec) == (count // 2, Codec.ZSTD)
        return worst


@pytest.mark.parametrize("leader_epoch", [0, 1, 2**31 - 1])
async def test_a_log_in_memory_is_compacted_whatever_its_leader_epoch(leader_epoch: int) -> None:
    """That of a server in memory goes by the time of its start."""
    directory = MemoryDirectory(leader_epoch=leader_epoch)
    log = directory.open(ORDERS, compacted(segment_bytes=450, min_cleanable_dirty_ratio=0))
    for number in range(20):
        log.append(batches.build([Record(b"a", b"%d" % number, (), NOW)]), NOW)
    await directory.compact(NOW)
    assert len(records_of(log)) < 10
    assert living(records_of(log)) == {b"a": b"19"}


@pytest.mark.parametrize("before", range(3))
async def test_a_tombstone_stays_until_a_run_has_reached_it(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of one key end before it, and what it deletes is still there."""
    monkeypatch.setattr(compaction, "MAX_KEYS", 1)
    config = compacted(segment_bytes=450, delete_retention_ms=1_000, min_cleanable_dirty_ratio=0)
    log = memory_log(ORDERS, config)
    others = [(b"%d" % number, b"value") for number in range(before)]
    for key, value in [*others, (b"a", b"value"), (b"a", None), (b"next", b"x" * 350)]:
        log.append(batches.build([Record(key, value, (), NOW)]), NOW)
    for run in range(6):
        await compact(log, NOW + 2_000 * run)
        assert b"a" not in living(records_of(log))


class TestProperty:
    """Reading the compacted log gives what reading the whole one gives, at every point in time."""

    keys = st.sampled_from([b"a", b"b", b"c", b"d"])
    values = st.one_of(st.none(), st.binary(max_size=40))
    sent = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
    steps = st.lists(
        st.one_of(
            st.tuples(st.just("append"), sent, st.sampled_from(Codec)),
            st.tuples(st.just("compact"), st.integers(0, 2_000), st.none()),
        ),
        max_size=60,
    )

    @settings(max_examples=examples(60))
    @given(steps, st.sampled_from([1, 2, 3, 3_000_000]))
    def test_the_fold_is_the_same(self, steps, most_keys):
        config = compacted(
            segment_bytes=400, delete_retention_ms=1_000, min_cleanable_dirty_ratio=0
        )
        log = memory_log(ORDERS, config)
        everything: list[Record] = []
        now = NOW

        async def run():
            nonlocal now
            for step, argument, codec in steps:
                if step == "compact":
                    now += argument
                    await compact(log, now)
                else:
                    content = [Record(key, value, (), now) for key, value in argument]
                    base = log.append(batches.build(content, codec=codec), now).base_offset
                    everything.extend(
                        record._replace(offset=base + at) for at, record in enumerate(content)
                    )
                found = records_of(log)
                assert set(found) <= set(everything)
                assert living(found) == living(everything)
                assert [record.offset for record in found] == sorted(
                    record.offset for record in found
                )
                assert log.end_offset == len(everything)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compaction, "MAX_KEYS", most_keys)
            asyncio.run(run())


class TestTransactions:
    """As Kafka's LogCleaner."""

    @staticmethod
    def write(log, key, value, producer_id=1):
        guard = log.begin_verification(producer_id, 0, -1, NOW, tv2=False)
        content = batches.build(
            [Record(key, value, (), NOW)],
            producer_id=producer_id,
            producer_epoch=0,
            attributes=batches.TRANSACTIONAL,
        )
        return log.append(content, NOW, verified=guard).base_offset

    @staticmethod
    def end(log, *, commit, producer_id=1):
        return log.append_marker(
            producer_id,
            0,
            commit=commit,
            coordinator_epoch=0,
            transaction_version=1,
            timestamp=NOW,
        )

    @staticmethod
    async def compact(log, now=NOW):
        put_many(log, 40, keys=7)  # something is dirty, and nothing else is the last of a segment
        assert await compact(log, now)

    @staticmethod
    def headers(log):
        """Header of each batch, by base offset."""
        data = b"".join(bytes(log.read(segment.base_offset, 1 << 20)) for segment in log.segments)
        return {header.base_offset: header for _, header in batches.iterate(data)}

    @staticmethod
    def indexed(log):
        return [each.marker_offset for part in log.segments for each in part.aborted.entries()]

    async def test_aborted_records_go_and_supersede_none(self, log):
        put(log, b"a", b"kept")
        aborted = self.write(log, b"a", b"dropped")
        marker = self.end(log, commit=False)
        await self.compact(log)
        assert latest(records_of(log))[b"a"] == b"kept"
        assert aborted not in self.headers(log)
        assert self.headers(log)[marker].record_count == 1
        assert self.indexed(log) == [marker]

    async def test_the_marker_of_an_aborted_transaction_goes_as_a_tombstone(self, log):
        self.write(log, b"a", b"dropped")
        marker = self.end(log, commit=False)
        await self.compact(log)
        assert self.headers(log)[marker].delete_horizon is None
        await self.compact(log, NOW + 5)
        assert self.headers(log)[marker].delete_horizon == NOW + 5 + DAY
        assert batches.read_marker(bytes(log.read(marker, 1))) == (False, 0)
        assert self.indexed(log) == []
        await self.compact(log, NOW + 4 + DAY)
        assert marker in self.headers(log)
        await self.compact(log, NOW + 5 + DAY)
        assert marker not in self.headers(log)

    async def test_the_marker_of_a_committed_one_stays_with_its_records(self, log):
        written = self.write(log, b"a", b"1"), self.write(log, b"b", b"1")
        marker = self.end(log, commit=True)
        for now in (NOW, NOW + 2 * DAY, NOW + 4 * DAY):
            await self.compact(log, now)
            assert {*written, marker} <= self.headers(log).keys()
            assert self.headers(log)[marker].delete_horizon is None
        put(log, b"a", b"2")
        put(log, b"b", b"2")
        for now in (NOW, NOW + 1):
            await self.compact(log, now)
        assert not {*written} & self.headers(log).keys()
        assert self.headers(log)[marker].delete_horizon is not None
        await self.compact(log, NOW + 2 * DAY)
        assert marker not in self.headers(log)

    async def test_records_from_the_last_stable_offset_on_are_not_compacted(self, log):
        put_many(log, 20)
        opened = self.write(log, b"open", b"1", producer_id=2)
        put_many(log, 40)
        self.write(log, b"open", b"2", producer_id=2)
        await self.compact(log)
        assert log.last_stable_offset == opened
        assert set(range(opened, log.end_offset)) <= self.headers(log).keys()
        assert not set(range(10)) & self.headers(log).keys()
