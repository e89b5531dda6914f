"""Producers of one log: clients choose their ids, and the memory of them is bounded."""

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.producer_states import MAX_PRODUCERS, ProducerStates, load_snapshot
from kohort.log.segment import Segment
from kohort.protocol.batches import (
    TRANSACTIONAL,
    EndTransactionMarker,
    Header,
    Record,
    build,
    read_header,
)
from kohort.types import Timestamp, TopicPartition
from turns import BOUND_MS, adjusted_ms

ORDERS = TopicPartition("orders", 0)
TRANSACTIONAL_BATCH = read_header(
    build([Record(None, b"v")], producer_id=1, producer_epoch=0, base_sequence=0)
)._replace(attributes=TRANSACTIONAL)


def test_producers_idle_for_longest_are_forgotten() -> None:
    producers = ProducerStates()
    header = read_header(
        build([Record(None, b"v")], producer_id=0, producer_epoch=0, base_sequence=0)
    )
    for n in range(MAX_PRODUCERS + 500):
        producers.add(header._replace(producer_id=n), n, 0, n)
        if n % 100 == 0:  # one that goes on is kept
            producers.add(header._replace(producer_id=0, base_sequence=n + 1), n, 0, n)
    assert len(producers) <= MAX_PRODUCERS
    active = header._replace(producer_id=0, base_sequence=10_401)
    assert producers.validate(active) is not None, "a duplicate of the last batch"
    assert producers.validate(header._replace(producer_id=5, base_sequence=0)) is None
    kept = header._replace(producer_id=MAX_PRODUCERS + 499)
    assert producers.validate(kept) is not None


def changed_in_turn(producers: ProducerStates, header: Header) -> Iterator[None]:
    """Change a producer, in each way in which one can."""
    for commit in (True, False):
        producers.add(header, 1, 5, 6)
        yield
        marker = EndTransactionMarker(commit, 3)
        producers.end(header, marker, 2, 7, 8)
        yield
        producers.add(header._replace(base_sequence=1), 3, 9, 10)
        yield
        header = header._replace(producer_epoch=header.producer_epoch + 1)


def test_a_snapshot_has_what_changed_since_the_last_one() -> None:
    producers = ProducerStates()
    producers.add(TRANSACTIONAL_BATCH._replace(producer_id=9), 0, 1, 2)
    for _ in changed_in_turn(producers, TRANSACTIONAL_BATCH):
        loaded = load_snapshot(bytes(producers.dump(10, {}))).producers
        assert list(loaded.active()) == list(producers.active())
        assert loaded.dump(10, {}) == producers.dump(10, {})


def test_very_many_open_transactions_are_stored_and_described_in_bounded_time() -> None:
    def changed(count: int, epoch: int) -> None:
        for number in range(count):
            header = TRANSACTIONAL_BATCH._replace(producer_id=number, producer_epoch=epoch)
            producers.add(header, number, 0, number)

    producers = ProducerStates()
    changed(100_000, 0)
    producers.dump(0, {})
    stored, described = [], []
    for epoch in (1, 2):
        changed(20_000, epoch)
        gc.collect()
        begun = thread_time()
        snapshot = producers.dump(0, {})
        stored.append(thread_time() - begun)
        begun = thread_time()
        first = next(producers.active())
        described.append(thread_time() - begun)
    assert adjusted_ms(min(stored)) < BOUND_MS
    assert adjusted_ms(min(described)) < BOUND_MS / 2
    assert first.epoch == epoch
    assert len(load_snapshot(bytes(snapshot)).producers) == 100_000


def test_small_batches_bring_a_snapshot_before_there_are_too_many(tmp_path: Path) -> None:
    directory = LocalDirectory(tmp_path)
    log = directory.open(ORDERS, LogConfig())
    batch = bytearray(build([Record(None, b"")], producer_id=0, producer_epoch=0, base_sequence=0))
    for number in range(22_000):
        batch[43:51] = number.to_bytes(8, "big")
        log.append(batch, Timestamp(1))
    snapshot = load_snapshot((tmp_path / "orders-0" / "producers").read_bytes())
    assert snapshot.end_offset > 20_000
    directory.close()


@pytest.mark.parametrize("lost", [None, b"", b"half of a snap"])
def test_a_lost_snapshot_is_written_anew_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bytes | None
) -> None:
    def produced(sequence: int, size: int = 100_000) -> bytes:
        value = Record(None, bytes(size))
        return build([value], producer_id=1, producer_epoch=0, base_sequence=sequence)

    config = LogConfig(segment_bytes=5_000_000)
    directory = LocalDirectory(tmp_path / "data")
    log = directory.open(ORDERS, config)
    for sequence in range(100):
        log.append(produced(sequence), Timestamp(1))
    directory.close()
    snapshot = tmp_path / "data" / "orders-0" / "producers"
    snapshot.unlink() if lost is None else snapshot.write_bytes(lost)

    directory = LocalDirectory(tmp_path / "data")
    log = directory.open(ORDERS, config)
    read: list[int] = []
    headers = Segment.headers

    def counted(self: Segment, position: int = 0) -> Iterator[Any]:
        for found in headers(self, position):
            read.append(found[0])
            yield found

    monkeypatch.setattr(Segment, "headers", counted)
    assert log.append(produced(97), Timestamp(2)).base_offset == 97
    assert log.append(produced(100), Timestamp(2)).base_offset == 100
    assert not read, "the first append read the log"
    directory.close()


def test_a_snapshot_of_records_that_were_taken_back_is_not_used(tmp_path: Path) -> None:
    def produced(sequence: int) -> bytes:
        value = Record(None, bytes(100_000))
        return build([value], producer_id=1, producer_epoch=0, base_sequence=sequence)

    plain = build([Record(None, b"v")])
    directory = LocalDirectory(tmp_path / "data")
    log = directory.open(ORDERS, LogConfig(), synced_by_owner=True)
    log.append(plain, Timestamp(1))
    for sequence in range(50):
        log.append(produced(sequence), Timestamp(1))
    log.owner_sync_failed(OSError(5, "broken"), 1)
    log.retry_sync()()
    log.sync_resumed()
    for _ in range(50):
        log.append(plain, Timestamp(1))
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    directory.close()
    directory = LocalDirectory(tmp_path / "killed")
    log = directory.open(ORDERS, LogConfig())
    assert not log.append(produced(3), Timestamp(2)).duplicate
    directory.close()
