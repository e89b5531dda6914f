"""Keeping what is cut off a log: nothing that an operator may want back is deleted.

What is cut off a segment becomes a file beside it, `<segment>.log.<position>.cut`; a segment that
is taken out as a whole is renamed to `<segment>.log.0.cut`. No log reads these files. They go with
their partition, or by hand.
"""

import os
from itertools import count

from kohort.log.durability import sync_path

CUT = ".cut"
_CHUNK_BYTES = 1 << 20


def keep_tail(path: str, position: int) -> str:
    """Copy the file from `position` on to a file of its own, durably, and return its path.

    Raises OSError.
    """
    return keep_range(path, position, os.stat(path).st_size)


def keep_range(path: str, position: int, end: int) -> str:
    """`keep_tail` of the bytes from `position` up to `end`."""
    kept = _free_name(path, position)
    with open(path, "rb") as source:
        source.seek(position)
        fd = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(fd, "wb") as target:
                while data := source.read(min(_CHUNK_BYTES, end - source.tell())):
                    target.write(data)
                target.flush()
                os.fsync(target.fileno())
        except OSError:
            os.unlink(kept)
            raise
    sync_path(os.path.dirname(kept))
    return kept


def keep_whole(path: str) -> str:
    """Rename the file, durably; returns its new path. Raises OSError."""
    kept = _free_name(path, 0)
    os.rename(path, kept)
    sync_path(os.path.dirname(kept))
    return kept


def _free_name(path: str, position: int) -> str:
    names = (f"{path}.{position}{f'-{number}' if number else ''}{CUT}" for number in count())
    return next(name for name in names if not os.path.lexists(name))
