"""Writes log lines from a thread, so that a standard error which nobody reads holds up nothing.

Lines wait in a queue of bounded size. When it is full, further lines are dropped, and so are those
that cannot be written, to a full disk say. Their number is one line as soon as one can be written.
"""

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

QUEUED_BYTES: Final = 4 * 1024 * 1024
FLUSH_S: Final = 1.0
"""Time that the last lines have at the end of the process."""


def _dropped_record(dropped: int) -> logging.LogRecord:
    text = "%d log lines were dropped: they were not read, or could not be written"
    return logging.LogRecord("kohort.logs", logging.WARNING, __file__, 0, text, (dropped,), None)


class LogLines(logging.Handler):
    """Handler that writes to a file descriptor and never waits for it."""

    def __init__(
        self,
        descriptor: int,
        *,
        queued_bytes: int = QUEUED_BYTES,
        dropped_record: Callable[[int], logging.LogRecord] = _dropped_record,
        on_failure: Callable[[OSError], None] = lambda _: None,
    ) -> None:
        """`dropped_record` makes the line that has the number of dropped ones.

        `on_failure` is called, by the thread that writes, with why a line could not be written,
        once until one can.
        """
        super().__init__()
        self._descriptor = descriptor
        self._limit = queued_bytes
        self._dropped_record = dropped_record
        self._on_failure = on_failure
        self._fails = self._is_torn = False
        """Whether the last line was not written, and whether a part of it was."""
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = 0
        self._total_dropped = 0
        self._change = threading.Condition()
        self._writing = False
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def is_written(self) -> bool:
        """Whether no line waits: the thread does not use the descriptor until the next one."""
        with self._change:
            return not (self._lines or self._writing)

    @property
    def dropped(self) -> int:
        """Lines dropped since the start."""
        return self._total_dropped

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one line, or drop it."""
        try:
            line = self.format(record).encode(errors="backslashreplace") + b"\n"
        except Exception:
            self.handleError(record)
            return
        with self._change:
            if self._closed or self._size + len(line) > self._limit:
                self._dropped += 1
                self._total_dropped += 1
                return
            self._lines.append(line)
            self._size += len(line)
            if self._thread is None:
                # A daemon: a write that never ends must not keep the process from ending.
                self._thread = threading.Thread(target=self._write, name="kohort-log", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def begin_file(self) -> None:
        """Write to the file that the descriptor leads to now: it has no part of a line."""
        self._is_torn = False

    def flush(self) -> None:
        """Wait until every line is written, for at most `FLUSH_S`."""
        with self._change:
            self._change.wait_for(lambda: not (self._lines or self._writing), FLUSH_S)

    def close(self) -> None:
        """End the thread once waiting lines are written; later lines are dropped. Idempotent."""
        with self._change:
            self._closed = True
            self._change.notify_all()
        super().close()

    def _write(self) -> None:
        while True:
            with self._change:
                self._writing = False
                self._change.notify_all()
                self._change.wait_for(lambda: self._lines or self._closed)
                if not self._lines:
                    return
                self._writing = True
                line = self._lines.popleft()
            is_written = self._write_fully(line)
            with self._change:
                self._size -= len(line)
                if not is_written:
                    self._dropped += 1
                    self._total_dropped += 1
                    continue
                dropped, self._dropped = self._dropped, 0
            if dropped and not self._write_fully(self._dropped_line(dropped)):
                with self._change:
                    self._dropped += dropped

    def _dropped_line(self, dropped: int) -> bytes:
        return self.format(self._dropped_record(dropped)).encode() + b"\n"

    def _write_fully(self, line: bytes) -> bool:
        """Whether all of the line was written. A partial line is ended by the next one."""
        remaining = memoryview(b"\n" + line if self._is_torn else line)
        while remaining:
            try:
                remaining = remaining[os.write(self._descriptor, remaining) :]
            except BlockingIOError:  # another program that writes to the same pipe made it so
                self._await_room()
            except OSError as error:  # closed, or a full disk: the server continues
                self._is_torn = self._is_torn or len(remaining) < len(line)
                self._report_failure(error)
                return False
        self._fails = self._is_torn = False
        return True

    def _await_room(self) -> None:
        room = select.poll()
        room.register(self._descriptor, select.POLLOUT)
        room.poll()

    def _report_failure(self, error: OSError) -> None:
        if not self._fails:
            self._fails = True
            self._on_failure(error)
