"""Coroutines that usually end at once, and need a task only where they wait.

A handler that is such a coroutine reads from top to bottom. A task for each request would cost more
than a small request does. Python 3.12 has `asyncio.eager_task_factory` for it.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


def start(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Run `work` up to where it first waits. Returns the rest, for a task, or None if it has ended.

    Raises what `work` raises until then. Until then it has no current task: `in_task` comes before
    calls that need one.
    """
    try:
        yielded = work.send(None)
    except StopIteration:
        return None
    return _rest(work, yielded)


async def in_task() -> None:
    """Wait for the task that runs the rest of what `start` began; `asyncio.timeout` needs it."""
    if asyncio.current_task() is None:
        await asyncio.sleep(0)


async def _rest(work: Coroutine[Any, Any, None], yielded: Any) -> None:
    await _resume(work, yielded)


@types.coroutine
def _resume(work: Coroutine[Any, Any, None], yielded: Any) -> Generator[Any, Any, None]:
    """Pass on to the event loop what `work` waits for, and to `work` how that ended."""
    failure: BaseException | None = None
    try:
        if yielded is None:  # for the next turn of the loop, in which the task began
            yielded = work.send(None)
        while True:
            try:
                yield yielded
            except GeneratorExit:
                raise
            except BaseException as error:  # of a future, or a cancellation
                failure = error.with_traceback(None)  # which refers to this frame
            yielded = None  # a future: the traceback of its exception refers to this frame
            try:
                yielded = work.send(None) if failure is None else work.throw(failure)
            finally:
                failure = None  # what `work` raises of it refers to this frame
    except StopIteration:
        return
    finally:
        work.close()
