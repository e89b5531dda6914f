"""Whether the database still has what a server knows to be in it.

It may have gone back: a standby was promoted that lagged behind, or a backup was restored. That
takes new connections, so each one is checked before it is used. Appends are looked for by the ends
of their logs. All else that was committed is there if a promoted standby has replayed the WAL up to
it. A server that is alone and cannot tell that ends; a node of a cluster begins another session
with each promotion.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kohort.cluster import FencedError
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.postgres.fence import Fence, timeline_of
from kohort.log.postgres.link import Connection
from kohort.log.postgres.log import PostgresLog
from kohort.log.postgres.stored import pack_epochs
from kohort.log.postgres.taking import store_epochs
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")

_ENDS: Final = """
select l.id, greatest(
    l.start_offset,
    (select next from segments where log = l.id order by base desc limit 1),
    (select next from batches where log = l.id order by base desc limit 1)
) from logs l where l.id = any($1::int[])
"""
_REPLAYED: Final = (
    "select pg_last_wal_receive_lsn() is not null "
    "and coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)"
)
"""False also if the database was restarted since it was promoted: it may have replayed its own WAL
then.
"""


class GoneBackError(FencedError):
    """The database lacks what was acknowledged: this process is to write nothing any more."""

    def __init__(self) -> None:
        super().__init__(
            "the database has gone back, as after a failover to a standby that lagged behind, or "
            "when a backup was restored: start this server again, which serves what is there"
        )


class Lost(NamedTuple):
    """A log of which the database lacks what was acknowledged."""

    log: PostgresLog
    end_offset: int
    """The end in the database."""
    before: int


async def find_lost(connection: Connection, logs: Iterable[PostgresLog]) -> Sequence[Lost]:
    """Those of the logs that have lost something. Raises what asyncpg raises."""
    known = {log.number: (log, log.stored_end) for log in logs}
    if not known:
        return ()  # at the start there may be no tables
    ends: Mapping[int, int] = dict(await connection.fetch(_ENDS, list(known)))
    return [
        Lost(log, ends.get(number, 0), before)
        for number, (log, before) in known.items()
        if ends.get(number, 0) < before and not log.is_removed
    ]


class History:
    """Checks the database of a server that is no node of a cluster."""

    def __init__(self, fence: Fence, logs: Callable[[], Iterable[PostgresLog]]) -> None:
        """`logs` gives the open logs, in any thread."""
        self._fence = fence
        self._logs = logs
        self._position = ""
        """Position of the WAL behind the last operation."""

    async def committed(self, connection: Connection) -> None:
        """An operation was committed by this connection. Raises what asyncpg raises."""
        if self._fence.timeline:
            self._position = await connection.fetchval("select pg_current_wal_lsn()::text")

    async def ensure(self, connection: Connection) -> None:
        """Raise FencedError if the database of a new connection has gone back.

        The lost offsets are logged then, and their logs begin a new leader epoch when they are
        opened next. Raises UnknownOutcomeError if the database is a standby, and what
        asyncpg raises.
        """
        timeline = await timeline_of(connection)
        lost = await find_lost(connection, self._logs())
        if lost or not await self._has_operations(connection, timeline):
            await self._begin_epochs(connection, lost)
            if self._fence.lost is None:
                for log, end_offset, before in lost:
                    tell_lost(log.topic_partition, end_offset, before)
            raise self._fence.lose(GoneBackError())
        self._fence.timeline = timeline

    async def _has_operations(self, connection: Connection, timeline: str) -> bool:
        if not self._position or timeline == self._fence.timeline:
            return True
        if timeline != f"{int(self._fence.timeline, 16) + 1:08X}":
            return False  # the first of two standbys may have lacked them
        return bool(await connection.fetchval(_REPLAYED, self._position))

    async def _begin_epochs(self, connection: Connection, lost: Sequence[Lost]) -> None:
        """Unless another process has taken this one's place."""
        changed: dict[int, bytes] = {}
        for log, end_offset, _ in lost:
            former = log.leader_epochs
            epochs = LeaderEpochs(former.current + 1, end_offset, former.entries(log.start_offset))
            changed[log.number] = pack_epochs(epochs.entries(log.start_offset))
        await store_epochs(connection, self._fence, changed)


def tell_lost(topic_partition: TopicPartition, end_offset: int, before: int) -> None:
    """Log what the database has lost of a log that had the end offset `before`."""
    logger.error(
        "%s: the database has lost what was acknowledged from offset %d to %d, as after a "
        "failover to a standby that lagged behind",
        topic_partition,
        end_offset,
        before - 1,
    )
