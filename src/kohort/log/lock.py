"""One process per data directory, and how the one before has ended."""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Set
from pathlib import Path

from kohort.errors import KohortError
from kohort.log.durability import sync_path
from kohort.log.recovery import LastEnd

_LOCK = ".lock"
_CLEAN = ".clean-shutdown"
LOCK_FILES = (_CLEAN, _LOCK)
"""Files that a lock leaves in its directory."""


class DirectoryLock:
    """A locked data directory. The lock goes with the process, however that ends.

    What the directory says of the last end changes only when it is true. A process that was killed
    while it checked the logs after a crash leaves a directory that was not checked; one that could
    not start has not ended cleanly.
    """

    def __init__(self, path: Path) -> None:
        """Lock `path`, created if it does not exist, for this user alone: it has credentials.

        Raises KohortError if another process has locked it, OSError.
        """
        path.mkdir(0o700, parents=True, exist_ok=True)
        self._path = path
        self._distrusted = False
        self._fd = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._boot = _lock(self._fd, path)
            self.last_end = self._how_it_ended()
            self.has_whole_indexes = self.last_end is LastEnd.CLEAN and self._is_of_this_boot()
            """No power loss can have taken rows of indexes, which are not synced."""
            self.has_failed_sync = not self._boot and self.last_end is LastEnd.CRASHED
            """Data that was written before may be in memory only, though it can be read and a sync
            succeeds."""
            self._confirmed = self.has_whole_indexes
            self.is_new = self._is_new()
            """Whether nothing but files was there."""
            self._checked = self.last_end is LastEnd.CLEAN or self.is_new
            """Nothing that was found is in doubt."""
            self._begin()
        except (KohortError, OSError):
            self.release()
            raise

    def _begin(self) -> None:
        self._write(boot_id() if self._checked else self._boot)
        if self.last_end is LastEnd.CLEAN:
            # The boot id is there: killed from here on, the process was killed.
            (self._path / _CLEAN).unlink()
            sync_path(str(self._path))

    def _write(self, boot: str) -> None:
        self._boot = boot
        content = f"{os.getpid()}\n{boot}\n".encode()
        os.pwrite(self._fd, content, 0)
        # A process that is killed before this leaves more lines, which nobody reads.
        os.truncate(self._fd, len(content))
        os.fsync(self._fd)

    def confirm(self) -> None:
        """Note that everything found is checked. Raises OSError.

        If this process does not end cleanly, only what happens from now on has to be checked.
        """
        self._checked = self._confirmed = True
        if not self._distrusted and self._boot != boot_id():
            self._write(boot_id())

    def distrust(self) -> None:
        """Make the next start check everything: the disk has refused a write or a sync."""
        self._distrusted = True
        with contextlib.suppress(OSError):  # the same disk
            self._write("")

    def distrust_check(self) -> None:
        """Make the next start repeat the checks of this one: a log could not be opened."""
        self._checked = False
        self._distrusted = True

    def _is_new(self) -> bool:
        """Whether nothing but files of this class and of the directory's own is there."""
        with os.scandir(self._path) as entries:
            return not any(entry.is_dir() for entry in entries)

    def _how_it_ended(self) -> LastEnd:
        if (self._path / _CLEAN).exists():
            return LastEnd.CLEAN
        # Without a boot id it cannot be told whether the machine went down, so the worst is
        # assumed.
        return LastEnd.KILLED if self._boot and self._boot == boot_id() else LastEnd.CRASHED

    def _is_of_this_boot(self) -> bool:
        """Whether the clean end was in this start of the machine, with every log looked at."""
        boot = (self._path / _CLEAN).read_text(errors="replace")
        return boot != "" and boot == boot_id()

    def agree(self, last_ends: Set[LastEnd], *, whole_indexes: bool) -> None:
        """Say what is true of logs from directories that have ended so: they move here.

        It is on the disk before this returns. Raises OSError.
        """
        self._checked = last_ends <= {LastEnd.CLEAN}
        self._confirmed = whole_indexes
        if LastEnd.CRASHED in last_ends:
            self._distrusted = True
            self._write("")

    def mark_clean(self) -> None:
        """Say that everything is on the disk, if it was checked and it is; to be called last.
        Raises OSError.
        """
        if self._checked and not self._distrusted:
            (self._path / _CLEAN).touch()
            with contextlib.suppress(OSError):  # a full disk: the next start looks at more
                (self._path / _CLEAN).write_text(boot_id() if self._confirmed else "")
            sync_path(str(self._path))

    def release(self) -> None:
        """Let others have the directory. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep servers away from a data directory, and change nothing of what it says of its last end.

    Raises KohortError if a server has it, or there is none; OSError.
    """
    try:
        fd = os.open(path / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        raise KohortError(f"{path} is no data directory of Kohort: it has no {_LOCK}") from None
    try:
        _lock(fd, path)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, path: Path) -> str:
    """The boot id in the lock file, once the lock is held. Raises KohortError if it is not."""
    owner, _, rest = os.read(fd, 200).decode(errors="replace").partition("\n")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise KohortError(
            f"{path} is in use by process {owner or 'unknown'}; stop that server or "
            "give this one another directory"
        ) from None
    return rest.partition("\n")[0].strip()


def boot_id() -> str:
    """Id of this start of the machine; "" on systems without one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
