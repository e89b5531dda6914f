"""Removing what deleted partitions have in the tables, in short transactions."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from kohort.log.postgres.link import Connection
from kohort.log.postgres.operations import Operation, Operations

Written: TypeAlias = Callable[[int], Awaitable[None]]
"""Returns when nothing of the log with a number is left to be written."""
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


def remove_rows(operations: Operations, number: int, written: Written) -> None:
    """Remove the rows of a log that is marked as removed, also those that are in flight."""

    async def remove(connection: Connection) -> None:
        if await remove_some(connection, number):
            remove_rows(operations, number, written)

    appended = partial(written, number)
    operations.add(Operation(number, f"removing log {number}", remove, appended, can_wait=True))


def remove_strays(operations: Operations, retention_ms: int, written: Written) -> None:
    """Remove logs that were set aside longer ago; -1 keeps them."""
    if retention_ms < 0:
        return

    async def mark(connection: Connection) -> None:
        found = await connection.fetch(
            "update logs set state = 'removed' where state = 'stray' "
            "and state_since < now() - make_interval(secs => $1) returning id",
            retention_ms / 1000,
        )
        for (number,) in found:
            remove_rows(operations, number, written)

    operations.add(Operation(0, "removing strays", mark, nothing_is_appended, can_wait=True))


async def nothing_is_appended() -> None:
    """The `appended` of an operation that waits for no appends."""
