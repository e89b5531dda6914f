"""Work that runs to its end even if its caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


async def uncancelled(work: Coroutine[Any, Any, R], running: set[asyncio.Task[Any]]) -> R:
    """What `work` returns, as a task that is in `running` until it ends. Raises what it raises.

    An error after the caller was cancelled is for nobody: the event loop does not log it.
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
