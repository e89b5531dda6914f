"""Work that runs to its end even if its caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


async def uncancelled(work: Coroutine[Any, Any, R], running: set[asyncio.Task[Any]]) -> R:
    """Run `work` as a task that a cancelled caller does not end; return what it returns.

    `running` has the task until it ends. Raises what `work` raises; if the caller was cancelled
    before, that error is dropped, and the event loop does not log it.
    """
    task = asyncio.get_running_loop().create_task(work)
    running.add(task)
    task.add_done_callback(running.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_mark_as_read)
        raise


def _mark_as_read(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
