"""The topics of the cluster, for consumer groups."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol
from uuid import UUID


class TopicImage(NamedTuple):
    """One topic."""

    name: str
    id: UUID
    partitions: int


class TopicsView(Protocol):
    """Read-only view of all topics; it may change between events, not during one."""

    @property
    def rack(self) -> str | None:
        """The rack of all replicas of all topics, None if the broker has no rack."""

    @property
    def version(self) -> int:
        """Increases when a topic is created, deleted, or gets partitions."""

    @property
    def created_version(self) -> int:
        """The version at the latest creation of a topic."""

    @property
    def count(self) -> int:
        """Number of topics."""

    def by_name(self, name: str) -> TopicImage | None:
        """The topic with this name, or None."""

    def by_id(self, topic_id: UUID) -> TopicImage | None:
        """The topic with this id, or None."""

    def names(self) -> Iterable[str]:
        """The names of all topics."""


class FixedTopics:
    """Topics that do not change."""

    def __init__(
        self, topics: Iterable[TopicImage] = (), version: int = 0, rack: str | None = None
    ) -> None:
        self.rack = rack
        self.version = version
        self.created_version = version
        self._by_name: Mapping[str, TopicImage] = {topic.name: topic for topic in topics}
        self._by_id = {topic.id: topic for topic in self._by_name.values()}

    @property
    def count(self) -> int:
        return len(self._by_name)

    def by_name(self, name: str) -> TopicImage | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> TopicImage | None:
        return self._by_id.get(topic_id)

    def names(self) -> Iterable[str]:
        return self._by_name.keys()


NO_TOPICS: Final = FixedTopics()
