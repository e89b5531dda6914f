"""Deletion of the rows of deleted partitions.

It has a connection and a lane of its own, so that nothing else waits for large deletions. Each
transaction is short. What the database refuses for many logs at once is tried with fewer, down to
one: a row that cannot be changed holds up no other. The next sweep retries refused deletions, and
other nodes find those that a process left behind.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from kohort.cluster import FencedError, UnknownOutcomeError
from kohort.errors import KohortError
from kohort.storage.postgres.errors import outcome
from kohort.storage.postgres.fence import REMOVALS, Fence
from kohort.storage.postgres.link import Connection, Link, retry_delays
from kohort.storage.postgres.loop_task import LoopTask
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")

T = TypeVar("T")
Written: TypeAlias = Callable[[int], Awaitable[None]]
"""Returns when nothing of the log with a number is left to be written."""
FindStrays: TypeAlias = Callable[[Connection], Awaitable[bool]]
"""Sets aside logs that former sessions left; False if they are not known yet."""

_MARK_CHUNK: Final = 1000
_DELETE_CHUNK: Final = 100
_MAX_REFUSALS: Final = 10
"""Single logs refused in a row after which the others wait for the next sweep: it may be all."""
_MARK: Final = (
    "update logs l set state = 'removed', state_since = now() "
    "from unnest($1::text[], $2::int[], $3::uuid[]) i (topic, partition, topic_id) "
    "where l.topic = i.topic and l.partition = i.partition and l.topic_id = i.topic_id "
    "returning l.id"
)
_MARK_STRAYS: Final = (
    "update logs set state = 'removed' where state = 'stray' "
    "and state_since < now() - make_interval(secs => $1)"
)
_LEFT: Final = (
    "select id from logs where state = 'removed' and state_since < now() - interval '1 minute' "
    "order by random()"
)
"""Also those of other nodes, whose last appends are over by then: no statement takes so long.

In another order each time: those that are refused are not always the first ones.
"""
_SMALL: Final = (
    "select l.id from logs l cross join lateral ("
    "  select count(*) as batches, coalesce(sum(octet_length(data)), 0) as bytes "
    "  from (select data from batches where log = l.id limit 101) b"
    ") b where l.id = any($1::int[]) and state = 'removed' and b.batches <= 100 "
    "and b.bytes <= 655360 and not exists (select from segments where log = l.id)"
)
"""A hundred of them have no more than the largest segment."""
_FIRST_END: Final = "select next from segments where log = $1 order by base limit 1"


async def remove_some(connection: Connection, log: int) -> bool:
    """Remove a segment of a log, or the log if it has none; whether it is still there."""
    async with connection.transaction():
        end = await connection.fetchval(_FIRST_END, log)
        if end is None:
            await connection.execute("delete from batches where log = $1", log)
            await connection.execute("delete from logs where id = $1", log)
            return False
        await connection.execute("delete from batches where log = $1 and base < $2", log, end)
        await connection.execute("delete from segments where log = $1 and base < $2", log, end)
        return True


class _Chunk:
    """Number of logs in one transaction: halved by each refusal, and doubled again after it."""

    def __init__(self, largest: int) -> None:
        self._largest = self.size = largest
        self._refusals = 0
        """Single logs that were refused in a row."""

    def accepted(self) -> None:
        self.size, self._refusals = min(2 * self.size, self._largest), 0

    def is_retried(self, count: int) -> bool:
        """After a refusal of `count` logs: whether fewer of them are tried."""
        self.size = max(count // 2, 1)
        self._refusals += count == 1
        return count > 1

    def gives_up(self) -> bool:
        """Whether the others wait for the next sweep, too, which begins anew."""
        if self._refusals < _MAX_REFUSALS:
            return False
        self.size, self._refusals = self._largest, 0
        return True


class LogDeletions:
    """The removals of a node. Lives on the loop thread, and is started by the first one."""

    def __init__(
        self, link: Link, fence: Fence, written: Written, find_strays: FindStrays | None = None
    ) -> None:
        """`find_strays`: unless the start has done so."""
        self._link = link
        self._fence = fence
        self._written = written
        self._deleted: deque[tuple[TopicPartition, UUID]] = deque()
        """Partitions whose logs are not marked as removed yet."""
        self._refused: list[tuple[TopicPartition, UUID]] = []
        """Partitions that the database refused to mark, for the next sweep."""
        self._marked: deque[int] = deque()
        """Logs that are marked as removed, by their numbers."""
        self._large: deque[int] = deque()
        """Marked logs that are removed in several transactions."""
        self._marking, self._removing = _Chunk(_MARK_CHUNK), _Chunk(_DELETE_CHUNK)
        self._stray_retention_ms: int | None = None
        """Retention of the sweep that is due; None if none is due."""
        self._find_strays = find_strays
        """None: nothing of former sessions is left."""
        self._working = LoopTask(self._run)

    def remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove the log of a partition whose deletion is durable."""
        self._deleted.append((partition, topic_id))
        self._working.wake()

    def sweep(self, stray_retention_ms: int) -> None:
        """Remove logs that were set aside longer ago (-1 keeps them), and what others have left.

        What the database refused before is tried again.
        """
        self._stray_retention_ms = stray_retention_ms
        self._take_refused()
        self._working.wake()

    def _take_refused(self) -> None:
        self._deleted += self._refused
        self._refused.clear()

    async def _run(self) -> None:
        try:
            while True:
                await self._working.until(self._is_due)
                await self._step()
        except FencedError:
            pass  # the fence has told it
        finally:
            self._link.drop()

    def _is_due(self) -> bool:
        swept = self._stray_retention_ms is not None
        return swept or bool(self._deleted or self._marked or self._large)

    async def _step(self) -> None:
        if self._deleted:
            await self._mark()
        elif self._stray_retention_ms is not None:
            await self._find_left(self._stray_retention_ms)
        elif self._marked:
            await self._remove_small([*self._marked][: self._removing.size])
        else:
            await self._remove_large(self._large[0])

    async def _mark(self) -> None:
        some = [*self._deleted][: self._marking.size]
        topics = [partition.topic for partition, _ in some]
        numbers = [partition.partition for partition, _ in some]
        topic_ids = [topic_id for _, topic_id in some]

        async def mark(connection: Connection) -> list[int]:
            found = await connection.fetch(_MARK, topics, numbers, topic_ids)
            return [number for (number,) in found]

        marked = await self._do("removing deleted partitions", mark, retried=len(some) > 1)
        if marked is None and self._marking.is_retried(len(some)):
            return
        for _ in some:
            self._deleted.popleft()
        if marked is not None:
            self._marking.accepted()
            self._marked += marked
            return
        self._refused += some
        if self._marking.gives_up():
            self._refused[:0] = self._deleted
            self._deleted.clear()

    async def _find_left(self, stray_retention_ms: int) -> None:
        find_strays = self._find_strays

        async def find(connection: Connection) -> tuple[list[int], bool]:
            are_found = find_strays is None or await find_strays(connection)
            if stray_retention_ms >= 0:
                await connection.execute(_MARK_STRAYS, stray_retention_ms / 1000)
            return [number for (number,) in await connection.fetch(_LEFT)], are_found

        found = await self._do("removing strays", find)
        self._stray_retention_ms = None
        if found is None:
            return
        left, are_found = found
        if are_found:
            self._find_strays = None
        known = {*self._marked, *self._large}
        self._marked += [number for number in left if number not in known]

    async def _remove_small(self, some: Sequence[int]) -> None:
        for number in some:
            await self._written(number)

        async def remove(connection: Connection) -> list[int]:
            small = [number for (number,) in await connection.fetch(_SMALL, some)]
            await connection.execute("delete from batches where log = any($1::int[])", small)
            await connection.execute("delete from logs where id = any($1::int[])", small)
            return small

        removed = await self._do("removing logs", remove, retried=len(some) > 1)
        if removed is None and self._removing.is_retried(len(some)):
            return
        for _ in some:
            self._marked.popleft()
        if removed is not None:
            self._removing.accepted()
            self._large += sorted({*some}.difference(removed))
        elif self._removing.gives_up():
            self._marked.clear()  # the next sweep finds them

    async def _remove_large(self, log: int) -> None:
        async def remove(connection: Connection) -> bool:
            return await remove_some(connection, log)

        if not await self._do(f"removing log {log}", remove):
            self._large.popleft()

    async def _do(
        self, what: str, work: Callable[[Connection], Awaitable[T]], *, retried: bool = False
    ) -> T | None:
        """The result of a transaction that may be repeated; None if it was refused.

        `retried`: a refusal is no error yet. Raises FencedError.
        """
        delays = iter(retry_delays())
        delay = next(delays)
        while True:
            try:
                with outcome():
                    connection = await self._link.get()
                    async with connection.transaction():
                        await self._fence.lock_session(connection, REMOVALS)
                        return await work(connection)
            except UnknownOutcomeError:
                self._link.drop()
            except FencedError:
                raise
            except (OSError, KohortError) as error:
                if not retried:
                    logger.error("%s failed: %s", what, error)
                return None
            await asyncio.sleep(delay)
            delay = next(delays, delay)

    # The end

    def stop(self) -> None:
        """Do nothing more on the event loop."""
        self._working.stop()
        self._link.drop()
