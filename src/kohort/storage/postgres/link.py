"""One connection to PostgreSQL, opened on first use and reopened after it was lost."""

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from kohort.storage.postgres.errors import DatabaseError, outcome

Connection: TypeAlias = "asyncpg.Connection[Any]"
Opened: TypeAlias = Callable[[Connection], Awaitable[None]]

CONNECT_TIMEOUT_S: Final = 5.0
STATEMENT_TIMEOUT_S: Final = 30.0
"""A statement that takes longer is given up, and its outcome is unknown."""
_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    # A statement that was given up may wait for a lock: each retry would keep one more connection.
    "statement_timeout": f"{STATEMENT_TIMEOUT_S + 10:.0f}s",
    # A machine that is gone holds its locks for 10 s, not for hours.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "5",
}
TIMEOUTS: Final = (
    "idle_session_timeout", "idle_in_transaction_session_timeout", "transaction_timeout",
    "lock_timeout",
)  # fmt: skip
"""Timeouts that a role, a database or a server may set; connections set them to 0.

The connection with a node's lock has nothing to do for hours. Not all versions know each of them.
"""
_SET_TIMEOUTS: Final = (
    "select set_config(name, '0', false) from pg_settings where setting <> '0' and name in "
    f"{TIMEOUTS}"  # of constants  # nosec B608
)
MIN_RETRY_INTERVAL_S: Final = 0.02
MAX_RETRY_INTERVAL_S: Final = 1.0
_FILES: Final = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})


class Link:
    """A connection of one event loop; the owner has one statement at a time."""

    def __init__(self, url: str, name: str, opened: Opened | None = None) -> None:
        """`name` is what PostgreSQL shows of the connection.

        `opened` is called with each new one, which is not used if that raises.
        """
        self._url = url
        self._name = name
        self._opened = opened
        self._connection: Connection | None = None

    async def get(self) -> Connection:
        """The connection. Raises DatabaseError if it is refused, UnknownOutcomeError if lost.

        Raises what `opened` does.
        """
        if self._connection is None or self._connection.is_closed():
            with outcome():
                with _named_file(self._url), _address():
                    self._connection = await asyncpg.connect(
                        self._url,
                        timeout=CONNECT_TIMEOUT_S,
                        command_timeout=STATEMENT_TIMEOUT_S,
                        server_settings={"application_name": self._name, **_SETTINGS},
                    )
                await self._make_usable(self._connection)
        return self._connection

    async def _make_usable(self, connection: Connection) -> None:
        usable = False
        try:
            await connection.execute(_SET_TIMEOUTS)  # not prepared: a pooler may be in between
            if self._opened is not None:
                await self._opened(connection)
            usable = True
        finally:
            if not usable:
                self.drop()

    def another(self) -> "Link":
        """A connection beside this one, for a short time."""
        return Link(self._url, self._name)

    def drop(self) -> None:
        """Close the connection at once: the next use opens another."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(RuntimeError):  # its event loop has ended
                connection.terminate()

    async def close(self) -> None:
        """Close the connection as PostgreSQL likes it, without waiting long."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                await connection.close(timeout=1.0)
            except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()


@contextlib.contextmanager
def _named_file(url: str) -> Iterator[None]:
    """Name the file of the URL in an error; Python's `ssl` does not."""
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        for name, path in parse_qsl(urlsplit(url).query):
            if name in _FILES and not os.access(path, os.R_OK):
                raise OSError(error.errno, f"{name}: {error.strerror}", path) from error
        raise


@contextlib.contextmanager
def _address() -> Iterator[None]:
    """Raise DatabaseError for a host or a port that Python refuses."""
    try:
        yield
    except (UnicodeError, OverflowError) as error:
        raise DatabaseError(None, f"no address of PostgreSQL: {error}") from error


def retry_delays() -> list[float]:
    """Seconds between attempts; the last one is repeated."""
    delays = [MIN_RETRY_INTERVAL_S]
    while delays[-1] < MAX_RETRY_INTERVAL_S:
        delays.append(min(2 * delays[-1], MAX_RETRY_INTERVAL_S))
    return delays
