"""Poolers between Kohort and PostgreSQL, as PgBouncer.

Advisory locks, LISTEN and prepared statements last as long as a session. A pooler of transactions
gives one session to many connections in turn.
"""

from typing import Final

from asyncpg import DuplicatePreparedStatementError, InvalidSQLStatementNameError

from kohort.errors import KohortError
from kohort.storage.postgres.link import Connection, Link

SHARED: Final = (
    "a pooler shares sessions between transactions: set pool_mode=session, or go around it"
)


async def has_own_session(connection: Connection, other: Connection) -> bool:
    """Whether two connections have a session each. Raises what asyncpg raises."""

    async def session(of: Connection) -> object:
        return await of.fetchval("select pg_backend_pid()")

    try:
        first = await session(connection)
        # A pooler of transactions gives the session that is free to the other connection.
        async with other.transaction():
            others = await session(other)
            return bool(first == await session(connection) != others)
    except (DuplicatePreparedStatementError, InvalidSQLStatementNameError):
        return False


async def ensure_own_session(connection: Connection, url: str) -> None:
    """Raise KohortError if connections by the URL share sessions, and what asyncpg raises."""
    other = Link(url, "kohort session")
    try:
        if not await has_own_session(connection, await other.get()):
            raise KohortError(SHARED)
    finally:
        await other.close()
