"""A disk that refuses operations, by default by their numbers."""

import errno
import os

from kohort.log import durability, files, stores

CHANGES = frozenset({"ftruncate", "open", "pwrite", "pwritev", "rename", "replace", "write"})


class Disk:
    """Stands in for `os`: the operations whose numbers are in `refused` get ENOSPC."""

    def __init__(self, monkeypatch, changes=CHANGES):
        """`changes`: the functions that are counted."""
        self.changes = changes
        self.count = 0
        """Operations so far."""
        self.refused = ()
        for module in (durability, files, stores):
            monkeypatch.setattr(module, "os", self)

    def __getattr__(self, name):
        real = getattr(os, name)
        return self._refusable(name, real) if name in self.changes else real

    def _refusable(self, name, real):
        def act(*arguments, **options):
            if (number := self.error_of(name)) is not None:
                raise OSError(number, os.strerror(number))
            return real(*arguments, **options)

        return act

    def error_of(self, _name):
        """The errno of the operation of that name that begins now; None if it is not refused."""
        self.count += 1
        return errno.ENOSPC if self.count in self.refused else None
