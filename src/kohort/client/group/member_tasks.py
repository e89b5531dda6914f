"""The tasks of a member, apart from its generations. They run until the group is closed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kohort.client.group_errors import GroupError


class MemberTasks:
    """Tasks of one member; an exception in one goes to `on_error`."""

    def __init__(self, group: str, on_error: Callable[[GroupError], None]) -> None:
        self._group = group
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` until the group is closed; afterwards it is cancelled before it begins."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._group} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if self._is_closed:
            task.cancel()
        return task

    async def close(self) -> None:
        """Cancel all tasks, and wait until they and those that they spawn have ended."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            failure = (
                error
                if isinstance(error, GroupError)
                else GroupError(f"{task.get_name()}: {error!r}")
            )
            failure.__cause__ = error if failure is not error else None
            self._on_error(failure)
