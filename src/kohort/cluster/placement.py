"""Fixed assignment of partitions to the workers of one machine."""

from zlib import crc32

from kohort.types import TopicPartition


def worker_of(partition: TopicPartition, workers: int) -> int:
    """Index of the worker that leads a partition; those of a topic are spread round-robin."""
    return (crc32(partition.topic.encode()) + partition.partition) % workers
