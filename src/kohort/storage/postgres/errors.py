"""Outcome of a statement: committed, refused, or unknown.

A statement that failed with an SQLSTATE was rolled back, unless the server was shutting down: it
may have committed before its connection was closed. Every other exception says nothing: the answer
may have been lost, or be cut.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from asyncpg import InterfaceError, InternalClientError, PostgresError

from kohort.cluster import UnknownOutcomeError

_UNKNOWN_CLASSES: Final = ("08", "57")
"""Of SQLSTATE: loss of the connection, and the operator's intervention."""
_RETRIABLE_STATES: Final = ("25006", "25P03", "40001", "40P01", "53300", "55P03")
"""Read-only (a standby, until it is promoted), a transaction that was idle for too long, conflicts,
too many connections, lock timeout.
"""

_LOST: Final = re.compile(r"another operation|connection is closed|connection was closed")
"""asyncpg's words for what a statement meets that is sent while its connection ends."""


class DatabaseError(OSError):
    """PostgreSQL cannot be reached, or did not do what it was asked; certainly nothing happened."""

    def __str__(self) -> str:
        """The message alone: the error has no errno."""
        return self.strerror or super().__str__()


class StatementRefusedError(DatabaseError):
    """PostgreSQL refused a statement and rolled it back; others may succeed."""


@contextlib.contextmanager
def outcome() -> Iterator[None]:
    """Convert errors of asyncpg inside to StatementRefusedError or UnknownOutcomeError.

    DatabaseError and FencedError are not changed.
    """
    try:
        yield
    except PostgresError as error:
        state = error.sqlstate or ""
        if state.startswith(_UNKNOWN_CLASSES) or state in _RETRIABLE_STATES:
            raise UnknownOutcomeError(str(error)) from error
        raise StatementRefusedError(None, f"PostgreSQL: {error} ({state})") from error
    except (InterfaceError, InternalClientError, OSError, EOFError) as error:
        if isinstance(error, DatabaseError):
            raise
        raise UnknownOutcomeError(_text(error)) from error


def _text(error: Exception) -> str:
    """Text for operators of an error that leaves the outcome unknown."""
    if isinstance(error, InternalClientError) or _LOST.search(str(error)):
        return "the connection was lost"
    silent = "no response in time" if isinstance(error, TimeoutError) else type(error).__name__
    return str(error) or silent
