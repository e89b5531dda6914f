"""Which names a topic may have (Kafka's Topic class)."""

import re
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.server.topics.cluster_metadata import METADATA, TopicRecord

MAX_NAME_LENGTH: Final = 249
"""A directory name of 255 bytes, less a dash and the digits of a partition."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL: Final = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
"""Topics that clients do not write to, and that are never created because somebody asks for them.
"""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def validate_name(name: str) -> None:
    """Raise KafkaError INVALID_TOPIC_EXCEPTION, with Kafka's text, for an invalid name."""
    if not name:
        raise _invalid("the empty string is not allowed")
    if name in (".", ".."):
        raise _invalid(f"'{name}' is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise _invalid(
            f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        )
    if not _LEGAL.fullmatch(name):
        raise _invalid(
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', "
            "'_' and '-'"
        )


def validate_creatable(name: str) -> None:
    """Raises KafkaError INVALID_TOPIC_EXCEPTION or INVALID_REQUEST if clients may not create it."""
    validate_name(name)
    if name == METADATA.topic:
        raise KafkaError(
            ErrorCode.invalid_request, (f"Creation of internal topic {name} is prohibited.")
        )


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
            if (other := self._claimed.get(key)) is not None:
                raise KafkaError(
                    ErrorCode.invalid_topic_exception,
                    f"Topic '{name}' collides with existing topic: {other}",
                )

    def claim(self, name: str) -> None:
        """No topic may have this name, or one that collides with it, from now on."""
        self._claimed |= dict.fromkeys(self._keys(name), name)

    def disclaim(self, name: str) -> None:
        """The name is free again."""
        for key in self._keys(name):
            self._claimed.pop(key, None)

    def refused(self, records: Iterable[TopicRecord]) -> dict[UUID, KafkaError]:
        """Why some of these topics cannot be created one after the other, by id."""
        refused: dict[UUID, KafkaError] = {}
        claimed = []
        for record in records:
            try:
                self.ensure_free(record.name)
            except KafkaError as error:
                refused[record.id] = error.with_traceback(None)
            else:
                self.claim(record.name)
                claimed.append(record.name)
        for name in claimed:
            self.disclaim(name)
        return refused

    def _keys(self, name: str) -> tuple[str, ...]:
        # Names that differ only in "." and "_" have metrics that collide in Kafka.
        key = name.replace(".", "_")
        return (key, f"~{name.casefold()}") if self._is_case_insensitive else (key,)


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {why}")
