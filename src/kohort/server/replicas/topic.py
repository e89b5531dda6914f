"""One topic of this server."""

from collections.abc import Mapping
from typing import Any

from kohort.log.base import Log
from kohort.server.metadata import TopicRecord


class Topic:
    """One topic, open for appends."""

    __slots__ = ("configs", "effective", "id", "internal", "name", "partitions")

    def __init__(
        self, record: TopicRecord, partitions: tuple[Log, ...], effective: Mapping[str, Any]
    ) -> None:
        self.name = record.name
        self.id = record.id
        self.internal = record.internal
        self.configs = record.configs
        """Configs of the topic itself, as text."""
        self.effective = effective
        """The typed value of every topic config."""
        self.partitions = partitions

    def record(self, **changes: Any) -> TopicRecord:
        """The topic as its record says, but for `changes`."""
        current: dict[str, Any] = {"partitions": len(self.partitions), "configs": self.configs}
        return TopicRecord(id=self.id, name=self.name, internal=self.internal, **current | changes)

    def __repr__(self) -> str:
        return f"<Topic {self.name} {self.id} partitions={len(self.partitions)}>"
