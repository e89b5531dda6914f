"""After a power loss at any write, a log shows of its transactions what its batches tell."""

import pytest

from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd
from kohort.protocol import batches
from kohort.protocol.aborted_transactions import committed_batches

from .conftest import NOW, ORDERS, batch
from .power_loss import VolatileDisk

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=200)


async def scenario(disk, path):
    """Commit and abort, with a snapshot in between, promising what was acknowledged."""
    directory = LocalDirectory(path, durability="fsync")
    log = directory.open(ORDERS, CONFIG)
    for step in range(14):
        producer_id = step % 3
        guard = log.begin_verification(producer_id, 0, -1, NOW, tv2=False)
        log.append(
            batch(
                b"v",
                producer_id=producer_id,
                producer_epoch=0,
                attributes=batches.TRANSACTIONAL,
            ),
            NOW,
            verified=guard,
        )
        log.append(batch(b"plain"), NOW)
        if step % 4:
            log.append_marker(
                producer_id,
                0,
                commit=step % 4 == 1,
                coordinator_epoch=0,
                transaction_version=1,
                timestamp=NOW,
            )
        await log.durable()
        disk.mark(log.end_offset)
        if step == 7:
            directory.close()
            disk.mark(log.end_offset)
            directory = LocalDirectory(path, durability="fsync")
            log = directory.open(ORDERS, CONFIG)
    directory.close()
    disk.mark(log.end_offset)


def told_by_batches(log):
    """(offsets of committed records, last stable offset, aborted transactions) of a whole log."""
    committed, opened, aborted = [], {}, []
    offset = log.start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, 1 << 20))
        for position, header in batches.iterate(data):
            offset = header.last_offset + 1
            if not header.is_transactional:
                committed.append(header.base_offset)
            elif not header.is_control:
                opened.setdefault(header.producer_id, []).append(header.base_offset)
            else:
                ended = opened.pop(header.producer_id, [])
                if batches.read_marker(data, position).commit:
                    committed += ended
                elif ended:
                    aborted.append((header.producer_id, ended[0], header.base_offset))
    stable = min((each[0] for each in opened.values()), default=log.end_offset)
    return sorted(each for each in committed if each < stable), stable, aborted


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
async def test_transactions_are_right_after_a_power_loss_at_every_fourth_write(
    tmp_path, monkeypatch, seed
):
    monkeypatch.setattr("os.fsync", lambda _: None)  # the disk is simulated, and this is faster
    disk = VolatileDisk(tmp_path / "data")
    with disk.recording():
        await scenario(disk, tmp_path / "data")
    for count in range(seed, len(disk.operations) + 1, 4):
        left = tmp_path / f"left-{count}"
        promises = disk.remains(count, seed + 10 * count if seed > 1 else seed, left)
        if not (left / ".lock").exists():
            continue
        (left / ".lock").write_text("1\nanother-boot\n")
        (left / ".clean-shutdown").unlink(missing_ok=True)
        directory = LocalDirectory(left)
        assert directory.last_end is LastEnd.CRASHED
        log = directory.open(ORDERS, CONFIG)
        assert log.end_offset >= max(promises, default=0)
        committed, stable, aborted = told_by_batches(log)
        assert log.last_stable_offset == stable
        found = [each[:3] for segment in log.segments for each in segment.aborted.entries()]
        assert found == aborted
        listed = [(transaction[0], transaction[1]) for transaction in aborted]
        assert committed_offsets(log, listed) == committed
        directory.close()


def committed_offsets(log, expected):
    """The offsets that a reader of committed records gets."""
    offset, found, named = log.start_offset, [], set()
    while True:
        data, aborted = log.read_committed(offset, 1 << 20)
        if not data:
            assert named <= set(expected)
            return found
        data = bytes(data)
        listed = [(transaction.producer_id, transaction.first_offset) for transaction in aborted]
        named |= set(listed)
        found += [header.base_offset for _, header in committed_batches(data, listed)]
        offset = [header for _, header in batches.iterate(data)][-1].last_offset + 1
