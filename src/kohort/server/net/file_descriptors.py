"""File descriptors of the process: connections leave enough of them for files.

The system hands out the lowest descriptor that is free. So a connection with a high one says that
nearly all are in use, and it is refused before an append lacks one.
"""

import resource
from typing import Final

RESERVED: Final = 384
"""Descriptors kept for files: 256 of open segments, those of a compaction, the HTTP port's."""


def raise_limit() -> None:
    """Raise the soft limit of this process to its hard limit, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS has a lower limit than the hard one that it tells
            return


def first_reserved() -> int:
    """The lowest descriptor that no connection may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 31
    return soft - min(RESERVED, soft // 2)
