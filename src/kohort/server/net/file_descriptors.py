"""File descriptors of the process: connections leave enough of them for files.

The system hands out the lowest descriptor that is free. So a connection with a high one says that
nearly all are in use, and it is refused before an append lacks one.
"""

import logging
import resource
from typing import Final

from kohort.errors import KohortError
from kohort.log import stores

logger = logging.getLogger("kohort.server")

_RESERVED_FILES: Final = 128
"""Descriptors kept for other files: of a compaction, of records that are being sent, and so on."""
_MIN_FILES: Final = 128
_LOW_FILES: Final = 2_048
"""With fewer descriptors, segments get fewer files too."""


def raise_limit() -> None:
    """Raise the soft limit of this process to its hard limit, as far as the system allows.

    Raises KohortError if a server needs more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # macOS accepts less than the hard limit that it reports
            pass
    if 0 <= soft < _MIN_FILES:
        raise KohortError(
            f"the process may have {soft} open files, and a server needs {_MIN_FILES}: raise the "
            "limit (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of docker)"
        )


def warn_of_low_limit() -> None:
    """Log how many connections the limit leaves, if these are few."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _LOW_FILES:
        logger.warning(
            "limit of %d open files allows about %d connections; raise it (ulimit -n) for more",
            soft, first_reserved() - stores.max_open_files(),
        )  # fmt: skip


def first_reserved() -> int:
    """The lowest descriptor that no connection may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 0:  # RLIM_INFINITY
        return 1 << 31
    return soft - stores.max_open_files() - min(_RESERVED_FILES, soft // 4)
