"""Write permission of a node: its rows in the table of nodes.

Every write locks the row of its lane (`for share`) and names the lane's session. A takeover
increments the session numbers. It waits for writes in flight; later writes with the old number are
rejected. A process that was replaced therefore writes nothing.

A lease and an advisory lock tell others that the process is there. They only keep two processes
from fighting for one node: safety does not rest on them, or on clocks.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from kohort.cluster import LEASE_MS, DuplicateNodeIdError, FencedError, UnknownOutcomeError
from kohort.errors import KohortError, fresh
from kohort.storage.postgres.errors import DatabaseError, outcome
from kohort.storage.postgres.link import Connection

LEASE: Final = -1
METADATA: Final = 0
STATE: Final = 1
"""The logs of coordinators."""
RECORDS: Final = (2, 3)
REMOVALS: Final = 8
OPERATIONS: Final = 9
CLUSTER: Final = 10
"""Marks a node of a cluster, which version 0.2 has to know; nothing is written by it."""
LANES: Final = (LEASE, METADATA, STATE, *RECORDS, REMOVALS, OPERATIONS, CLUSTER)

OPERATOR: Final = -2
"""The id of an operator, who leads nothing, and is shown to no node."""
RENEWAL_INTERVAL_S: Final = 0.5
LOCK: Final = 0x6B6F686F
LOCKS: Final = """
pg_locks l on l.locktype = 'advisory' and l.granted
and l.database = (select oid from pg_database where datname = current_database())
and l.classid::bigint = $2 and (
    l.objid::bigint = (hashtext(
        current_schema() || ' ' || n.node::text || ' ' || n.session::text
    )::bigint & 4294967295)
    or l.mode = 'ExclusiveLock' and l.objid::bigint = (hashtext(
        current_schema() || ' ' || n.node::text
    )::bigint & 4294967295)
)
"""
"""To be joined to a row `n` of a node with its last session: the locks that show its process."""
_TIMELINE: Final = "select left(pg_walfile_name(pg_current_wal_lsn()), 8)"
BOUNDED: Final = f"set_config('idle_in_transaction_session_timeout', '{LEASE_MS}', true)"
"""Has PostgreSQL end the transaction under way if its process hangs: others wait for its locks."""
_HOLD: Final = f"""
select {BOUNDED} from nodes where node = $1 and lane = $2 and session = $3 for share
"""  # of constants  # nosec B608
_BEGIN: Final = (
    f"select {BOUNDED}, "  # of constants  # nosec B608
    f"pg_advisory_xact_lock({LOCK}, hashtext(current_schema() || ' sessions'))"
)
"""Waits while another process begins a session. The table is not locked: leases are renewed."""
_END: Final = "update nodes set session = session + 1 where node = $1"
_OWN_STEP: Final = 1 << 30
"""A node rotates its own sessions by a random step of more than one; a takeover adds exactly one.
"""


class Fence:
    """The sessions of this process."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.lost: FencedError | None = None
        """Set once the session is over: another process has ended it, or this one gives it up."""
        self.on_lost: list[Callable[[], None]] = []
        self.timeline = ""
        """Timeline of the database in which the sessions began (`timeline_of`)."""
        self._sessions: dict[int, int] = {}
        self._steps: dict[int, int] = {}
        """The sessions that lanes are being changed to."""

    @property
    def claimed(self) -> int:
        """The session that `take` began, -1 before it."""
        return self._sessions.get(LEASE, -1)

    def session(self, lane: int) -> int:
        return self._sessions[lane]

    def lose(self, why: FencedError | None = None) -> FencedError:
        """End all writes, and call `on_lost` once. `why`: if another process is not the cause."""
        if self.lost is None:
            self.lost = why or FencedError()
            for tell in tuple(self.on_lost):
                tell()
        return fresh(self.lost)

    async def take(self, connection: Connection, *, after: "Fence | None" = None) -> None:
        """Take over from the former process of this node; waits for its writes in flight.

        The sessions are later than those of `after`, also in a database that has forgotten them.
        Raises what asyncpg raises.
        """
        former = {} if after is None else after._sessions
        sessions: dict[int, int] = {}
        async with connection.transaction():
            for lane in LANES:
                sessions[lane] = await connection.fetchval(
                    "insert into nodes (node, lane, session, lease_until) "
                    "values ($1, $2, $4::bigint + 1, "
                    "clock_timestamp() + make_interval(secs => $3)) "
                    "on conflict (node, lane) do update set "
                    "session = greatest(nodes.session, $4) + 1, "
                    "lease_until = excluded.lease_until returning session",
                    self.node,
                    lane,
                    LEASE_MS / 1000 if lane == LEASE else None,
                    former.get(lane, 0),
                )
        self._sessions, self._steps, self.lost = sessions, {}, None

    async def end_former(self, connection: Connection) -> None:
        """End the sessions of the process that was this node before; wait for its writes in flight.

        `take` waits for none then. Raises what asyncpg raises.
        """
        await connection.execute(_END, self.node)

    async def ensure_timeline(self, connection: Connection) -> None:
        """Raise FencedError if the database is not the one in which the sessions began.

        Raises UnknownOutcomeError if it is a standby, and what asyncpg raises.
        """
        if await timeline_of(connection) != self.timeline:
            raise self.lose(FencedError("the database has another history, as after a failover"))

    async def rotate_session(self, connection: Connection, lane: int) -> None:
        """Change the own session of a lane, so that a lost statement is not committed later.

        Waits for a statement that is in flight. Raises FencedError, and what asyncpg raises; the
        call may be repeated then.
        """
        before = self._sessions[lane]
        # Remembered, because the answer may be lost too.
        after = self._steps.setdefault(lane, before + 1 + random.randrange(1, _OWN_STEP))
        session = await connection.fetchval(
            "update nodes set session = $3 where node = $1 and lane = $2 and session = any($4) "
            "returning session",
            self.node,
            lane,
            after,
            [before, after],
        )
        if session is None:
            raise self.lose()
        self._sessions[lane] = self._steps.pop(lane)

    async def lock_session(self, connection: Connection, lane: int) -> None:
        """Lock the lane's row for the transaction under way. Raises FencedError."""
        if not await self.try_lock_session(connection, lane):
            raise self.lose()

    async def try_lock_session(self, connection: Connection, lane: int) -> bool:
        """Lock the lane's row for the transaction under way; False if the session is over.

        Does not call `on_lost`; safe to call from any thread.
        """
        held = await connection.fetchval(
            _HOLD,
            self.node,
            lane,
            self._sessions[lane],
        )
        return held is not None

    async def renew(self, connection: Connection) -> None:
        """Renew the lease. Raises FencedError, and what asyncpg raises."""
        done = await connection.execute(
            "update nodes set lease_until = now() + make_interval(secs => $4) "
            "where node = $1 and lane = $2 and session = $3",
            self.node,
            LEASE,
            self._sessions[LEASE],
            LEASE_MS / 1000,
        )
        if done != "UPDATE 1":
            raise self.lose()

    async def end(self, connection: Connection) -> None:
        """End the session and the lease: nothing is written any more. Raises what asyncpg raises.

        Nothing happens if it is over.
        """
        async with connection.transaction():
            await end_session(connection, self.node, self._sessions[LEASE])


async def timeline_of(connection: Connection) -> str:
    """Timeline of the database: another one after each promotion or restore.

    "" if the database does not say. Raises UnknownOutcomeError if it is a standby, or lost, and
    what asyncpg raises.
    """
    if await connection.fetchval("select pg_is_in_recovery()"):
        raise UnknownOutcomeError("the database is a standby")
    try:
        with outcome():
            return str(await connection.fetchval(_TIMELINE))
    except DatabaseError:
        return ""


async def end_session(connection: Connection, node: int, session: int) -> None:
    """End a session of a node, in the transaction under way; waits for its writes in flight.

    A node that has another session is left alone.
    """
    ended = await connection.fetchval(
        "update nodes set session = session + 1, lease_until = null "
        "where node = $1 and lane = $2 and session = $3 returning true",
        node,
        LEASE,
        session,
    )
    if ended:
        await connection.execute(
            "update nodes set session = session + 1 where node = $1 and lane <> $2", node, LEASE
        )


_ALONE: Final = (
    "select node from nodes n where lane = $1 and node <> $2 "
    "and not exists (select from nodes m where m.node = n.node and m.lane = $3)"
)
"""Nodes that serve, or served, from a database without others."""


async def ensure_cluster(connection: Connection, node: int) -> None:
    """Raise KohortError if a server that is no node of a cluster has a lease.

    Up to version 0.2, servers without cluster.enabled=true were such. The session of one whose
    lease is over is ended. None begins a session before the end of the transaction under way.
    """
    await connection.execute(_BEGIN)
    other = await connection.fetchval(f"{_ALONE} and lease_until > now()", LEASE, node, CLUSTER)
    if other is not None:
        raise KohortError(
            f"node {other} serves from this database with Kohort of an earlier version, without "
            "cluster.enabled=true: stop it, or choose another database, or another schema by "
            "search_path"
        )
    for (ended,) in await connection.fetch(_ALONE, LEASE, node, CLUSTER):
        await connection.execute(_END, ended)


def taken(node: int) -> KohortError:
    """The error of a node id that another process has."""
    if node == OPERATOR:
        return KohortError("another operator changes the cluster now: try again")
    return DuplicateNodeIdError(node)


def lane_of(topic: str, log: int) -> int:
    """The lane that a log's batches go by."""
    if topic in _STATE_TOPICS:
        return STATE
    return RECORDS[log % len(RECORDS)]


_STATE_TOPICS: Final[Sequence[str]] = ("__consumer_offsets", "__transaction_state")
