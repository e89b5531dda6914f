"""A partition while this member has it: from the assignment that brought it to the one that no
longer has it.

Under cooperative rebalancing that is longer than a generation. What is bound to the partition lives
here: its tasks, where it starts, and how it ends. An end only ever gets harder: what was revoked,
or closed, may still be lost.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from kohort.client.cluster import NO_EPOCH
from kohort.client.membership import End
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.types import TopicPartition

Work: TypeAlias = Callable[..., Coroutine[Any, Any, object]]


class Ending:
    """Of a partition, or of a generation: whether and how it ends, and waiting for it."""

    def __init__(self) -> None:
        self.end: End | None = None
        self.cause = ""
        self.began = asyncio.Event()
        self.over = asyncio.Event()
        """Drained and joined: nothing is committed any more."""

    def begin(self, end: End, cause: str) -> None:
        if self.end is None or (end is End.LOST and not self.over.is_set()):
            self.end, self.cause = end, cause
        self.began.set()

    @property
    def commits(self) -> bool:
        """Whether offsets may still be committed."""
        return self.end is not End.LOST and not self.over.is_set()


class Tasks:
    """Tasks that end together. What one raises goes to `on_error`, once, and not into the void."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._tasks: dict[asyncio.Task[object], tuple[Work, tuple[object, ...]]] = {}
        self._on_error = on_error

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Work, first: object, args: tuple[object, ...], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work(first, *args), name=name)
        self._tasks[task] = (work, args)
        task.add_done_callback(self._done)

    def working(self) -> list[tuple[Work, tuple[object, ...]]]:
        """What was started and has not ended."""
        return list(self._tasks.values())

    def stacks(self) -> list[str]:
        """Where each task stands, as FILE:LINE in FUNCTION."""
        frames = [task.get_stack(limit=1) for task in self._tasks]
        return [
            f"{f.f_code.co_filename}:{f.f_lineno} in {f.f_code.co_name}"
            for stack in frames
            for f in stack
        ]

    def cancel(self, *, again: bool = False) -> None:
        """Those that are cancelled already clean up, and are left alone, but `again`."""
        for task in self._tasks:
            if again or not task.cancelling():
                task.cancel()

    def waits(self) -> Iterable[asyncio.Task[object]]:
        return list(self._tasks)

    def _done(self, task: asyncio.Task[object]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)


class OwnedPartition:
    """One partition of this member."""

    def __init__(
        self, partition: TopicPartition, on_error: Callable[[BaseException], None]
    ) -> None:
        self.partition = partition
        self.ending = Ending()
        self.tasks = Tasks(on_error)
        self.adoptable: list[tuple[Work, tuple[object, ...]]] = []
        """What runs on from the generation before, until the next one starts it, which then starts
        nothing.
        """
        self.committed: OffsetAndMetadata | None = None
        """When this member got the partition."""
        self.start: int | None = None
        """Offset to begin at; None until it is known."""
        self.is_fetched = False
        """Whether the fetcher has it."""
        self.shown = False
        """Whether the application has seen it in an assignment."""
        self.last_offset = -1
        """The end of the batch that was handed out last."""
        self.last_epoch = NO_EPOCH
        self.busy_since: float | None = None
        """When the batch that is being worked on was handed out, by the loop's clock."""
        self.busy_with = ""
        self.generation: object = None
        """The `Generation` that has the partition now."""

    def offset(self, given: int | OffsetAndMetadata) -> OffsetAndMetadata:
        """What to commit for an offset: with the leader epoch, if it ends the batch that was handed
        out last.
        """
        if isinstance(given, OffsetAndMetadata):
            return given
        epoch = self.last_epoch if given == self.last_offset else NO_EPOCH
        return OffsetAndMetadata(offset=given, leader_epoch=epoch)

    def __repr__(self) -> str:
        end = f" {self.ending.end.value}" if self.ending.end else ""
        return f"<OwnedPartition {self.partition} start={self.start} tasks={len(self.tasks)}{end}>"


async def drain(tasks: Iterable[Tasks], seconds: float) -> None:
    """Wait for all of them, at most `seconds`; then cancel those that are left, and wait until they
    end.
    """
    groups = list(tasks)
    if seconds > 0 and (waits := [task for group in groups for task in group.waits()]):
        await asyncio.wait(waits, timeout=seconds)
    again = False
    while waits := [task for group in groups for task in group.waits()]:
        for group in groups:
            group.cancel(again=again)
        again = True
        # A task that swallows its cancellation is cancelled again: nobody may own its partition
        # before it ends.
        await asyncio.wait(waits, timeout=CANCEL_AGAIN_S)


CANCEL_AGAIN_S = 5.0
