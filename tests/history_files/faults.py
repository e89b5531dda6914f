"""A system that dies, or whose disk is full, at the n-th operation; or that checks durability."""

import errno
import os

from kohort.history_files.file_system import System

CHANGING = ("open", "write", "fsync", "close", "mkdir", "rename", "unlink", "names")


class Quick(System):
    """Does not wait for the disk."""

    def fsync(self, descriptor):
        pass


class KilledError(BaseException):
    """The process was killed: nothing that it would do afterwards happens."""


class Dying(System):
    """Dies before the n-th operation, or in the middle of it."""

    def __init__(self, at=None, halfway=False):
        self.at, self.halfway, self.count = at, halfway, 0

    @property
    def is_dead(self):
        return self.at is not None and self.count > self.at

    def _step(self):
        self.count += 1
        if self.is_dead:
            raise KilledError

    def write(self, descriptor, data):
        try:
            self._step()
        except KilledError:
            if self.halfway and self.count == self.at + 1:
                os.write(descriptor, data[: len(data) // 2])
            raise
        return super().write(descriptor, data)

    def fsync(self, descriptor):
        self._step()  # a kill loses nothing that was written, so the disk need not be waited for

    def close(self, descriptor):
        super().close(descriptor)  # the kernel does so for a killed process
        self._step()


def _stepping(name):
    def operation(self, *arguments):
        self._step()
        return getattr(System, name)(self, *arguments)

    return operation


for name in set(CHANGING) - {"write", "fsync", "close"}:
    setattr(Dying, name, _stepping(name))


class FullDisk(System):
    """The n-th write, or creation of a file or directory, finds no space, and all later ones."""

    def __init__(self, at):
        self.at, self.count = at, 0

    def _needs_space(self):
        self.count += 1
        if self.count > self.at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path, flags):
        if flags & os.O_CREAT and not path.exists():
            self._needs_space()
        return super().open(path, flags)

    def write(self, descriptor, data):
        self._needs_space()
        return super().write(descriptor, data)

    def mkdir(self, path):
        self._needs_space()
        super().mkdir(path)

    def fsync(self, descriptor):
        """No need to wait for the disk."""


class PowerLoss(System):
    """Knows which files and names would survive a power loss at any moment."""

    def __init__(self):
        self.synced, self.names_synced, self.descriptors = set(), set(), {}
        self.published = []
        """For each snapshot: the files and names that were durable when it was renamed."""

    def open(self, path, flags):
        descriptor = super().open(path, flags)
        self.descriptors[descriptor] = path
        return descriptor

    def fsync(self, descriptor):
        path = self.descriptors[descriptor]
        self.synced.add(path)
        if path.is_dir():
            self.names_synced |= set(path.iterdir())

    def write(self, descriptor, data):
        self.synced.discard(self.descriptors[descriptor])
        return super().write(descriptor, data)

    def rename(self, source, target):
        assert source in self.synced
        super().rename(source, target)
        if target.parent.name == "_batches":
            self.published.append((target, self.synced & self.names_synced))
