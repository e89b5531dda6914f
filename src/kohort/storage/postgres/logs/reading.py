"""Reads rows of batches: for the event loop by one connection, for threads by another."""

import asyncio
from typing import Any, Final
from uuid import UUID

from kohort.cluster import UnknownOutcomeError
from kohort.log.backing import Checkpoint
from kohort.storage.postgres.blocking_connection import BlockingConnection
from kohort.storage.postgres.errors import DatabaseError, outcome
from kohort.storage.postgres.link import Connection, Link, retry_delays
from kohort.storage.postgres.logs.pages import PagedStore, Range
from kohort.types import TopicPartition

_SELECT: Final = (
    "select data from batches where log = $1 and base >= $2 and base < $3 order by base"
)

READ_ON_BYTES: Final = 1 << 18
"""Bytes of the rows that one statement reads on, and one row more."""
_CHECKPOINT: Final = (
    "select id, start_offset, cleaned from logs "
    "where topic = $1 and partition = $2 and topic_id = $3 and state = 'live'"
)
_SELECT_ON: Final = (
    "select data from (select data, sum(octet_length(data)) over (order by base) "
    "- octet_length(data) as before from ("
    "  select base, data from batches where log = $1 and base >= coalesce("
    "  (select max(base) from batches where log = $1 and base <= $2), 0) and next > $2 "
    "  order by base limit 1000"
    ") as following) as measured where before < $3 order by before"
)


async def _read(connection: Connection, rows: Range) -> list[bytes]:
    return [row[0] for row in await connection.fetch(_SELECT, *rows)]


class RowReader:
    """Reads what is not in memory."""

    def __init__(self, link: Link, control: BlockingConnection) -> None:
        self._link = link
        self._control = control
        self._turn: asyncio.Lock | None = None

    def read_blocking(self, rows: Range) -> list[bytes]:
        """The data of rows in order, blocking. Raises OSError."""

        async def read(connection: Connection) -> list[bytes]:
            return await _read(connection, rows)

        return self._control.query(read)

    async def load(self, store: PagedStore, page: int) -> None:
        """Bring a page, and some that follow, into memory. Raises OSError, CorruptLogError."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        for delay in retry_delays():
            async with self._turn:
                if store.has(page) or not store.is_current:
                    return
                try:
                    with outcome():
                        rows = await _read(await self._link.get(), store.rows_of(page))
                except UnknownOutcomeError as error:
                    self._link.drop()
                    failure = error.with_traceback(None)  # which refers to this frame
                else:
                    if store.is_current:
                        store.loaded(page, rows)
                    return
            await asyncio.sleep(delay)
        raise DatabaseError(None, f"PostgreSQL cannot be read: {failure}") from failure

    async def fetch(self, query: str, *arguments: object) -> list[Any]:
        """The rows of a query, for the event loop. Raises OSError."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            rows: list[Any] | None = None
            try:
                with outcome():
                    rows = await (await self._link.get()).fetch(query, *arguments)
            except UnknownOutcomeError as error:
                raise DatabaseError(None, f"PostgreSQL cannot be read: {error}") from error
            finally:
                if rows is None:
                    self._link.drop()
            return rows

    def stop(self) -> None:
        """Read nothing more."""
        self._link.drop()


class RowsOfOthers:
    """The `Source` of a log that another node leads."""

    def __init__(self, reader: RowReader, topic_partition: TopicPartition, topic_id: UUID) -> None:
        self._reader = reader
        self._place = (*topic_partition, topic_id)
        self._number: int | None = None

    async def checkpoint(self) -> Checkpoint:
        rows = await self._reader.fetch(_CHECKPOINT, *self._place)
        if not rows:
            return Checkpoint()  # its leader has not made it yet
        self._number, start_offset, cleaned = rows[0]
        return Checkpoint(start_offset, cleaned=cleaned)

    async def read_on(self, offset: int) -> bytes:
        if self._number is None:
            return b""
        rows = await self._reader.fetch(_SELECT_ON, self._number, offset, READ_ON_BYTES)
        return b"".join(row[0] for row in rows)
