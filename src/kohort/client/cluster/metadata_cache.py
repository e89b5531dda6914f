"""The cached metadata of a cluster: brokers, topics, and the leaders of partitions.

Pure: time is an argument, in seconds of any monotonic clock. Metadata of a topic is valid until it
is too old, or a caller reports it as `stale`. Leaders of a smaller epoch do not replace cached ones
(`TopicMetadata.after`), so leader epochs are kept even when the metadata is stale. The topics of
another cluster are dropped: its epochs cannot be compared.
"""

from typing import Final

from kohort.client.cluster.metadata import NO_LEADER, BrokerNode, Leader, Metadata, TopicMetadata
from kohort.client.errors import is_retriable
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

UNKNOWN_TOPIC_ERROR: Final = ErrorCode.unknown_topic_or_partition
_STALE: Final = float("-inf")


class MetadataCache:
    """The brokers and topics of the last Metadata responses, for one client."""

    def __init__(self, max_age_s: float) -> None:
        self.brokers: dict[int, BrokerNode] = {}
        """Brokers by node id."""
        self._max_age_s = max_age_s
        self._cluster_id: str | None = None
        self._topics: dict[str, tuple[TopicMetadata, float]] = {}  # and time of the response

    def __repr__(self) -> str:
        return f"<MetadataCache {len(self.brokers)} brokers, {len(self._topics)} topics>"

    def __len__(self) -> int:
        return len(self._topics)

    def learn(self, metadata: Metadata, now: float) -> None:
        """Cache a Metadata response."""
        self.brokers = dict(metadata.brokers)
        if metadata.cluster_id is not None:
            if self._cluster_id not in (None, metadata.cluster_id):
                self._topics.clear()
            self._cluster_id = metadata.cluster_id
        for name, topic in metadata.topics.items():
            self._topics[name] = topic.after(self.last_metadata(name)), now

    def learn_broker(self, broker: BrokerNode) -> None:
        """Cache a broker from another response."""
        cached = self.brokers.get(broker.node_id)
        if cached is None or cached.address != broker.address:
            self.brokers[broker.node_id] = broker

    def forget_brokers(self) -> None:
        """Remove all brokers, and mark the metadata of all topics as stale."""
        self.brokers.clear()
        for name in self._topics:
            self.stale(name)

    def last_metadata(self, name: str) -> TopicMetadata | None:
        """The last metadata of the topic, however old, perhaps an error."""
        entry = self._topics.get(name)
        return None if entry is None else entry[0]

    def topic(self, name: str, now: float) -> TopicMetadata | None:
        """Metadata that is not too old; None if there is none, or an error."""
        entry = self._topics.get(name)
        if (
            entry is None
            or entry[0].error is not ErrorCode.none
            or now > entry[1] + self._max_age_s
        ):
            return None
        return entry[0]

    def leader(self, tp: TopicPartition, now: float) -> Leader | None:
        """The leader of a partition; None if it has to be requested."""
        topic = self.topic(tp.topic, now)
        partition = topic and topic.partition(tp.partition)
        if not partition or partition.leader == NO_LEADER or partition.leader not in self.brokers:
            return None
        return Leader(partition.leader, partition.leader_epoch)

    def stale(self, name: str) -> None:
        """Mark the metadata of the topic as wrong."""
        if name in self._topics:
            self._topics[name] = self._topics[name][0], _STALE

    def no_leader(self, tp: TopicPartition) -> KafkaError:
        """The error that explains why the last metadata has no leader of the partition."""
        topic = self.last_metadata(tp.topic) or TopicMetadata(
            name=tp.topic, error=UNKNOWN_TOPIC_ERROR
        )
        partition = topic.partition(tp.partition)
        if topic.error is not ErrorCode.none:
            return KafkaError(topic.error, f"topic {tp.topic}")
        if partition is None:
            return KafkaError(
                UNKNOWN_TOPIC_ERROR, f"{tp}: the topic has {len(topic.partitions)} partitions"
            )
        error = (
            partition.error
            if partition.error is not ErrorCode.none
            else ErrorCode.leader_not_available
        )
        # An error of a replica does not explain why the partition has no leader.
        return KafkaError(
            error if is_retriable(KafkaError(error)) else ErrorCode.leader_not_available, str(tp)
        )
