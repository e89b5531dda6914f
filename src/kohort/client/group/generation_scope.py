"""The scope of a generation: `async with` owns its tasks, and is left when they have ended.

Either side may end first. When the generation ends, the body and the tasks bound to no partition
have time to finish, and are then cancelled (`join`). When the body is left first, it waits for the
end of the generation; an error in the body ends the generation at once.
"""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from kohort.client.concurrency import uncancelled
from kohort.client.group.bound_generation import BoundGeneration
from kohort.client.group.generation import BoundWork, Generation, GenerationServices
from kohort.client.group.owned_partition import Ending, OwnedPartition, Tasks, drain
from kohort.client.group_errors import GenerationEndedError
from kohort.client.membership import End, Grant
from kohort.client.record import K, V
from kohort.errors import KohortError, fresh
from kohort.types import TopicPartition


class GenerationScope(Generation[K, V]):
    """A generation as the application gets it; created by `GroupRun`."""

    def __init__(
        self,
        services: GenerationServices,
        grant: Grant,
        owned_partitions: Mapping[TopicPartition, OwnedPartition],
    ) -> None:
        super().__init__(services)
        self._granted = grant
        self._owned_partitions = dict(owned_partitions)
        self._own_ending = Ending()
        self._tasks = Tasks(services.task_failed, services.task_returned)
        self._parent: asyncio.Task[object] | None = None
        self._body_left = asyncio.Event()
        self._cancelled_body = False
        self._reported_idle = False
        self.waited_s = 0.0
        """How long the generation went on after its body was left."""

    def __repr__(self) -> str:
        end = f" {self.end.value}" if self.end else ""
        return (
            f"<Generation {self._services.name} id={self.id} "
            f"partitions={len(self.assignment)}{end}>"
        )

    @property
    def _grant(self) -> Grant:
        return self._granted

    @property
    def _ending(self) -> Ending:
        return self._own_ending

    def _start(
        self, work: BoundWork, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        if self._parent is None:
            raise KohortError(
                "enter the generation before starting tasks in it: async with generation"
            )
        title = f"{self._services.name} {name or getattr(work, '__qualname__', work)}{args}"
        if not args or not isinstance(args[0], TopicPartition):
            if self._own_ending.end is None:
                self._tasks.start(work(self, *args, **kwargs), name, title)
            return
        owned = self._owned(args[0])
        runs = name in owned.tasks.working()
        if runs and name in owned.adoptable:
            owned.adoptable.remove(name)
        elif runs:
            raise KohortError(
                f"{owned.partition} has a task{f' called {name!r}' if name else ''} already: start "
                "one task for each partition, or give a further one a name of its own: "
                "generation.start(work, partition, name=...)"
            )
        elif owned.ending.end is None:
            bound = BoundGeneration(self._services, owned)
            owned.tasks.start(work(bound, *args, **kwargs), name, title)

    def _owned(self, partition: TopicPartition) -> OwnedPartition:
        owned = self._owned_partitions.get(partition)
        if owned is None:
            raise GenerationEndedError(
                f"{partition} is not assigned to this member in generation {self.id}"
            )
        return owned

    # --- for the group ---

    def show(self, before: tuple[TopicPartition, ...]) -> None:
        """Set the differences from the generation with the assignment `before`, on hand-over."""
        added = tuple(
            partition
            for partition in self.assignment
            if not self._owned_partitions[partition].is_reported
        )
        revoked = tuple(partition for partition in before if partition not in set(self.assignment))
        self._granted = replace(self._granted, added=added, revoked=revoked)
        for owned in self._owned_partitions.values():
            owned.is_reported = True

    def begin_end(self, end: End, cause: str) -> None:
        """Begin to end; tasks of a lost generation are cancelled."""
        self._own_ending.begin(end, cause)
        if end is End.LOST:
            self._tasks.cancel()

    def idle(self) -> list[TopicPartition]:
        """Partitions without a task after the body was left; empty if they were reported before."""
        unsure = not self._body_left.is_set() or len(self._tasks) > 0
        if unsure or self._reported_idle or self._own_ending.end is not None:
            return []
        idle = [
            partition
            for partition, owned in self._owned_partitions.items()
            if not len(owned.tasks) and owned.ending.end is None
        ]
        self._reported_idle = bool(idle)
        return idle

    def finish(self) -> None:
        """Let the scope be left: everything in it has ended."""
        self._own_ending.over.set()

    @property
    def is_entered(self) -> bool:
        """Whether the application is inside the scope now."""
        return self._parent is not None and not self._body_left.is_set()

    def contains(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether the task is inside the scope, or one of its tasks."""
        return (
            (self.is_entered and task is self._parent)
            or task in self._tasks
            or any(task in owned.tasks for owned in self._owned_partitions.values())
        )

    def cancel_tasks(self) -> None:
        """Cancel the tasks that are bound to no partition."""
        self._tasks.cancel()

    async def join(self, seconds: float) -> None:
        """Wait for the body and the unbound tasks, at most `seconds`; then cancel them."""
        if self._parent is None:
            return
        async with asyncio.TaskGroup() as ending_tasks:
            ending_tasks.create_task(drain([self._tasks], seconds))
            ending_tasks.create_task(self._join_body(seconds))

    # --- the scope ---

    async def __aenter__(self) -> Self:
        self._parent = asyncio.current_task()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._body_left.set()
        is_own_cancellation = (
            isinstance(error, asyncio.CancelledError) and self._was_cancelled_here()
        )
        if error is not None and not is_own_cancellation:
            self._services.abort(f"the application raised {error!r}")
        self._services.task_returned()
        loop = asyncio.get_running_loop()
        began = loop.time()
        cancelled = await self._until_over()
        self.waited_s = loop.time() - began
        errors = self._services.take_errors()
        if error is not None and not is_own_cancellation:
            if errors and not isinstance(error, asyncio.CancelledError):
                raise BaseExceptionGroup(f"errors in {self!r}", [error, *errors])
            return False
        if errors:
            raise BaseExceptionGroup(f"errors in tasks of {self!r}", errors)
        if cancelled is not None:
            raise fresh(cancelled)
        return is_own_cancellation

    async def _until_over(self) -> asyncio.CancelledError | None:
        cancelled: asyncio.CancelledError | None = None
        while not self._own_ending.over.is_set():
            try:
                with nullcontext() if cancelled is None else uncancelled():
                    await self._own_ending.over.wait()
            except asyncio.CancelledError as error:
                if not self._was_cancelled_here():
                    cancelled = error.with_traceback(None)  # which refers to this frame
                    self._services.abort("the application was cancelled")
        return cancelled

    def _was_cancelled_here(self) -> bool:
        """Whether only `_join_body` cancelled the application's task; True once."""
        if not self._cancelled_body or self._parent is None:
            return False
        self._cancelled_body = False
        return self._parent.uncancel() == 0

    async def _join_body(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._body_left.wait()
        except TimeoutError:
            if self._parent is not None and not self._body_left.is_set():
                self._cancelled_body = True
                self._parent.cancel()
            await self._body_left.wait()
