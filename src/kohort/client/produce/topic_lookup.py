"""Finds the metadata of topics that records are sent to (Java's `waitOnMetadata`)."""

from kohort.client.backoff import retrying
from kohort.client.cluster import Cluster, TopicMetadata
from kohort.errors import ErrorCode, KafkaError


class TopicLookup:
    """Requests the metadata of topics; brokers may create the topics on this request."""

    def __init__(self, cluster: Cluster, max_block_ms: int) -> None:
        """A lookup is retried for `max_block_ms`."""
        self._cluster = cluster
        self._max_block_ms = max_block_ms

    async def find(self, topic: str, partition: int = 0) -> TopicMetadata:
        """Metadata of the topic that has the partition, which may have been added just now.

        Raises KafkaError, GaveUpError, TypeError for a topic that is no str.
        """
        if not isinstance(topic, str):
            raise TypeError(f"topic {topic!r}: a str expected")
        return await retrying(
            lambda: self._request(topic, partition),
            operation=f"metadata of topic {topic!r}",
            timeout_ms=self._max_block_ms,
            backoff=self._cluster.backoff(),
            advice="check the topic's name, and that the brokers can be reached",
        )

    async def _request(self, topic: str, partition: int) -> TopicMetadata:
        response = await self._cluster.request_metadata((topic,), allow_auto_create=True)
        metadata = response.topics[topic]
        if metadata.error is not ErrorCode.none:
            raise KafkaError(metadata.error, f"topic {topic}")
        if not metadata.partitions:
            raise KafkaError(ErrorCode.leader_not_available, f"topic {topic} has no partitions yet")
        if metadata.partition(partition) is None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition,
                f"{topic}-{partition}: the topic has {len(metadata.partitions)} partitions",
            )
        return self._cluster.cached_topic(topic) or metadata
