"""Damage that is no torn tail is refused by name, or repaired with a log line; never served."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.log import gap_repair, recovery, repair
from kohort.log.base import LogConfig
from kohort.log.damage import CorruptLogError
from kohort.log.local import LocalDirectory
from kohort.log.memory import MemoryBacking
from kohort.log.offline_log import OfflineLog
from kohort.log.partition import PartitionLog
from kohort.log.recovery import LastEnd
from kohort.log.stores import OpenFiles
from kohort.protocol import batches
from kohort.types import TopicPartition

from .conftest import NOW, ORDERS, batch, fill, from_producer, looked_up, records_of
from .test_recovery import NAME, SMALL, logs_of, opened, write

ALL_ENDS = list(LastEnd)
INDEXED = LogConfig(segment_bytes=1_500, index_interval_bytes=200)


def flip(path, position, bit=0):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def bytes_of(path):
    return {each.name: each.read_bytes() for each in path.iterdir() if each.suffix == ".log"}


class TestInTheMiddle:
    @pytest.mark.parametrize("last_end", [LastEnd.CLEAN, LastEnd.KILLED])
    def test_damage_inside_the_active_segment_refuses_the_log(self, data, last_end):
        write(data, LogConfig(), count=10)
        (stored,) = logs_of(data / NAME)
        size = stored.stat().st_size // 10
        flip(stored, 4 * size + 70)
        before = bytes_of(data / NAME)
        with pytest.raises(CorruptLogError) as refused:
            opened(data / NAME, last_end, LogConfig())
        told = str(refused.value)
        assert f"{stored} is damaged at byte {4 * size}, offset 4" in told
        assert "5 whole ones lie behind" in told
        assert "kohort repair" in told
        assert refused.value.code is ErrorCode.kafka_storage_error
        assert bytes_of(data / NAME) == before

    @pytest.mark.parametrize("last_end", ALL_ENDS)
    def test_a_sealed_segment_cut_at_a_batch_boundary_before_an_empty_one(self, data, last_end):
        """Consumers stayed stuck there, and a shard loaded for ever."""
        write(data, LogConfig(), count=10)
        (stored,) = logs_of(data / NAME)
        os.truncate(stored, stored.stat().st_size // 10 * 7)
        (data / NAME / f"{10:020}.log").touch()
        (data / NAME / "checkpoint").write_text("recovery_point 10\n")
        with pytest.raises(CorruptLogError, match="records up to offset 9 are missing"):
            opened(data / NAME, last_end, LogConfig())

    def test_a_hole_after_a_crash_ends_the_log_and_is_kept(self, data, caplog):
        before = write(data)
        paths = logs_of(data / NAME)
        (data / NAME / "checkpoint").unlink(missing_ok=True)
        whole = bytes_of(data / NAME)
        flip(paths[2], 300)
        log = opened(data / NAME, LastEnd.CRASHED)
        left = records_of(log)
        assert left == before[: len(left)]
        kept = sorted((data / NAME).glob("*.cut"))
        assert len(kept) == len(paths) - 2
        assert all(str(path) in caplog.text for path in kept), "the log says where"
        for path in kept[1:]:
            assert path.read_bytes() == whole[path.name.split(".log")[0] + ".log"]

    def test_a_segment_that_is_gone(self, data):
        write(data)
        for lost in (1, -1):
            copy = data.parent / f"copy{lost}"
            shutil.copytree(data / NAME, copy)
            logs_of(copy)[lost].unlink()
            if lost == -1:
                (copy / "checkpoint").write_text("recovery_point 60\n")
            with pytest.raises(CorruptLogError, match="are missing"):
                opened(copy, LastEnd.KILLED)

    def test_a_log_that_is_synced_batch_by_batch_has_no_holes_even_after_a_crash(self, data):
        write(data, LogConfig(), count=10)
        (stored,) = logs_of(data / NAME)
        flip(stored, 100)
        (data / ".clean-shutdown").unlink()
        (data / ".lock").write_text("1\nan earlier boot\n")
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, LogConfig(), synced_by_owner=True)
        with pytest.raises(CorruptLogError):
            log.ensure_open()
        directory.close()

    def test_other_logs_are_served_beside_a_damaged_one(self, data, caplog):
        write(data, LogConfig(), count=10)
        (stored,) = logs_of(data / NAME)
        flip(stored, 100)
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, LogConfig())
        other = directory.open(ORDERS._replace(partition=1), LogConfig())
        fill(other, 3)
        assert isinstance(log, OfflineLog)
        assert len(directory.problems.texts(9)) == 1
        assert "is damaged at byte" in caplog.text
        for ask in (
            log.ensure_open,
            lambda: log.read(0, 1),
            lambda: log.append(batch(b"a"), NOW),
            lambda: log.trim(1),
            lambda: looked_up(log.max_timestamp()),
            lambda: looked_up(log.offset_for_timestamp(0)),
            lambda: asyncio.run(log.durable()),
        ):
            with pytest.raises(KafkaError) as refused:
                ask()
            assert refused.value.code is ErrorCode.kafka_storage_error
        directory.close()
        assert not (data / ".clean-shutdown").exists(), "what was refused was not checked"


@pytest.mark.parametrize("last_end", ALL_ENDS)
@pytest.mark.parametrize(("wrong", "is_found"), [(2, False), (4, False), (1_000, True)])
async def test_a_wrong_base_offset_in_a_hole_alone_is_not_found(data, last_end, wrong, is_found):
    """The offset lies outside the CRC, and compaction removes the batches that would tell."""
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1_000)
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    fill(log, 3)
    log.append(batch(b"kept", key=b"another"), NOW)
    fill(log, 40)
    await log.compact(NOW)
    assert records_of(log)[0].offset == 3
    directory.close()
    stored = logs_of(data / NAME)[0]
    stored.write_bytes(wrong.to_bytes(8, "big") + stored.read_bytes()[8:])
    try:
        first = records_of(opened(data / NAME, last_end, config))[0]
    except CorruptLogError:
        assert is_found
    else:
        assert not is_found
        assert (first.offset, first.value) == (wrong, b"kept")


class TestBitFlips:
    """One bit in any file of a log: what is then served is what was written."""

    @pytest.fixture
    def stored(self, data):
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, INDEXED)
        for at in range(24):
            log.append(batch(b"%04d" % at * 10, timestamp=NOW + at), NOW)
            log.append(from_producer(7, 0, at, timestamp=NOW + at), NOW)
        found = records_of(log)
        directory.close()
        assert len(logs_of(data / NAME)) == 3
        return found

    @pytest.mark.parametrize("last_end", ALL_ENDS)
    @pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", "producers", "checkpoint"])
    def test_flipped_bit_is_found_wherever_it_is(self, data, stored, suffix, last_end, caplog):
        source = data / NAME
        for path in sorted(source.iterdir()):
            if not path.name.endswith(suffix):
                continue
            for position in range(0, path.stat().st_size, 7):
                copy = data.parent / "copy"
                shutil.copytree(source, copy)
                flip(copy / path.name, position, position % 8)
                self.check(copy, stored, last_end, caplog, is_log=suffix == ".log")
                shutil.rmtree(copy)

    def test_a_checkpoint_that_is_cut_anywhere(self, data, caplog):
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, SMALL)
        fill(log, 60)
        log.trim(50)
        directory.close()
        checkpoint = data / NAME / "checkpoint"
        content = checkpoint.read_bytes()
        for size in range(len(content)):
            caplog.clear()
            checkpoint.write_bytes(content[:size])
            log = opened(data / NAME, LastEnd.CLEAN)
            assert log.start_offset == 50 or "checkpoint is invalid" in caplog.text
            log.end(ErrorCode.not_leader_or_follower)

    def check(self, copy, stored, last_end, caplog, *, is_log):
        caplog.clear()
        before = bytes_of(copy)
        try:
            log = opened(copy, last_end, INDEXED)
        except CorruptLogError as refused:
            assert is_log
            assert str(copy) in str(refused)  # noqa: PT017 - most flips are repaired
            assert bytes_of(copy) == before
            return
        try:
            found = records_of(log)
            assert found == stored[: len(found)]
            if len(found) < len(stored):
                assert is_log
                assert " kept " in caplog.text
            for at in range(0, len(found), 5):
                placed = looked_up(log.offset_for_timestamp(stored[at].timestamp))
                first = next(each for each in stored if each.timestamp == stored[at].timestamp)
                assert placed == (first.offset, first.timestamp)
            if found:  # after a crash of the machine all of it may be cut, and kept
                newest = max(segment.max_timestamp for segment in log.segments)
                assert newest == found[-1].timestamp
        except CorruptLogError as refused:
            assert is_log
            assert str(copy) in str(refused)  # noqa: PT017
        finally:
            log.end(ErrorCode.not_leader_or_follower)

    def test_a_read_gives_what_lies_before_the_damage(self, data, stored):
        path = logs_of(data / NAME)[1]
        base = int(path.stem)
        flip(path, path.stat().st_size // 2)
        log = opened(data / NAME, LastEnd.CLEAN, INDEXED)
        found = []
        with pytest.raises(CorruptLogError):
            read_all(log, found)
        assert found == stored[: len(found)]
        assert len(found) > base


class TestNeighbours:
    """A damaged batch alone is not served: all whole ones around it are."""

    COUNT = 40

    def written(self, data, config, epochs=(0,)):
        """The records of a log whose active segment is empty, led in these epochs."""
        for at, epoch in enumerate(epochs):
            directory = LocalDirectory(data)
            log = directory.open(ORDERS, config, leader_epoch=epoch)
            count = self.COUNT // len(epochs)
            fill(log, count, first=at * count)
            found = records_of(log)
            directory.close()
        return found

    def check(self, data, config, stored, epochs):
        """Read at the offsets of all records; returns those that are told to be damaged."""
        segments, checkpoint = recovery.load(
            str(data / NAME),
            OpenFiles(),
            config.index_interval_bytes,
            recovery.RecoveryContext(last_end=LastEnd.CLEAN, leader_epoch=max(epochs)),
        )
        log = PartitionLog(ORDERS, config, MemoryBacking(), segments, checkpoint)
        written = sorted(stored, key=lambda record: record.offset)
        refused = []
        for each in stored:
            try:
                found = list(records_in(log.read(each.offset, 700)))
            except CorruptLogError:
                refused.append(each.offset)
            else:
                assert found
                assert found == written[each.offset : each.offset + len(found)]
        log.end(ErrorCode.not_leader_or_follower)
        return refused

    @pytest.mark.parametrize("interval", [0, 400, 4_096])
    @pytest.mark.parametrize("epochs", [(0,), (0, 3)])
    def test_flipped_bit_spares_the_batches_beside_it(self, data, interval, epochs):
        config = LogConfig(index_interval_bytes=interval)
        stored = self.written(data, config, epochs)
        (path,) = logs_of(data / NAME)
        content = path.read_bytes()
        size = len(content) // self.COUNT
        for number, step in ((1, 97), (17, 5), (20, 97), (21, 97)):
            for bit in range(0, size * 8, step):
                flip(path, number * size + bit // 8, bit % 8)
                refused = self.check(data, config, stored[:: -1 if bit % 2 else 1], epochs)
                assert set(refused) <= {number}, bit
                # An epoch between those of the neighbours looks right.
                assert refused or (number == 20 and 12 <= bit // 8 < 16), bit
                path.write_bytes(content)


@pytest.mark.parametrize("last_end", ALL_ENDS)
@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
class TestOfTheEndOfAClosedLog:
    @pytest.fixture
    def stored(self, data):
        """The only segment of a log of ten records that was closed."""
        directory = LocalDirectory(data)
        fill(directory.open(ORDERS, LogConfig()), 10)
        directory.close()
        (stored,) = logs_of(data / NAME)
        return stored

    def test_damaged_end_of_a_closed_log_is_no_torn_tail(self, stored, damage, last_end):
        size = stored.stat().st_size
        if damage == "flipped":
            flip(stored, size - 20)
        elif damage == "gone":
            stored.unlink()
        else:
            os.truncate(stored, size - 20 if damage == "cut" else 0)
        with pytest.raises(CorruptLogError, match="up to offset 9, which were synced, are missing"):
            opened(stored.parent, last_end, LogConfig())
        cut = repair.examine(str(stored.parent))
        repair.execute(str(stored.parent), cut)
        assert repair.examine(str(stored.parent)) is None
        log = opened(stored.parent, last_end, LogConfig())
        assert log.end_offset == (9 if damage in ("flipped", "cut") else 0)


def test_two_partitions_that_changed_places_are_refused(data):
    other = TopicPartition("orders", 1)
    directory = LocalDirectory(data)
    for each in (ORDERS, other):
        fill(directory.open(each, LogConfig()), 3)
    directory.close()
    places = data / "orders-0", data / "aside", data / "orders-1"
    os.rename(places[0], places[1])
    os.rename(places[2], places[0])
    os.rename(places[1], places[2])
    directory = LocalDirectory(data)
    for each, found in ((ORDERS, other), (other, ORDERS)):
        with pytest.raises(KafkaError, match=f"directory {each} has the log of {found}"):
            directory.open(each, LogConfig()).read(0, 100)
    assert len(directory.problems) == 2
    directory.close()
    os.rename(places[0], places[1])
    os.rename(places[2], places[0])
    os.rename(places[1], places[2])
    directory = LocalDirectory(data)
    assert len(records_of(directory.open(ORDERS, LogConfig()))) == 3
    directory.close()


class TestLossesThatAreTold:
    """The log is served without what is missing, and a line names it."""

    @pytest.fixture
    def stored(self, data):
        write(data, INDEXED)
        directory = LocalDirectory(data)
        directory.open(ORDERS, INDEXED)
        directory.close()
        return data / NAME

    def test_loss_of_the_first_segment_is_logged(self, stored, caplog):
        first, second, *_ = logs_of(stored)
        first.unlink()
        log = opened(stored, LastEnd.CLEAN, INDEXED)
        assert log.start_offset == int(second.stem)
        assert f"starts at offset {log.start_offset} instead of 0" in caplog.text

    def test_loss_of_the_checkpoint_is_logged(self, stored, caplog):
        (stored / "checkpoint").unlink()
        opened(stored, LastEnd.CLEAN, INDEXED)
        assert f"{stored}/checkpoint is missing" in caplog.text

    def test_an_intact_log_is_opened_without_a_log_line(self, stored, caplog):
        for last_end in (LastEnd.CLEAN, LastEnd.KILLED):
            opened(stored, last_end, INDEXED)
        assert not caplog.records

    @pytest.mark.parametrize("gone", [True, False])
    def test_the_end_after_a_kill(self, stored, gone, caplog):
        (stored / "checkpoint").unlink()  # as if all was written since the last clean end
        last = logs_of(stored)[-1]
        last.unlink() if gone else os.truncate(last, 0)
        log = opened(stored, LastEnd.KILLED, INDEXED)
        assert log.end_offset == int(last.stem)
        assert f"{last} was removed or truncated" in caplog.text


class TestRepair:
    def test_repair_cuts_what_it_shows_and_keeps_it(self, data):
        before = write(data)
        path = data / NAME
        third = logs_of(path)[2]
        whole = bytes_of(path)
        flip(third, 200)
        cut = repair.examine(str(path))
        assert bytes_of(path)[third.name] != whole[third.name]
        assert cut.damage.file == str(third)
        assert cut.batches == 60 - cut.damage.offset - 1
        assert cut.end_offset == 60
        damaged = bytes_of(path)
        kept = repair.execute(str(path), cut)
        log = opened(path, LastEnd.KILLED)
        assert records_of(log) == before[: cut.damage.offset]
        assert log.append(batch(b"next"), NOW).base_offset == cut.damage.offset
        assert repair.examine(str(path)) is None
        assert len(kept) == len(cut.files) + 1
        tail = damaged[third.name][cut.damage.position :]
        assert sum(os.path.getsize(each) for each in kept) == cut.bytes
        assert tail in [Path(each).read_bytes() for each in kept]

    @pytest.mark.parametrize("at", range(0, 4_000, 131))
    def test_a_repaired_log_has_the_records_before_the_damage(self, data, at):
        before = write(data)
        path = data / NAME
        paths = logs_of(path)
        flip(paths[at // 1_800], at % 1_800)
        while (cut := repair.examine(str(path))) is not None:
            repair.execute(str(path), cut)
        left = records_of(opened(path, LastEnd.KILLED))
        assert left == before[: len(left)]

    def test_a_torn_tail_and_a_whole_log_need_none(self, data):
        write(data)
        assert repair.examine(str(data / NAME)) is None
        last = logs_of(data / NAME)[-1]
        os.truncate(last, last.stat().st_size - 3)
        assert repair.examine(str(data / NAME)) is None

    def test_a_log_that_ends_before_what_was_synced(self, data):
        write(data)
        path = data / NAME
        logs_of(path)[-1].unlink()
        (path / "checkpoint").write_text("recovery_point 60\n")
        cut = repair.examine(str(path))
        assert (cut.bytes, cut.batches, cut.files) == (0, 0, ())
        repair.execute(str(path), cut)
        assert opened(path, LastEnd.KILLED).end_offset == cut.damage.offset


class TestKeepingTheRest:
    def repaired(self, path):
        kept = gap_repair.fill(gap_repair.find(str(path)))
        assert gap_repair.find(str(path)) == []
        while (cut := repair.examine(str(path))) is not None:
            assert not cut.batches
            repair.execute(str(path), cut)
        return kept

    @pytest.mark.parametrize("at", range(0, 9_800, 397))
    @pytest.mark.parametrize("last_end", ALL_ENDS)
    def test_gap_repair_loses_one_batch_at_most(self, data, at, last_end):
        before = write(data)
        path = data / NAME
        paths = logs_of(path)
        flip(paths[at // 1_800], at % 1_800, at % 8)
        self.repaired(path)
        log = opened(path, last_end)
        left = records_of(log)
        assert set(left) <= set(before)
        assert len(left) >= len(before) - 1
        placed = log.append(batch(b"next"), NOW)
        assert placed.base_offset in (60, left[-1].offset + 1)

    def test_gap_repair_of_a_lost_sealed_segment(self, data):
        before = write(data)
        path = data / NAME
        base, end = (int(logs_of(path)[at].stem) for at in (2, 3))
        logs_of(path)[2].unlink()
        self.repaired(path)
        left = records_of(opened(path, LastEnd.KILLED))
        assert [each.offset for each in left] == [*range(base), *range(end, len(before))]

    def test_an_offset_that_is_wrong_costs_its_batch_alone(self, data):
        """The offset lies outside the CRC."""
        before = write(data, LogConfig(), count=10)
        path = data / NAME
        (stored,) = logs_of(path)
        size = stored.stat().st_size // 10
        flip(stored, 4 * size + 5)
        (hole,) = gap_repair.find(str(path))
        assert (hole.offset, hole.next_offset) == (4, 5)
        self.repaired(path)
        assert records_of(opened(path, LastEnd.CLEAN)) == before[:4] + before[5:]


def read_all(log, found):
    """Append every record to `found`, in small reads."""
    offset = 0
    while offset < log.end_offset:
        content = bytes(log.read(offset, 500))
        assert content
        found += records_in(content)
        offset = found[-1].offset + 1


def records_in(content):
    for position, _ in batches.iterate(content):
        yield from batches.decode_records(content, position)
