"""The topics of this server: created, grown, configured and deleted, each by one record of the
metadata log.

How a change happens, always in this order: it is validated; a creation or growth opens the logs it
needs; the record is appended, which is the moment when it happened; the record is replayed;
deletion lets go of the logs. So after a crash at any point the log says what exists, logs without a
topic are leftovers that the next start removes, and a topic that Metadata shows already takes
appends.
"""

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID, uuid4

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogConfig, LogDirectory
from kohort.server.config import (
    BrokerConfig,
    effective_topic_configs,
    topic_log_config,
    validate_topic_configs,
)
from kohort.server.logs import fields
from kohort.server.topics.cluster_metadata import (
    METADATA,
    ClusterRecord,
    ProducerIdsReserved,
    TopicDeleted,
    TopicRecord,
)
from kohort.server.topics.metadata_log import METADATA_LOG, MetadataLog, storage_error
from kohort.server.topics.names import collision_key, validate_creatable
from kohort.server.topics.producer_ids import ProducerIds
from kohort.server.topics.response_cache import AnswerCache
from kohort.types import Instant, TopicPartition

MAX_PARTITIONS_PER_REQUEST = 10_000
"""Kafka's own limit for what one request may create."""

_log = logging.getLogger("kohort.topics")


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
        """What was set on the topic itself, as text."""
        self.effective = effective
        """The typed value of every topic config."""
        self.partitions = partitions

    def __repr__(self) -> str:
        return f"<Topic {self.name} {self.id} partitions={len(self.partitions)}>"


class Topics:
    """Every topic of this server. Everything but `durable` is synchronous: a change is done when
    the call returns.
    """

    def __init__(
        self, logs: LogDirectory, config: BrokerConfig, now: Callable[[], Instant]
    ) -> None:
        """Replay the metadata log, remove leftovers, open every topic. Raises OSError if the
        storage fails.
        """
        self._logs = logs
        self._config = config
        self._now = now
        self._topics: dict[str, Topic] = {}
        self._names: dict[UUID, str] = {}
        self._collisions: dict[str, str] = {}
        self.answers = AnswerCache()
        """Emptied by every change of a topic."""
        self.on_deleted: list[Callable[[frozenset[str]], None]] = []
        """Called with the names of topics that are gone."""
        self._metadata = MetadataLog(logs.open(METADATA, METADATA_LOG), now)
        state = self._metadata.state
        if not state.cluster_id:
            self._metadata.commit(ClusterRecord(new_cluster_id()))
        self.producer_ids = ProducerIds(state.producer_ids_end, self._reserve_producer_ids)
        self._remove_leftovers()
        for record in state.topics.values():
            self._open(record)

    # Reading

    @property
    def cluster_id(self) -> str:
        return self._metadata.state.cluster_id

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        name = self._names.get(topic_id)
        return None if name is None else self._topics[name]

    def all(self) -> Iterable[Topic]:
        return self._topics.values()

    def log(self, name: str, partition: int) -> Log | None:
        """The log of a partition, None if there is no such topic or partition."""
        topic = self._topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition]

    async def durable(self) -> None:
        """Return when every change made by now is as durable as is asked for. Raises KafkaError
        KAFKA_STORAGE_ERROR.
        """
        try:
            await self._metadata.durable()
        except OSError as error:
            raise storage_error(error) from error

    async def confirmed(self, results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """What to answer of changes, when they are durable: what went well went wrong if the
        storage fails.
        """
        try:
            await self.durable()
        except KafkaError as failure:
            failed = {"error_code": failure.code, "error_message": failure.message}
            return [result if result["error_code"] else result | failed for result in results]
        return list(results)

    # Changing

    def plan(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] = {},
        *,
        internal: bool = False,
    ) -> TopicRecord:
        """The topic that `create` would make. Raises KafkaError: INVALID_TOPIC_EXCEPTION,
        TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, POLICY_VIOLATION, INVALID_CONFIG, INVALID_REQUEST.
        """
        validate_creatable(name)
        if name in self._topics:
            raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        other = self._collisions.get(collision_key(name))
        if other is not None:
            raise KafkaError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic: {other}",
            )
        if partitions < 1:
            raise KafkaError(
                ErrorCode.invalid_partitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        _validate_total(partitions)
        return TopicRecord(
            id=new_topic_id(),
            name=name,
            partitions=partitions,
            configs=validate_topic_configs(configs),
            internal=internal,
        )

    def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] = {},
        *,
        internal: bool = False,
    ) -> Topic:
        """Make a topic. Raises what `plan` raises, KafkaError KAFKA_STORAGE_ERROR if its logs
        cannot be made.
        """
        record = self.plan(name, partitions, configs, internal=internal)
        effective = effective_topic_configs(record.configs, self._config)
        logs = self._open_new(name, range(partitions), effective)
        self._commit_or_remove(record, logs)
        topic = Topic(record, logs, effective)
        self._add(topic)
        _log.info("created a topic", extra=fields(topic=name, partitions=partitions))
        return topic

    def delete(self, name: str) -> None:
        """Remove a topic and its records. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION,
        KAFKA_STORAGE_ERROR.
        """
        topic = self._existing(name)
        self._metadata.commit(TopicDeleted(topic.id))
        self.answers.clear()
        del self._topics[name], self._names[topic.id], self._collisions[collision_key(name)]
        for log in topic.partitions:
            self._remove(log.topic_partition)
        _log.info("deleted a topic", extra=fields(topic=name))
        for tell in self.on_deleted:
            tell(frozenset((name,)))

    def plan_partitions(self, name: str, total: int) -> Topic:
        """The topic, if it can grow to `total` partitions. Raises KafkaError as `add_partitions`
        does.
        """
        topic, current = self._existing(name), len(self._existing(name).partitions)
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

    def add_partitions(self, name: str, total: int) -> Topic:
        """Grow a topic to `total` partitions. Raises KafkaError INVALID_PARTITIONS,
        UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION, KAFKA_STORAGE_ERROR.
        """
        topic = self.plan_partitions(name, total)
        added = self._open_new(name, range(len(topic.partitions), total), topic.effective)
        self._commit_or_remove(self._record(topic, partitions=total), added)
        self.answers.clear()
        topic.partitions += added
        _log.info("grew a topic", extra=fields(topic=name, partitions=total))
        return topic

    def alter_configs(self, name: str, configs: Mapping[str, str]) -> Topic:
        """Replace what is set on a topic, at once for its open logs. Raises KafkaError
        INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
        """
        topic = self._existing(name)
        valid = validate_topic_configs(configs)
        self._metadata.commit(self._record(topic, configs=valid))
        self.answers.clear()
        topic.configs = valid
        topic.effective = effective_topic_configs(valid, self._config)
        settings = topic_log_config(topic.effective, self._config)
        for log in topic.partitions:
            log.configure(settings)
        return topic

    def _existing(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
            )
        return topic

    def _record(self, topic: Topic, **changes: Any) -> TopicRecord:
        kept: dict[str, Any] = {"partitions": len(topic.partitions), "configs": topic.configs}
        return TopicRecord(id=topic.id, name=topic.name, internal=topic.internal, **kept | changes)

    def _commit_or_remove(self, record: TopicRecord, logs: tuple[Log, ...]) -> None:
        try:
            self._metadata.commit(record)
        except KafkaError:
            for log in logs:
                self._remove(log.topic_partition)
            raise

    # Logs

    def _open(self, record: TopicRecord) -> None:
        effective = effective_topic_configs(record.configs, self._config)
        settings = topic_log_config(effective, self._config)
        wanted = (TopicPartition(record.name, index) for index in range(record.partitions))
        self._add(
            Topic(record, tuple(self._logs.open(each, settings) for each in wanted), effective)
        )

    def _add(self, topic: Topic) -> None:
        self.answers.clear()
        self._topics[topic.name] = topic
        self._names[topic.id] = self._collisions[collision_key(topic.name)] = topic.name

    def _open_new(
        self, name: str, indexes: Iterable[int], effective: Mapping[str, Any]
    ) -> tuple[Log, ...]:
        """Empty logs for new partitions: all of them, or none. Raises KafkaError
        KAFKA_STORAGE_ERROR.
        """
        settings = topic_log_config(effective, self._config)
        opened: list[Log] = []
        try:
            for index in indexes:
                opened += (self._open_empty(TopicPartition(name, index), settings),)
        except OSError as error:
            for log in opened:
                self._remove(log.topic_partition)
            raise storage_error(error) from error
        return tuple(opened)

    def _open_empty(self, wanted: TopicPartition, settings: LogConfig) -> Log:
        log = self._logs.open(wanted, settings)
        if log.end_offset == 0:
            return log
        # A topic of this name was deleted and its files could not be removed then: they are not
        # this topic's.
        self._logs.remove(wanted)
        return self._logs.open(wanted, settings)

    def _reserve_producer_ids(self, end: int) -> None:
        self._metadata.commit(ProducerIdsReserved(end))

    def _remove(self, gone: TopicPartition) -> None:
        try:
            self._logs.remove(gone)
        except OSError as error:
            _log.warning(
                "could not remove a log; the next start will",
                extra=fields(log=str(gone), why=error),
            )

    def _remove_leftovers(self) -> None:
        counts = {record.name: record.partitions for record in self._metadata.state.topics.values()}
        for found in list(self._logs.names()):
            if found != METADATA and found.partition >= counts.get(found.topic, 0):
                _log.info("removing a log that belongs to no topic", extra=fields(log=str(found)))
                self._remove(found)


def new_topic_id() -> UUID:
    """A random id whose text form, as Kafka's tools show and take it, does not look like an option."""
    while True:
        topic_id = uuid4()
        if not base64_id(topic_id).startswith("-"):
            return topic_id


def new_cluster_id() -> str:
    """Random, in the form of Kafka's."""
    return base64_id(new_topic_id())


def base64_id(topic_id: UUID) -> str:
    """The 22 letters, digits, dashes and underscores that Kafka's tools show an id as."""
    return urlsafe_b64encode(topic_id.bytes)[:22].decode()


def _validate_total(partitions: int) -> None:
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(
            ErrorCode.policy_violation, ("Excessively large number of partitions per request.")
        )
