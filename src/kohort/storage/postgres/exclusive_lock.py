"""The lock for exclusive use of all tables: copies hold it, and no server serves meanwhile.

An advisory lock keeps servers, which share it, and copies apart. A server that has lost its lock
with a connection shows by its lease that it is there; if it does not, it is fenced.
"""

import asyncio
from typing import Final

from kohort.errors import KohortError, fresh
from kohort.storage.postgres.fence import LOCK, RENEWAL_INTERVAL_S
from kohort.storage.postgres.link import Connection

EXCLUSIVE: Final = -1
"""Instead of a node id: an exclusive lock."""
_CLAIM: Final = "select pg_try_advisory_lock($1, hashtext(current_schema() || ' copy'))"
_SHARE: Final = "select pg_try_advisory_lock_shared($1, hashtext(current_schema() || ' copy'))"
_LEASE: Final = "select max(lease_until) from nodes where lease_until > now()"


async def lock(connection: Connection, node: int) -> bool:
    """Lock the tables while the connection lasts: shared by nodes, or exclusive for `EXCLUSIVE`.

    False if another process has a conflicting lock.
    """
    return bool(await connection.fetchval(_CLAIM if node == EXCLUSIVE else _SHARE, LOCK))


async def ensure_locked(connection: Connection, node: int) -> None:
    """`lock`, or raise KohortError."""
    if not await lock(connection, node):
        raise fresh(_IN_USE if node == EXCLUSIVE else _IS_COPIED)


async def fence_all(connection: Connection) -> None:
    """End the sessions of all servers. Raises KohortError if one is alive."""
    lease = await connection.fetchval(_LEASE)
    if lease is not None:
        await asyncio.sleep(2.5 * RENEWAL_INTERVAL_S)
        if await connection.fetchval(_LEASE) not in (None, lease):
            raise fresh(_IN_USE)
    await connection.execute("update nodes set session = session + 1, lease_until = null")


_IS_COPIED: Final = KohortError(
    "kohort storage uses the tables: start the server when it has ended"
)
_IN_USE: Final = KohortError("a server or another kohort storage uses the tables: stop it first")
