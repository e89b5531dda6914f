"""The metadata hash of the subscribed topics of a group."""

from collections.abc import Collection
from functools import lru_cache
from typing import Final

from kohort.coordinator.metadata_hash import group_hash, topic_hash
from kohort.coordinator.topics import TopicImage, TopicsView

_CACHED: Final = 16_384


def existing(names: Collection[str], topics: TopicsView) -> dict[str, TopicImage]:
    """Name → topic, of the existing topics."""
    if len(names) > topics.count:
        names = [name for name in topics.names() if name in names]
    images = map(topics.by_name, names)
    return {topic.name: topic for topic in images if topic is not None}


def metadata_hash(names: Collection[str], topics: TopicsView) -> int:
    """The hash of the existing topics, 0 if there is none."""
    existing_topics, rack = existing(names, topics), topics.rack
    return group_hash({name: _hash(topic, rack) for name, topic in existing_topics.items()})


@lru_cache(maxsize=_CACHED)
def _hash(topic: TopicImage, rack: str | None) -> int:
    return topic_hash(topic.id, topic.name, topic.partitions, rack)
