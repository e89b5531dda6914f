"""Names of topics whose partitions have only a topic id in records."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from kohort.history.group_state import GroupState, IdPartition
from kohort.types import TopicPartition


class TopicNames:
    """Names by topic id, and the groups that own partitions of topics without a name."""

    def __init__(self, names: Mapping[UUID, str], states: Iterable[GroupState] = ()) -> None:
        self.by_id = dict(names)
        self._by_text = {str(topic_id): name for topic_id, name in names.items()}
        self.cluster: Mapping[str, str] = {}
        """Topic id → name, by the cluster: for topics that no record has named so far."""
        self._unnamed: dict[str, dict[str, None]] = {}
        """Topic id → groups."""
        for state in states:
            for current in state.currents.values():
                for partition in current.held:
                    self.topic_partition(state.group, partition)

    def topic_partition(self, group: str, partition: IdPartition) -> TopicPartition:
        """A partition of a group, by the topic's name, or by its id if it has none."""
        topic_id, number = partition
        name = self._by_text.get(topic_id)
        if name is None and (name := self.cluster.get(topic_id)) is not None:
            self.learn(UUID(topic_id), name)
        if name is None:
            self._unnamed.setdefault(topic_id, {})[group] = None
            name = topic_id
        return TopicPartition(name, number)

    def unnamed(self) -> tuple[str, ...]:
        """The ids of topics without a name whose partitions a group has owned."""
        return tuple(self._unnamed)

    def are_missing(self, group: str) -> bool:
        """Whether the group has owned partitions of a topic that has no name yet."""
        return any(group in groups for groups in self._unnamed.values())

    def learn(self, topic_id: UUID, name: str) -> tuple[str, ...]:
        """Returns the groups with partitions under the topic's id. The first name stays."""
        if topic_id in self.by_id:
            return ()
        text = str(topic_id)
        self.by_id[topic_id] = self._by_text[text] = name
        return tuple(self._unnamed.pop(text, ()))

    def is_awaited(self, topic_id: UUID) -> bool:
        """Whether a group has partitions under the topic's id."""
        return str(topic_id) in self._unnamed
