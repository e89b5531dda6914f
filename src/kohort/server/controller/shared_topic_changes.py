"""Changes of topics on one of several nodes that share the metadata log.

They are decided as all nodes know the topics when the change is logged.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from kohort.cluster import NO_LEADER
from kohort.errors import KafkaError
from kohort.server.controller.metadata_writer import SharedMetadataWriter
from kohort.server.controller.new_topic import Growth, NewTopic
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

LED_WITHIN_S: Final = 5.0
"""Time that a new partition has to get a leader before its creation is told to be done."""


class SharedTopicChanges(TopicChanges):
    """`TopicChanges` on which all nodes agree."""

    _writer: SharedMetadataWriter

    def __init__(
        self,
        writer: SharedMetadataWriter,
        replicas: ReplicaManager,
        control: ReplicationControl,
        applied: asyncio.Event,
    ) -> None:
        """`applied` is set after each record of the metadata log."""
        super().__init__(writer, replicas, control)
        self._applied = applied

    async def _create_each(self, wanted: Sequence[NewTopic]) -> list[Topic | KafkaError]:
        slices = TimeSlices()
        planned: list[TopicRecord | KafkaError] = []
        for new in wanted:
            planned.append(self._control.planned(new))
            await slices.give_way()
        outcomes: dict[UUID, Topic | KafkaError] = {}
        valid = (each for each in planned if isinstance(each, TopicRecord))
        for some in in_batches(valid, topic_chars):
            try:
                outcomes |= await self._create_batch(some)
            except KafkaError as error:
                outcomes |= dict.fromkeys((each.id for each in some), error)
        return [each if isinstance(each, KafkaError) else outcomes[each.id] for each in planned]

    async def _create_batch(self, planned: Sequence[TopicRecord]) -> dict[UUID, Topic | KafkaError]:
        refused: dict[UUID, KafkaError] = {}

        def decide() -> list[TopicRecord]:
            nonlocal refused
            refused = self._names.refused(planned)
            return [each for each in planned if each.id not in refused]

        def created() -> dict[UUID, Topic | KafkaError]:
            topics = [
                topic for each in planned if (topic := self._topics.by_id(each.id)) is not None
            ]
            for topic in topics:
                log_created(topic)
            return {**refused, **{topic.id: topic for topic in topics}}

        return await self._writer.append(decide, created)

    async def delete_each(self, names: Sequence[str]) -> dict[str, KafkaError]:
        topics = [topic for name in names if (topic := self._topics.get(name)) is not None]
        refused = {name: unknown_topic(name) for name in names if self._topics.get(name) is None}
        for start in range(0, len(topics), BATCH_RECORDS):
            some = topics[start : start + BATCH_RECORDS]
            try:
                refused |= await self._delete_batch(some)
            except KafkaError as error:
                refused |= {topic.name: error for topic in some}
        return refused

    async def _delete_batch(self, topics: Sequence[Topic]) -> dict[str, KafkaError]:
        """Delete topics; those that another node has deleted before are told of."""
        deleted: list[Topic] = []

        def decide() -> list[RemoveTopicRecord]:
            deleted[:] = (each for each in topics if self._topics.by_id(each.id) is not None)
            return [RemoveTopicRecord(each.id) for each in deleted]

        def gone() -> dict[str, KafkaError]:
            for topic in deleted:
                log_deleted(topic)
            return {each.name: unknown_topic(each.name) for each in topics if each not in deleted}

        return await self._writer.append(decide, gone)

    async def _grow_each(self, wanted: Sequence[Growth]) -> list[Topic | KafkaError]:
        grown: list[Topic | KafkaError] = []
        for some in in_batches(wanted, self._control.growth_chars):
            try:
                grown += await self._grow_batch(some)
            except KafkaError as error:
                grown += [error] * len(some)
        return grown

    async def _grow_batch(self, wanted: Sequence[Growth]) -> list[Topic | KafkaError]:
        planned: list[TopicRecord | KafkaError] = []

        def decide() -> list[TopicRecord]:
            planned[:] = map(self._control.grown, wanted)
            return [each for each in planned if isinstance(each, TopicRecord)]

        def grown() -> list[Topic | KafkaError]:
            return [
                each if isinstance(each, KafkaError) else self._told_grown(each.name)
                for each in planned
            ]

        return await self._writer.append(decide, grown)

    def _told_grown(self, name: str) -> Topic:
        topic = self._control.existing(name)
        log_grown(topic)
        return topic

    async def alter(self, name: str, configs: Callable[[Topic], Mapping[str, str]]) -> None:
        def decide() -> list[TopicRecord]:
            return [self._control.alter_configs(name, configs)]

        await self._writer.in_time(self._writer.append(decide, _nothing))

    # New partitions, which have a leader when their creation is told, as in Kafka

    async def create_each(
        self, wanted: Sequence[NewTopic], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        made = await super().create_each(wanted, deadline)
        await self._led_soon([each for each in made if isinstance(each, Topic)])
        return made

    async def grow_each(
        self, wanted: Sequence[Growth], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        grown = await super().grow_each(wanted, deadline)
        await self._led_soon([each for each in grown if isinstance(each, Topic)])
        return grown

    async def _led_soon(self, topics: Iterable[Topic]) -> None:
        """Return when all partitions have a leader, are deleted, or did not get one in time."""
        cluster, slices = self._replicas.image.cluster, TimeSlices()
        with suppress(TimeoutError):
            async with asyncio.timeout(LED_WITHIN_S):
                for topic in topics:
                    for partition in range(len(topic.partitions)):
                        place = TopicIdPartition(topic.id, partition)
                        while (
                            self._topics.by_id(topic.id) and cluster.leader(place).node == NO_LEADER
                        ):
                            self._applied.clear()
                            await self._applied.wait()
                        await slices.give_way()


def _nothing() -> None:
    pass
