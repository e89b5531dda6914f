"""The topics of this server with their logs, as the metadata says (Kafka's ReplicaManager)."""

import asyncio
from collections.abc import Iterator
from uuid import UUID

from kohort.log.base import Log, LogDirectory
from kohort.server.config import Config
from kohort.server.metadata import MetadataImage, partitions_of
from kohort.server.replicas.claimed_names import ClaimedNames
from kohort.server.replicas.partition_logs import PartitionLogs, Placement, everywhere
from kohort.server.replicas.reconciliation import reconcile
from kohort.server.replicas.rollback import Rollback
from kohort.server.replicas.topic import Topic
from kohort.server.replicas.topic_deletions import Deletions
from kohort.server.replicas.topics import Topics
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices


class ReplicaManager:
    """Opens, closes and configures the logs of partitions."""

    def __init__(
        self,
        logs: LogDirectory,
        config: Config,
        image: MetadataImage,
        placement: Placement = everywhere,
    ) -> None:
        """Of each topic those partitions have their logs here that `placement` says."""
        owned = logs.owned
        self.image = image
        self.topics = Topics()
        self.logs = PartitionLogs(logs, config, placement, image.leader_epoch)
        self.names = ClaimedNames(
            is_case_insensitive=owned is not None and owned.directories.is_case_insensitive
        )
        self.deletions = Deletions(self._remove)
        self.rollback = Rollback(image, self.topics, self.logs, self.names, self.deletions)
        self._owned = owned
        self._reconfiguring: asyncio.Task[None] | None = None
        config.on_change.append(self._reconfigure)
        self._on_reopened = logs.on_reopened
        self._on_reopened.append(self._reopened)

    def start(self, partitions: dict[TopicPartition, UUID]) -> None:
        """Reconcile the directories with the metadata, and open every topic.

        `partitions` are partitions beside topics. Raises KohortError if the data directory cannot
        be used as it is, OSError if the storage fails.
        """
        if self._owned is not None:
            for record in self.image.topics.values():
                partitions |= self.logs.placed_here(partitions_of(record))
            refused = reconcile(self._owned.directories, self.image, partitions)
            for partition, why in refused.items():
                self._owned.refuse(partition, why)
        self.image.deleted = None
        self.logs.recover(self.image.topics.values())
        for record in self.image.topics.values():
            self.add(self.logs.open_topic(record))

    def close(self) -> None:
        """Drop the remaining steps of a rollback. Idempotent."""
        self.rollback.close()

    # Topics

    def add(self, topic: Topic) -> None:
        """Add a topic whose logs are open."""
        self.topics.add(topic)
        self.names.claim(topic.name)

    def retire(self, topic: Topic) -> Iterator[None]:
        """Close the logs of a deleted topic one by one, as long as that is not rolled back."""
        if topic.id in self.image.topics:
            return
        self.names.disclaim(topic.name)
        self.deletions.add_topic(topic.name)
        for log in topic.partitions:
            if topic.id in self.image.topics:
                return
            self.logs.retire(log.topic_partition)
            self.deletions.add_partition(log.topic_partition, topic.id)
            yield

    def _remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        self.logs.remove(partition, topic_id)

    # Logs

    def _reopened(self, log: Log) -> None:
        topic = self.topics.replace(log)
        if topic is not None:
            log.configure(self.logs.settings(topic.effective))

    def _reconfigure(self) -> None:
        """Apply changed configs of the broker to all topics, in slices."""
        self.logs.broker_configs_changed()
        self._reconfiguring = asyncio.create_task(self._configure_all())

    async def _configure_all(self) -> None:
        slices = TimeSlices()
        for topic in tuple(self.topics.all()):
            self.logs.configure(topic, topic.configs)
            await slices.give_way()

    async def reconfigured(self) -> None:
        """Return when changed configs of the broker are applied to all topics."""
        if self._reconfiguring is not None:
            await asyncio.shield(self._reconfiguring)
