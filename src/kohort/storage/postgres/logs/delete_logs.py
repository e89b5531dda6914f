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
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar
from uuid import UUID

from kohort.cluster import FencedError, UnknownOutcomeError
from kohort.errors import KohortError
from kohort.storage.postgres.errors import outcome
from kohort.storage.postgres.fence import REMOVALS, Fence
from kohort.storage.postgres.link import Connection, Link, retry_delays
from kohort.storage.postgres.loop_task import LoopTask
from kohort.types import TopicPartition
from kohort.util.text import join_names

logger = logging.getLogger("kohort.log")

T = TypeVar("T")
R = TypeVar("R")
Written: TypeAlias = Callable[[int], Awaitable[None]]
"""Returns when nothing of the log with a number is left to be written."""
FindStrays: TypeAlias = Callable[[Connection], Awaitable[list[int] | None]]
"""Returns the numbers of logs that former sessions left; None if they are not known yet."""

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
_SET_ASIDE: Final = (
    "update logs set state = 'stray', state_since = now() "
    "where state = 'live' and id = any($1::int[]) returning topic, partition"
)
_EXPIRED: Final = (
    "select id from logs where state = 'stray' and state_since < now() - make_interval(secs => $1)"
)
_MARK_EXPIRED: Final = (
    "update logs set state = 'removed' where state = 'stray' and id = any($1::int[])"
)
_LEFT: Final = (
    "select id from logs where state = 'removed' and state_since < now() - interval '1 minute' "
    "order by random()"
)
"""Also those of other nodes, whose last appends are over by then: no statement takes so long.

In random order: refused ones do not always come first.
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


class _Queue(Generic[T]):
    """Rows to be changed: many in a transaction, half as many after each refusal, down to one."""

    def __init__(self, largest: int) -> None:
        """`largest`: rows of a transaction at most."""
        self.waiting: deque[T] = deque()
        self.refused: list[T] = []
        """Rows for the next sweep."""
        self._largest = self._size = largest
        self._refusals = 0
        """Single rows that were refused in a row."""

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def first(self) -> list[T]:
        """The rows of the next transaction."""
        return [*islice(self.waiting, self._size)]

    def accepted(self, count: int) -> None:
        """The first `count` rows were changed."""
        for _ in range(count):
            self.waiting.popleft()
        self._size, self._refusals = min(2 * self._size, self._largest), 0

    def reject(self, count: int) -> None:
        """The first `count` rows were refused: retry half of them, or one row in the next sweep.

        After `_MAX_REFUSALS` single rows in a row, all others wait for that sweep, which tries them
        first.
        """
        self._size = max(count // 2, 1)
        if count > 1:
            return
        self.refused.append(self.waiting.popleft())
        self._refusals += 1
        if self._refusals == _MAX_REFUSALS:
            self.refused[:0] = self.waiting
            self.waiting.clear()
            self._size, self._refusals = self._largest, 0

    def retry(self) -> None:
        """Try again what was refused."""
        self.waiting += self.refused
        self.refused.clear()


class LogDeletions:
    """The removals of a node. Lives on the loop thread, and is started by the first one."""

    def __init__(
        self, link: Link, fence: Fence, written: Written, find_strays: FindStrays | None = None
    ) -> None:
        """`find_strays`: unless the start has done so."""
        self._link = link
        self._fence = fence
        self._written = written
        self._deleted = _Queue[tuple[TopicPartition, UUID]](_MARK_CHUNK)
        """Partitions whose logs are not marked as removed yet."""
        self._strays = _Queue[int](_MARK_CHUNK)
        """Logs to be set aside, by their numbers."""
        self._expired = _Queue[int](_MARK_CHUNK)
        """Logs that were set aside long enough, and are not marked as removed yet."""
        self._marked = _Queue[int](_DELETE_CHUNK)
        """Logs that are marked as removed."""
        self._large: deque[int] = deque()
        """Marked logs that are removed in several transactions."""
        self._stray_retention_ms: int | None = None
        """Retention of the sweep that is due; None if none is due."""
        self._is_left_due = False
        """Whether the sweep has yet to look for marked logs that are left."""
        self._find_strays = find_strays
        """None: nothing of former sessions is left."""
        self._working = LoopTask(self._run)

    def remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove the log of a partition whose deletion is durable."""
        self._deleted.waiting.append((partition, topic_id))
        self._working.wake()

    def sweep(self, stray_retention_ms: int) -> None:
        """Remove logs that were set aside longer ago (-1 keeps them), and what others have left.

        What the database refused before is tried again.
        """
        self._stray_retention_ms = stray_retention_ms
        self._is_left_due = True
        self._deleted.retry()
        for queue in (self._strays, self._expired, self._marked):
            queue.retry()
        self._working.wake()

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
        queues = self._deleted, self._strays, self._expired, self._marked, self._large
        return self._stray_retention_ms is not None or self._is_left_due or any(queues)

    async def _step(self) -> None:
        if self._deleted:
            await self._mark()
        elif self._stray_retention_ms is not None:
            await self._find(self._stray_retention_ms)
        elif self._strays:
            await self._set_aside()
        elif self._expired:
            await self._change(self._expired, "removing strays", _mark_expired)
        elif self._is_left_due:
            await self._find_left()
        elif self._marked:
            await self._remove_small()
        else:
            await self._remove_large(self._large[0])

    async def _mark(self) -> None:
        marked = await self._change(self._deleted, "removing deleted partitions", _mark_deleted)
        self._marked.waiting += marked or ()

    async def _find(self, stray_retention_ms: int) -> None:
        find_strays = self._find_strays

        async def find(connection: Connection) -> tuple[list[int] | None, list[int]]:
            strays = [] if find_strays is None else await find_strays(connection)
            if stray_retention_ms < 0:
                return strays, []
            expired = await connection.fetch(_EXPIRED, stray_retention_ms / 1000)
            return strays, [number for (number,) in expired]

        numbers = await self._do("finding strays", find)
        self._stray_retention_ms = None
        if numbers is None:
            return
        strays, expired = numbers
        if strays is not None:
            self._find_strays = None
            self._strays.waiting += strays
        self._expired.waiting += set(expired).difference(self._expired.waiting)

    async def _set_aside(self) -> None:
        partitions = await self._change(self._strays, "setting strays aside", _set_aside)
        if partitions:
            names = join_names(map(str, partitions))
            logger.warning("logs of deleted topics are kept as strays: %s", names)

    async def _find_left(self) -> None:
        async def find(connection: Connection) -> list[int]:
            return [number for (number,) in await connection.fetch(_LEFT)]

        left = await self._do("finding removed logs", find)
        self._is_left_due = False
        queued = {*self._marked.waiting, *self._large}
        self._marked.waiting += [number for number in left or () if number not in queued]

    async def _remove_small(self) -> None:
        some = self._marked.first()
        for number in some:
            await self._written(number)
        removed = await self._change(self._marked, "removing logs", _remove_small)
        if removed is not None:
            self._large += sorted({*some}.difference(removed))

    async def _remove_large(self, log: int) -> None:
        async def remove(connection: Connection) -> bool:
            return await remove_some(connection, log)

        if not await self._do(f"removing log {log}", remove):
            self._large.popleft()

    async def _change(
        self, queue: _Queue[T], activity: str, change: Callable[[Connection, list[T]], Awaitable[R]]
    ) -> R | None:
        """Change the first rows of a queue; None if the database refuses that."""
        some = queue.first()
        done = await self._do(
            activity, lambda connection: change(connection, some), retried=len(some) > 1
        )
        if done is None:
            queue.reject(len(some))
        else:
            queue.accepted(len(some))
        return done

    async def _do(
        self, activity: str, work: Callable[[Connection], Awaitable[R]], *, retried: bool = False
    ) -> R | None:
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
                    logger.error("%s failed: %s", activity, error)
                return None
            await asyncio.sleep(delay)
            delay = next(delays, delay)

    # The end

    def stop(self) -> None:
        """Do nothing more on the event loop."""
        self._working.stop()
        self._link.drop()


async def _mark_deleted(
    connection: Connection, partitions: Sequence[tuple[TopicPartition, UUID]]
) -> list[int]:
    """Mark logs as removed, and return their numbers."""
    topics = [partition.topic for partition, _ in partitions]
    numbers = [partition.partition for partition, _ in partitions]
    topic_ids = [topic_id for _, topic_id in partitions]
    return [number for (number,) in await connection.fetch(_MARK, topics, numbers, topic_ids)]


async def _set_aside(connection: Connection, logs: Sequence[int]) -> list[TopicPartition]:
    return [TopicPartition(*row) for row in await connection.fetch(_SET_ASIDE, logs)]


async def _mark_expired(connection: Connection, logs: Sequence[int]) -> bool:
    await connection.execute(_MARK_EXPIRED, logs)
    return True


async def _remove_small(connection: Connection, logs: Sequence[int]) -> list[int]:
    """Remove those of the logs that are small, and return their numbers."""
    small = [number for (number,) in await connection.fetch(_SMALL, logs)]
    await connection.execute("delete from batches where log = any($1::int[])", small)
    await connection.execute("delete from logs where id = any($1::int[])", small)
    return small
