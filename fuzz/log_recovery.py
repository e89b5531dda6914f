"""Invariant: a segment of any bytes is opened and read, or refused by name.

    python fuzz/log_recovery.py [inputs]

The input is the file of a segment after a crash. What is opened takes an append, and gives it back.
"""

import shutil
import tempfile
from pathlib import Path

import _engine

with _engine.instrumented():
    from kohort.errors import KafkaError, KohortError
    from kohort.log.base import LogConfig
    from kohort.log.local import LocalDirectory
    from kohort.protocol import batches
    from kohort.protocol.batches import Record
    from kohort.types import Timestamp, TopicPartition

NOW = Timestamp(1_700_000_000_000)
ORDERS = TopicPartition("orders", 0)
_FAST = Path("/dev/shm")


def check(data: bytes) -> None:
    root = Path(tempfile.mkdtemp(dir=_FAST if _FAST.is_dir() else None, prefix="kohort-fuzz-"))
    try:
        make(root, batches.build([Record(b"k", b"v", (), NOW)]))
        (root / "orders-0" / f"{0:020}.log").write_bytes(data)
        for name in ("index", "timeindex", "snapshot"):
            for path in (root / "orders-0").glob(f"*.{name}"):
                path.unlink()
        (root / "clean-shutdown").unlink(missing_ok=True)
        open_and_use(root)
    finally:
        shutil.rmtree(root)


def make(root: Path, batch: bytes) -> None:
    directory = LocalDirectory(root)
    try:
        directory.open(ORDERS, LogConfig()).append(batch, NOW)
    finally:
        directory.close()


def open_and_use(root: Path) -> None:
    directory = LocalDirectory(root)
    try:
        log = directory.open(ORDERS, LogConfig())
        offset = log.start_offset
        while offset < log.end_offset:
            for _, header in batches.iterate(log.read(offset, 1 << 20)):
                assert header.last_offset >= offset, "no progress"
                offset = header.last_offset + 1
        appended = log.append(batches.build([Record(b"new", b"v", (), NOW)]), NOW)
        assert bytes(log.read(appended.base_offset, 1_000))
    except (KafkaError, KohortError):
        pass  # refused by name
    finally:
        directory.close()


def seeds() -> list[bytes]:
    found, log = [], b""
    for at in range(4):
        batch = batches.build([Record(b"k%d" % at, b"v" * 9, (), NOW + at)] * 3)
        log += (3 * at).to_bytes(8, "big") + bytes(batch)[8:]
        found.append(log)
    return [*found, b"", bytes(200), log[:-1], log + bytes(100)]


if __name__ == "__main__":
    _engine.main(check, seeds(), inputs=20_000)  # each is a directory of its own
