"""Which worker of one machine leads a partition, where that is fixed."""

from zlib import crc32

from kohort.types import TopicPartition


def worker_of(partition: TopicPartition, workers: int) -> int:
    """The worker, from 0 on, that leads a partition: those of a topic one after the other."""
    return (crc32(partition.topic.encode()) + partition.partition) % workers
