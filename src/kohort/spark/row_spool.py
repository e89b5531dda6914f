"""Keeps the rows of a task for the driver, which sends them once every task has ended.

A few rows travel in the message with which a task ends. Many rows are in a file, if the task runs
on the driver's machine, as under `local[*]`.
"""

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.errors import KohortError

RecordBatch: TypeAlias = Any

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def _directory() -> tuple[object, ...]:
    """Identity of the directory of temporary files.

    It differs between machines, containers and users.
    """
    status = os.stat(tempfile.gettempdir())
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    return boot, socket.gethostname(), status.st_dev, status.st_ino, os.getuid()


@dataclass(frozen=True, slots=True)
class SpoolDirectory:
    """Directory for the files of one write, made on the driver's machine; picklable."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    directory: tuple[object, ...] = field(default_factory=_directory)

    def reaches(self) -> bool:
        """Whether the driver can read files of this process."""
        return self.directory == _directory()

    def new_file(self) -> Path:
        """A file of this write, empty."""
        descriptor, path = tempfile.mkstemp(prefix=self._prefix)
        os.close(descriptor)
        return Path(path)

    def sweep(self) -> None:
        """Remove all files of this write, also those of killed tasks."""
        for path in Path(tempfile.gettempdir()).glob(f"{self._prefix}*"):
            path.unlink(missing_ok=True)

    @property
    def _prefix(self) -> str:
        return f"kohort-rows-{self.token}-"


class RowSpool:
    """Waiting rows, in memory or in a file that the context manager removes."""

    def __init__(self, memory_bytes: int, spool_directory: SpoolDirectory) -> None:
        self._memory_bytes = memory_bytes
        self._directory = spool_directory
        self._batches: list[RecordBatch] = []
        self._writer: Any = None
        self._path: Path | None = None
        self.size = 0
        """Approximate, in bytes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._close()
        finally:
            if self._path is not None:
                self._path.unlink(missing_ok=True)

    def add(self, batch: RecordBatch) -> None:
        """Keep it. Raises OSError if there is no room on the disk."""
        self.size += batch.nbytes
        self._batches.append(batch)
        if self.size > self._memory_bytes:
            self._write()

    def __iter__(self) -> Iterator[RecordBatch]:
        self._close()
        yield from self._batches if self._path is None else read_file(str(self._path))

    def packed(self) -> bytes:
        """All rows as an Arrow stream; only while they are in memory."""
        sink = pa.BufferOutputStream()
        if self._batches:
            with pa.ipc.new_stream(sink, self._batches[0].schema) as writer:
                for batch in self._batches:
                    writer.write_batch(batch)
        return bytes(memoryview(sink.getvalue()))

    def handed_over(self) -> str:
        """Path of a file with all rows, which the driver removes."""
        self._write()
        self._close()
        path, self._path = self._path, None
        return str(path)

    def _write(self) -> None:
        for batch in self._batches:
            if self._writer is None:
                self._path = self._directory.new_file()
                self._writer = pa.ipc.new_stream(str(self._path), batch.schema)
            self._writer.write_batch(batch)
        self._batches.clear()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def read_packed(stream: bytes) -> Iterator[RecordBatch]:
    """Read rows that `RowSpool.packed` packed."""
    if stream:
        with pa.ipc.open_stream(stream) as reader:
            yield from reader


def read_file(path: str) -> Iterator[RecordBatch]:
    """Read rows of a file of `RowSpool.handed_over`, as views of the file.

    Raises KohortError if it is not there.
    """
    try:
        source = pa.memory_map(path)
    except OSError as error:
        raise KohortError(
            f"rows that a task left in {path} cannot be read, write them again: {error}"
        ) from None
    with source, pa.ipc.open_stream(source) as reader:
        yield from reader
