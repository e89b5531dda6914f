"""Appends to the table of batches: each is there once, and after all that went before."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kohort.cluster import UnknownOutcomeError
from kohort.errors import fresh
from kohort.storage.postgres.errors import outcome
from kohort.storage.postgres.fence import Fence
from kohort.storage.postgres.link import Connection, Link, retry_delays
from kohort.storage.postgres.logs.pages import Row

INSERT: Final = """
with fence as (
    select 1 from nodes where node = $1 and lane = $2 and session = $3 for share
)
insert into batches (log, base, next, epoch, max_ts, data)
select i.* from fence, unnest(
    $4::int[], $5::bigint[], $6::bigint[], $7::int[], $8::bigint[], $9::bytea[]
) i
"""
MAX_STATEMENT_BYTES: Final = 4 << 20
"""Bytes of one statement, unless a single batch is larger."""


class Writer:
    """Inserts rows as a lane of this node, one statement at a time."""

    def __init__(self, link: Link, fence: Fence, lane: int) -> None:
        self._link = link
        self._fence = fence
        self._lane = lane
        self._unknown = False
        """True while an abandoned statement can still commit."""

    async def write(
        self,
        rows: Sequence[Row],
        on_retry: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """Return when the rows, at most `MAX_STATEMENT_BYTES` of them, are committed.

        The database may be away meanwhile: it is tried again, and `on_retry` learns why. Raises
        DatabaseError if the rows were refused and none is there, FencedError.
        """
        delays = iter(retry_delays())
        delay = next(delays)
        while True:
            try:
                with outcome():
                    await self._write_once(await self._link.get(), rows)
            except UnknownOutcomeError as error:
                self._unknown = True
                self._link.drop()
                on_retry(error)
            else:
                return
            await asyncio.sleep(delay)
            delay = next(delays, delay)

    async def _write_once(self, connection: Connection, rows: Sequence[Row]) -> None:
        if self._unknown:
            await self._fence.rotate_session(connection, self._lane)
            is_there = await _has(connection, rows[0])
            self._unknown = False
            if is_there:
                return
        if self._fence.lost is not None:
            raise fresh(self._fence.lost)
        logs, bases, nexts, epochs, timestamps, data, *_ = zip(*rows, strict=True)
        done = await connection.execute(
            INSERT,
            self._fence.node,
            self._lane,
            self._fence.session(self._lane),
            logs,
            bases,
            nexts,
            epochs,
            timestamps,
            data,
        )
        if done != f"INSERT 0 {len(rows)}":
            raise self._fence.lose()


async def _has(connection: Connection, row: Row) -> bool:
    """Whether a row is in the table, and with it all of its statement."""
    return bool(
        await connection.fetchval(
            "select true from batches where log = $1 and base = $2", row.log, row.base
        )
    )


def statements(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """The rows in order, as many at a time as go into one statement."""
    start = size = 0
    for number, row in enumerate(rows):
        if size and size + len(row.data) > MAX_STATEMENT_BYTES:
            yield rows[start:number]
            start, size = number, 0
        size += len(row.data)
    if rows:
        yield rows[start:]
