"""Client processes: started, listened to line by line, stopped or killed, and never left behind."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeAlias

from kohort.testing.child_processes import die_with_parent

Listener: TypeAlias = Callable[[str], None]

PATIENCE_S = 240.0
"""Seconds in which a group must have settled or a process ended: most of it for a machine with
twenty processes for each core, or with slow ones. A test that succeeds waits for none of it.
"""


class Process:
    """One client process. Its stdout goes to `listen` line by line; its stderr to a file, or along
    with stdout.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        listen: Listener | None = None,
        merge: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as errors:
            self.popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if listen else errors,
                stderr=subprocess.STDOUT if merge else errors,
                preexec_fn=die_with_parent(),
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._reader = threading.Thread(target=self._read, args=(listen,), daemon=True)
        self._reader.start()

    def _read(self, listen: Listener | None) -> None:
        if listen is None or self.popen.stdout is None:
            return
        for line in self.popen.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            if not text.startswith("{"):
                self._note(text)
            if line.endswith(b"\n"):  # else the process was killed as it wrote the line
                listen(text)

    def _note(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(f"{text}\n")

    @property
    def stdin(self) -> IO[bytes]:
        assert self.popen.stdin is not None
        return self.popen.stdin

    def wait(self, seconds: float) -> int:
        """The exit code, once all output has been read; AssertionError if it still runs after
        `seconds`.
        """
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"{self.name} still ran after {seconds:g} s\n{self.tail()}"
            ) from None
        self._reader.join(5)
        return code

    def ask_to_leave(self) -> None:
        self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9`; back when the process is gone."""
        self.popen.kill()
        self.popen.wait(10)
        self._reader.join(5)
        with suppress(BrokenPipeError):  # what it had not read yet
            self.stdin.close()

    def tail(self) -> str:
        """The end of what it wrote to stderr."""
        return f"--- stderr of {self.name}:\n{self.errors()[-1500:]}"

    def errors(self) -> str:
        """What it wrote to stderr."""
        return self.log.read_text(errors="replace")


class Feed:
    """Writes numbered records to a producer process at a steady pace, until told to end."""

    def __init__(self, producer: Process, per_second: float, keys: int = 24) -> None:
        self.sent: list[str] = []
        self.keys: list[str] = []
        """The key of each value that was sent."""
        self._pause = 1 / per_second
        self._different_keys = keys
        self.resume(producer)

    def resume(self, producer: Process) -> None:
        """Go on after `end`, with a new producer process."""
        self._producer = producer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._over.wait(self._pause):
            key = f"key-{len(self.sent) % self._different_keys}"
            value = f"record-{len(self.sent)}"
            try:
                write_lines(self._producer, [(key, value)])
            except (BrokenPipeError, ValueError):
                return  # it died, and `end` tells why; or its trial has ended and closed the pipe
            self.sent.append(value)
            self.keys.append(key)

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def end(self, seconds: float = PATIENCE_S) -> list[str]:
        """All values sent; AssertionError unless the server acknowledged every one."""
        self._over.set()
        self._thread.join(10)
        finish(self._producer, seconds)
        return self.sent


def write_lines(producer: Process, records: Iterable[tuple[str, str]]) -> None:
    producer.stdin.writelines(f"{key}\t{value}\n".encode() for key, value in records)
    producer.stdin.flush()


def finish(producer: Process, seconds: float = PATIENCE_S) -> None:
    """End of input; AssertionError unless the producer says that every record was acknowledged."""
    producer.stdin.close()
    code = producer.wait(seconds)
    assert code == 0, f"{producer.name} ended with {code}\n{producer.tail()}"


def now() -> int:
    """The machine's monotonic clock in ns: the clock of every event."""
    return time.monotonic_ns()
