"""Who may write: a node's rows in the table of nodes.

Every write locks the row of its lane (`for share`) and names the lane's session. Who takes the
node's place changes the sessions, which waits for writes in flight and refuses all later ones. So a
process that was replaced writes nothing, whatever it believes.

A lease and an advisory lock tell others that the process is there. They only keep two processes
from fighting for one node: safety does not rest on them, or on clocks.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final

from kohort.errors import KohortError
from kohort.log.postgres.link import Connection
from kohort.log.postgres.outcomes import FencedError

LEASE: Final = -1
METADATA: Final = 0
STATE: Final = 1
"""The logs of coordinators."""
RECORDS: Final = (2, 3)
OPERATIONS: Final = 9
LANES: Final = (LEASE, METADATA, STATE, *RECORDS, OPERATIONS)

LEASE_S: Final = 3.0
RENEWED_EVERY_S: Final = 0.5
_LOCK: Final = 0x6B6F686F
_OWN_STEP: Final = 1 << 30
"""A node steps its own sessions by more than one, and at random: nobody who takes its place does.
"""


class Fence:
    """The sessions of this process."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.lost: FencedError | None = None
        """Set once another process has taken this one's place."""
        self.on_lost: list[Callable[[], None]] = []
        self._sessions: dict[int, int] = {}
        self._steps: dict[int, int] = {}
        """The sessions that lanes are being changed to."""

    def session(self, lane: int) -> int:
        return self._sessions[lane]

    def lose(self) -> FencedError:
        """Write nothing any more; tells others once."""
        if self.lost is None:
            self.lost = FencedError()
            for tell in tuple(self.on_lost):
                tell()
        return self.lost

    async def take(self, connection: Connection) -> None:
        """Take the place of whoever was this node before; waits for its writes in flight.

        Raises what asyncpg raises.
        """
        for lane in LANES:
            self._sessions[lane] = await connection.fetchval(
                "insert into nodes (node, lane, session) values ($1, $2, 1) "
                "on conflict (node, lane) do update set session = nodes.session + 1 "
                "returning session",
                self.node,
                lane,
            )
        await self.renew(connection)

    async def step(self, connection: Connection, lane: int) -> None:
        """Change the own session of a lane: a statement that was lost is not committed later.

        It waits for one that is in flight. Raises FencedError, and what asyncpg raises; it may be
        repeated then.
        """
        before = self._sessions[lane]
        # Remembered, because the answer may be lost too.
        after = self._steps.setdefault(lane, before + 1 + random.randrange(1, _OWN_STEP))
        found = await connection.fetchval(
            "update nodes set session = $3 where node = $1 and lane = $2 and session = any($4) "
            "returning session",
            self.node,
            lane,
            after,
            [before, after],
        )
        if found is None:
            raise self.lose()
        self._sessions[lane] = self._steps.pop(lane)

    async def hold(self, connection: Connection, lane: int) -> None:
        """Lock the lane's row for the transaction under way. Raises FencedError."""
        found = await connection.fetchval(
            "select 1 from nodes where node = $1 and lane = $2 and session = $3 for share",
            self.node,
            lane,
            self._sessions[lane],
        )
        if found is None:
            raise self.lose()

    async def renew(self, connection: Connection) -> None:
        """Renew the lease. Raises FencedError, and what asyncpg raises."""
        done = await connection.execute(
            "update nodes set lease_until = now() + make_interval(secs => $4) "
            "where node = $1 and lane = $2 and session = $3",
            self.node,
            LEASE,
            self._sessions[LEASE],
            LEASE_S,
        )
        if done != "UPDATE 1":
            raise self.lose()

    async def release(self, connection: Connection) -> None:
        """End the lease, for the next process. Raises what asyncpg raises."""
        await connection.execute(
            "update nodes set lease_until = null where node = $1 and lane = $2 and session = $3",
            self.node,
            LEASE,
            self._sessions[LEASE],
        )


async def lock_node(connection: Connection, node: int) -> bool:
    """Lock the id of a node as long as the connection lasts; False if another process has it."""
    return bool(
        await connection.fetchval(
            "select pg_try_advisory_lock($1, hashtext(current_schema() || ' ' || $2::text))",
            _LOCK,
            str(node),
        )
    )


async def ensure_free(connection: Connection, node: int) -> None:
    """Lock the id of this node. Raises KohortError if a living process has it.

    A process may have lost its lock with a connection, and renew its lease all the same: that is
    waited for.
    """
    if not await lock_node(connection, node):
        raise _taken(node)
    lease = await _live_lease(connection, node)
    if lease is None:
        return
    await asyncio.sleep(2.5 * RENEWED_EVERY_S)
    if await _live_lease(connection, node) not in (None, lease):
        raise _taken(node)


async def _live_lease(connection: Connection, node: int) -> object:
    return await connection.fetchval(
        "select lease_until from nodes where node = $1 and lane = $2 and lease_until > now()",
        node,
        LEASE,
    )


def _taken(node: int) -> KohortError:
    return KohortError(
        f"another process serves as node {node} from this database: stop it, or give this one "
        "another node.id"
    )


def lane_of(topic: str, log: int) -> int:
    """The lane that a log's batches go by."""
    if topic in _STATE_TOPICS:
        return STATE
    return RECORDS[log % len(RECORDS)]


_STATE_TOPICS: Final[Sequence[str]] = ("__consumer_offsets", "__transaction_state")
