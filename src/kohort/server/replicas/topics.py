"""The open topics of a server, by name and by id."""

from collections.abc import Iterable
from uuid import UUID

from kohort.log.base import Log
from kohort.server.replicas.response_cache import ResponseCache
from kohort.server.replicas.topic import Topic


class Topics:
    """Every topic of this server; a lookup costs one search in a dictionary."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._version = self._created_version = 0
        self.responses = ResponseCache()
        """Emptied by every change of a topic."""

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def __len__(self) -> int:
        return len(self._by_name)

    def all(self) -> Iterable[Topic]:
        return self._by_name.values()

    def log(self, name: str, partition: int) -> Log | None:
        """The log of a partition, None if there is no such topic or partition."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition]

    @property
    def version(self) -> int:
        """Grows whenever a topic is created, deleted or grows; a restart does not set it back."""
        return self._version

    @property
    def created_version(self) -> int:
        """`version` at the latest creation of a topic, or at the start of the server."""
        return self._created_version

    def start_at(self, version: int) -> None:
        """Continue at this version: the topics added so far existed before the start."""
        self._version = self._created_version = version

    def add(self, topic: Topic) -> None:
        """Make a topic visible, which accepts appends from now on."""
        self._changed()
        self._created_version = self._version
        self._by_name[topic.name] = self._by_id[topic.id] = topic

    def remove(self, topics: Iterable[Topic]) -> None:
        """Remove deleted topics from view, in the turn in which their deletion is logged.

        A later record of such a topic would create it again.
        """
        self._changed()
        for topic in topics:
            del self._by_name[topic.name], self._by_id[topic.id]

    def add_partitions(self, topic: Topic, added: tuple[Log, ...]) -> None:
        """Make new partitions of a topic visible."""
        self._changed()
        topic.partitions += added

    def remove_partitions(self, topic: Topic, count: int) -> tuple[Log, ...]:
        """Remove all but the first `count` partitions from view; returns their logs."""
        self._changed()
        removed, topic.partitions = topic.partitions[count:], topic.partitions[:count]
        return removed

    def replace(self, log: Log) -> Topic | None:
        """Replace the log of a partition; returns its topic, None if it does not exist."""
        name, index = log.topic_partition
        topic = self._by_name.get(name)
        if topic is not None:
            logs = topic.partitions
            topic.partitions = (*logs[:index], log, *logs[index + 1 :])
            self.responses.clear()
        return topic

    def _changed(self) -> None:
        self.responses.clear()
        self._version += 1
