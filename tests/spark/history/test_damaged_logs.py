"""Histories of damaged logs, of a broker and in files: damage is a gap, and the build goes on.

No Spark session is needed.
"""

import asyncio
import logging

import pytest

from client.fake_cluster import FakeCluster
from history_files.builds import rows
from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
)
from kohort.errors import KohortError
from kohort.history.gaps import Gap
from kohort.history_files.building import add_batch, planned
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.folding import fold_ranges
from kohort.history_files.reading import GroupReader
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.protocol.compression import Codec
from kohort.spark.history.sources import MAX_BATCH_BYTES, TOPIC, Offsets, log_of
from segments.files import NOW, Partition
from spark.served_log import ServedLog, changed


def commits(offset, count=2, group="g"):
    """A batch of commits: each record commits its own offset."""
    key = OffsetCommitKey(group, "t", 0)
    written = (
        OffsetCommitRecord(key, OffsetCommitValue(at, -1, "", NOW))
        for at in range(offset, offset + count)
    )
    content = [Record(*encode(each), (), NOW + offset) for each in written]
    return batches.build(content, base_offset=offset)


def build(log, offsets, directory):
    """One build of what `offsets` has."""
    files = LocalFiles(directory)

    def run(tasks):
        return [fold_ranges(files, ranges, log.reader()) for ranges in tasks]

    with opened_for_writing(files, 0) as history:
        ranges = planned(
            history.current, offsets.starts, offsets.ends, after_pause=True, damaged=offsets.damaged
        )
        if ranges:
            add_batch(history, ranges, run, tasks=1, now_ms=0)


async def build_from(fake, end, directory):
    options = {"kafka.bootstrap.servers": fake.brokers[0].address}
    offsets = Offsets({0: 0}, {0: end}, None, None)
    await asyncio.to_thread(lambda: build(log_of(options), offsets, directory))


def build_files(partition, directory):
    log = log_of(str(partition.path))
    build(log, log.offsets(), directory)


def committed(directory):
    return [row["committed"] for row in rows(LocalFiles(directory), "commits")]


def errors(directory):
    found = rows(LocalFiles(directory), "groups")
    return [(row["log_offset"], row["error"]) for row in found]


def log_partition(directory):
    (stored,) = HistoryDirectory(LocalFiles(directory)).snapshot().log_partitions.values()
    return stored


LOST = Gap(2, None, is_later=True, is_data_loss=True)


async def test_a_build_from_a_broker_goes_on_behind_a_damaged_batch(tmp_path):
    async with FakeCluster(topics={TOPIC: 1}) as fake:
        log = ServedLog(fake, commits(0), changed(commits(2), 70, 0xFF), commits(4), end=6)
        fake.on("fetch", log.fetch)
        await build_from(fake, 6, tmp_path / "h")
        log.content += commits(6)
        log.end = 8
        await build_from(fake, 8, tmp_path / "h")
    assert committed(tmp_path / "h") == [0, 1, 4, 5, 6, 7]
    ((offset, error),) = errors(tmp_path / "h")
    assert offset == 2
    assert error.endswith("; lost are offsets from 2 to below 4")
    stored = log_partition(tmp_path / "h")
    assert stored.end == 8
    assert LOST in stored.gaps


async def test_a_broker_whose_log_has_no_batch_is_named_with_what_to_do(tmp_path):
    log = commits(0) + changed(commits(2), 16, 1)
    async with FakeCluster(topics={TOPIC: 1}) as fake:
        fake.on("fetch", ServedLog(fake, log, end=4).fetch)
        await build_from(fake, 2, tmp_path / "h")
        with pytest.raises(
            KohortError,
            match=f"{TOPIC}-0 has no record batch at offset 2.* build from the segment files",
        ):
            await build_from(fake, 4, tmp_path / "h")
    partition = Partition(tmp_path, f"{TOPIC}-0")
    partition.segment(0, log)
    partition.segment(4, commits(4))
    build_files(partition, tmp_path / "h")
    assert committed(tmp_path / "h") == [0, 1, 4, 5]
    assert LOST in log_partition(tmp_path / "h").gaps


@pytest.mark.parametrize(("at", "byte"), [(6, 1), (2, 1), (16, 1)])
def test_a_last_batch_that_is_damaged_later_ends_no_build(tmp_path, caplog, at, byte):
    """Its base offset is a little or much too high, or it is no batch."""
    caplog.set_level(logging.WARNING)
    partition = Partition(tmp_path, f"{TOPIC}-0")
    partition.segment(0, commits(0) + commits(2))
    build_files(partition, tmp_path / "h")
    partition.segment(0, commits(0) + changed(commits(2), at, byte))
    build_files(partition, tmp_path / "h")
    assert log_partition(tmp_path / "h").end == 4
    assert "log partition 0 is damaged at its end, near offset" in caplog.text
    partition.segment(4, commits(4))
    build_files(partition, tmp_path / "h")
    assert committed(tmp_path / "h") == [0, 1, 2, 3, 4, 5]
    assert errors(tmp_path / "h") == []
    assert log_partition(tmp_path / "h").gaps == ()


def test_a_last_batch_behind_a_hole_is_read_when_another_one_is_behind_it(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    partition = Partition(tmp_path, f"{TOPIC}-0")
    partition.segment(0, commits(0) + commits(258))
    build_files(partition, tmp_path / "h")
    assert committed(tmp_path / "h") == [0, 1]
    assert "its last batch ends at offset 260, and does not follow offset 2" in caplog.text
    partition.segment(0, commits(0) + commits(258) + commits(260))
    build_files(partition, tmp_path / "h")
    assert committed(tmp_path / "h") == [0, 1, 258, 259, 260, 261]


def test_a_last_batch_whose_base_offset_was_damaged_is_lost_when_another_one_is_behind_it(tmp_path):
    partition = Partition(tmp_path, f"{TOPIC}-0")
    damaged = commits(0) + changed(commits(2), 6, 1)
    partition.segment(0, damaged)
    build_files(partition, tmp_path / "h")
    partition.segment(0, damaged + commits(4))
    partition.segment(6, commits(6))
    build_files(partition, tmp_path / "h")
    assert committed(tmp_path / "h") == [0, 1, 6, 7]
    assert [offset for offset, _ in errors(tmp_path / "h")] == [2]


@pytest.mark.parametrize("is_broker", [True, False])
async def test_a_batch_that_needs_too_much_memory_is_damage(tmp_path, is_broker):
    """A record of 7 bytes takes ten times as much in the tables of the fold."""
    content = [Record(None, bytes(MAX_BATCH_BYTES), (), NOW)]
    bomb, end = batches.build(content, base_offset=2, codec=Codec.ZSTD), 3
    assert len(bomb) < 10_000
    log = commits(0) + bomb + commits(end)
    if is_broker:
        async with FakeCluster(topics={TOPIC: 1}) as fake:
            fake.on("fetch", ServedLog(fake, log, end=end + 2).fetch)
            await build_from(fake, end + 2, tmp_path / "h")
    else:
        partition = Partition(tmp_path, f"{TOPIC}-0")
        partition.segment(0, log)
        build_files(partition, tmp_path / "h")
    assert committed(tmp_path / "h") == [0, 1, end, end + 1]
    ((offset, error),) = errors(tmp_path / "h")
    assert offset == 2
    assert f"more than {MAX_BATCH_BYTES}" in error


def other(offset):
    """Another batch at an offset, of a later leader."""
    return changed(commits(offset, group="other"), 15, 7)


def test_a_log_that_was_cut_back_and_has_grown_again_is_a_gap(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    partition = Partition(tmp_path, f"{TOPIC}-0")
    partition.segment(0, commits(0) + commits(2))
    build_files(partition, tmp_path / "h")
    partition.segment(0, commits(0) + other(2) + commits(4, group="other"))
    build_files(partition, tmp_path / "h")
    ((offset, error),) = errors(tmp_path / "h")
    assert offset == 4
    assert "log partition 0 has another record at offset 3 than when it was read" in error
    assert error in caplog.text
    assert log_partition(tmp_path / "h").gaps == (Gap(4, None, is_later=True, is_data_loss=True),)
    reader = GroupReader(HistoryDirectory(LocalFiles(tmp_path / "h")), "g")
    assert [each.certainty for each in reader.offsets_at()] == ["unknown"]
    build_files(partition, tmp_path / "h")
    partition.segment(6, commits(6))
    build_files(partition, tmp_path / "h")
    assert len(errors(tmp_path / "h")) == 1


async def test_a_log_of_a_broker_that_was_cut_back_is_a_gap(tmp_path):
    async with FakeCluster(topics={TOPIC: 1}) as fake:
        log = ServedLog(fake, commits(0), commits(2), end=4)
        fake.on("fetch", log.fetch)
        await build_from(fake, 4, tmp_path / "h")
        log.content = commits(0) + other(2) + commits(4)
        log.end = 6
        await build_from(fake, 6, tmp_path / "h")
    assert [offset for offset, _ in errors(tmp_path / "h")] == [4]


@pytest.mark.parametrize(
    "left",
    [
        commits(0) + commits(4),
        # Compaction keeps the offsets of a batch that it writes anew.
        commits(0) + changed(commits(2, 1), 26, 1, is_confirmed=True) + commits(4),
        commits(4),
        commits(0) + changed(commits(2), 70, 0xFF) + commits(4),
        commits(0) + changed(commits(2), 16, 1),
    ],
    ids=["batch removed", "record removed", "all removed", "value damaged", "no batch"],
)
def test_compaction_and_damage_of_what_was_read_are_no_other_log(tmp_path, left):
    partition = Partition(tmp_path, f"{TOPIC}-0")
    partition.segment(0, commits(0) + commits(2))
    build_files(partition, tmp_path / "h")
    partition.segment(0, left)
    partition.segment(6, commits(6))
    build_files(partition, tmp_path / "h")
    assert not any("has another record" in error for _, error in errors(tmp_path / "h"))
    assert committed(tmp_path / "h")[-2:] == [6, 7]
