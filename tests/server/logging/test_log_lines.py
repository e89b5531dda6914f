"""Log lines are written from a thread, bounded, and nobody waits for them."""

import errno
import logging
import os
import re
import threading
from collections.abc import Iterator

import pytest

from kohort.server.logging.formats import TextFormatter
from kohort.server.logging.log_lines import LogLines


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("kohort.test", logging.INFO, "file", 1, message, None, None)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def lines_of(writing: int, **options: int) -> LogLines:
    handler = LogLines(writing, **options)
    handler.setFormatter(TextFormatter())
    return handler


def told(written: bytes) -> int:
    """How many lines are said to be dropped."""
    return sum(map(int, re.findall(rb"(\d+) log lines were dropped", written)))


def test_lines_come_in_order(pipe: tuple[int, int]) -> None:
    handler = lines_of(pipe[1])
    for n in range(100):
        handler.emit(record(f"line {n}"))
    handler.flush()
    written = os.read(pipe[0], 1 << 20).decode().splitlines()
    assert [line.rpartition(": ")[2] for line in written] == [f"line {n}" for n in range(100)]


def test_a_reader_that_stops_reading_loses_lines_and_is_told_how_many(
    pipe: tuple[int, int],
) -> None:
    handler = lines_of(pipe[1], queued_bytes=100_000)
    for _ in range(5_000):
        handler.emit(record("x" * 200))
    dropped = handler.dropped
    assert 3_000 < dropped < 5_000
    handler.flush()  # the end of the process does not wait for ever
    seen = b""
    # A busy machine lets the thread write now and then meanwhile: the drops come in several lines.
    while told(seen) < dropped or seen.count(b"x" * 200) < 5_000 - dropped:
        seen += os.read(pipe[0], 1 << 20)
    assert seen.count(b"x" * 200) == 5_000 - dropped
    assert told(seen) == dropped
    handler.emit(record("again"))
    handler.flush()


def test_a_closed_standard_error_harms_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    handler = lines_of(writing)
    handler.emit(record("lost"))
    handler.flush()
    os.close(writing)
    handler.emit(record("lost too"))
    handler.flush()


def test_the_thread_ends_with_what_it_wrote_last(pipe: tuple[int, int]) -> None:
    before = set(threading.enumerate())
    handler = lines_of(pipe[1])
    handler.emit(record("last"))
    (thread,) = set(threading.enumerate()) - before
    handler.close()
    thread.join(10)
    assert not thread.is_alive()
    assert os.read(pipe[0], 1 << 20).endswith(b": last\n")
    handler.emit(record("too late"))
    assert handler.dropped == 1
    assert handler.is_written
    handler.close()


class Disk:
    """In the place of `os.write`: a disk with room for so many bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr("kohort.server.logging.log_lines.os.write", self)

    def __call__(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk_loses_lines_whose_number_is_told_and_tears_no_other(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]
) -> None:
    failures: list[OSError] = []
    handler = LogLines(pipe[1], on_failure=failures.append)
    disk = Disk(monkeypatch, len("before\n") + 2)
    for message in ("before", "torn", "lost"):
        handler.emit(record(message))
        handler.flush()
    assert [each.errno for each in failures] == [errno.ENOSPC]
    disk.room = 1 << 20
    handler.emit(record("after"))
    handler.flush()
    written = os.read(pipe[0], 1 << 20)
    assert written.splitlines()[:3] == [b"before", b"to", b"after"]
    assert told(written) == handler.dropped == 2


def test_a_pipe_that_another_program_made_non_blocking_loses_nothing(
    pipe: tuple[int, int],
) -> None:
    os.set_blocking(pipe[1], False)
    handler = lines_of(pipe[1])
    for _ in range(1_000):
        handler.emit(record("x" * 200))
    seen = b""
    while seen.count(b"x" * 200) < 1_000 and not handler.dropped:
        seen += os.read(pipe[0], 1 << 12)
    assert not handler.dropped
