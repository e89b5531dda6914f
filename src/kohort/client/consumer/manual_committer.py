"""Commits the offsets of a `Consumer`, which is no member of its group (Java's simple consumer).

A record or batch is finished when the application requests the next one. Only finished records are
committed, by `commit_finished` and at the interval of auto-commit.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from kohort.client.admin import Admin
from kohort.client.group_errors import CommitError
from kohort.client.group_metadata import GroupMetadata, Offsets
from kohort.client.metrics import CommitMetrics, RequestCounter, reason
from kohort.client.offset_and_metadata import (
    OffsetAndMetadata,
    committable,
    validate_offsets,
    validate_partitions,
)
from kohort.errors import ConfigError, KohortError, unless_error
from kohort.types import GroupId, TopicPartition

log: Final = logging.getLogger("kohort.client.consumer")


class ManualCommitter:
    """Offsets of one consumer: those to commit, and those that the group has."""

    def __init__(
        self,
        admin: Admin,
        group: GroupId | None,
        topic_ids: Callable[[], Mapping[TopicPartition, UUID]],
    ) -> None:
        """`topic_ids` returns the ids of the topics as they are read now."""
        self._admin = admin
        self._group = group
        self._topic_ids = topic_ids
        self._in_work: tuple[TopicPartition, int, int] | None = None
        """Of the last record or batch: offset and leader epoch to commit once it is finished."""
        self._finished: dict[TopicPartition, tuple[int, int]] = {}
        """Offset and leader epoch to commit. Plain tuples: each record makes one."""
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """Offsets that the group has, which are not sent again."""
        self._order = asyncio.Lock()
        """Commits are sent one after the other: the last one counts."""
        self._auto_commit: asyncio.Task[None] | None = None
        self._requests = RequestCounter()
        self._partitions = 0

    @property
    def group(self) -> GroupId:
        """The group to commit for. Raises ConfigError if there is none."""
        if self._group is None:
            raise ConfigError("the consumer has no group_id to commit for: set one")
        return self._group

    def metrics(self) -> CommitMetrics:
        """Counters since the start; from any thread."""
        return CommitMetrics(requests=self._requests.snapshot(), partitions=self._partitions)

    # Offsets to commit

    def hand_out(self, tp: TopicPartition, offset: int, leader_epoch: int) -> None:
        """The application has all records before `offset`."""
        self._in_work = tp, offset, leader_epoch

    def finish(self) -> None:
        """The application is done with all that it was handed out."""
        if self._in_work is not None:
            tp, offset, leader_epoch = self._in_work
            self._finished[tp] = offset, leader_epoch
            self._in_work = None

    def drop(self, tp: TopicPartition) -> None:
        """Do not finish the last returned records of the partition."""
        if self._in_work is not None and self._in_work[0] == tp:
            self._in_work = None

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Commit `offset` next, regardless of returned records."""
        self._finished[tp] = offset, -1

    def forget(self, tp: TopicPartition) -> None:
        """Do not commit records that were read of the partition."""
        self.drop(tp)
        self._finished.pop(tp, None)
        self._committed.pop(tp, None)

    # Requests

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of each partition. Raises KohortError, ConfigError without group."""
        group, requested = self.group, tuple(partitions)
        validate_partitions(requested)
        offsets = unless_error((await self._admin.committed([group], requested))[group])
        return {tp: offsets.get(tp) for tp in requested}

    async def commit_finished(self) -> None:
        """Commit finished records that are not committed yet. Raises as `Consumer.commit`."""
        async with self._order:  # the request in flight determines which offsets are new
            finished = {
                tp: OffsetAndMetadata(offset=offset, leader_epoch=leader_epoch)
                for tp, (offset, leader_epoch) in self._finished.items()
            }
            new = {
                tp: offset for tp, offset in finished.items() if self._committed.get(tp) != offset
            }
            await self._send(new, self._topic_ids())

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Commit these offsets, also if they are committed already. Raises as `Consumer.commit`."""
        validate_offsets(offsets)
        new = {tp: committable(tp, offset) for tp, offset in offsets.items()}
        topic_ids = (
            self._topic_ids()
        )  # the topic ids of the read records: the partition may be reassigned meanwhile
        async with self._order:
            await self._send(new, topic_ids)

    def to_commit(
        self, offsets: Offsets
    ) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        """The group, without a member, and the offsets for a transaction to commit.

        Raises ConfigError without a group, ValueError for invalid offsets.
        """
        named = GroupMetadata(group_id=self.group).to_commit(offsets)
        for tp in offsets:  # the transaction determines the last committed offsets
            self._committed.pop(tp, None)
        return named

    async def _send(
        self,
        new: Mapping[TopicPartition, OffsetAndMetadata],
        topic_ids: Mapping[TopicPartition, UUID],
    ) -> None:
        if not new:
            return
        for tp in new:  # not known until the response is there, which may not come
            self._committed.pop(tp, None)
        started = asyncio.get_running_loop().time()
        try:
            outcomes = await self._admin.commit(self.group, new, topic_ids=topic_ids)
        except KohortError as error:
            self._requests.failures.count(reason(error))
            raise
        self._requests.latency.observe(asyncio.get_running_loop().time() - started)
        errors = {tp: error for tp, error in outcomes.items() if error is not None}
        self._committed |= {tp: offset for tp, offset in new.items() if tp not in errors}
        self._partitions += len(new) - len(errors)
        for cause in dict.fromkeys(map(reason, errors.values())):
            self._requests.failures.count(cause)
        if errors:
            raise CommitError(errors)

    # Auto-commit

    def start_auto_commit(self, interval_ms: int) -> None:
        """Commit finished records at this interval, until `close`. Idempotent."""
        if self._auto_commit is None:
            self._auto_commit = asyncio.create_task(self._commit_regularly(interval_ms / 1000))

    async def close(self) -> None:
        """End auto-commit, if it was started, with a last commit. Raises as `commit_finished`."""
        if self._auto_commit is not None:
            self._auto_commit.cancel()
            await asyncio.wait([self._auto_commit])
            await self.commit_finished()

    async def _commit_regularly(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.commit_finished()
            except Exception as error:  # also a fault of our own: commits must not just end
                log.warning("offset commit failed, retrying: %r", error)
