"""Transactions in the log of a partition: batches, markers, the last stable offset, the index of
aborted transactions. The responses were seen on a running Kafka 4.4.
"""

import asyncio
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import ErrorCode, KafkaError
from kohort.log import repair
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.memory import memory_log
from kohort.log.producer_states import MAX_PRODUCERS, MAX_VERIFICATIONS, ActiveProducer
from kohort.log.recovery import LastEnd
from kohort.log.segment import Segment
from kohort.log.stores import FileStore, loaded
from kohort.protocol import batches
from kohort.protocol.aborted_transactions import committed_batches

from .conftest import DAY, NOW, ORDERS, batch, fill, from_producer, records_of
from .test_transaction_power_loss import told_by_batches

OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number
FENCED = ErrorCode.invalid_producer_epoch
COORDINATOR_FENCED = ErrorCode.transaction_coordinator_fenced
NO_TRANSACTION = ErrorCode.invalid_txn_state
SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=200)


def transactional(producer_id, epoch=0, sequence=0, count=1):
    return from_producer(producer_id, epoch, sequence, count, attributes=batches.TRANSACTIONAL)


def write(log, producer_id, epoch=0, sequence=0, count=1, *, tv2=False):
    """Append a batch whose transaction the coordinator knows; returns its offset."""
    guard = log.begin_verification(producer_id, epoch, sequence, NOW, tv2=tv2)
    return log.append(
        transactional(producer_id, epoch, sequence, count), NOW, verified=guard
    ).base_offset


def end(log, producer_id, epoch=0, *, commit=False, coordinator_epoch=0, version=0):
    return log.append_marker(
        producer_id,
        epoch,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
        timestamp=NOW,
    )


def code_of(call, *arguments, **options):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **options)
    return caught.value.code


def committed(log, max_bytes=1 << 20):
    """The offsets that a reader of committed records gets."""
    offset, found = log.start_offset, []
    while True:
        data, aborted = log.read_committed(offset, max_bytes)
        if not data:
            return found
        data = bytes(data)
        listed = [(transaction.producer_id, transaction.first_offset) for transaction in aborted]
        for position, _ in committed_batches(data, listed):
            records = batches.decode_records(data, position)
            found += [record.offset for record in records if record.offset >= offset]
        offset = [header for _, header in batches.iterate(data)][-1].last_offset + 1


async def durable(log):
    await log.durable()
    return log


class TestStability:
    async def test_an_open_transaction_holds_committed_readers_back(self, log):
        fill(log, 2)
        assert write(log, 1, count=2) == 2
        fill(log, 3)
        await durable(log)
        assert (log.last_stable_offset, log.high_watermark) == (2, 7)
        assert committed(log) == [0, 1]
        assert len(records_of(log)) == 7
        assert end(log, 1, commit=True) == 7
        await durable(log)
        assert log.last_stable_offset == log.high_watermark == 8
        assert committed(log) == [0, 1, 2, 3, 4, 5, 6]

    async def test_the_records_of_an_aborted_one_are_named_to_readers(self, log):
        write(log, 1, count=2)
        fill(log, 1)
        end(log, 1)
        await durable(log)
        data, aborted = log.read_committed(0, 1 << 20)
        assert len(data) == log.size
        assert aborted == [(1, 0, 3, 4)]
        assert committed(log) == [2]

    async def test_the_first_of_several_open_ones_counts(self, log):
        for producer_id in (3, 1, 2):
            write(log, producer_id)
        await durable(log)
        assert log.last_stable_offset == 0
        end(log, 1)
        end(log, 3, commit=True)
        await durable(log)
        assert log.last_stable_offset == 2
        end(log, 2)
        await durable(log)
        assert log.last_stable_offset == 6
        assert committed(log) == [0]
        # the index has the last stable offset at each marker
        assert log.read_committed(0, 1 << 20)[1] == [(1, 1, 3, 0), (2, 2, 5, 6)]

    async def test_a_marker_counts_below_the_high_watermark_only(self, data):
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, LogConfig())
        write(log, 1)
        await log.durable()
        end(log, 1, commit=True)
        assert (log.high_watermark, log.last_stable_offset) == (1, 0)
        await log.durable()
        assert (log.high_watermark, log.last_stable_offset) == (2, 2)
        directory.close()

    async def test_a_marker_without_records_has_no_effect(self, log):
        assert end(log, 1) == 0
        await durable(log)
        assert log.last_stable_offset == 1
        assert log.read_committed(0, 1 << 20)[1] == []
        assert committed(log) == []

    async def test_trim_moves_the_last_stable_offset(self, log):
        write(log, 1)
        fill(log, 5)
        await durable(log)
        assert log.last_stable_offset == 0
        log.trim(3)
        assert log.last_stable_offset == 3
        assert committed(log) == []
        end(log, 1)
        await durable(log)
        assert log.last_stable_offset == 7
        assert log.read_committed(3, 1 << 20)[1] == [(1, 0, 6, 7)]
        assert committed(log) == [3, 4, 5]

    async def test_readers_are_told_when_it_moves(self, log):
        write(log, 1)
        await durable(log)
        told = []
        log.on_append(lambda: told.append(log.last_stable_offset))
        end(log, 1)
        await durable(log)
        assert told[-1] == 2

    async def test_retention_deletes_segments_of_open_transactions(self, open_log):
        log = open_log(segment_bytes=500, retention_ms=1_000)
        write(log, 1)
        fill(log, 10)
        fill(log, 10, timestamp=NOW + 10_000)
        await durable(log)
        assert await log.retain(NOW + 5_000) > 0
        assert log.last_stable_offset == log.start_offset > 0
        end(log, 1)
        await durable(log)
        assert log.last_stable_offset == log.end_offset

    async def test_many_aborted_transactions_shorten_a_read(self, log):
        for sequence in range(6_000):
            write(log, 1, sequence=sequence)
            end(log, 1)
        await durable(log)
        data, aborted = log.read_committed(0, 1 << 24)
        assert 0 < len(aborted) <= 5_000
        last = [header for _, header in batches.iterate(loaded(data, len(data)))][-1].last_offset
        assert {transaction.first_offset for transaction in aborted} == set(range(0, last + 1, 2))


class TestMarkers:
    def test_bytes_of_a_marker(self, log):
        log.append_marker(
            0x0102030405060708,
            9,
            commit=True,
            coordinator_epoch=5,
            transaction_version=2,
            timestamp=NOW,
        )
        stored = bytes(log.read(0, 1 << 20))
        header = batches.read_header(stored)
        assert len(stored) == 78
        assert batches.crc_is_right(stored, header)
        assert (header.attributes, header.producer_id) == (0x30, 0x0102030405060708)
        assert (header.producer_epoch, header.base_sequence) == (9, -1)
        assert stored[61:].hex() == "200000000800000001" + "0c00000000000500"

    def test_an_older_epoch_or_coordinator_is_fenced(self, log):
        write(log, 1, epoch=4)
        assert code_of(end, log, 1, 3) is FENCED
        end(log, 1, 4, coordinator_epoch=7)
        assert code_of(end, log, 1, 4, coordinator_epoch=6) is COORDINATOR_FENCED
        assert log.end_offset == 2

    def test_marker_of_version_2_needs_a_newer_epoch(self, log):
        write(log, 1, epoch=4)
        assert code_of(end, log, 1, 4, version=2) is FENCED
        assert end(log, 1, 5, version=2) == 1
        assert end(log, 1, 5, version=2) == 2, "a repeated marker is written again"
        assert code_of(end, log, 1, 4, version=2) is FENCED
        assert code_of(write, log, 1, 4) is FENCED

    def test_a_marker_of_a_new_epoch_starts_sequences_again(self, log):
        write(log, 1, sequence=0, count=3)
        end(log, 1, 1, version=2)
        assert code_of(write, log, 1, 1, sequence=3) is OUT_OF_ORDER
        assert write(log, 1, 1, sequence=0) == 4

    def test_sequences_go_on_behind_one_of_the_same_epoch(self, log):
        write(log, 1, sequence=0, count=3)
        end(log, 1)
        assert write(log, 1, sequence=3) == 4
        assert code_of(log.append, transactional(1, sequence=7), NOW) is OUT_OF_ORDER


class TestVerification:
    def test_a_transaction_that_nobody_verified_is_refused(self, log):
        assert code_of(log.append, transactional(1), NOW) is NO_TRANSACTION
        write(log, 1)
        assert log.append(transactional(1, sequence=1), NOW).base_offset == 1
        end(log, 1)
        assert code_of(log.append, transactional(1, sequence=2), NOW) is NO_TRANSACTION

    def test_duplicate_needs_no_verification(self, log):
        write(log, 1)
        end(log, 1)
        assert log.append(transactional(1), NOW).duplicate

    def test_a_transaction_that_ended_since_is_refused(self, log):
        guard = log.begin_verification(1, 0, 0, NOW, tv2=False)
        end(log, 1)
        assert code_of(log.append, transactional(1), NOW, verified=guard) is NO_TRANSACTION
        # also when it was open as the verification began
        write(log, 1)
        guard = log.begin_verification(1, 0, 1, NOW, tv2=False)
        end(log, 1)
        late = transactional(1, sequence=1)
        assert code_of(log.append, late, NOW, verified=guard) is NO_TRANSACTION

    def test_batches_that_wait_come_in_order(self, log):
        guards = [log.begin_verification(1, 0, sequence, NOW, tv2=False) for sequence in (1, 0)]
        late = transactional(1, sequence=1)
        assert code_of(log.append, late, NOW, verified=guards[0]) is OUT_OF_ORDER
        assert log.append(transactional(1), NOW, verified=guards[1]).base_offset == 0
        assert log.append(late, NOW, verified=guards[0]).base_offset == 1

    def test_an_unknown_producer_of_version_2_starts_at_0(self, log):
        assert code_of(write, log, 1, sequence=5, tv2=True) is OUT_OF_ORDER
        assert write(log, 2, sequence=5) == 0

    def test_the_older_epoch_comes_first(self, log):
        write(log, 1, epoch=3)
        end(log, 1, 4)
        assert code_of(log.append, transactional(1, 3), NOW) is FENCED

    def test_a_plain_batch_in_an_open_transaction(self, log):
        write(log, 1)
        assert code_of(log.append, from_producer(1, 0, 1), NOW) is NO_TRANSACTION
        end(log, 1)
        assert log.append(from_producer(1, 0, 1), NOW).base_offset == 2

    def test_batches_of_a_coordinator_have_no_sequence(self, log):
        offsets = batch(b"v", producer_id=1, producer_epoch=0, attributes=batches.TRANSACTIONAL)
        assert code_of(log.append, offsets, NOW) is NO_TRANSACTION
        guard = log.begin_verification(1, 0, -1, NOW, tv2=False)
        for at in range(8):
            assert log.append(offsets, NOW, verified=guard).base_offset == at
        assert log.ongoing_transaction(1, 0) == 0
        assert next(log.active_producers()).last_sequence == -1

    def test_ongoing_transaction_is_that_of_producer_and_epoch(self, log):
        fill(log, 2)
        write(log, 1, epoch=5)
        assert log.ongoing_transaction(1, 5) == 2
        assert log.ongoing_transaction(1, 4) is None
        assert log.ongoing_transaction(2, 5) is None
        end(log, 1, 5)
        assert log.ongoing_transaction(1, 5) is None


class TestBounds:
    async def test_producers_with_an_open_transaction_are_never_forgotten(self):
        log = memory_log(ORDERS, LogConfig(retention_ms=-1))
        write(log, 0)
        for producer_id in range(1, MAX_PRODUCERS + 1_500):
            log.append(from_producer(producer_id, 0, 0), NOW + producer_id)
        assert log.last_stable_offset == 0
        assert len(list(log.active_producers())) <= MAX_PRODUCERS + 1
        await log.retain(NOW + 10 * DAY)
        (left,) = log.active_producers()
        assert (left.producer_id, log.last_stable_offset) == (0, 0)
        end(log, 0)
        await log.retain(NOW + 10 * DAY)
        assert list(log.active_producers()) == []

    async def test_oldest_verifications_are_forgotten(self):
        log = memory_log(ORDERS)
        first = log.begin_verification(0, 0, 0, NOW, tv2=False)
        for producer_id in range(1, MAX_VERIFICATIONS + 1):
            guard = log.begin_verification(producer_id, 0, 0, NOW, tv2=False)
        assert code_of(log.append, transactional(0), NOW, verified=first) is NO_TRANSACTION
        log.append(transactional(producer_id), NOW, verified=guard)
        old = log.begin_verification(1, 0, 0, NOW, tv2=False)
        await log.retain(NOW + DAY)
        assert code_of(log.append, transactional(1), NOW, verified=old) is NO_TRANSACTION


def test_producers_as_they_are_described(log):
    write(log, 1, count=2)
    write(log, 2)
    end(log, 2, 1, coordinator_epoch=3, version=2)
    assert list(log.active_producers()) == [
        ActiveProducer(1, 0, 1, NOW, -1, 0),
        ActiveProducer(2, 1, -1, NOW, 3, -1),
    ]


def fill_with_transactions(log, count=30):
    """Transactions that are committed, aborted and, the last two, open."""
    for at in range(count):
        producer_id, sequence = at % 5, at // 5
        write(log, producer_id, sequence=sequence)
        fill(log, 1)
        if at < count - 2:
            end(log, producer_id, commit=at % 2 == 0)


def seen(log):
    """What clients see of the transactions of a log."""
    return (
        log.last_stable_offset,
        committed(log),
        log.read_committed(log.start_offset, 1 << 20)[1],
        [each._replace(last_timestamp=0) for each in log.active_producers()],
    )


class TestReopening:
    """What is open, stable and aborted is the same after the process ended in any way."""

    @pytest.fixture
    def reopened(self, data, tmp_path):
        """Opens what a process has left in the data directory that ended so."""
        directories = []

        def reopened(last_end):
            left = tmp_path / f"left-{len(directories)}"
            shutil.copytree(data, left)
            if last_end is LastEnd.CRASHED:
                (left / ".lock").write_text("1\nan earlier start of the machine")
            directories.append(LocalDirectory(left))
            assert directories[-1].last_end is last_end
            return directories[-1].open(ORDERS, SMALL)

        yield reopened
        for directory in directories:
            directory.close()

    @pytest.fixture
    def log(self, data):
        self.directory = LocalDirectory(data)
        yield self.directory.open(ORDERS, SMALL)
        self.directory.close()

    @pytest.mark.parametrize("last_end", LastEnd)
    def test_the_state_is_the_same(self, log, reopened, last_end):
        fill_with_transactions(log)
        before = seen(log)
        if last_end is LastEnd.CLEAN:
            self.directory.close()
        again = reopened(last_end)
        assert again.last_stable_offset < again.high_watermark, "without reading the log before"
        assert seen(again) == before
        # and the log goes on as it would have
        assert end(again, 3, commit=True) == again.end_offset - 1
        assert end(again, 4) == again.end_offset - 1
        assert again.last_stable_offset == again.end_offset
        assert write(again, 3, sequence=6) == again.last_stable_offset

    @pytest.mark.parametrize("last_end", LastEnd)
    @pytest.mark.parametrize("lost", ["*.txnindex", "producers", "*.*index", "p*s *.txnindex"])
    def test_lost_files_are_made_anew(self, log, data, reopened, last_end, lost):
        fill_with_transactions(log)
        before = seen(log)
        if last_end is LastEnd.CLEAN:
            self.directory.close()
        if lost == "producers" and last_end is not LastEnd.CRASHED:
            pytest.skip("only a power loss takes the snapshot")
        indexes = {path.name: path.read_bytes() for path in data.glob("*/*.txnindex")}
        assert len(indexes) > 3
        for pattern in lost.split():
            for path in data.glob(f"*/{pattern}"):
                path.write_bytes(b"x") if pattern == "p*s" else path.unlink()
        again = reopened(last_end)
        assert seen(again) == before
        found = Path(again.segments[0].log.file()).parent
        assert {path.name: path.read_bytes() for path in found.glob("*.txnindex")} == indexes

    @settings(max_examples=examples(40), suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.data())
    def test_restart_survives_damaged_transaction_files(self, choices):
        with TemporaryDirectory() as path:
            data = Path(path) / "data"
            directory = LocalDirectory(data)
            log = directory.open(ORDERS, SMALL)
            fill_with_transactions(log, 12)
            before = seen(log)
            if choices.draw(st.booleans()):
                directory.close()
            left = Path(path) / "left"
            shutil.copytree(data, left)
            directory.close()
            paths = sorted((*left.glob("*/*.txnindex"), *left.glob("*/producers")))
            for damaged in choices.draw(st.lists(st.sampled_from(paths), min_size=1, unique=True)):
                content = bytearray(damaged.read_bytes())
                at = choices.draw(st.integers(0, len(content) - 1))
                kind = choices.draw(st.sampled_from(["flip", "cut", "add", "zeros"]))
                if kind == "flip":
                    content[at] ^= choices.draw(st.integers(1, 255))
                elif kind == "cut":
                    del content[at:]
                elif kind == "add":
                    content += choices.draw(st.binary(min_size=1, max_size=80))
                else:
                    content[at:] = bytes(len(content) - at)
                damaged.write_bytes(content)
                if damaged.name == "producers" and not content:
                    content = bytearray(b"x")
                    damaged.write_bytes(content)
            again = LocalDirectory(left)
            assert seen(again.open(ORDERS, SMALL)) == before
            again.close()

    def test_damage_that_may_hide_an_open_transaction(self, log, data, reopened):
        fill_with_transactions(log)
        (data / "orders-0" / "producers").write_bytes(b"x")
        stored = min(data.glob("*/*.log"))
        content = bytearray(stored.read_bytes())
        content[70] ^= 1
        stored.write_bytes(content)
        again = reopened(LastEnd.KILLED)
        assert code_of(again.read_committed, 60, 1) is ErrorCode.kafka_storage_error
        assert batches.read_header(again.read(60, 1)).base_offset <= 60

    def test_a_repaired_log_tells_what_its_batches_tell(self, log, data, reopened):
        fill_with_transactions(log)
        self.directory.close()
        path = data / "orders-0"
        stored = sorted(path.glob("*.log"))[3]
        content = bytearray(stored.read_bytes())
        content[300] ^= 1
        stored.write_bytes(content)
        repair.execute(str(path), repair.examine(str(path)))
        again = reopened(LastEnd.CLEAN)
        assert 0 < again.end_offset < log.end_offset
        assert seen(again)[:2] == told_by_batches(again)[1::-1]

    def test_a_snapshot_of_records_that_are_gone_is_not_used(self, log, data, reopened):
        write(log, 1)
        fill(log, 3)
        self.directory.close()
        for path in (data / "orders-0").glob("0*"):
            path.unlink()
        (data / "orders-0" / "checkpoint").unlink()
        again = reopened(LastEnd.CLEAN)
        fill(again, 20)
        shutil.copytree(Path(again.segments[0].log.file()).parents[1], data / "killed")
        killed = LocalDirectory(data / "killed")
        assert killed.open(ORDERS, SMALL).last_stable_offset == 20
        killed.close()

    def test_a_log_without_transactions_is_not_read(self, log, reopened, monkeypatch):
        log.append(from_producer(1, 0, 0), NOW)
        fill(log, 20)
        self.directory.close()
        read = []
        monkeypatch.setattr(Segment, "headers", lambda *_: read.append(1) or iter(()))
        again = reopened(LastEnd.CLEAN)
        assert again.last_stable_offset == again.high_watermark == 21
        assert not read

    def test_records_that_were_not_durable_are_taken_back(self, data):
        directory = LocalDirectory(data, durability="os")
        log = directory.open(ORDERS, SMALL, synced_by_owner=True)
        fill_with_transactions(log, 10)
        before, durable_end = seen(log), log.end_offset
        end(log, 3)
        end(log, 4, commit=True)
        write(log, 7)
        log.owner_sync_failed(OSError(5, "broken"), durable_end)
        log.retry_sync()()
        log.sync_resumed()
        assert seen(log) == before
        directory.close()


def test_a_marker_whose_entry_cannot_be_written_ends_the_log(data, monkeypatch):
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, SMALL)
    write(log, 1)
    append = FileStore.append

    def refuse(self, parts):
        if self.path.endswith(".txnindex"):
            raise OSError(28, "No space left on device")
        append(self, parts)

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "append", refuse)
        with pytest.raises(OSError, match="No space"):
            end(log, 1)
    assert code_of(log.read, 0, 1) is ErrorCode.kafka_storage_error
    asyncio.run(directory.reopen())
    again = directory.open(ORDERS, SMALL)
    assert again.read_committed(0, 1 << 20)[1] == [(1, 0, 1, 2)]
    directory.close()


def test_an_aborted_index_that_is_truncated_ends_the_log(data):
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, SMALL)
    write(log, 1)
    end(log, 1)
    os.truncate(data / "orders-0" / f"{0:020}.txnindex", 20)
    with pytest.raises(OSError, match="shorter than it was"):
        log.read_committed(0, 1 << 20)
    assert code_of(log.read, 0, 1) is ErrorCode.kafka_storage_error
    asyncio.run(directory.reopen())
    again = directory.open(ORDERS, SMALL)
    assert again.read_committed(0, 1 << 20)[1] == [(1, 0, 1, 2)]
    directory.close()
