"""Topics of a node that follows a metadata log, as brokers follow a controller."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Final, NoReturn, Protocol
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogDirectory
from kohort.server.config import Config
from kohort.server.logging import fields
from kohort.server.metadata import (
    AclRecord,
    AclRemoved,
    ConfigsRecord,
    MetadataImage,
    MetadataRecord,
    TopicDeleted,
    TopicRecord,
    places_of,
)
from kohort.server.replicas import Placement, Topic
from kohort.server.topics.metadata_log import Metadata
from kohort.server.topics.new_topic import NewTopic
from kohort.server.topics.topics import Topics
from kohort.types import Timestamp, TopicPartition
from kohort.util.time_slice import TimeSlices

TOPICS_AT_ONCE: Final = 100
"""Topics whose directories are made together: each by itself waits for the disk several times."""
CREATED_WITHIN_S: Final = 1.0
"""Time that a client waits for a topic that is created because it asked for it."""

logger = logging.getLogger("kohort.topics")


class FollowedMetadata:
    """`state` as far as it was read from another node, which is the one that changes it."""

    def __init__(self) -> None:
        self.state = MetadataImage()
        self.end_offset = 0
        """Offset of the next record to be read."""
        self.last_change = 0
        self.on_taken_back: Callable[[Collection[UUID]], None]

    def replay(self, offset: int, record: MetadataRecord) -> None:
        """Replay the record of that offset."""
        self.state.replay(record)
        self.end_offset = offset + 1

    def skip(self, offset: int) -> None:
        """Go on from that offset: the records before it were compacted away."""
        self.end_offset = max(self.end_offset, offset)

    @property
    def durable_end(self) -> int:
        return self.end_offset

    def commit(self, *_: MetadataRecord) -> NoReturn:
        raise _not_controller()

    def read(self, _: int) -> NoReturn:
        raise _not_controller()

    async def wait_beyond(self, _: int) -> NoReturn:
        raise _not_controller()

    async def durable(self, change: int | None = None) -> None:
        """What is read from another node is on its disk."""

    def flush(self) -> None:
        pass

    def log_reopened(self, log: Log) -> None:
        pass

    def close(self) -> None:
        pass


def _not_controller() -> KafkaError:
    text = "This is not the correct controller for this cluster."
    return KafkaError(ErrorCode.not_controller, text)


class Controller(Protocol):
    """The node that changes topics."""

    async def create_each(self, wanted: Sequence[NewTopic]) -> list[KafkaError | None]:
        """Create topics, each by itself; in the same order, why one was not. Raises KafkaError."""
        ...

    async def allocate_producer_ids(self) -> range:
        """Ids that are given to nobody else. Raises KafkaError."""
        ...


class Followed(Metadata, Protocol):
    """Metadata that other nodes change."""

    def replay(self, offset: int, record: MetadataRecord) -> None:
        """Replay the record of that offset, which another node has logged."""
        ...


class FollowingTopics(Topics):
    """Topics that other nodes change too."""

    def __init__(
        self,
        logs: LogDirectory,
        config: Config,
        now: Callable[[], Timestamp],
        placement: Placement,
        metadata: Followed,
    ) -> None:
        """Open the topics of `metadata`. Raises as `Topics` does."""
        super().__init__(logs, config, now, placement, metadata)
        self._followed = metadata
        self._slices = TimeSlices()
        self._unmade: dict[UUID, dict[TopicPartition, UUID]] = {}
        """Partitions, by topic, whose directories could not be made yet."""

    @property
    def position(self) -> int:
        """Offset of the record to be followed next."""
        return self._followed.end_offset

    async def follow(self, records: Iterable[tuple[int, MetadataRecord]]) -> None:
        """Do as these records say, each with its offset in the log of the other node.

        Records that were followed already are left out. A partition whose directory cannot be made
        is refused; each call tries it again.
        """
        await self._make_unmade()
        new = [each for each in records if each[0] >= self._followed.end_offset]
        for _, run in groupby(new, _run_of):
            some = [*run]
            await self._prepare([each for _, each in some if isinstance(each, TopicRecord)])
            for offset, record in some:
                self._followed.replay(offset, record)
                await self._apply(record)
                await self._slices.give_way()
            if self._to_tell:
                await self._finish_deletions(
                    frozenset(self._to_tell), tuple(self._to_remove.items())
                )

    async def _prepare(self, records: Iterable[TopicRecord]) -> None:
        """Have places for the partitions of topics before anybody knows of them."""
        latest = {each.id: each for each in records}.values()
        await self._forgotten(each.name for each in latest)
        places: dict[TopicPartition, UUID] = {}
        for record in latest:
            places |= self._places_to_make(record)
            await self._slices.give_way()
        if not places:
            return
        try:
            await asyncio.to_thread(self._logs.make_places, places)
        except KafkaError:
            for record in latest:
                await self._make_or_refuse(record)

    def _places_to_make(self, record: TopicRecord) -> dict[TopicPartition, UUID]:
        known = self.by_id(record.id)
        return places_of(record, 0 if known is None else len(known.partitions))

    async def _make_or_refuse(self, record: TopicRecord) -> None:
        places = self._places_to_make(record)
        try:
            await asyncio.to_thread(self._logs.make_places, places)
        except KafkaError as error:
            logger.error(
                "cannot open partitions of a topic",
                extra=fields(topic=record.name, why=error.__cause__ or error),
            )
            self._logs.refuse(places, f"its directory could not be made: {error}")
            if error.code == ErrorCode.kafka_storage_error:
                self._unmade.setdefault(record.id, {}).update(places)

    async def _make_unmade(self) -> None:
        """Serve what was refused if the disk takes it now, as it may once it has room again."""
        for topic_id, places in tuple(self._unmade.items()):
            topic = self.by_id(topic_id)
            try:
                if topic is not None:
                    await asyncio.to_thread(self._logs.make_places, places)
            except KafkaError:
                return
            del self._unmade[topic_id]
            if topic is not None:
                settings = self._logs.settings(topic.effective)
                for partition in self._logs.here(places):
                    self._logs.open_again(partition, topic_id, settings)
                    await self._slices.give_way()

    async def _apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                await self._apply_topic(record)
            case TopicDeleted(id=topic_id):
                await self._apply_deletion(self.by_id(topic_id))
            case ConfigsRecord():
                self._apply_broker_configs()
            case AclRecord() | AclRemoved():
                self._tell_acls_changed()

    async def _apply_topic(self, record: TopicRecord) -> None:
        if record.id not in self._followed.state.topics:
            return  # its name is another topic's
        settings = self._logs.settings(self._logs.effective(record.configs))
        for partition in self._logs.here(self._places_to_make(record)):
            # The record is not read again: a log that fails must not cost the whole topic.
            self._logs.open_or_refuse(partition, record.id, settings)
            await self._slices.give_way()
        topic = self.by_id(record.id)
        if topic is None:
            self._add(await self._logs.opened_in_slices(record, self._slices))
            return
        if record.configs != topic.configs:
            self.responses.clear()
            self._configure(topic, record.configs)
        if record.partitions > len(topic.partitions):
            places = places_of(record, len(topic.partitions))
            added = await self._logs.open_in_slices(places, topic.effective, self._slices)
            self._grown(topic, added)

    async def _apply_deletion(self, topic: Topic | None) -> None:
        if topic is None:
            return
        self._hide((topic,))
        for _ in self._retire(topic):
            await self._slices.give_way()


def _run_of(numbered: tuple[int, MetadataRecord]) -> tuple[int, bool]:
    """Topics that follow one another are of one run, of at most `TOPICS_AT_ONCE`."""
    offset, record = numbered
    return offset // TOPICS_AT_ONCE, isinstance(record, TopicRecord)


class FollowedTopics(FollowingTopics):
    """The topics as another node tells of them; it alone changes them."""

    _followed: FollowedMetadata

    def __init__(
        self,
        logs: LogDirectory,
        config: Config,
        now: Callable[[], Timestamp],
        placement: Placement,
        metadata: FollowedMetadata,
        controller: Controller,
    ) -> None:
        """Open the topics of `metadata`, which `controller` changes. Raises as `Topics` does."""
        super().__init__(logs, config, now, placement, metadata)
        self._controller = controller
        self._creating: dict[str, asyncio.Task[dict[str, KafkaError]]] = {}
        """What the controller is asked to make, by topic."""

    def skip(self, offset: int) -> None:
        """Go on from that offset: the records before it were compacted away."""
        self._followed.skip(offset)

    async def create_each(
        self,
        wanted: Sequence[NewTopic],
        deadline: float | None = None,  # noqa: ARG002
    ) -> list[Topic | KafkaError]:
        """Have topics made; in the same order the topic, or why it was not made.

        One that is not known here in time is UNKNOWN_TOPIC_OR_PARTITION: clients ask again, and
        what else they ask must not wait for a controller that is away.
        """
        new = [each for each in wanted if each.name not in self._creating]
        if new:
            self._creating |= dict.fromkeys(
                (each.name for each in new), asyncio.create_task(self._have_created(new))
            )
        creating = {each.name: self._creating[each.name] for each in wanted}
        if creating:
            await asyncio.wait(set(creating.values()), timeout=CREATED_WITHIN_S)
        unknown = KafkaError(ErrorCode.unknown_topic_or_partition)
        return [
            (task.result().get(name) if task.done() else None) or self.get(name) or unknown
            for name, task in creating.items()
        ]

    async def _have_created(self, wanted: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """By name, why the controller did not make a topic."""
        try:
            errors = await self._controller.create_each(wanted)
        except KafkaError:
            return {}
        finally:
            for each in wanted:
                del self._creating[each.name]
        return {each.name: error for each, error in zip(wanted, errors, strict=True) if error}

    def close(self) -> None:
        super().close()
        for task in self._creating.values():
            task.cancel()

    async def _take_producer_ids(self) -> Iterable[int]:
        try:
            return await self._controller.allocate_producer_ids()
        except KafkaError as error:
            # As in Kafka: producers retry it, while many end at another error.
            code = ErrorCode.coordinator_load_in_progress
            raise KafkaError(code, f"no producer ids in hand: {error.message}") from error
