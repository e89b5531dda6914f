"""Replicas of one of several nodes that share a storage: each leads some of the partitions."""

from collections.abc import Callable, Container, Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from kohort.cluster import TopicKind, TopicSize
from kohort.log.base import Log
from kohort.log.remote_log import RemoteLog
from kohort.log.shared_directory import SharedLogDirectory
from kohort.log.standby import StandbyLog
from kohort.server.config import Config
from kohort.server.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, MetadataImage
from kohort.server.replicas.replica_manager import ReplicaManager
from kohort.server.replicas.topic import Topic
from kohort.types import TopicIdPartition, TopicPartition

_KINDS: Final = {OFFSETS_TOPIC: TopicKind.GROUPS, TRANSACTIONS_TOPIC: TopicKind.TRANSACTIONS}


class SharedReplicaManager(ReplicaManager):
    """The topics of the cluster, and the logs of those partitions that this node leads."""

    def __init__(
        self,
        logs: SharedLogDirectory,
        config: Config,
        image: MetadataImage,
        position: Callable[[], int],
    ) -> None:
        """Open the topics of `image`, without leading any partition yet.

        `position` returns the offset up to which this node has read the metadata log.
        """
        self._led_epochs: dict[TopicPartition, int] = {}
        """The partitions whose logs are here, with their leader epochs."""
        self.leaderships_gained = self.leaderships_lost = 0
        """Numbers of partitions that this node became leader of, and of those that it resigned."""
        super().__init__(logs, config, image, self._led_epochs.__contains__)
        self._standbys: dict[TopicPartition, StandbyLog] = {}
        self._shared_logs = logs
        self._position = position
        logs.bind_topics(self._current_topics)

    def _current_topics(self) -> tuple[int, Container[UUID]]:
        """The end of the metadata log as this node knows it, and the topics up to there."""
        return self._position(), self.image.topics

    @property
    def led_epochs(self) -> Mapping[TopicPartition, int]:
        """The partitions that are led here, with their leader epochs, for reading only."""
        return MappingProxyType(self._led_epochs)

    def led_counts(self) -> Mapping[TopicKind, int]:
        """How many partitions of each kind are led here."""
        counts = dict.fromkeys(TopicKind, 0)
        for name, kind in _KINDS.items():
            topic = self.topics.get(name)
            logs = () if topic is None else topic.partitions
            counts[kind] = sum(log.topic_partition in self._led_epochs for log in logs)
        return counts | {TopicKind.RECORDS: len(self._led_epochs) - sum(counts.values())}

    def topic_sizes(self) -> Generator[None, None, dict[UUID, TopicSize]]:
        """The topics of the metadata log, as far as `decide` has to know them, in steps."""
        sizes = {}
        for topic_id, record in self.image.topics.items():
            kind = _KINDS.get(record.name, TopicKind.RECORDS)
            sizes[topic_id] = TopicSize(kind, record.partitions)
            yield
        return sizes

    @property
    def standbys(self) -> Mapping[TopicPartition, StandbyLog]:
        """The partitions that are to be led here next, and are read meanwhile."""
        return MappingProxyType(self._standbys)

    def partition_of(self, id_partition: TopicIdPartition) -> TopicPartition | None:
        """A partition by its topic's id; None if there is no such topic or partition."""
        topic = self.topics.by_id(id_partition.topic_id)
        if topic is None or id_partition.partition >= len(topic.partitions):
            return None
        return TopicPartition(topic.name, id_partition.partition)

    async def become_leader(self, id_partition: TopicIdPartition, epoch: int) -> None:
        """Open a partition as its leader in this epoch: serve its records, load its shard.

        No-op if it is led here already, or its topic was deleted. Raises OSError.
        """
        partition, topic = self.partition_of(id_partition), self.topics.by_id(id_partition.topic_id)
        if partition is None or topic is None or partition in self._led_epochs:
            return
        settings = self.logs.settings(topic.effective)
        log = await self._shared_logs.take(partition, topic.id, settings, epoch, self._position())
        if self.partition_of(id_partition) != partition:
            await self._shared_logs.release(partition)
            return
        # In epoch 0 there was no other leader.
        log.in_leader_transition = epoch > 0
        self._led_epochs[partition] = epoch
        self.leaderships_gained += 1
        self._standbys.pop(partition, None)
        self._notify_reopened(log)

    def end_transition(self, partition: TopicPartition) -> None:
        """End the transition period: producers no longer retry batches sent to the previous leader.

        No-op if the partition is not led here.
        """
        if partition in self._led_epochs and (log := self.topics.log(*partition)) is not None:
            log.in_leader_transition = False

    def start_standby(self, id_partition: TopicIdPartition, on_ready: Callable[[], object]) -> None:
        """Read a partition that another node leads, to lead it soon after that node resigns.

        `on_ready` is called when it has been read, if that takes time. No-op if it is led or read
        here already, or its topic was deleted.
        """
        partition, topic = self.partition_of(id_partition), self.topics.by_id(id_partition.topic_id)
        if partition is None or topic is None:
            return
        if partition in self._standbys or partition in self._led_epochs:
            return
        settings = self.logs.settings(topic.effective)
        log = self._standbys[partition] = self._shared_logs.stand_by(partition, topic.id, settings)
        log.on_ready = on_ready
        self._notify_reopened(log)

    def stop_standby(self, partition: TopicPartition) -> None:
        """Stop reading a partition. No-op if it is not read here."""
        log = self._standbys.pop(partition, None)
        if log is not None:
            self._notify_reopened(RemoteLog(partition, log.config))

    async def resign(self, partition: TopicPartition) -> None:
        """Stop leading a partition: requests get NOT_LEADER_OR_FOLLOWER, and appends are rejected.

        No-op if it is not led here. Raises OSError if the outcome of the last append is unknown.
        """
        if self._led_epochs.pop(partition, None) is None:
            return
        self.leaderships_lost += 1
        log = self.topics.log(*partition)
        if log is not None:
            self._notify_reopened(RemoteLog(partition, log.config))
        await self._shared_logs.release(partition)

    def _notify_reopened(self, log: Log) -> None:
        for callback in tuple(self._on_reopened):
            callback(log)

    def _reopened(self, log: Log) -> None:
        failed_log = self.topics.log(*log.topic_partition)
        if failed_log is not None and log.topic_partition in self._led_epochs:
            # `take` has set that of a log whose predecessor rejects everything.
            log.in_leader_transition |= failed_log.in_leader_transition
        super()._reopened(log)

    def retire(self, topic: Topic) -> Iterator[None]:
        """As of a node alone; the topic is led and read here no more."""
        yield from super().retire(topic)
        for log in topic.partitions:
            self._led_epochs.pop(log.topic_partition, None)
            self._standbys.pop(log.topic_partition, None)

    def _remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove the partition's rows, even if another node led it last: that one may be gone."""
        self.logs.remove_anywhere(partition, topic_id)
