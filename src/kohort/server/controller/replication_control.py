"""Topics and their partitions (Kafka's ReplicationControlManager)."""

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.server.config import validate_topic_configs
from kohort.server.controller.new_topics import NewPartitions, NewTopic
from kohort.server.metadata import TopicRecord, validate_creatable
from kohort.server.replicas import ClaimedNames, Topic, Topics

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Kafka's own limit for what one request may create."""


class ReplicationControl:
    """Decides on changes of topics."""

    def __init__(self, topics: Topics, names: ClaimedNames, new_id: Callable[[], UUID]) -> None:
        """`new_id` returns the id of a new topic."""
        self._topics = topics
        self._names = names
        self._new_id = new_id

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] = {},
        *,
        internal: bool = False,
    ) -> TopicRecord:
        """The record of a new topic. Raises KafkaError.

        Its codes are INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
        POLICY_VIOLATION, INVALID_CONFIG and INVALID_REQUEST.
        """
        validate_creatable(name)
        self._names.ensure_free(name)
        if partitions < 1:
            raise KafkaError(
                ErrorCode.invalid_partitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        _validate_total(partitions)
        return TopicRecord(
            id=self._new_id(),
            name=name,
            partitions=partitions,
            configs=validate_topic_configs(configs),
            internal=internal,
        )

    def plan_creation(self, new: NewTopic) -> TopicRecord | KafkaError:
        """`create_topic`, or why it is not created."""
        try:
            return self.create_topic(*new)
        except KafkaError as error:
            return error.with_traceback(None)  # which refers to the list that has the error

    def existing_topic(self, name: str) -> Topic:
        """The topic of that name. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._topics.get(name)
        if topic is None:
            raise unknown_topic(name)
        return topic

    def validate_growth(self, name: str, total: int) -> Topic:
        """The topic, if it can grow to `total` partitions. Raises KafkaError.

        Its codes are INVALID_PARTITIONS, UNKNOWN_TOPIC_OR_PARTITION and POLICY_VIOLATION.
        """
        topic = self.existing_topic(name)
        current = len(topic.partitions)
        if total == current:
            raise KafkaError(
                ErrorCode.invalid_partitions, (f"Topic already has {current} partition(s).")
            )
        if total < current:
            raise KafkaError(
                ErrorCode.invalid_partitions,
                f"The topic {name} currently has {current} partition(s); {total} would "
                "not be an increase.",
            )
        _validate_total(total - current)
        return topic

    def plan_growth(self, growth: NewPartitions) -> TopicRecord | KafkaError:
        """The record of a topic with more partitions, or why it does not grow."""
        name, total = growth
        try:
            return self.validate_growth(name, total).record(partitions=total)
        except KafkaError as error:
            return error.with_traceback(None)

    def alter_configs(
        self, name: str, configs: Callable[[Topic], Mapping[str, str | None]]
    ) -> TopicRecord:
        """The record of a topic with the configs that `configs` returns. Raises as that does.

        Raises KafkaError INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, too.
        """
        topic = self.existing_topic(name)
        return topic.record(configs=validate_topic_configs(configs(topic)))

    def growth_chars(self, growth: NewPartitions) -> int:
        """Characters of the record of a growth, for `in_batches`."""
        topic = self._topics.get(growth.name)
        return len(growth.name) if topic is None else topic_chars(topic.record())


def topic_chars(topic: TopicRecord) -> int:
    """Characters of a topic's record, for `in_batches`."""
    return len(topic.name) + sum(len(name) + len(value) for name, value in topic.configs.items())


def unknown_topic(name: str) -> KafkaError:
    """The error of a change of a topic that does not exist."""
    return KafkaError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")


def too_many_partitions(added: int) -> KafkaError | None:
    """Why one request does not add so many partitions in all; None if it may."""
    if added <= MAX_PARTITIONS_PER_REQUEST:
        return None
    return KafkaError(
        ErrorCode.policy_violation, "Excessively large number of partitions per request."
    )


def _validate_total(partitions: int) -> None:
    if (refusal := too_many_partitions(partitions)) is not None:
        raise fresh(refusal)
