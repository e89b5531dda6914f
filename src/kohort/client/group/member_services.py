"""Services of a member for its generations: streams of batches, commits, errors of tasks."""

from collections.abc import Mapping
from uuid import UUID

from kohort.client.config import GroupConfig
from kohort.client.fetch import Fetcher
from kohort.client.group.commits import OffsetCommitter
from kohort.client.group.context import MemberContext
from kohort.client.group.generation_handover import GenerationHandover
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.streaming import RecordStream
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.serialization import Deserializers
from kohort.errors import KohortError


class MemberServices:
    """The `GenerationServices` of one member, the same for all its generations."""

    def __init__(
        self,
        context: MemberContext,
        handover: GenerationHandover,
        committer: OffsetCommitter,
        deserializers: Deserializers | None,
    ) -> None:
        self.name: str = context.name
        self.config: GroupConfig = context.config
        self.fetcher: Fetcher = context.fetcher
        self.abort = handover.abort
        self.take_errors = handover.take_errors
        self.task_failed = handover.task_failed
        self.task_returned = handover.task_returned
        self._context = context
        self._committer = committer
        self._deserializers = deserializers

    @property
    def member_epoch(self) -> int | None:
        return self._context.member_epoch

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        return self._context.watch.ids

    def stream(self, owned: OwnedPartition, max_wait_ms: float | None) -> RecordStream:
        return RecordStream(
            self.fetcher,
            owned,
            self._lose_topic,
            self._mark_position,
            self._deserializers,
            max_wait_ms,
        )

    async def commit(
        self, offsets: Mapping[OwnedPartition, OffsetAndMetadata], *, wait: bool | None
    ) -> None:
        waits = self.config.commit_interval_ms == 0 if wait is None else wait
        if waits:
            self._context.marked.forget(offsets)
            await self._committer.commit(offsets)
        else:
            self._context.marked.mark(offsets)

    def _mark_position(self, owned: OwnedPartition) -> None:
        """The application has finished the batch; with auto-commit, commit it."""
        if self.config.enable_auto_commit and owned.ending.commits:
            position = self.fetcher.position(owned.partition)
            if position is not None:
                self._context.marked.mark({owned: owned.offset(position)})

    def _lose_topic(self, owned: OwnedPartition, error: KohortError) -> None:
        """The fetcher found before the topic check that the topic was deleted or recreated.

        Its other partitions are lost at once, too: a task may be about to commit their records.
        """
        context, topic = self._context, owned.partition.topic
        lost = tuple(
            partition for partition in context.owned_partitions if partition.topic == topic
        )
        context.watch.forget([topic])
        context.events.emit_event("topics", str(error))
        context.member.dispatch(context.membership.lose, lost, str(error))
