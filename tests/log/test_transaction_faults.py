"""A disk that refuses any one operation: a log shows of its transactions what its batches tell."""

import contextlib
import shutil

import pytest

from kohort.errors import KafkaError
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.protocol import batches

from .conftest import NOW, ORDERS, batch
from .refusing_disk import Disk
from .test_transaction_power_loss import committed_offsets, told_by_batches

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=200)


class History:
    """Transactions that are committed, aborted and open; what is refused is left out."""

    def __init__(self, path):
        self.path = path
        self.directory = LocalDirectory(path)

    @property
    def log(self):
        return self.directory.open(ORDERS, CONFIG)

    async def run(self):
        for step in range(6):
            for act in (self._fill, self._write, self._end):
                with contextlib.suppress(OSError, KafkaError):
                    act(step)
            await self.directory.reopen()

    def _fill(self, _step):
        self.log.append(batch(b"plain"), NOW)

    def _write(self, step):
        written = batch(
            b"v", producer_id=step % 3, producer_epoch=0, attributes=batches.TRANSACTIONAL
        )
        guard = self.log.begin_verification(step % 3, 0, -1, NOW, tv2=False)
        self.log.append(written, NOW, verified=guard)

    def _end(self, step):
        if step % 4:
            self.log.append_marker(
                step % 3,
                0,
                commit=step % 4 == 1,
                coordinator_epoch=0,
                transaction_version=0,
                timestamp=NOW,
            )


def check(log):
    committed, stable, aborted = told_by_batches(log)
    assert log.last_stable_offset == stable
    found = [each[:3] for segment in log.segments for each in segment.aborted.entries()]
    assert found == aborted
    assert committed_offsets(log, [transaction[:2] for transaction in aborted]) == committed


async def one(monkeypatch, path, refused):
    """Run a history on a disk that refuses these operations, then kill the server."""
    with monkeypatch.context() as patched:
        disk = Disk(patched)
        history = History(path / "data")
        disk.count, disk.refused = 0, refused
        await history.run()
        disk.refused = ()
        await history.directory.reopen()
        check(history.log)
        shutil.copytree(path / "data", path / "killed")
        history.directory.close()
    killed = LocalDirectory(path / "killed")
    check(killed.open(ORDERS, CONFIG))
    killed.close()
    return disk.count


@pytest.mark.parametrize("lasting", [1, 1_000])
async def test_transactions_are_right_after_a_fault_at_every_second_operation(
    tmp_path, monkeypatch, lasting
):
    count = await one(monkeypatch, tmp_path / "none", ())
    for at in range(1, count + 1, 2):
        await one(monkeypatch, tmp_path / str(at), range(at, at + lasting))
