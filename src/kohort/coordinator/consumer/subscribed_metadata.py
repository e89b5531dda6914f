"""The hash of the metadata of the topics that a group subscribes to."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kohort.coordinator.metadata_hash import group_hash, topic_hash
from kohort.coordinator.topics import TopicImage, TopicsView

_CACHED: Final = 16_384


def metadata_hash(names: Iterable[str], topics: TopicsView) -> int:
    """The hash of those of the topics that exist, 0 if there is none."""
    found = map(topics.by_name, names)
    rack = topics.rack
    return group_hash({topic.name: _hash(topic, rack) for topic in found if topic is not None})


@lru_cache(maxsize=_CACHED)
def _hash(topic: TopicImage, rack: str | None) -> int:
    return topic_hash(topic.id, topic.name, topic.partitions, rack)
