"""The bytes of segments and indexes: in files, or in memory.

A store is an append-only sequence of bytes with positional reads. An append is all or nothing. A
short write is completed. A failed one (ENOSPC, EIO) is cut off again, at the latest before the next
append.

Files are opened when first used, and a bounded number of them is open at a time, however many
partitions there are. Stores belong to the loop thread. Other threads (fsync, compaction) open files
for themselves, because a descriptor that is closed here may soon be another file's.
"""

import contextlib
import errno
import os
import resource
from collections import deque
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import Final, Protocol, TypeAlias

from kohort.log.leader_epochs import MAX_LEADER_EPOCH
from kohort.protocol.batches import Buffer

LOG_SUFFIX: Final = ".log"
PRIVATE: Final = 0o600
"""Mode of new files with records or indexes: the metadata log has keys of users."""
_WRITE_CHUNK: Final = 1 << 20
MIN_SLICE_BYTES: Final = 64 * 1024
"""Size of the smallest slice: fewer bytes are copied sooner than sent by a call of their own."""
_MAX_OPEN_FILES: Final = 256
MAX_SLICES: Final = 64
"""Slices of files that exist at a time; each may keep a file open beyond the limit of those."""


class Readable(Protocol):
    """A row of bytes."""

    size: int

    @property
    def latest_epoch(self) -> int:
        """The largest leader epoch that one of its batches may have."""
        ...

    def read(self, position: int, count: int) -> bytes:
        """At most `count` bytes from `position` on; fewer at the end. Raises OSError.

        Bytes of batches may also be fewer at the end of any batch.
        """
        ...

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        ...


class Store(Readable, Protocol):
    """A growing row of bytes."""

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all `parts` at the end. Raises OSError, and `size` is as before."""
        ...

    def reach(self, position: int, count: int) -> int:
        """Number of bytes that a `read` returns. Raises OSError."""
        ...

    def take(self, position: int, count: int) -> "Records":
        """`read`, but many bytes may stay in their file. Raises OSError."""
        ...

    def create(self) -> None:
        """Create the store, though no byte was appended yet. Raises OSError."""
        ...

    def truncate(self, size: int) -> bool:
        """Forget what lies beyond `size`, that of failed appends too. Raises OSError.

        Returns whether there was anything.
        """
        ...

    def file(self) -> str | None:
        """The file to be synced, None if there is none."""
        ...

    def beside(self, suffix: str) -> "Store":
        """The store of another file of the same segment. Raises OSError."""
        ...

    def reader(self) -> Readable:
        """The same bytes, up to today's size, for another thread to read and close."""
        ...


def max_open_files() -> int:
    """Files of segments that are kept open: fewer if the process may have few descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, soft // 8)


class OpenFiles:
    """The open descriptors, at most `limit`, or `max_open_files`.

    The least recently used ones are closed (second chance).
    """

    __slots__ = ("_limit", "_open", "slices")

    def __init__(self, limit: int | None = None) -> None:
        self._limit = max_open_files() if limit is None else limit
        self._open: deque[FileStore] = deque()
        self.slices: set[int] = set()
        """Ids of the `FileSlice`s that exist."""

    def add(self, store: "FileStore") -> None:
        while len(self._open) >= self._limit:
            oldest = self._open.popleft()
            if oldest.used:
                oldest.used = False
                self._open.append(oldest)
            else:
                oldest.let_go()
        self._open.append(store)

    def discard(self, store: "FileStore") -> None:
        with contextlib.suppress(ValueError):
            self._open.remove(store)

    def join(self, others: "OpenFiles") -> None:
        """Count descriptors that its stores open from now on, and slices, among `others`.

        It has none before.
        """
        self._limit, self._open, self.slices = others._limit, others._open, others.slices

    def __len__(self) -> int:
        return len(self._open)


class OpenFile:
    """A descriptor that is closed with the last reference to it."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class FileSlice:
    """Bytes of a file that were not read, and can be sent so. They stay as long as it exists."""

    __slots__ = ("_count", "_file", "_position", "_slices")

    def __init__(self, file: OpenFile, position: int, count: int, slices: set[int]) -> None:
        """It is one of `slices` as long as it exists."""
        self._file = file
        self._position = position
        self._count = count
        self._slices = slices
        slices.add(id(self))

    def __del__(self) -> None:
        self._slices.discard(id(self))

    def __len__(self) -> int:
        return self._count

    def read(self, start: int, count: int) -> bytes:
        """At most `count` bytes from its byte `start` on. Raises OSError if there are none."""
        count = min(count, self._count - start)
        data = os.pread(self._file.descriptor, count, self._position + start)
        if not data:
            raise _cut()
        return data

    def send(self, start: int, descriptor: int) -> int:
        """Send bytes from its byte `start` on to a socket; returns how many it took.

        Raises OSError: BlockingIOError if the socket is full.
        """
        position, left = self._position + start, self._count - start
        sent = os.sendfile(descriptor, self._file.descriptor, position, left)
        if not sent:
            raise _cut()
        return sent


Records: TypeAlias = bytes | memoryview | FileSlice
"""Whole batches, as they are read for a client."""


def loaded(records: Records, count: int) -> bytes:
    """The first `count` bytes of `records` in memory. Raises OSError."""
    return records.read(0, count) if isinstance(records, FileSlice) else bytes(records[:count])


def _cut() -> OSError:
    return OSError(errno.EIO, "a file is shorter than it was")


def ensure_room(directory: str, size: int) -> None:
    """Write `size` bytes into a file without a name. Raises OSError if the disk refuses them."""
    written = 0
    with TemporaryFile(dir=directory, buffering=0) as file:
        while written < size:
            piece = bytes(min(size - written, _WRITE_CHUNK))
            written += os.pwrite(file.fileno(), piece, written)
        os.fsync(file.fileno())


def size_of(path: str) -> int:
    """The bytes of a file, 0 if there is none. Raises OSError."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


class FileStore:
    """A file, which is made by the first append."""

    __slots__ = ("_fd", "_file", "_files", "_torn", "latest_epoch", "path", "size", "used")

    def __init__(self, path: str, size: int, files: OpenFiles, latest_epoch: int = 0) -> None:
        self.path = path
        self.size = size
        self.latest_epoch = latest_epoch
        self.used = False
        self._files = files
        self._file: OpenFile | None = None
        self._fd = -1  # that of `_file`
        self._torn = False
        """Bytes of a failed append may lie beyond `size`."""

    def append(self, parts: Sequence[Buffer]) -> None:
        fd = self._fd if self._fd >= 0 else self._open()
        self.used = True
        if self._torn:
            self._cut(fd)
        size = sum(map(len, parts))
        try:
            written = os.pwritev(fd, parts, self.size)
            if written != size:
                self._write_rest(fd, b"".join(parts), written)
        except OSError:
            self._torn = True
            with contextlib.suppress(OSError):  # else it is tried again before the next append
                self._cut(fd)
            raise
        self.size += size

    def _write_rest(self, fd: int, data: bytes, written: int) -> None:
        while written < len(data):
            written += os.pwrite(fd, memoryview(data)[written:], self.size + written)

    def _cut(self, fd: int) -> None:
        os.ftruncate(fd, self.size)
        self._torn = False

    def read(self, position: int, count: int) -> bytes:
        if not self.size:
            return b""
        fd = self._fd if self._fd >= 0 else self._open()
        self.used = True
        return os.pread(fd, min(count, self.size - position), position)

    def reach(self, position: int, count: int) -> int:
        return min(count, self.size - position)

    def take(self, position: int, count: int) -> Records:
        count = self.reach(position, count)
        if count < MIN_SLICE_BYTES or len(self._files.slices) >= MAX_SLICES:
            return self.read(position, count)
        if self._file is None:
            self._open()
        assert self._file is not None
        self.used = True
        return FileSlice(self._file, position, count, self._files.slices)

    def create(self) -> None:
        if self._fd < 0:
            self._open()

    def truncate(self, size: int) -> bool:
        if size >= self.size and not self._torn:
            return False
        os.ftruncate(self._fd if self._fd >= 0 else self._open(), size)
        self.size, self._torn = size, False
        return True

    def file(self) -> str | None:
        return self.path if self.size else None

    def beside(self, suffix: str) -> "FileStore":
        directory, name = os.path.split(self.path)
        path = f"{directory}/{name.replace(LOG_SUFFIX, suffix)}"
        return FileStore(path, size_of(path), self._files)

    def reader(self) -> "FileStore":
        return FileStore(self.path, self.size, OpenFiles(), self.latest_epoch)

    def close(self) -> None:
        if self._fd >= 0:
            self._files.discard(self)
            self.let_go()

    def let_go(self) -> None:
        self._file = None
        self._fd = -1

    def _open(self) -> int:
        # A file that holds something and is gone must not come back empty; one that is to be empty
        # has to be.
        self._fd = os.open(
            self.path, os.O_RDWR | (0 if self.size else os.O_CREAT | os.O_TRUNC), PRIVATE
        )
        self._file = OpenFile(self._fd)
        self._files.add(self)
        return self._fd


class MemoryStore:
    """Bytes in memory."""

    __slots__ = ("_data", "size")

    latest_epoch = MAX_LEADER_EPOCH
    """No bound: all that is here was written by this process."""

    def __init__(self, data: bytearray | None = None) -> None:
        self._data = bytearray() if data is None else data
        self.size = len(self._data)

    def append(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            self._data += part
        self.size = len(self._data)

    def read(self, position: int, count: int) -> bytes:
        with memoryview(self._data) as data:
            return bytes(data[position : position + count])

    def reach(self, position: int, count: int) -> int:
        return min(count, self.size - position)

    def take(self, position: int, count: int) -> Records:
        return self.read(position, count)

    def create(self) -> None:
        pass

    def truncate(self, size: int) -> bool:
        is_cut = size < self.size
        del self._data[size:]
        self.size = len(self._data)
        return is_cut

    def file(self) -> str | None:
        return None

    def beside(self, suffix: str) -> "MemoryStore":  # noqa: ARG002
        return MemoryStore()

    def reader(self) -> "MemoryStore":
        return self

    def close(self) -> None:
        pass
