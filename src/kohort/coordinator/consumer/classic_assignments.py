"""Converts the subscriptions and assignments of classic members of a consumer group.

Blobs of the "consumer" protocol have topic names, records of a consumer group topic ids. Topics
that do not exist are left out.
"""

from collections.abc import Iterable

from kohort.coordinator.consumer_records import Partitions
from kohort.coordinator.topics import TopicsView
from kohort.protocol.subscription import (
    HIGHEST_VERSION,
    Assignment,
    blob_version,
    encode_assignment,
)
from kohort.types import TopicPartition


def partitions_by_id(named: Iterable[TopicPartition], topics: TopicsView) -> Partitions:
    """The partitions by topic id."""
    by_name: dict[str, list[int]] = {}
    for topic, partition in named:
        by_name.setdefault(topic, []).append(partition)
    images = ((topics.by_name(name), numbers) for name, numbers in by_name.items())
    return {image.id: tuple(numbers) for image, numbers in images if image is not None}


def encoded_assignment(partitions: Partitions, subscription: bytes, topics: TopicsView) -> bytes:
    """The assignment in the version of the member's subscription.

    Raises MalformedError if the subscription has no version.
    """
    images = ((topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    return encode_assignment(
        Assignment(
            partitions=tuple(
                TopicPartition(image.name, partition)
                for image, numbers in images
                if image is not None
                for partition in numbers
            ),
            version=min(blob_version(subscription), HIGHEST_VERSION),
        )
    )
