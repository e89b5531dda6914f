"""The known state of a cluster: its brokers, its topics, and the leaders of their partitions.

Pure: time is an argument, in seconds of any monotonic clock. Metadata of a topic is valid until it
is too old, or a caller found it wrong (`stale`). Metadata that is older than what is known is not
believed (`TopicMetadata.after`), so leader epochs are remembered even when they are stale.
"""

from typing import Final

from kohort.client.cluster.metadata import NO_LEADER, BrokerNode, Leader, Metadata, TopicMetadata
from kohort.client.errors import is_retriable
from kohort.errors import ErrorCode, KafkaError
from kohort.types import TopicPartition

UNKNOWN: Final = ErrorCode.unknown_topic_or_partition
_STALE: Final = float("-inf")


class KnownCluster:
    """The cluster as one client knows it."""

    def __init__(self, max_age_s: float) -> None:
        self.brokers: dict[int, BrokerNode] = {}
        """Brokers by node id."""
        self._max_age_s = max_age_s
        self._topics: dict[str, tuple[TopicMetadata, float]] = {}  # and when it was learnt

    def __repr__(self) -> str:
        return f"<KnownCluster {len(self.brokers)} brokers, {len(self._topics)} topics>"

    def __len__(self) -> int:
        return len(self._topics)

    def learn(self, told: Metadata, now: float) -> None:
        """Remember a Metadata response."""
        self.brokers = dict(told.brokers)
        for name, topic in told.topics.items():
            self._topics[name] = topic.after(self.told(name)), now

    def learn_broker(self, broker: BrokerNode) -> None:
        """Remember a broker that another response named."""
        known = self.brokers.get(broker.node_id)
        if known is None or known.address != broker.address:
            self.brokers[broker.node_id] = broker

    def forget_brokers(self) -> None:
        """Forget all brokers."""
        self.brokers.clear()

    def told(self, name: str) -> TopicMetadata | None:
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
        """The metadata of the topic is wrong."""
        if name in self._topics:
            self._topics[name] = self._topics[name][0], _STALE

    def no_leader(self, tp: TopicPartition) -> KafkaError:
        """The reason why the last metadata has no leader of the partition."""
        topic = self.told(tp.topic) or TopicMetadata(name=tp.topic, error=UNKNOWN)
        partition = topic.partition(tp.partition)
        if topic.error is not ErrorCode.none:
            return KafkaError(topic.error, f"topic {tp.topic}")
        if partition is None:
            return KafkaError(UNKNOWN, f"{tp}: the topic has {len(topic.partitions)} partitions")
        error = (
            partition.error
            if partition.error is not ErrorCode.none
            else ErrorCode.leader_not_available
        )
        # An error of a replica does not explain why the partition has no leader.
        return KafkaError(
            error if is_retriable(KafkaError(error)) else ErrorCode.leader_not_available, str(tp)
        )
