"""The audit log: one JSON line for each operation that a client was denied, or for each at all.

    {"time": "2026-01-31T12:00:00.000Z", "principal": "User:alice", "host": "10.0.0.7",
     "listener": "CLIENTS", "api": "produce", "operation": "write", "resource": "topic",
     "name": "orders", "allowed": false}

Lines are written by a thread (`log_lines`), so that no request waits for the disk. At most
`PER_SECOND` are written in a second. The number of dropped lines, those for a full disk included,
is a line of its own. `reopen` opens a new file after the old one was moved away.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from kohort.security import Peer
from kohort.security.acls import AclOperation, ResourceType
from kohort.server.logging.formats import fields
from kohort.server.logging.log_lines import LogLines

logger = logging.getLogger("kohort.serve")

PER_SECOND: Final = 1_000
"""Lines of a second; others are counted."""
MAX_NAME_LENGTH: Final = 1_024
"""Characters of a name that are written."""
_MODE: Final = 0o640


class AuditLog:
    """Appends to a file, from its creation to `close`."""

    def __init__(
        self,
        path: str,
        *,
        allowed_too: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now`: seconds since the epoch. Raises OSError if the file cannot be opened."""
        self.allowed_too = allowed_too
        """Whether operations that were allowed are written as well."""
        self._path = path
        self._now = now
        self._descriptor = _opened(path)
        self._lines = LogLines(
            self._descriptor, dropped_record=self._dropped_record, on_failure=_report_failure
        )
        self._second = 0
        self._written = self._dropped = 0

    def record(
        self,
        peer: Peer,
        api: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        allowed: bool,
    ) -> None:
        """Write one decision."""
        now = self._now()
        if int(now) != self._second:
            self._report_dropped(now)
            self._second, self._written = int(now), 0
        self._written += 1
        if self._written > PER_SECOND:
            self._dropped += 1
            return
        self._write(
            now,
            principal=str(peer.principal),
            host=peer.host,
            listener=peer.endpoint.listener,
            api=api,
            operation=operation.name.lower(),
            resource=resource_type.name.lower(),
            name=name[:MAX_NAME_LENGTH],
            allowed=allowed,
        )

    def reopen(self) -> None:
        """Write to a new file of that name from now on.

        Raises OSError, and then nothing changes.
        """
        descriptor = _opened(self._path)
        os.dup2(descriptor, self._descriptor, inheritable=False)
        self._lines.begin_file()
        os.close(descriptor)

    def close(self) -> None:
        """Write the remaining lines, within 1 s, and close the file. Later ones are dropped."""
        self._report_dropped(self._now())
        self._lines.flush()
        self._lines.close()
        if self._lines.is_written:  # else the thread could write to another file of that number
            os.close(self._descriptor)

    def flush(self) -> None:
        """Wait until every line is written, for at most a second."""
        self._lines.flush()

    def _report_dropped(self, now: float) -> None:
        if self._dropped:
            self._write(now, left_out=self._dropped)
            self._dropped = 0

    def _dropped_record(self, lines: int) -> logging.LogRecord:
        return _record(self._now(), left_out=lines)

    def _write(self, now: float, **fields: Any) -> None:
        self._lines.emit(_record(now, **fields))


def _record(now: float, **fields: Any) -> logging.LogRecord:
    time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    text = json.dumps({"time": time.replace("+00:00", "Z"), **fields})
    return logging.makeLogRecord({"msg": text, "args": ()})


def _report_failure(error: OSError) -> None:
    logger.error("cannot write the audit log; lines are lost", extra=fields(why=error))


def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
