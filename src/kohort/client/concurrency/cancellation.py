"""Cleanup that a cancellation of the caller must not interrupt: it would leave tasks and requests.

asyncio cancels once. anyio cancels again in each turn of the loop until its scope is left, which
would keep the loop busy; a shielded scope of anyio prevents that.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kohort.errors import fresh


def uncancelled() -> AbstractContextManager[Any]:
    """A block that anyio does not cancel."""
    anyio = sys.modules.get("anyio")
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)


async def to_its_end(task: asyncio.Task[Any], on_cancel: Callable[[], None] = lambda: None) -> None:
    """Wait for `task`; a cancellation calls `on_cancel`, and is raised when the task has ended."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with nullcontext() if cancelled is None else uncancelled():
                await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error.with_traceback(None)  # which refers to this frame
            on_cancel()
    task.result()
    if cancelled is not None:
        raise fresh(cancelled)
