"""One process per data directory, and how the one before has ended."""

import fcntl
import os
from pathlib import Path

from kohort.errors import KohortError
from kohort.log.recovery import LastEnd

_LOCK = ".lock"
_CLEAN = ".clean-shutdown"


class DirectoryLock:
    """A locked data directory. The lock goes with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        """Lock `path`, created if it does not exist.

        Raises KohortError if another process has locked it, OSError.
        """
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._distrusted = False
        self._fd = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        owner, _, boot = os.read(self._fd, 200).decode(errors="replace").partition("\n")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise KohortError(
                f"{path} is in use by process {owner or 'unknown'}; stop that server or "
                "give this one another directory"
            ) from None
        self.last_end = self._how_it_ended(boot.strip())
        self._write(boot_id())

    def _write(self, boot: str) -> None:
        os.truncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n{boot}\n".encode(), 0)

    def distrust(self) -> None:
        """Have the next start check everything: the disk has refused to take something."""
        self._distrusted = True
        self._write("")

    def _how_it_ended(self, boot: str) -> LastEnd:
        marker = self._path / _CLEAN
        if marker.exists():
            marker.unlink()
            return LastEnd.CLEAN
        # Without a boot id a crash of the machine cannot be excluded, so it is assumed.
        return LastEnd.KILLED if boot and boot == boot_id() else LastEnd.CRASHED

    def mark_clean(self) -> None:
        """Record that all data is on the disk, unless it is not; called last. Raises OSError."""
        if not self._distrusted:
            (self._path / _CLEAN).touch()

    def release(self) -> None:
        """Let others have the directory. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def boot_id() -> str:
    """Id of this start of the machine; "" on systems without one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
