"""Changes of topics on a node that makes the directories of partitions itself."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from kohort.errors import KafkaError
from kohort.log.base import Log
from kohort.server.controller.metadata_writer import MetadataWriter
from kohort.server.controller.new_topics import NewPartitions, NewTopic
from kohort.server.controller.replication_control import ReplicationControl, topic_chars
from kohort.server.logging import fields
from kohort.server.metadata import (
    BATCH_RECORDS,
    RemoveTopicRecord,
    TopicRecord,
    in_batches,
    partitions_of,
    storage_error,
)
from kohort.server.replicas import ReplicaManager, Topic
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices

_log = logging.getLogger("kohort.topics")


class TopicChanges:
    """Creates, deletes, grows and configures topics."""

    def __init__(
        self, writer: MetadataWriter, replicas: ReplicaManager, control: ReplicationControl
    ) -> None:
        self._writer = writer
        self._replicas = replicas
        self._control = control
        self._topics = replicas.topics
        self._logs = replicas.logs
        self._names = replicas.names
        self._deletions = replicas.deletions

    def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] = {},
        *,
        internal: bool = False,
    ) -> Topic:
        """Make a topic, blocking on the disk.

        Raises what `ReplicationControl.create_topic` raises, and KafkaError KAFKA_STORAGE_ERROR if
        its directories cannot be made, INVALID_TOPIC_EXCEPTION if one has the name of a directory
        that is not Kohort's.
        """
        self._replicas.rollback.finish()
        record = self._control.create_topic(name, partitions, configs, internal=internal)
        if self._deletions.has_records:
            self._writer.flush()
        self._logs.make_directories(partitions_of(record))
        return self._commit_new(record)

    async def create_topics(
        self, new_topics: Sequence[NewTopic], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        """Make topics, each by itself; in the same order the topic, or what `create` would raise.

        The topics are durable. Other tasks run in between. A cancelled caller does not end the work
        early. Raises KafkaError as `change` does.
        """
        return await self._writer.change(self._create_topics(new_topics), deadline)

    async def _create_topics(self, new_topics: Sequence[NewTopic]) -> list[Topic | KafkaError]:
        if self._deletions.has_records:
            try:
                await self._writer.durable()
            except KafkaError as error:
                return [error for _ in new_topics]
        await self._deletions.await_cleanup(new_topic.name for new_topic in new_topics)
        slices = TimeSlices()
        plans: list[TopicRecord | KafkaError] = []
        try:
            for new_topic in new_topics:
                plan = self._control.plan_creation(new_topic)
                plans.append(plan)
                if isinstance(plan, TopicRecord):
                    self._names.claim(plan.name)
                await slices.give_way()
            refused = await asyncio.to_thread(
                self._logs.make_directories_of_topics,
                {plan.name: partitions_of(plan) for plan in plans if isinstance(plan, TopicRecord)},
            )
            valid = [
                plan for plan in plans if isinstance(plan, TopicRecord) and plan.name not in refused
            ]
            outcomes: dict[str, Topic | KafkaError] = {**refused}
            for batch in in_batches(valid, topic_chars):
                outcomes |= await self._commit_topics(batch)
            return [plan if isinstance(plan, KafkaError) else outcomes[plan.name] for plan in plans]
        finally:
            for plan in plans:
                if isinstance(plan, TopicRecord) and self._topics.get(plan.name) is None:
                    self._names.disclaim(plan.name)

    async def _commit_topics(self, records: Sequence[TopicRecord]) -> dict[str, Topic | KafkaError]:
        """`_commit_new` of topics whose records fit into one batch."""
        slices = TimeSlices()
        opened: list[tuple[TopicRecord, Topic]] = []
        outcomes: dict[str, Topic | KafkaError] = {}
        for record in records:
            try:
                opened.append((record, await self._logs.open_topic_in_slices(record, slices)))
            except OSError as error:
                self._logs.discard(partitions_of(record))
                outcomes[record.name] = storage_error(error)
            await slices.give_way()
        if not opened:
            return outcomes
        try:
            self._writer.commit(*(record for record, _ in opened))
        except KafkaError as error:
            for record, _ in opened:
                self._logs.discard(partitions_of(record))
            return outcomes | {record.name: error for record, _ in opened}
        outcomes |= {record.name: self._added(topic) for record, topic in opened}
        try:
            await self._writer.durable(self._writer.last_change)
        except KafkaError as error:
            outcomes |= {record.name: error for record, _ in opened}
        return outcomes

    def _commit_new(self, record: TopicRecord) -> Topic:
        """Open the logs of a topic whose directories were made, and append its record."""
        try:
            topic = self._logs.open_topic(record)
            self._writer.commit(record)
        except (KafkaError, OSError) as error:
            self._logs.discard(partitions_of(record))
            raise error if isinstance(error, KafkaError) else storage_error(error) from error
        return self._added(topic)

    def _added(self, topic: Topic) -> Topic:
        """Add a topic that this node has created, and log that; its followers do not log it."""
        self._replicas.add(topic)
        log_created(topic)
        return topic

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError]:
        """Delete topics that exist; returns the error of each that was not deleted.

        The deletions are durable. Run it by `change`. Other tasks run in between.
        """
        slices = TimeSlices()
        refused: dict[str, KafkaError] = {}
        for start in range(0, len(names), BATCH_RECORDS):
            topics = [
                self._control.existing_topic(name) for name in names[start : start + BATCH_RECORDS]
            ]
            try:
                self._writer.commit(*(RemoveTopicRecord(topic.id) for topic in topics))
                change = self._writer.last_change
                self._topics.remove(topics)
                for topic in topics:
                    log_deleted(topic)
                    for _ in self._replicas.retire(topic):
                        await slices.give_way()
                await self._writer.durable(change)
            except KafkaError as error:
                refused |= {topic.name: error for topic in topics}
        return refused

    async def create_partitions(
        self, growths: Sequence[NewPartitions], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        """Add partitions to topics, each by itself; in the same order the topic, or its error.

        Errors are INVALID_PARTITIONS, UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION and
        KAFKA_STORAGE_ERROR. The growth is durable. No topic is named twice. A cancelled caller does
        not end the work early. Raises KafkaError as `change` does.
        """
        return await self._writer.change(self._create_partitions(growths), deadline)

    async def _create_partitions(
        self, growths: Sequence[NewPartitions]
    ) -> list[Topic | KafkaError]:
        slices = TimeSlices()
        outcomes: dict[str, Topic | KafkaError] = {}
        partitions: dict[str, Mapping[TopicPartition, UUID]] = {}
        for name, total in growths:
            try:
                partitions[name] = self._partitions_to_add(
                    self._control.validate_growth(name, total), total
                )
            except KafkaError as error:
                outcomes[name] = error.with_traceback(None)  # which refers to the list
            await slices.give_way()
        outcomes |= await asyncio.to_thread(self._logs.make_directories_of_topics, partitions)
        valid = [growth for growth in growths if growth.name not in outcomes]
        for batch in in_batches(valid, self._control.growth_chars):
            outcomes |= await self._commit_growths(batch)
        return [outcomes[name] for name, _ in growths]

    async def _commit_growths(
        self, growths: Sequence[NewPartitions]
    ) -> dict[str, Topic | KafkaError]:
        """Commit growths whose directories exist, and whose records fit into one batch."""
        slices = TimeSlices()
        outcomes: dict[str, Topic | KafkaError] = {}
        for name, total in growths:
            try:
                topic = self._control.validate_growth(name, total)
                new_partitions, effective = self._partitions_to_add(topic, total), topic.effective
                await self._logs.open_in_slices(new_partitions, effective, slices)
            except (KafkaError, OSError) as error:
                outcomes[name] = self._undo_growth(name, total, error)
            await slices.give_way()
        grown: list[tuple[Topic, int, tuple[Log, ...]]] = []
        for name, total in growths:
            if name in outcomes:
                continue
            try:
                topic = self._control.validate_growth(name, total)  # in its current state
                new_partitions = self._partitions_to_add(topic, total)
                grown.append(
                    (topic, total, tuple(self._logs.open(new_partitions, topic.effective)))
                )
            except (KafkaError, OSError) as error:
                outcomes[name] = self._undo_growth(name, total, error)
        if not grown:
            return outcomes
        try:
            self._writer.commit(*(topic.record(partitions=total) for topic, total, _ in grown))
        except KafkaError as error:
            for topic, total, _ in grown:
                outcomes[topic.name] = self._undo_growth(topic.name, total, error)
            return outcomes
        for topic, _, logs in grown:
            settings = self._logs.settings(topic.effective)
            for log in logs:
                log.configure(settings)  # the topic may have been altered meanwhile
            self._topics.add_partitions(topic, logs)
            log_grown(topic)
            outcomes[topic.name] = topic
        try:
            await self._writer.durable(self._writer.last_change)
        except KafkaError as error:
            outcomes |= {topic.name: error for topic, _, _ in grown}
        return outcomes

    def _undo_growth(self, name: str, total: int, error: KafkaError | OSError) -> KafkaError:
        """Remove the directories of a growth that failed; returns the error for its client."""
        topic = self._topics.get(name)
        if topic is not None:
            self._logs.discard(self._partitions_to_add(topic, total))
        if isinstance(error, OSError):
            return storage_error(error)
        return error.with_traceback(None)  # which refers to the list that has the error

    def _partitions_to_add(self, topic: Topic, total: int) -> dict[TopicPartition, UUID]:
        return partitions_of(topic.record(partitions=total), len(topic.partitions))

    async def alter(self, name: str, configs: Callable[[Topic], Mapping[str, str]]) -> None:
        """Replace a topic's own configs by what `configs` returns of it, at once for its open logs.

        The change need not be durable yet. Raises what `configs` raises, and KafkaError
        INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        record, topic = (
            self._control.alter_configs(name, configs),
            self._control.existing_topic(name),
        )
        self._writer.commit(record)
        self._topics.responses.clear()
        self._logs.configure(topic, record.configs)


def log_created(topic: Topic) -> None:
    """Log that this node has created a topic."""
    _log.info("created a topic", extra=fields(topic=topic.name, partitions=len(topic.partitions)))


def log_grown(topic: Topic) -> None:
    """Log that this node has added partitions to a topic."""
    _log.info(
        "added partitions to a topic",
        extra=fields(topic=topic.name, partitions=len(topic.partitions)),
    )


def log_deleted(topic: Topic) -> None:
    """Log that this node has deleted a topic."""
    _log.info("deleted a topic", extra=fields(topic=topic.name))
