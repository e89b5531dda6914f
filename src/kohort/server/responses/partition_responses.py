"""Results per partition, of the handler itself and of the group coordinator, in one response.

Kafka checks topics before it asks the group coordinator. In the response a topic's partitions with
an error of that check come first, then those of the coordinator, in one entry per topic.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.types import TopicPartition

RequestedTopic: TypeAlias = tuple[str, UUID | None]
"""A topic as the request names it: by name, or, where the version has ids, by id."""

TopicResponse: TypeAlias = tuple[str, UUID | None, list[tuple[int, ErrorCode]]]
"""One topic of a response: name, id, (partition, error)."""


class PartitionResponses:
    """The errors of partitions that do not exist, and the topics of those the coordinator gets."""

    def __init__(self) -> None:
        self._errors: dict[RequestedTopic, list[tuple[int, ErrorCode]]] = {}
        self._expected: list[tuple[RequestedTopic, int]] = []

    def add_errors(
        self, topic: RequestedTopic, partitions: Iterable[int], error: ErrorCode
    ) -> None:
        """Respond `error` for these; a topic without partitions has an entry all the same."""
        self._errors.setdefault(topic, []).extend((partition, error) for partition in partitions)

    def expect(self, topic: RequestedTopic, partitions: int) -> None:
        """Expect results for so many partitions of one entry of the request."""
        if partitions:
            self._expected.append((topic, partitions))

    @property
    def elements(self) -> int:
        """Topics and partitions of the response."""
        topics = len(self._errors) + len(self._expected)
        return (
            topics
            + sum(map(len, self._errors.values()))
            + sum(count for _, count in self._expected)
        )

    def merged_with(
        self, results: Iterable[tuple[TopicPartition, ErrorCode]]
    ) -> list[TopicResponse]:
        """The whole response; `results` are in the order in which they are expected."""
        following = iter(results)
        expected = [
            (topic, [(of.partition, error) for of, error in islice(following, count)])
            for topic, count in self._expected
        ]
        if not self._errors:  # an entry per entry of the request, in its order
            return [(*topic, partitions) for topic, partitions in expected]
        merged = {topic: partitions.copy() for topic, partitions in self._errors.items()}
        for topic, partitions in expected:
            merged.setdefault(topic, []).extend(partitions)
        return [(*topic, partitions) for topic, partitions in merged.items()]
