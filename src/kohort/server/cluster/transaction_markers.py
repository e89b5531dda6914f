"""Transaction markers in the partitions of this server, `__consumer_offsets` included."""

from kohort.errors import ErrorCode, KafkaError
from kohort.runtime.clock import Clock
from kohort.runtime.groups import Groups
from kohort.runtime.markers import Marker
from kohort.server.metadata import OFFSETS_TOPIC
from kohort.server.replicas import Topics
from kohort.types import TopicPartition


class PartitionMarkers:
    """Writes transaction markers to local partitions."""

    def __init__(
        self, topics: Topics, groups: Groups, clock: Clock, *, waits_for_disk: bool
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._waits_for_disk = waits_for_disk

    async def write(self, partition: TopicPartition, marker: Marker) -> None:
        """Append the marker; return when it is as durable as configured.

        Raises KafkaError as Kafka responds to WriteTxnMarkers, OSError.
        """
        if partition.topic == OFFSETS_TOPIC:
            await self._groups.complete_transaction(
                partition.partition,
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            return
        log = self._topics.log(*partition)
        if log is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        log.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            timestamp=self._clock.timestamp(),
        )
        if self._waits_for_disk:
            await log.durable()
