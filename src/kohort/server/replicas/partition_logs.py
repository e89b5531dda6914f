"""The logs of partitions on disk or in memory: directories, opening, configs, removal."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogConfig, LogDirectory
from kohort.log.partition_directories import NameTakenError
from kohort.log.remote_log import RemoteLog
from kohort.server.config import Config, effective_topic_configs, topic_log_config
from kohort.server.logging import fields
from kohort.server.metadata import TopicRecord, partitions_of, storage_error
from kohort.server.replicas.topic import Topic
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices

_MAX_EFFECTIVE_CONFIGS: Final = 100
"""Cached sets of effective configs, each shared by topics with equal configs."""

Placement: TypeAlias = Callable[[TopicPartition], bool]
"""Whether a partition has its log here."""

_log = logging.getLogger("kohort.topics")


def everywhere(_: TopicPartition) -> bool:
    """The placement of a node that leads all partitions."""
    return True


class PartitionLogs:
    """Opens and removes the logs of topics in a log directory."""

    def __init__(
        self,
        logs: LogDirectory,
        config: Config,
        placement: Placement,
        leader_epoch: Callable[[UUID, int], int],
    ) -> None:
        """`placement` says which partitions have their logs here; other nodes lead the others.

        `leader_epoch` returns the current epoch of a partition.
        """
        self._logs = logs
        self._owned = logs.owned
        self._leader_epoch = leader_epoch
        self._config = config
        self._is_placed_here = placement
        self._effective = lru_cache(_MAX_EFFECTIVE_CONFIGS)(self._effective_configs)
        self._settings: tuple[Mapping[str, Any], LogConfig] | None = None
        """The effective configs that were asked for last, and the settings of their logs."""

    def effective(self, configs: Mapping[str, str]) -> Mapping[str, Any]:
        """The typed value of every config of a topic that has these of its own."""
        return self._effective(frozenset(configs.items()))

    def _effective_configs(self, configs: frozenset[tuple[str, str]]) -> Mapping[str, Any]:
        return effective_topic_configs(dict(configs), self._config)

    def broker_configs_changed(self) -> None:
        """Effective configs are others from now on."""
        self._effective.cache_clear()
        self._settings = None

    def settings(self, effective: Mapping[str, Any]) -> LogConfig:
        """The settings of the logs of a topic with these effective configs."""
        if self._settings is None or self._settings[0] is not effective:
            self._settings = effective, topic_log_config(effective, self._config)
        return self._settings[1]

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Set the configs of a topic, and apply them to its open logs."""
        topic.configs = configs
        topic.effective = self.effective(configs)
        settings = self.settings(topic.effective)
        for log in topic.partitions:
            log.configure(settings)

    def recover(self, records: Iterable[TopicRecord]) -> None:
        """Check the logs of these topics after a crash of the machine."""
        if self._owned is None:
            return
        self._owned.recover(
            (partition, settings, self._leader_epoch(record.id, partition.partition))
            for record in records
            for settings in (self.settings(self.effective(record.configs)),)
            for partition in self.placed_here(partitions_of(record))
        )

    def placed_here(self, partitions: Mapping[TopicPartition, UUID]) -> dict[TopicPartition, UUID]:
        """Those of the partitions that have their logs here."""
        return {
            partition: topic_id
            for partition, topic_id in partitions.items()
            if self._is_placed_here(partition)
        }

    # Opening

    def open_topic(self, record: TopicRecord) -> Topic:
        """The topic with its logs. Raises KafkaError, OSError."""
        effective = self.effective(record.configs)
        return Topic(record, tuple(self.open(partitions_of(record), effective)), effective)

    async def open_topic_in_slices(self, record: TopicRecord, slices: TimeSlices) -> Topic:
        """`open_topic`, giving way to others."""
        effective = self.effective(record.configs)
        logs = await self.open_in_slices(partitions_of(record), effective, slices)
        return Topic(record, logs, effective)

    async def open_in_slices(
        self,
        partitions: Mapping[TopicPartition, UUID],
        effective: Mapping[str, Any],
        slices: TimeSlices,
    ) -> tuple[Log, ...]:
        """`open`, giving way to others: a log takes 30 µs, and there may be 10,000."""
        logs = []
        for log in self.open(partitions, effective):
            logs.append(log)
            await slices.give_way()
        return tuple(logs)

    def open(
        self, partitions: Mapping[TopicPartition, UUID], effective: Mapping[str, Any]
    ) -> Iterator[Log]:
        """The logs of partitions, each opened when it is taken. Raises KafkaError, OSError."""
        settings = self.settings(effective)
        return (
            self._open(partition, topic_id, settings) for partition, topic_id in partitions.items()
        )

    def _open(self, partition: TopicPartition, topic_id: UUID, settings: LogConfig) -> Log:
        if not self._is_placed_here(partition):
            return RemoteLog(partition, settings)
        epoch = self._leader_epoch(topic_id, partition.partition)
        return self._logs.open(partition, settings, leader_epoch=epoch)

    def open_or_refuse(
        self, partition: TopicPartition, topic_id: UUID, settings: LogConfig
    ) -> None:
        """Open the log of a partition, or refuse the partition if that fails."""
        try:
            self._open(partition, topic_id, settings)
        except OSError as error:
            self._logs.refuse(partition, f"the log could not be opened again: {error}")

    def reopen(self, partition: TopicPartition, topic_id: UUID, settings: LogConfig) -> None:
        """Open the log of a partition that was refused, or refuse it again."""
        self._logs.retire(partition)
        self.open_or_refuse(partition, topic_id, settings)
        for callback in self._logs.on_reopened:
            callback(self._logs.open(partition, settings))

    def refuse(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """Mark partitions as not served: their logs, which are not open, raise `why`."""
        for partition in filter(self._is_placed_here, partitions):
            self._logs.refuse(partition, why)

    # Making and removing

    @property
    def has_directories(self) -> bool:
        """Whether partitions need directories, which are created before their logs are opened."""
        return self._owned is not None

    def make_directories(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        """Make the directories of new partitions, all or none, durably.

        Raises KafkaError KAFKA_STORAGE_ERROR, INVALID_TOPIC_EXCEPTION.
        """
        if self._owned is None:
            return
        try:
            self._owned.directories.make(self.placed_here(partitions))
        except NameTakenError as error:
            raise _name_taken_error(error) from error
        except OSError as error:
            raise storage_error(error) from error

    def make_directories_of_topics(
        self, by_topic: Mapping[str, Mapping[TopicPartition, UUID]]
    ) -> dict[str, KafkaError]:
        """Make the directories of new partitions, by topic.

        All but those of the topics that are returned, with the reason.
        """
        refused: dict[str, KafkaError] = {}
        while self._owned is not None:
            partitions = {
                partition: topic_id
                for name, of_topic in by_topic.items()
                if name not in refused
                for partition, topic_id in self.placed_here(of_topic).items()
            }
            try:
                self._owned.directories.make(partitions)
            except NameTakenError as error:
                refused[error.partition.topic] = _name_taken_error(error)
            except OSError as error:
                failed = storage_error(error)
                return {name: refused.get(name, failed) for name in by_topic}
            else:
                break
        return refused

    def retire(self, partition: TopicPartition) -> None:
        """Close the log of a partition whose topic was deleted."""
        if self._is_placed_here(partition):
            self._logs.retire(partition)

    def discard(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        """Remove directories that were made for a change that failed."""
        for partition, topic_id in partitions.items():
            self.remove(partition, topic_id)

    def remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove a partition with its records."""
        if self._is_placed_here(partition):
            self.remove_anywhere(partition, topic_id)

    def remove_anywhere(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Remove a partition with its records, wherever it is led."""
        try:
            self._logs.remove(partition, topic_id)
        except OSError as error:
            _log_undeleted(partition, error)

    def withdraw(self, log: Log, topic_id: UUID) -> None:
        """Remove a partition whose creation was rolled back; its records are kept as a stray."""
        if log.end_offset <= 0:
            self.remove(log.topic_partition, topic_id)
            return
        # Another client has seen the partition already, and has produced to it.
        self._logs.retire(log.topic_partition)
        if self._owned is None:
            return
        try:
            self._owned.directories.set_aside(log.topic_partition)
        except OSError as error:
            _log_undeleted(log.topic_partition, error)


def _log_undeleted(partition: TopicPartition, error: OSError) -> None:
    _log.warning(
        "cannot delete the records of a partition; the next start keeps them as a stray",
        extra=fields(partition=str(partition), why=error),
    )


def _name_taken_error(error: NameTakenError) -> KafkaError:
    return KafkaError(ErrorCode.invalid_topic_exception, str(error))
