"""Partitions according to the metadata log, for checks of logs without a server."""

from collections.abc import Iterable

from kohort.cluster import Leader
from kohort.log.findings import LoggedPartition
from kohort.server.metadata.batches import decode_batches
from kohort.server.metadata.image import MetadataImage
from kohort.server.metadata.records import partitions_of
from kohort.types import TopicIdPartition, TopicPartition


def read_logged_partitions(batches: Iterable[bytes]) -> dict[TopicPartition, LoggedPartition]:
    """The `Fold` of the metadata log. Raises UndecodableError."""
    state = MetadataImage()
    for data in batches:
        for _, record in decode_batches(data):
            state.replay(record)
    partitions: dict[TopicPartition, LoggedPartition] = {}
    for topic in state.topics.values():
        for partition, topic_id in partitions_of(topic).items():
            leader = state.cluster.leaders.get(
                TopicIdPartition(topic_id, partition.partition), Leader()
            )
            partitions[partition] = LoggedPartition(topic_id, max(leader.epoch, 0))
    return partitions
