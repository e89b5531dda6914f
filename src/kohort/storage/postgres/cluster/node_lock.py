"""The lock of a session, which shows that the process with the session is alive.

A process locks its session by two connections: the loss of one of them does not look like the end
of the process. A process that was suspended while another one took its id has the lock of a former
session, which nobody asks for. A claim of a node id goes by the lease and by the lock of the last
session:

| lease | lock | the id |
|---|---|---|
| over | | is free |
| not over | a process has it | is in use |
| not over | nobody has it | is free: the process was killed |
| not over | nobody has it, and PostgreSQL was restarted a moment ago | is free after the lease |

Version 0.2 knows a lock of the node instead, which one connection has alone. It is respected here,
and shared so that nodes of that version see it.
"""

from typing import Final

from kohort.cluster import LEASE_MS
from kohort.storage.postgres.errors import DatabaseError
from kohort.storage.postgres.fence import BOUNDED, LEASE, LOCK, LOCKS, taken
from kohort.storage.postgres.link import Connection

_NODE: Final = "hashtext(current_schema() || ' ' || $2::text)"
_SESSION: Final = "hashtext(current_schema() || ' ' || $2::text || ' ' || $3::text)"
_ACQUIRE: Final = (
    f"select pg_try_advisory_lock_shared($1, {_SESSION}) "  # nosec B608
    f"and pg_try_advisory_lock_shared($1, {_NODE})"
)
_BEGIN_CLAIM: Final = (
    f"select {BOUNDED}, "
    "pg_advisory_xact_lock($1, hashtext(current_schema() || ' claim ' || $2::text))"
)
"""Waits while another process claims the id."""
_FORMER: Final = f"""
select n.lease_until > clock_timestamp() as has_lease, n.session = $4 as is_own,
    clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => $5) as trusts_locks,
    exists (select from (select) one join {LOCKS}) as is_locked
from nodes n where n.lane = $1 and n.node = $3 for update
"""  # of constants  # nosec B608
"""Locks the row: a renewal by the former process is seen here or waits until the claim ends."""
RESTART_GRACE_S: Final = 2 * LEASE_MS / 1000
"""Time after a restart of PostgreSQL within which a live process may not have its locks yet."""


class NodeLock:
    """The lock of the session of this process."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._holders: set[Connection] = set()

    def is_held_by(self, connection: Connection) -> bool:
        return connection in self._holders

    async def acquire(self, connection: Connection, session: int) -> bool:
        """Lock the session as long as the connection lasts. Raises what asyncpg raises.

        False if a process of version 0.2 has the lock of the node: then nodes of that version do
        not see this one.
        """
        if connection not in self._holders:
            if not await connection.fetchval(_ACQUIRE, LOCK, str(self._node_id), str(session)):
                return False
            self._holders.add(connection)
            connection.add_termination_listener(self._holders.discard)
        return True

    async def release(self, connection: Connection) -> None:
        """Release all locks of the connection. Raises what asyncpg raises."""
        await connection.execute("select pg_advisory_unlock_all()")
        self._holders.discard(connection)

    async def ensure_free(self, connection: Connection, session: int) -> None:
        """Raise KohortError if another process that is alive has the id.

        To be called in the transaction that takes the id: no other process takes it before the end
        of that. `session` is the last one of this process, which has released its lock. Raises
        DatabaseError while nothing is known, for the rest of a lease at most, and what asyncpg
        raises.
        """
        node = self._node_id
        await connection.fetchrow(_BEGIN_CLAIM, LOCK, str(node))
        former = await connection.fetchrow(_FORMER, LEASE, LOCK, node, session, RESTART_GRACE_S)
        if former is None or not former["has_lease"]:
            return
        if former["is_locked"]:
            raise taken(node)
        if not (former["is_own"] or former["trusts_locks"]):
            raise DatabaseError(
                None,
                f"PostgreSQL was restarted: the former process of node {node} may be alive until "
                "its lease is over",
            )
