"""Operations on the files of a directory, local or in an object store.

Paths are relative to the directory, with "/". A file is durable when its writer is closed, and its
name after `sync_directories`: both then survive a power loss.

An object store has neither locks nor renames. An object appears as a whole when it is closed, so
a snapshot needs no rename. But nothing keeps two builds from writing the same snapshot there: the
user has to start one at a time. Files without a snapshot are kept for a day, as they may be of
another build.
"""

import fcntl
import io
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Protocol, cast
from urllib.parse import urlsplit

from typing_extensions import Buffer

from kohort.errors import ConfigError, KohortError

TEMPORARY: Final = ".tmp"
"""End of the name of a file that is not renamed into place yet."""
LEFTOVER_AGE_MS: Final = 24 * 3_600_000
"""Age from which a file without a snapshot is removed where no lock says that no build runs."""
BUFFER: Final = 1024 * 1024
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of file systems → PyArrow's."""


class LockedError(KohortError):
    """Another build writes into the directory."""


class System:
    """The calls of the operating system that change or read files."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def mkdir(self, path: Path) -> None:
        path.mkdir()

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def names(self, path: Path) -> list[str]:
        return os.listdir(path)


class Files(Protocol):
    """The files of one directory."""

    location: str
    """Path or URL of the directory."""
    is_remote: bool
    """Whether each read waits so long that fewer and larger ones are better."""

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, sorted; none if it does not exist."""

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""

    def open(self, path: str) -> Any:
        """For PyArrow, to read a file at random. Raises FileNotFoundError."""

    def create(self, path: str) -> BinaryIO:
        """A new file, in an existing directory; `close` makes it durable."""

    def publish(self, path: str, data: bytes) -> None:
        """Write a whole file that appears at once, and durably.

        Raises KohortError if this process has locked the directory, and it was removed since.
        """

    def make_directory(self, directory: str) -> None:
        """Create a directory, and those above, unless it exists; its name is durable."""

    def sync_directories(self, directories: Collection[str]) -> None:
        """Make the names in `directories` durable."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def is_leftover(self, path: str, now_ms: int) -> bool:
        """Whether an existing file that no snapshot names can be removed."""

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        """Hold the lock of the directory. Raises LockedError if another process holds it."""


def open_files(location: str) -> Files:
    """The files of a local path or a URL of `pyarrow.fs`. Raises ConfigError."""
    scheme = urlsplit(location).scheme
    if scheme in ("", "file"):
        # Tasks have other working directories.
        path = Path(location.removeprefix("file://").removeprefix("file:"))
        return LocalFiles(path.absolute())
    from pyarrow import ArrowException  # type: ignore[import-untyped]
    from pyarrow.fs import FileSystem  # type: ignore[import-untyped]

    try:
        system, root = FileSystem.from_uri(_SCHEMES.get(scheme, scheme) + location[len(scheme) :])
    except (ArrowException, OSError, ValueError) as error:
        raise ConfigError(f"{location}: {error}") from None
    return ObjectFiles(system, root, location)


class LocalFiles:
    """Files below a local path, which several machines may share by NFS."""

    is_remote = False

    def __init__(self, root: Path, system: System | None = None) -> None:
        self.location = str(root)
        self._root = root
        self._system = system or System()
        self._lock: tuple[Path, os.stat_result] | None = None
        """The file whose lock is held."""

    def names(self, directory: str = "") -> list[str]:
        try:
            return sorted(self._system.names(self._root / directory))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def open(self, path: str) -> Any:
        from pyarrow import OSFile

        return OSFile(str(self._root / path))

    def create(self, path: str) -> BinaryIO:
        descriptor = self._system.open(self._root / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        return io.BufferedWriter(_DurableFile(descriptor, self._system), BUFFER)

    def publish(self, path: str, data: bytes) -> None:
        self._validate_lock()
        temporary = self._root / f"{path}{TEMPORARY}"
        descriptor = self._system.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with _DurableFile(descriptor, self._system) as file:
            file.write(data)
        self._system.rename(temporary, self._root / path)
        self.sync_directories([str(PurePosixPath(path).parent)])

    def _validate_lock(self) -> None:
        """Raise KohortError if the lock that is held is not that of the directory any more."""
        if self._lock is None:
            return
        path, held = self._lock
        try:
            if os.path.samestat(os.stat(path), held):
                return
        except FileNotFoundError:
            pass
        raise KohortError(f"{self.location}: was removed while this build wrote into it")

    def make_directory(self, directory: str) -> None:
        path = self._root / directory
        if path.is_dir():
            return
        missing = [path, *(above for above in path.parents if not above.exists())]
        for new in sorted(missing):
            with suppress(FileExistsError):  # another task made it
                self._system.mkdir(new)
            self._sync(new.parent)

    def sync_directories(self, directories: Collection[str]) -> None:
        for directory in sorted(directories):
            self._sync(self._root / directory)

    def _sync(self, directory: Path) -> None:
        descriptor = self._system.open(directory, os.O_RDONLY)
        try:
            self._system.fsync(descriptor)
        finally:
            self._system.close(descriptor)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.unlink(self._root / path)

    def is_leftover(self, path: str, now_ms: int) -> bool:  # noqa: ARG002
        return True  # this build has the lock

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        descriptor = self._system.open(self._root / path, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(f"{self.location}: another build writes into it") from None
            except OSError as error:
                raise KohortError(
                    f"{self.location}: its file system has no locks ({error.strerror}), so that "
                    "two builds could write into it"
                ) from None
            self._lock = self._root / path, os.fstat(descriptor)
            yield
        finally:
            self._lock = None
            os.close(descriptor)


class _DurableFile(io.RawIOBase):
    """A new file that is synced when it is closed. After an error it is closed without that."""

    def __init__(self, descriptor: int, system: System) -> None:
        self._descriptor = descriptor
        self._system = system
        self._failed = False

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        with memoryview(data) as view, view.cast("B") as remaining:
            size, done = len(remaining), 0
            self._failed = True
            while done < size:
                done += self._system.write(self._descriptor, remaining[done:])
            self._failed = False
            return size

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            if not self._failed:
                self._system.fsync(self._descriptor)
        finally:
            self._system.close(self._descriptor)


class ObjectFiles:
    """Files of a `pyarrow.fs.FileSystem`: S3, Google Cloud Storage, Azure."""

    is_remote = True

    def __init__(self, system: Any, root: str, location: str) -> None:
        self.location = location
        self._system = system
        self._root = root.rstrip("/")

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def names(self, directory: str = "") -> list[str]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(self._path(directory), allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selector))

    def read(self, path: str) -> bytes:
        with self._system.open_input_file(self._path(path)) as file:
            return bytes(file.read())

    def open(self, path: str) -> Any:
        return self._system.open_input_file(self._path(path))

    def create(self, path: str) -> BinaryIO:
        return cast("BinaryIO", self._system.open_output_stream(self._path(path)))

    def publish(self, path: str, data: bytes) -> None:
        with self.create(path) as file:
            file.write(data)

    def make_directory(self, directory: str) -> None:
        self._system.create_dir(self._path(directory), recursive=True)

    def sync_directories(self, directories: Collection[str]) -> None:
        """No-op: an object is durable with its name."""

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.delete_file(self._path(path))

    def is_leftover(self, path: str, now_ms: int) -> bool:
        (info,) = self._system.get_file_info([self._path(path)])
        modified_ns = info.mtime_ns
        return modified_ns is not None and now_ms - modified_ns // 1_000_000 > LEFTOVER_AGE_MS

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:  # noqa: ARG002
        yield
