"""Changes of topics on one of several nodes that share the metadata log.

They are decided on the state of the topics at the end of the log.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from kohort.cluster import NO_LEADER
from kohort.errors import KafkaError
from kohort.server.controller.metadata_writer import MetadataWriter
from kohort.server.controller.new_topics import NewPartitions, NewTopic
from kohort.server.controller.replication_control import (
    ReplicationControl,
    topic_chars,
    unknown_topic,
)
from kohort.server.controller.topic_changes import TopicChanges, log_created, log_deleted, log_grown
from kohort.server.metadata import BATCH_RECORDS, RemoveTopicRecord, TopicRecord, in_batches
from kohort.server.replicas import ReplicaManager, Topic
from kohort.types import TopicIdPartition
from kohort.util.time_slice import TimeSlices

LEADER_TIMEOUT_S: Final = 5.0
"""Longest wait for the leader of a new partition before its creation is acknowledged."""


class SharedTopicChanges(TopicChanges):
    """`TopicChanges` on which all nodes agree."""

    def __init__(
        self,
        writer: MetadataWriter,
        replicas: ReplicaManager,
        control: ReplicationControl,
        applied: asyncio.Event,
    ) -> None:
        """`applied` is set after each record of the metadata log."""
        super().__init__(writer, replicas, control)
        self._applied = applied

    async def _create_topics(self, new_topics: Sequence[NewTopic]) -> list[Topic | KafkaError]:
        slices = TimeSlices()
        plans: list[TopicRecord | KafkaError] = []
        for new in new_topics:
            plans.append(self._control.plan_creation(new))
            await slices.give_way()
        outcomes: dict[UUID, Topic | KafkaError] = {}
        valid = (plan for plan in plans if isinstance(plan, TopicRecord))
        for batch in in_batches(valid, topic_chars):
            try:
                outcomes |= await self._create_batch(batch)
            except KafkaError as error:
                outcomes |= dict.fromkeys((record.id for record in batch), error)
        return [plan if isinstance(plan, KafkaError) else outcomes[plan.id] for plan in plans]

    async def _create_batch(self, records: Sequence[TopicRecord]) -> dict[UUID, Topic | KafkaError]:
        conflicts: dict[UUID, KafkaError] = {}

        def decide() -> list[TopicRecord]:
            nonlocal conflicts
            conflicts = self._names.conflicts(records)
            return [record for record in records if record.id not in conflicts]

        def created() -> dict[UUID, Topic | KafkaError]:
            topics = [
                topic for record in records if (topic := self._topics.by_id(record.id)) is not None
            ]
            for topic in topics:
                log_created(topic)
            return {**conflicts, **{topic.id: topic for topic in topics}}

        return await self._writer.append(decide, created)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, KafkaError]:
        topics = [topic for name in names if (topic := self._topics.get(name)) is not None]
        refused = {name: unknown_topic(name) for name in names if self._topics.get(name) is None}
        for start in range(0, len(topics), BATCH_RECORDS):
            batch = topics[start : start + BATCH_RECORDS]
            try:
                refused |= await self._delete_batch(batch)
            except KafkaError as error:
                refused |= {topic.name: error for topic in batch}
        return refused

    async def _delete_batch(self, topics: Sequence[Topic]) -> dict[str, KafkaError]:
        """Delete topics; returns an error for each that another node has deleted before."""
        deleted: list[Topic] = []

        def decide() -> list[RemoveTopicRecord]:
            deleted[:] = (topic for topic in topics if self._topics.by_id(topic.id) is not None)
            return [RemoveTopicRecord(topic.id) for topic in deleted]

        def not_deleted() -> dict[str, KafkaError]:
            for topic in deleted:
                log_deleted(topic)
            return {
                topic.name: unknown_topic(topic.name) for topic in topics if topic not in deleted
            }

        return await self._writer.append(decide, not_deleted)

    async def _create_partitions(
        self, growths: Sequence[NewPartitions]
    ) -> list[Topic | KafkaError]:
        outcomes: list[Topic | KafkaError] = []
        for batch in in_batches(growths, self._control.growth_chars):
            try:
                outcomes += await self._grow_batch(batch)
            except KafkaError as error:
                outcomes += [error] * len(batch)
        return outcomes

    async def _grow_batch(self, growths: Sequence[NewPartitions]) -> list[Topic | KafkaError]:
        plans: list[TopicRecord | KafkaError] = []

        def decide() -> list[TopicRecord]:
            plans[:] = map(self._control.plan_growth, growths)
            return [plan for plan in plans if isinstance(plan, TopicRecord)]

        def grown() -> list[Topic | KafkaError]:
            return [
                plan if isinstance(plan, KafkaError) else self._log_growth(plan.name)
                for plan in plans
            ]

        return await self._writer.append(decide, grown)

    def _log_growth(self, name: str) -> Topic:
        topic = self._control.existing_topic(name)
        log_grown(topic)
        return topic

    async def alter(self, name: str, configs: Callable[[Topic], Mapping[str, str]]) -> None:
        def decide() -> list[TopicRecord]:
            return [self._control.alter_configs(name, configs)]

        await self._writer.with_deadline(self._writer.append(decide, _no_result))

    # New partitions, which have a leader when their creation is acknowledged, as in Kafka

    async def create_topics(
        self, new_topics: Sequence[NewTopic], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        outcomes = await super().create_topics(new_topics, deadline)
        await self._await_leaders([outcome for outcome in outcomes if isinstance(outcome, Topic)])
        return outcomes

    async def create_partitions(
        self, growths: Sequence[NewPartitions], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        outcomes = await super().create_partitions(growths, deadline)
        await self._await_leaders([outcome for outcome in outcomes if isinstance(outcome, Topic)])
        return outcomes

    async def _await_leaders(self, topics: Iterable[Topic]) -> None:
        """Return when all partitions have a leader, are deleted, or did not get one in time."""
        cluster, slices = self._replicas.image.cluster, TimeSlices()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEADER_TIMEOUT_S):
                for topic in topics:
                    for partition in range(len(topic.partitions)):
                        id_partition = TopicIdPartition(topic.id, partition)
                        while (
                            self._topics.by_id(topic.id)
                            and cluster.leader(id_partition).node == NO_LEADER
                        ):
                            self._applied.clear()
                            await self._applied.wait()
                        await slices.give_way()


def _no_result() -> None:
    pass
