"""Replays records of other nodes, and applies them to the replicas (Kafka's MetadataLoader)."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final, Protocol
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.server.logging import fields
from kohort.server.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord, partitions_of
from kohort.server.replicas.replica_manager import ReplicaManager
from kohort.server.replicas.topic import Topic
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices

MAX_BATCH_TOPICS: Final = 100
"""Topics whose directories are made together: each by itself waits for the disk several times."""

logger = logging.getLogger("kohort.topics")


class FollowedLog(Protocol):
    """A metadata log that other nodes change."""

    @property
    def end_offset(self) -> int:
        """Offset of the record to be followed next."""
        ...

    def replay(self, offset: int, record: MetadataRecord) -> None:
        """Replay the record of that offset, which another node has logged."""
        ...


class MetadataLoader:
    """Follows a metadata log record by record."""

    def __init__(
        self,
        metadata: FollowedLog,
        replicas: ReplicaManager,
        publish: Callable[[MetadataRecord], None],
    ) -> None:
        """`publish` is called with each record that was replayed."""
        self._metadata = metadata
        self._replicas = replicas
        self._topics = replicas.topics
        self._logs = replicas.logs
        self._deletions = replicas.deletions
        self._publish = publish
        self.applied = asyncio.Event()
        """Set after each record."""
        self._slices = TimeSlices()
        self._missing_directories: dict[UUID, dict[TopicPartition, UUID]] = {}
        """Partitions, by topic, whose directories could not be made yet."""

    @property
    def position(self) -> int:
        """Offset of the record to be followed next."""
        return self._metadata.end_offset

    async def follow(self, records: Iterable[tuple[int, MetadataRecord]]) -> None:
        """Apply these records, each with its offset in the log of the other node.

        Records that were followed already are left out. A partition whose directory cannot be made
        is refused; each call tries it again.
        """
        await self._retry_directories()
        unread = [logged for logged in records if logged[0] >= self._metadata.end_offset]
        for _, batch_records in groupby(unread, _batch_key):
            batch = [*batch_records]
            await self._prepare([record for _, record in batch if isinstance(record, TopicRecord)])
            for offset, record in batch:
                self._metadata.replay(offset, record)
                await self._apply(record)
                self._publish(record)
                self._topics.responses.clear()
                self.applied.set()
                await self._slices.give_way()
            if self._deletions.has_topics:
                await self._deletions.finish(self._deletions.pending())

    async def _prepare(self, records: Iterable[TopicRecord]) -> None:
        """Create the directories of new partitions before the topics become visible."""
        latest = {record.id: record for record in records}.values()
        await self._deletions.await_cleanup(record.name for record in latest)
        if not self._logs.has_directories:
            return
        partitions: dict[TopicPartition, UUID] = {}
        for record in latest:
            partitions |= self._new_partitions(record)
            await self._slices.give_way()
        if not partitions:
            return
        try:
            await asyncio.to_thread(self._logs.make_directories, partitions)
        except KafkaError:
            for record in latest:
                await self._make_directories_or_refuse(record)

    def _new_partitions(self, record: TopicRecord) -> dict[TopicPartition, UUID]:
        topic = self._topics.by_id(record.id)
        return partitions_of(record, 0 if topic is None else len(topic.partitions))

    async def _make_directories_or_refuse(self, record: TopicRecord) -> None:
        partitions = self._new_partitions(record)
        try:
            await asyncio.to_thread(self._logs.make_directories, partitions)
        except KafkaError as error:
            logger.error(
                "cannot open partitions of a topic",
                extra=fields(topic=record.name, why=error.__cause__ or error),
            )
            self._logs.refuse(partitions, f"its directory could not be made: {error}")
            if error.code == ErrorCode.kafka_storage_error:
                self._missing_directories.setdefault(record.id, {}).update(partitions)

    async def _retry_directories(self) -> None:
        """Open partitions whose directories could not be created before, as on a full disk."""
        for topic_id, partitions in tuple(self._missing_directories.items()):
            topic = self._topics.by_id(topic_id)
            try:
                if topic is not None:
                    await asyncio.to_thread(self._logs.make_directories, partitions)
            except KafkaError:
                return
            del self._missing_directories[topic_id]
            if topic is not None:
                settings = self._logs.settings(topic.effective)
                for partition in self._logs.placed_here(partitions):
                    self._logs.reopen(partition, topic_id, settings)
                    await self._slices.give_way()

    async def _apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                await self._apply_topic(record)
            case RemoveTopicRecord(id=topic_id):
                await self._apply_deletion(self._topics.by_id(topic_id))

    async def _apply_topic(self, record: TopicRecord) -> None:
        if record.id not in self._replicas.image.topics:
            return  # its name is another topic's
        settings = self._logs.settings(self._logs.effective(record.configs))
        for partition in self._logs.placed_here(self._new_partitions(record)):
            # The record is not read again: a log that fails must not cost the whole topic.
            self._logs.open_or_refuse(partition, record.id, settings)
            await self._slices.give_way()
        topic = self._topics.by_id(record.id)
        if topic is None:
            self._replicas.add(await self._logs.open_topic_in_slices(record, self._slices))
            return
        if record.configs != topic.configs:
            self._logs.configure(topic, record.configs)
        if record.partitions > len(topic.partitions):
            new_partitions = partitions_of(record, len(topic.partitions))
            logs = await self._logs.open_in_slices(new_partitions, topic.effective, self._slices)
            self._topics.add_partitions(topic, logs)

    async def _apply_deletion(self, topic: Topic | None) -> None:
        if topic is None:
            return
        self._topics.remove((topic,))
        for _ in self._replicas.retire(topic):
            await self._slices.give_way()


def _batch_key(numbered: tuple[int, MetadataRecord]) -> tuple[int, bool]:
    """Topics that follow one another are of one run, of at most `MAX_BATCH_TOPICS`."""
    offset, record = numbered
    return offset // MAX_BATCH_TOPICS, isinstance(record, TopicRecord)
