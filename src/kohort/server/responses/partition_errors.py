"""Partitions that an API refuses by itself, and how they are put together with what the coordinator
answered.

Kafka checks topics before it asks the group coordinator; in the answer a topic's refused partitions
come first and then those of the coordinator, in one entry per topic.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.types import TopicPartition

TopicKey: TypeAlias = tuple[str, UUID | None]
"""A topic as the request names it: by name, or, where the version has ids, by id."""

TopicResults: TypeAlias = tuple[str, UUID | None, list[tuple[int, ErrorCode]]]
"""One topic of an answer: name, id, (partition, error)."""


class Refusals:
    """Collects what was refused, and which topic each partition that was let through belongs to."""

    def __init__(self) -> None:
        self._refused: dict[TopicKey, list[tuple[int, ErrorCode]]] = {}
        self._passed: list[tuple[TopicKey, int]] = []

    def refuse(self, topic: TopicKey, partitions: Iterable[int], error: ErrorCode) -> None:
        """Answer `error` for these; a topic without partitions is shown all the same."""
        self._refused.setdefault(topic, []).extend((partition, error) for partition in partitions)

    def let_pass(self, topic: TopicKey, partitions: int) -> None:
        """So many partitions of one entry of the request go to the coordinator."""
        if partitions:
            self._passed.append((topic, partitions))

    def with_results(
        self, results: Iterable[tuple[TopicPartition, ErrorCode]]
    ) -> list[TopicResults]:
        """The whole answer; `results` are in the order in which partitions were let pass."""
        following = iter(results)
        passed = [
            (topic, [(of.partition, error) for of, error in islice(following, count)])
            for topic, count in self._passed
        ]
        if not self._refused:  # an entry per entry of the request, as it came
            return [(*topic, partitions) for topic, partitions in passed]
        merged = {topic: partitions.copy() for topic, partitions in self._refused.items()}
        for topic, partitions in passed:
            merged.setdefault(topic, []).extend(partitions)
        return [(*topic, partitions) for topic, partitions in merged.items()]
