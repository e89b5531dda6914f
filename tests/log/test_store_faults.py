"""Random faults of the storage under appends, transactions, deletions, compactions and reads.

The disk is full or broken at times, descriptors run out, syncs fail. An acknowledged record stays
at its offset with its own value, while the log is open, after a kill and after a clean end, unless
it lies before the start offset or a later one has its key. No reader ever finds another value. The
log heals by itself once the storage does.
"""

import asyncio
import contextlib
import errno
import random
import shutil

import pytest

from effort import seeds
from kohort.errors import ErrorCode, KafkaError
from kohort.log import durability
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.stores import loaded
from kohort.protocol import batches
from kohort.protocol.batches import Record

from .conftest import NOW, ORDERS, ORDERS_ID
from .refusing_disk import Disk

SMALL = {"segment_bytes": 1_500, "index_interval_bytes": 200}
CONFIGS = {
    "delete": LogConfig(**SMALL, retention_ms=10_000_000, retention_bytes=40_000),
    "compact": LogConfig(
        **SMALL,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=0.0,
        retention_ms=-1,
    ),
    "compact,delete": LogConfig(
        **SMALL,
        cleanup_policy=frozenset({"compact", "delete"}),
        min_cleanable_dirty_ratio=0.0,
        retention_ms=5_000_000,
    ),
}
FULL, BROKEN = errno.ENOSPC, errno.EIO
FAULTS = (
    *({"pwritev": (0.5, FULL)} for _ in range(3)),
    {"write": (0.5, FULL)},
    {"rename": (0.3, BROKEN)},
    {"open": (0.1, errno.EMFILE)},
    {"ftruncate": (0.5, BROKEN), "pwritev": (0.5, FULL)},
    {"fsync": (1.0, BROKEN)},
    {"fsync": (1.0, BROKEN)},
    {},
)
"""By function of `os`: how likely it fails, and how. Each of them lasts some milliseconds."""
APPENDS = 800
"""Batches of a run; it ends with fewer after `LONGEST_S`."""
LONGEST_S = 5.0


class FaultyDisk(Disk):
    """Functions of `os` fail as `faults` says."""

    def __init__(self, monkeypatch, chance):
        super().__init__(monkeypatch, {name for faults in FAULTS for name in faults})
        self.faults = {}
        self._chance = chance

    def error_of(self, name):
        likely, number = self.faults.get(name, (0, None))
        return number if likely and self._chance.random() < likely else None


class Run:
    """A log in a directory, and what all tasks do with it."""

    def __init__(self, path, config, policy, disk, chance):
        self.config = config
        self.disk = disk
        self.chance = chance
        self.now = NOW
        self.acknowledged = {}
        """Offset to (key, value), without records of transactions."""
        self.appends = 0
        self.damage = []
        """What readers were told of damaged batches."""
        self.directory = LocalDirectory(path, durability=policy)
        self.directory.directories.make({ORDERS: ORDERS_ID})
        self.log = self.directory.open(ORDERS, config)
        self.directory.on_reopened.append(self.reopened)
        self.directory.confirm_start()
        self.ends = asyncio.get_running_loop().time() + LONGEST_S

    def reopened(self, log):
        self.log = log

    @property
    def is_over(self):
        return self.appends >= APPENDS or asyncio.get_running_loop().time() >= self.ends

    async def repeat(self, act, longest_pause):
        """`act` until the end of the run; what it is refused has no effect."""
        while not self.is_over:
            with contextlib.suppress(OSError, KafkaError):
                await act()
            await asyncio.sleep(self.chance.random() * longest_pause)

    async def append(self):
        self.now += self.chance.randrange(2_000)
        self.appends += 1
        records = [
            (
                b"k%d" % self.chance.randrange(12),
                b"%d-%d-" % (self.appends, at) + bytes(self.chance.randrange(60)),
            )
            for at in range(self.chance.randrange(1, 4))
        ]
        content = batches.build([Record(*record, (), self.now) for record in records])
        log = self.log
        placed = log.append(content, self.now)
        await log.durable()
        self.acknowledged.update(enumerate(records, placed.base_offset))

    async def transact(self):
        """A transaction of one record and a new producer; if its end is refused it stays open."""
        self.appends += 1
        producer_id = self.appends
        record = Record(b"t%d" % self.chance.randrange(5), b"t", (), self.now)
        content = batches.build(
            [record],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            attributes=batches.TRANSACTIONAL,
        )
        guard = self.log.begin_verification(producer_id, 0, 0, self.now, tv2=False)
        self.log.append(content, self.now, verified=guard)
        await self.log.durable()
        self.log.append_marker(
            producer_id,
            0,
            commit=self.chance.random() < 0.5,
            coordinator_epoch=0,
            transaction_version=1,
            timestamp=self.now,
        )
        await self.log.durable()

    async def trim(self):
        log = self.log
        if "delete" in self.config.cleanup_policy and log.high_watermark > log.start_offset:
            most = min(log.high_watermark, log.start_offset + 10)
            log.trim(self.chance.randrange(log.start_offset, most + 1))
            await log.durable()

    async def retain(self):
        await self.directory.retain(self.now)

    async def compact(self):
        await self.directory.compact(self.now)

    async def read(self):
        log, max_bytes = self.log, self.chance.choice([10, 300, 5_000])
        if log.end_offset <= log.start_offset:
            return
        offset = self.chance.randrange(log.start_offset, log.end_offset)
        try:
            if self.chance.random() < 0.5:
                records = log.fetch(offset, max_bytes)
            else:
                records, _ = log.read_committed(offset, max_bytes)
            self.ensure_right(loaded(records, len(records)))
        except KafkaError as error:
            self.damage += [error] if error.code is ErrorCode.corrupt_message else []

    def ensure_right(self, data):
        """No batch is damaged, and no acknowledged record has another value; returns the records.

        By offset, without those of transactions.
        """
        found, next_offset = {}, 0
        for position, header in batches.iterate(data):
            assert batches.crc_is_right(memoryview(data)[position:], header)
            assert header.base_offset >= next_offset
            next_offset = header.last_offset + 1
            if header.producer_id < 0:
                for record in batches.decode_records(data, position):
                    found[record.offset] = record.key, record.value
        for offset, record in found.items():
            assert self.acknowledged.get(offset, record) == record
        return found

    async def change_faults(self):
        self.disk.faults = self.chance.choice(FAULTS)

    async def attack(self):
        async with asyncio.TaskGroup() as tasks:
            for act, longest_pause in (
                *((self.append, 0.001) for _ in range(3)),
                *((self.transact, 0.005) for _ in range(2)),
                (self.trim, 0.05),
                (self.retain, 0.02),
                (self.compact, 0.02),
                (self.directory.reopen, 0.02),
                *((self.read, 0.001) for _ in range(2)),
                (self.change_faults, 0.05),
            ):
                tasks.create_task(self.repeat(act, longest_pause))

    async def heal(self):
        """Return when the log has no problem."""
        self.disk.faults = {}
        for _ in range(1_000):
            await self.retain()  # a sync of a full segment that failed is repeated
            await self.directory.reopen()
            if not self.directory.problems:
                return
            await asyncio.sleep(0.01)
        pytest.fail("; ".join(self.directory.problems.texts(9)))

    def ensure_whole(self, log):
        """All is there that must be; returns the records as `ensure_right`."""
        found, offset = {}, log.start_offset
        while offset < log.end_offset:
            data = log.read(offset, 100_000)
            assert data
            found.update(self.ensure_right(data))
            *_, (_, last) = batches.iterate(data)
            offset = last.last_offset + 1
        expected = {key: each for key, each in self.acknowledged.items() if key >= log.start_offset}
        if self.config.is_compacted:
            latest = {key: offset for offset, (key, _) in sorted(found.items())}
            lost = [at for at, (key, _) in expected.items() if latest.get(key, -1) < at]
        else:
            lost = sorted(expected.keys() - found.keys())
        assert not lost, log
        assert sum(segment.size for segment in log.segments) == log.size
        return {offset: each for offset, each in found.items() if offset >= log.start_offset}


def copy_unless_deleted(source, target):
    """Copy a file; segments that were compacted are deleted in the background."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


@pytest.mark.parametrize("policy", ["fsync", "os"])
@pytest.mark.parametrize("cleanup", CONFIGS)
@pytest.mark.parametrize("seed", seeds(2))
async def test_no_fault_loses_an_acknowledged_record(tmp_path, monkeypatch, seed, cleanup, policy):
    monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.005)
    monkeypatch.setattr(durability, "MAX_RETRY_BACKOFF_S", 0.02)
    chance, config = random.Random(seed), CONFIGS[cleanup]
    disk = FaultyDisk(monkeypatch, chance)
    run = Run(tmp_path / "data", config, policy, disk, chance)
    await run.attack()
    await run.heal()
    await run.log.durable()  # the start offset, too, if a trim was refused meanwhile
    assert not run.damage
    found, log = run.ensure_whole(run.log), run.log
    bounds = log.start_offset, log.end_offset
    assert run.acknowledged
    shutil.copytree(tmp_path / "data", tmp_path / "killed", copy_function=copy_unless_deleted)
    run.directory.close()
    for path in (tmp_path / "killed", tmp_path / "data"):
        directory = LocalDirectory(path)
        again = directory.open(ORDERS, config)
        assert run.ensure_whole(again) == found
        assert (again.start_offset, again.end_offset) == bounds
        directory.close()
