"""A disk that refuses operations, one after another counted."""

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
        return self._counted(real) if name in self.changes else real

    def _counted(self, real):
        def act(*arguments, **options):
            self.count += 1
            if self.count in self.refused:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **options)

        return act
