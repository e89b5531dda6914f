"""The `SharedStorage` of a cluster: the metadata log as rows, and the table of nodes.

A batch of the metadata log is inserted with the end of the log as its key, so of two nodes that
append at the same offset one is refused. The insert holds the row of its own node, and ends the
sessions of others in the same transaction. Compaction replaces all rows up to an end by those of a
snapshot; `logs.cleaned` is that end, which tells a node that has read less.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from asyncpg import UniqueViolationError

from kohort.cluster.observed import Liveness, Observed
from kohort.cluster.storage import (
    FencedError,
    HistoryLostError,
    Logged,
    UnknownOutcomeError,
)
from kohort.errors import KohortError, fresh
from kohort.log.directory_format import METADATA_ID
from kohort.protocol.batch_format import START
from kohort.protocol.batches import read_header
from kohort.storage.postgres import exclusive_lock, schema
from kohort.storage.postgres.cluster.node_lock import RESTART_GRACE_S, NodeLock
from kohort.storage.postgres.cluster.shared_link import SharedLink
from kohort.storage.postgres.fence import (
    BOUNDED,
    LEASE,
    LOCK,
    LOCKS,
    METADATA,
    Fence,
    end_session,
    ensure_cluster,
    timeline_of,
)
from kohort.storage.postgres.link import Connection, Link
from kohort.types import Timestamp, TopicPartition

logger = logging.getLogger("kohort.log")

READ_BYTES: Final = 1 << 20
_NOTIFICATION_TIMEOUT_S: Final = 0.5
"""A notification may be lost with its connection."""

_FIND: Final = "select id from logs where topic = $1 and partition = $2 and state = 'live'"
_MAKE: Final = (
    "insert into logs (id, topic, partition, topic_id) values (nextval('log_ids'), $1, $2, $3) "
    "on conflict (topic, partition) where state = 'live' do nothing"
)
_CHANNEL: Final = "select 'kohort_' || md5(current_schema())"
"""A name of a schema may be as long as that of a channel."""
_END: Final = (
    "select greatest((select next from batches where log = $1 order by base desc limit 1), "
    "(select start_offset from logs where id = $1))"
)
_READ: Final = (
    "select l.cleaned, b.data from logs l left join lateral ("
    "  select base, data from batches where log = l.id and base >= coalesce("
    "  (select max(base) from batches where log = l.id and base <= $2), 0) and next > $2 "
    "  order by base limit 500"
    ") b on true where l.id = $1 order by b.base"
)
_SNAPSHOT: Final = (
    "select l.cleaned, b.data from logs l join batches b on b.log = l.id and b.base < l.cleaned "
    "where l.id = $1 order by b.base"
)
_COMPACTED: Final = (
    "update logs set start_offset = $2, cleaned = $3 where id = $1 and cleaned < $3 returning true"
)
_KNOWN: Final = (
    "select l.cleaned, b.data from logs l left join batches b on b.log = l.id and b.base = $2 "
    "where l.id = $1"
)
_COMPACTED_AWAY: Final = (
    "delete from batches where log = $1 and base < $2",
    "delete from segments where log = $1 and base < $2",
)
_INSERT: Final = (
    "insert into batches (log, base, next, epoch, max_ts, data) values ($1, $2, $3, $4, $5, $6)"
)
_APPEND: Final = f"""
with fence as (
    select {BOUNDED} from nodes where node = $7 and lane = $8 and session = $9 for share
), appended as (
    insert into batches (log, base, next, epoch, max_ts, data)
    select $1::int, $2::bigint, $3::bigint, $4::int, $5::bigint, $6::bytea from fence
    where ({_END}) = $2
    returning next
)
select (select count(*) from fence), (select count(pg_notify($10, next::text)) from appended)
"""  # of constants  # nosec B608
_NODES: Final = (
    "select now() as now, pg_postmaster_start_time() as started, n.node, n.session, "  # nosec B608
    "n.lease_until, l.objid is not null as holds_lock "
    f"from (select) one left join nodes n on n.lane = $1 and n.node >= 0 left join {LOCKS}"
)


class _Row(NamedTuple):
    log: int
    base: int
    next: int
    epoch: int
    max_timestamp: int
    data: bytes


class PostgresStorage:
    """The storage that the nodes of a cluster share. For one event loop."""

    def __init__(
        self,
        url: str,
        fence: Fence,
        metadata: TopicPartition,
        on_claimed: Callable[[Fence], None] = lambda _: None,
    ) -> None:
        """`fence` is the node's; `metadata` is the log of the cluster.

        `on_claimed` learns of each session that begins, which has a fence of its own.
        """
        self.fence = fence
        self._on_claimed = on_claimed
        self._metadata = metadata
        name = f"kohort node {fence.node} cluster"
        self._locking = SharedLink(Link(url, f"{name} lock"))
        self._leasing = SharedLink(Link(url, f"{name} lease", self._ensure_same))
        self._appending = SharedLink(Link(url, f"{name} appends", self._ensure_same))
        self._reading = SharedLink(Link(url, f"{name} reads", self._await_timeline))
        self._listening = SharedLink(Link(url, f"{name} listens"))
        self._lock = NodeLock(fence.node)
        self._is_closed = False
        self._locking_again: asyncio.Task[None] | None = None
        self._listened: Connection | None = None
        self._number: int | None = None
        self._last: _Row | None = None
        """The last batch of the metadata log that this process has read or appended."""
        self._is_settled = True
        """True if no abandoned append can still commit."""
        self._channel = ""
        self._known_end = 0
        self._grown = asyncio.Event()

    @property
    def node_id(self) -> int:
        return self.fence.node

    @property
    def session(self) -> int:
        return self.fence.claimed

    async def ensure_made(self) -> None:
        """Raise KohortError unless there are tables that a server of this version knows.

        Raises OSError, UnknownOutcomeError.
        """
        async with self._reading.use() as connection:
            version = await schema.tables_version(connection)
        schema.ensure_known(version)
        if version == 0:
            raise KohortError(
                "the schema has no tables of Kohort: name that of the cluster by the search_path "
                "of the URL, or start a node, which makes them"
            )
        if version < 0:
            raise fresh(schema.INCOMPLETE)

    async def claim(self) -> int:
        former, fence = self.fence, Fence(self.node_id)
        former.lose(FencedError("this node begins another one"))
        if former.claimed >= 0:
            async with self._leasing.use() as connection:
                await self._lock.release(connection)
        async with self._locking.use() as connection:
            await self._lock.release(connection)
            await self._prepare(connection)
            await exclusive_lock.ensure_locked(connection, self.node_id)
            fence.timeline = await timeline_of(connection)
            await self._ensure_history(connection)
            # Each statement sees what others have committed before it.
            async with connection.transaction(isolation="read_committed"):
                await self._lock.ensure_free(connection, former.claimed)
                # First: no other node has to wait for the writes of this one.
                await fence.end_former(connection)
                await ensure_cluster(connection, self.node_id)
                await fence.take(connection, after=former)
                await self._lock.acquire(connection, fence.claimed)
            self.fence, self._is_settled = fence, True
            connection.add_termination_listener(self._lock_lost)
        self._on_claimed(fence)
        with contextlib.suppress(OSError, UnknownOutcomeError):  # `renew` tries it again
            async with self._leasing.use() as connection:
                await self._lock.acquire(connection, self.session)
        return self.session

    async def _prepare(self, connection: Connection) -> None:
        """Create the tables or migrate them, as `schema.prepare`.

        Raises HistoryLostError if this process has read a cluster whose tables are gone.
        """
        if self._last is not None and await schema.tables_version(connection) == 0:
            raise self._lost(self._last)
        await schema.prepare(connection)

    async def _ensure_same(self, connection: Connection) -> None:
        """Raise FencedError or HistoryLostError if the database has another history."""
        if self.fence.lost is None and self.session >= 0:
            await self.fence.ensure_timeline(connection)
            await self._ensure_history(connection)

    async def _await_timeline(self, connection: Connection) -> None:
        """Raise UnknownOutcomeError until a session has begun in this history.

        Raises HistoryLostError.
        """
        if await timeline_of(connection) != self.fence.timeline and self.session >= 0:
            raise UnknownOutcomeError("the database has another history")
        await self._ensure_history(connection)  # what is read on may continue what was lost

    async def _ensure_history(self, connection: Connection) -> None:
        """Raise HistoryLostError if the last batch that is known is not in the metadata log.

        One that was compacted away since is taken to have been there.
        """
        last = self._last
        if last is None:
            return
        row = await connection.fetchrow(_KNOWN, last.log, last.base)
        cleaned, data = row or (0, None)
        if cleaned < last.next and data != last.data:
            raise self._lost(last)

    def _lost(self, last: _Row) -> HistoryLostError:
        lost = HistoryLostError(last.next)
        self.fence.lose(FencedError(str(lost)))
        return lost

    async def renew(self) -> None:
        if self.fence.lost is not None:
            raise fresh(self.fence.lost)
        async with self._leasing.use() as connection:
            await self.fence.renew(connection)
            await self._lock.acquire(connection, self.session)
        await self._lock_again()

    async def _lock_again(self) -> None:
        """Lock the node again if the connection was lost. Raises OSError, UnknownOutcomeError."""
        async with self._locking.use() as connection:
            if self.fence.lost is None and not self._lock.is_held_by(connection):
                await exclusive_lock.lock(connection, self.node_id)
                if await self._lock.acquire(connection, self.session):
                    connection.add_termination_listener(self._lock_lost)
                    logger.info("lock of this node acquired again")

    def _lock_lost(self, _connection: object) -> None:
        if self.fence.lost is None and not self._is_closed:
            logger.warning("lost the connection that holds the lock of this node")
            self._locking_again = asyncio.create_task(self._lock_soon())

    async def _lock_soon(self) -> None:
        with contextlib.suppress(OSError, UnknownOutcomeError):  # `renew` tries it again
            await self._lock_again()

    async def release(self) -> None:
        async with self._leasing.use() as connection:
            await self.fence.end(connection)
            await self._lock.release(connection)
        self.fence.lose(FencedError("this node has released it"))
        await self._locking.close()

    async def observe(self) -> Observed:
        async with self._leasing.use() as connection:
            rows = await connection.fetch(_NODES, LEASE, LOCK)
        now, started = rows[0]["now"], rows[0]["started"]
        nodes = {
            row["node"]: Liveness(row["session"], _timestamp(row["lease_until"]), row["holds_lock"])
            for row in rows
            if row["node"] is not None
        }
        since = _timestamp(now) - _timestamp(started)
        return Observed(_timestamp(now), nodes, trusts_locks=since > 1000 * RESTART_GRACE_S)

    # The metadata log

    async def _log(self, connection: Connection) -> int:
        """The number of the metadata log, which is made if there is none."""
        if self._number is None:
            number = await connection.fetchval(_FIND, *self._metadata)
            if number is None:
                await connection.execute(_MAKE, *self._metadata, METADATA_ID)
                number = await connection.fetchval(_FIND, *self._metadata)
            self._channel = await connection.fetchval(_CHANNEL)
            self._number = int(number)  # at last: another task goes by it
        return self._number

    async def _exclude_abandoned_append(self, connection: Connection) -> None:
        """Ensure that no abandoned append commits from now on. Raises FencedError.

        Without it, it could be committed after others were read that do not show it.
        """
        if not self._is_settled:
            await self.fence.rotate_session(connection, METADATA)
            self._is_settled = True

    async def read(self, offset: int) -> Logged:
        if not self._is_settled:
            with contextlib.suppress(FencedError):  # who has ended the session has waited for it
                async with self._appending.use() as connection:
                    await self._exclude_abandoned_append(connection)
        async with self._reading.use() as connection:
            log = await self._log(connection)
            rows = await connection.fetch(_READ, log, offset)
            if rows[0]["cleaned"] > offset:
                rows = await connection.fetch(_SNAPSHOT, log)
                self._remember(log, [data for _, data in rows])
                return Logged(b"".join(data for _, data in rows), rows[0]["cleaned"])
        batches: list[bytes] = []
        size = 0
        for _, data in rows:
            if data is None or (batches and size + len(data) > READ_BYTES):
                break
            batches.append(data)
            size += len(data)
        self._remember(log, batches)
        return Logged(b"".join(batches))

    def _remember(self, log: int, batches: Sequence[bytes]) -> None:
        """Remember the last of these rows, each of which has one batch."""
        if batches:
            self._last = _row(log, batches[-1])

    async def compact(self, end_offset: int, batches: Sequence[bytes]) -> None:
        async with self._appending.use() as connection:
            log = await self._log(connection)
            batches = [self._in_epoch(batch) for batch in batches]
            rows = [_row(log, batch) for batch in batches]
            async with connection.transaction():
                await self.fence.lock_session(connection, METADATA)
                start_offset = rows[0].base if rows else end_offset
                if not await connection.fetchval(_COMPACTED, log, start_offset, end_offset):
                    return
                for delete in _COMPACTED_AWAY:
                    await connection.execute(delete, log, end_offset)
                await connection.executemany(_INSERT, rows)
            self._remember(log, batches)

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        async with self._appending.use() as connection:
            log = await self._log(connection)
            row = _row(log, self._in_epoch(batch))._replace(base=end_offset)
            await self._exclude_abandoned_append(connection)
            self._is_settled = False
            is_appended = await self._insert(connection, row, fences)
            self._is_settled = True
            if is_appended:
                self._last = row
        return is_appended

    def _in_epoch(self, batch: bytes) -> bytes:
        """The batch in the leader epoch of the one before it: a copy of the log needs one.

        The log has no leader, and a copy of a directory may have left it in a later epoch than 0.
        """
        base_offset, length, _ = START.unpack_from(batch)
        epoch = 0 if self._last is None else self._last.epoch
        return START.pack(base_offset, length, epoch) + batch[START.size :]

    async def _insert(self, connection: Connection, row: _Row, fences: Mapping[int, int]) -> bool:
        try:
            async with connection.transaction() if fences else contextlib.nullcontext():
                if not await self._append(connection, row):
                    return False
                for node in sorted(fences):
                    await end_session(connection, node, fences[node])
        except UniqueViolationError:
            return False
        return True

    async def _append(self, connection: Connection, row: "_Row") -> bool:
        """Append at the end by one statement. Raises FencedError, UniqueViolationError."""
        session = self.fence.session(METADATA)
        holds, appended = await connection.fetchrow(
            _APPEND, *row, self.node_id, METADATA, session, self._channel
        )
        if not holds:
            raise self.fence.lose()
        return bool(appended)

    async def wait_beyond(self, offset: int) -> None:
        async with self._listening.use() as connection:
            if connection is not self._listened:
                await self._log(connection)
                await connection.add_listener(self._channel, self._on_notification)
                self._listened = connection
        if self._known_end <= offset:
            self._grown.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NOTIFICATION_TIMEOUT_S):
                    await self._grown.wait()

    def _on_notification(
        self, _connection: object, _process: int, _channel: str, payload: object
    ) -> None:
        self._known_end = max(self._known_end, int(str(payload)))
        self._grown.set()

    async def close(self) -> None:
        """Close all connections; the session and the lease stay."""
        self._is_closed = True
        if self._locking_again is not None:
            self._locking_again.cancel()
        for link in (
            self._locking, self._leasing, self._appending, self._reading, self._listening,
        ):  # fmt: skip
            await link.close()


def _row(log: int, batch: bytes) -> _Row:
    header = read_header(batch)
    return _Row(
        log,
        header.base_offset,
        header.last_offset + 1,
        header.partition_leader_epoch,
        header.max_timestamp,
        batch,
    )


def _timestamp(time: datetime | None) -> Timestamp:
    return Timestamp(0 if time is None else int(time.timestamp() * 1000))
