"""The topics of this server as the groups' coordinator sees them."""

from collections.abc import Iterable
from uuid import UUID

from kohort.coordinator.topics import TopicImage
from kohort.server.replicas.topic import Topic
from kohort.server.replicas.topics import Topics


class GroupTopics:
    """A `coordinator.topics.TopicsView` of the topics as they are at each moment.

    `rack` is that of the broker, which has all replicas.
    """

    def __init__(self, topics: Topics, rack: str | None) -> None:
        self._topics = topics
        self.rack = rack

    @property
    def version(self) -> int:
        return self._topics.version

    @property
    def created_version(self) -> int:
        return self._topics.created_version

    @property
    def count(self) -> int:
        return len(self._topics)

    def by_name(self, name: str) -> TopicImage | None:
        return _image(self._topics.get(name))

    def by_id(self, topic_id: UUID) -> TopicImage | None:
        return _image(self._topics.by_id(topic_id))

    def names(self) -> Iterable[str]:
        return (topic.name for topic in self._topics.all())


def _image(topic: Topic | None) -> TopicImage | None:
    return None if topic is None else TopicImage(topic.name, topic.id, len(topic.partitions))
