"""Topics of one of several nodes that share a storage: each leads some of the partitions."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final
from uuid import UUID

from kohort.cluster import NO_LEADER, Place, Purpose, Spread
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogDirectory
from kohort.log.elsewhere import ElsewhereLog
from kohort.log.shared import SharedLogDirectory
from kohort.log.standby import StandbyLog
from kohort.runtime.time_slice import TimeSlices
from kohort.server.config import Config
from kohort.server.topics.cluster_metadata import MetadataRecord, ProducerIdsReserved
from kohort.server.topics.followed import FollowingTopics
from kohort.server.topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.server.topics.shared_metadata import SharedMetadata
from kohort.server.topics.topic import NewTopic, Topic
from kohort.types import Timestamp, TopicPartition

logger = logging.getLogger("kohort.topics")

_PURPOSES: Final = {OFFSETS_TOPIC: Purpose.GROUPS, TRANSACTIONS_TOPIC: Purpose.TRANSACTIONS}
_ATTEMPTS: Final = 10
LED_WITHIN_S: Final = 5.0
"""Time that a new partition has to get a leader before its creation is told to be done."""


class SharedTopics(FollowingTopics):
    """The topics of the cluster; any node may change them."""

    def __init__(
        self,
        logs: SharedLogDirectory,
        config: Config,
        now: Callable[[], Timestamp],
        metadata: SharedMetadata,
    ) -> None:
        """Know the topics of `metadata`, and lead no partition yet."""
        self._led: dict[TopicPartition, int] = {}
        """The partitions whose logs are here, with their leader epochs."""
        self.taken = self.given_up = 0
        """Partitions that were led from some time on, and those no more."""
        self._applied = asyncio.Event()
        """Set after each record."""
        super().__init__(logs, config, now, self._led.__contains__, metadata)
        self._standbys: dict[TopicPartition, StandbyLog] = {}
        self._shared_logs = logs
        self._on_reopened = logs.on_reopened
        metadata.follow = self.follow

    def _reconcile(self, logs: LogDirectory, places: dict[TopicPartition, UUID]) -> None:
        """What the storage has is that of all nodes."""

    # Leading

    @property
    def led(self) -> Mapping[TopicPartition, int]:
        """The partitions that are led here, with their leader epochs, for reading only."""
        return MappingProxyType(self._led)

    def led_by_purpose(self) -> Mapping[Purpose, int]:
        """How many partitions of each purpose are led here."""
        found = dict.fromkeys(Purpose, 0)
        for name, purpose in _PURPOSES.items():
            topic = self.get(name)
            logs = () if topic is None else topic.partitions
            found[purpose] = sum(log.topic_partition in self._led for log in logs)
        return found | {Purpose.RECORDS: len(self._led) - sum(found.values())}

    @property
    def spread(self) -> dict[UUID, Spread]:
        """The topics of the metadata log, as far as `decide` has to know them."""
        return {
            topic_id: Spread(_PURPOSES.get(record.name, Purpose.RECORDS), record.partitions)
            for topic_id, record in self._metadata.state.topics.items()
        }

    @property
    def standbys(self) -> Mapping[TopicPartition, StandbyLog]:
        """The partitions that are to be led here next, and are read meanwhile."""
        return MappingProxyType(self._standbys)

    def partition_of(self, place: Place) -> TopicPartition | None:
        """A partition by its topic's id; None if there is no such topic or partition."""
        topic = self.by_id(place.topic_id)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        return TopicPartition(topic.name, place.partition)

    async def take(self, place: Place, epoch: int) -> None:
        """Lead a partition from now on, in that epoch: its records are served, its shard loads.

        Nothing happens to one that is led here already, or whose topic is gone. Raises OSError.
        """
        partition, topic = self.partition_of(place), self.by_id(place.topic_id)
        if partition is None or topic is None or partition in self._led:
            return
        settings = self._logs.settings(topic.effective)
        log = await self._shared_logs.take(partition, topic.id, settings, epoch, self.position)
        if self.partition_of(place) != partition:
            await self._shared_logs.release(partition)
            return
        # In epoch 0 there was no other leader.
        log.is_newly_led = epoch > 0
        self._led[partition] = epoch
        self.taken += 1
        self._standbys.pop(partition, None)
        self._tell_opened(log)

    def settle(self, partition: TopicPartition) -> None:
        """Nothing comes any more that was on its way to the former leader.

        Harmless if the partition is not led here.
        """
        if partition in self._led and (log := self.log(*partition)) is not None:
            log.is_newly_led = False

    def stand_by(self, place: Place, on_ready: Callable[[], object]) -> None:
        """Read a partition that another node leads, to serve it soon after that lets it go.

        `on_ready` is called when it has been read, if that takes time. Nothing happens to one that
        is led or read here already, or whose topic is gone.
        """
        partition, topic = self.partition_of(place), self.by_id(place.topic_id)
        if partition is None or topic is None:
            return
        if partition in self._standbys or partition in self._led:
            return
        settings = self._logs.settings(topic.effective)
        log = self._standbys[partition] = self._shared_logs.stand_by(partition, topic.id, settings)
        log.on_ready = on_ready
        self._tell_opened(log)

    def stand_down(self, partition: TopicPartition) -> None:
        """Read a partition no more. Harmless if it is not read here."""
        log = self._standbys.pop(partition, None)
        if log is not None:
            self._tell_opened(ElsewhereLog(partition, log.config))

    async def give_up(self, partition: TopicPartition) -> None:
        """Lead a partition no more: who asks is sent elsewhere, and nothing is written to it.

        Harmless if it is not led here. Raises OSError if the outcome of what was appended last is
        not known.
        """
        if self._led.pop(partition, None) is None:
            return
        self.given_up += 1
        log = self.log(*partition)
        if log is not None:
            self._tell_opened(ElsewhereLog(partition, log.config))
        await self._shared_logs.release(partition)

    def _tell_opened(self, log: Log) -> None:
        for tell in tuple(self._on_reopened):
            tell(log)

    def _reopened(self, log: Log) -> None:
        former = self.log(*log.topic_partition)
        if former is not None and log.topic_partition in self._led:
            # `take` has set that of a log whose former one refuses everything.
            log.is_newly_led |= former.is_newly_led
        super()._reopened(log)

    def _retire(self, topic: Topic) -> Iterator[None]:
        yield from super()._retire(topic)
        for log in topic.partitions:
            self._led.pop(log.topic_partition, None)
            self._standbys.pop(log.topic_partition, None)

    def _remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Whoever led it last: that node may be gone."""
        if self._to_remove.get(partition) == topic_id:
            del self._to_remove[partition]
            self._logs.remove_anywhere(partition, topic_id)

    # Producer ids

    async def _take_producer_ids(self) -> Sequence[int]:
        for _ in range(_ATTEMPTS):
            block = self.producer_ids.block()
            try:
                await self.durable(self.last_change)
            except KafkaError:
                continue  # another node has reserved them
            return block
        raise KafkaError(ErrorCode.coordinator_load_in_progress, "no producer ids in hand")

    async def _apply(self, record: MetadataRecord) -> None:
        if isinstance(record, ProducerIdsReserved):
            self.producer_ids.reserved_elsewhere(record.end)
        else:
            await super()._apply(record)
            self.responses.clear()
        self._applied.set()

    # New partitions, which have a leader when their creation is told, as in Kafka

    async def create_each(self, wanted: Sequence[NewTopic]) -> list[Topic | KafkaError]:
        made = await super().create_each(wanted)
        await self._led_soon([each for each in made if isinstance(each, Topic)])
        return made

    async def grow(self, name: str, total: int) -> Topic:
        topic = await super().grow(name, total)
        await self._led_soon([topic])
        return topic

    async def _led_soon(self, topics: Iterable[Topic]) -> None:
        """Return when all partitions have a leader, or did not get one in time."""
        cluster, slices = self._metadata.state.cluster, TimeSlices()
        with suppress(TimeoutError):
            async with asyncio.timeout(LED_WITHIN_S):
                for topic in topics:
                    for partition in range(len(topic.partitions)):
                        while cluster.leader(Place(topic.id, partition)).node == NO_LEADER:
                            self._applied.clear()
                            await self._applied.wait()
                        await slices.give_way()
