"""A partition while this member owns it, from one assignment to the next that lacks it.

Under cooperative rebalancing that is longer than a generation. State that is bound to the partition
lives here: its tasks, its start offset, and its end. An end only ever gets harder: a revoked or
closed partition may still be lost.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from kohort.client.cluster import NO_EPOCH
from kohort.client.fetch import Batch
from kohort.client.membership import End
from kohort.client.offset_and_metadata import OffsetAndMetadata, committable
from kohort.types import TopicPartition

Work: TypeAlias = Callable[..., Coroutine[Any, Any, object]]


class Ending:
    """The end of a partition or generation, and events to wait for it."""

    def __init__(self) -> None:
        self.end: End | None = None
        self.cause = ""
        self.began = asyncio.Event()
        self.over = asyncio.Event()
        """Set after drain and join: nothing is committed any more."""

    def begin(self, end: End, cause: str) -> None:
        """Begin to end; a second end counts only if it is a loss."""
        if self.end is None or (end is End.LOST and not self.over.is_set()):
            self.end, self.cause = end, cause
        self.began.set()

    @property
    def commits(self) -> bool:
        """Whether offsets may still be committed."""
        return self.end is not End.LOST and not self.over.is_set()


class Tasks:
    """Tasks that end together. Names may repeat.

    `on_error` gets the error of a task once. `on_return` is called when a task has returned.
    """

    def __init__(
        self, on_error: Callable[[BaseException], None], on_return: Callable[[], None]
    ) -> None:
        self._tasks: dict[asyncio.Task[object], str] = {}
        self._on_error = on_error
        self._on_return = on_return

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def start(self, work: Coroutine[Any, Any, object], name: str, title: str) -> None:
        """Run `work` as a task called `name`; `title` is the name that asyncio shows."""
        task = asyncio.get_running_loop().create_task(work, name=title)
        self._tasks[task] = name
        task.add_done_callback(self._done)

    def working(self) -> set[str]:
        """Names of the tasks that run."""
        return set(self._tasks.values())

    def stacks(self) -> list[str]:
        """Where each task is, as FILE:LINE in FUNCTION."""
        frames = [task.get_stack(limit=1) for task in self._tasks]
        return [
            f"{f.f_code.co_filename}:{f.f_lineno} in {f.f_code.co_name}"
            for stack in frames
            for f in stack
        ]

    def cancel(self, *, repeat: bool = False) -> None:
        """Cancel the tasks; with `repeat` also those that are already being cancelled."""
        for task in self._tasks:
            if repeat or not task.cancelling():
                task.cancel()

    def waits(self) -> Iterable[asyncio.Task[object]]:
        """The tasks that run, to wait for."""
        return list(self._tasks)

    def _done(self, task: asyncio.Task[object]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)
        elif not task.cancelled():
            self._on_return()


class PendingBatch(NamedTuple):
    """A batch that was taken from the fetcher, and is deserialized before it is handed out."""

    batch: Batch
    sought: int
    """`OwnedPartition.sought` when it was taken."""
    work: "asyncio.Task[bool]"
    """Returns whether the batch was deserialized; not if the partition began to end."""


class OwnedPartition:
    """One partition of this member."""

    def __init__(
        self,
        partition: TopicPartition,
        on_error: Callable[[BaseException], None],
        on_return: Callable[[], None],
    ) -> None:
        self.partition = partition
        self.ending = Ending()
        self.tasks = Tasks(on_error, on_return)
        self.adoptable: set[str] = set()
        """Tasks that continue from the previous generation. Starting one again has no effect."""
        self.reader: tuple[asyncio.Task[Any] | None, object] = (None, None)
        """The task that reads the partition, and the identity of its stream."""
        self.pending: PendingBatch | None = None
        self.committed: OffsetAndMetadata | None = None
        """Committed offset when this member got the partition."""
        self.start: int | None = None
        """Offset to begin at; None until it is known."""
        self.metadata = ""
        """Metadata of commits for which the application gives none."""
        self.is_fetched = False
        """Whether the fetcher reads it."""
        self.is_reported = False
        """Whether the application has seen it in an assignment."""
        self.last_offset = -1
        """End of the batch that was handed out last."""
        self.last_epoch = NO_EPOCH
        self.sought = 0
        """How often the application sought another offset."""
        self.aborted: int | None = None
        """First offset of the batches whose transaction was aborted, while they are not committed,
        and the application has not sought another offset."""
        self.busy_since: float | None = None
        """When the batch in work was handed out, by the loop's clock; None: no batch is in work."""
        self.busy_with = ""
        self.generation: object = None
        """The `Generation` that has the partition now."""

    @property
    def undelivered(self) -> int:
        """Offsets before the fetcher's position that were not handed out: of the pending batch."""
        if self.pending is None or self.pending.sought != self.sought:
            return 0
        return self.pending.batch.next_offset - self.pending.batch.first_offset

    def offset(self, offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
        """The offset to commit: an int with the partition's metadata, and with the leader epoch if
        it ends the batch handed out last.

        Raises ValueError for an offset that no broker can store.
        """
        to_commit = committable(self.partition, offset)
        if isinstance(offset, OffsetAndMetadata):
            return to_commit
        epoch = self.last_epoch if to_commit.offset == self.last_offset else to_commit.leader_epoch
        return replace(to_commit, leader_epoch=epoch, metadata=self.metadata)

    def __repr__(self) -> str:
        end = f" {self.ending.end.value}" if self.ending.end else ""
        return f"<OwnedPartition {self.partition} start={self.start} tasks={len(self.tasks)}{end}>"


async def drain(tasks: Iterable[Tasks], seconds: float) -> None:
    """Wait for all tasks, at most `seconds`; then cancel those left, and wait until they end."""
    groups = list(tasks)
    if seconds > 0 and (waits := [task for group in groups for task in group.waits()]):
        await asyncio.wait(waits, timeout=seconds)
    repeat = False
    while waits := [task for group in groups for task in group.waits()]:
        for group in groups:
            group.cancel(repeat=repeat)
        repeat = True
        # A task that swallows its cancellation is cancelled again: the partition must have no other
        # owner before the task ends.
        await asyncio.wait(waits, timeout=CANCEL_INTERVAL_S)


CANCEL_INTERVAL_S: Final = 5.0
"""Pause before a task that has not ended is cancelled again."""
