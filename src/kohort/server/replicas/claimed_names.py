"""Names of topics that no new topic may have."""

from collections.abc import Iterable
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.server.metadata import TopicRecord


class ClaimedNames:
    """The names of all topics, and of those being made, with what no other name may equal."""

    def __init__(self, *, is_case_insensitive: bool) -> None:
        """`is_case_insensitive`: whether directories with names that differ in case are one."""
        self._is_case_insensitive = is_case_insensitive
        self._claimed: dict[str, str] = {}

    def ensure_free(self, name: str) -> None:
        """Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION."""
        keys = self._keys(name)
        if self._claimed.get(keys[0]) == name:
            raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        for key in keys:
            if (claimed_by := self._claimed.get(key)) is not None:
                raise KafkaError(
                    ErrorCode.invalid_topic_exception,
                    f"Topic '{name}' collides with existing topic: {claimed_by}",
                )

    def claim(self, name: str) -> None:
        """No topic may have this name, or one that collides with it, from now on."""
        self._claimed |= dict.fromkeys(self._keys(name), name)

    def disclaim(self, name: str) -> None:
        """The name is free again."""
        for key in self._keys(name):
            self._claimed.pop(key, None)

    def conflicts(self, records: Iterable[TopicRecord]) -> dict[UUID, KafkaError]:
        """Why some of these topics cannot be created one after the other, by id."""
        conflicts: dict[UUID, KafkaError] = {}
        claimed = []
        for record in records:
            try:
                self.ensure_free(record.name)
            except KafkaError as error:
                conflicts[record.id] = error.with_traceback(None)
            else:
                self.claim(record.name)
                claimed.append(record.name)
        for name in claimed:
            self.disclaim(name)
        return conflicts

    def _keys(self, name: str) -> tuple[str, ...]:
        # Names that differ only in "." and "_" have metrics that collide in Kafka.
        key = name.replace(".", "_")
        return (key, f"~{name.casefold()}") if self._is_case_insensitive else (key,)
