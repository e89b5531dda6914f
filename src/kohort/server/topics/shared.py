"""Topics of one of several nodes that share a storage: each leads some of the partitions."""

import asyncio
import logging
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from types import MappingProxyType
from typing import Final, TypeVar
from uuid import UUID

from kohort.cluster import NO_LEADER, FencedError, TopicKind, TopicSize, UnknownOutcomeError
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.log.remote_log import RemoteLog
from kohort.log.shared import SharedLogDirectory
from kohort.log.standby import StandbyLog
from kohort.server.config import Config, validate_topic_configs
from kohort.server.metadata import (
    BATCH_RECORDS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    MetadataRecord,
    ProducerIdsReserved,
    TopicDeleted,
    TopicRecord,
    in_batches,
    storage_error,
)
from kohort.server.replicas import Topic
from kohort.server.topics.followed import FollowingTopics
from kohort.server.topics.new_topic import Growth, NewTopic
from kohort.server.topics.shared_metadata import OutcomeLostError, SharedMetadata
from kohort.server.topics.topics import (
    log_created,
    log_deleted,
    log_grown,
    topic_chars,
    unknown_topic,
)
from kohort.types import Timestamp, TopicIdPartition, TopicPartition
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.topics")

_KINDS: Final = {OFFSETS_TOPIC: TopicKind.GROUPS, TRANSACTIONS_TOPIC: TopicKind.TRANSACTIONS}
LED_WITHIN_S: Final = 5.0
"""Time that a new partition has to get a leader before its creation is told to be done."""

CHANGED_WITHIN_S: Final = 30.0
"""Time that a client waits for a change if its request has no timeout of its own: Kafka's default
`request.timeout.ms`."""

R = TypeVar("R")


class SharedTopics(FollowingTopics):
    """The topics of the cluster; any node may change them."""

    def __init__(
        self,
        logs: SharedLogDirectory,
        config: Config,
        now: Callable[[], Timestamp],
        metadata: SharedMetadata,
    ) -> None:
        """Know the topics of `metadata`, and lead no partition yet."""
        self._led: dict[TopicPartition, int] = {}
        """The partitions whose logs are here, with their leader epochs."""
        self.taken = self.given_up = 0
        """Partitions that were led from some time on, and those no more."""
        self._applied = asyncio.Event()
        """Set after each record."""
        super().__init__(logs, config, now, self._led.__contains__, metadata)
        self._standbys: dict[TopicPartition, StandbyLog] = {}
        self._shared_logs = logs
        self._shared_metadata = metadata
        self._on_reopened = logs.on_reopened
        metadata.follow = self.follow
        logs.know_topics(self._known)

    def _known(self) -> tuple[int, Container[UUID]]:
        """The end of the metadata log as this node knows it, and the topics up to there."""
        return self.position, self._metadata.state.topics

    # Leading

    @property
    def led(self) -> Mapping[TopicPartition, int]:
        """The partitions that are led here, with their leader epochs, for reading only."""
        return MappingProxyType(self._led)

    def led_by_kind(self) -> Mapping[TopicKind, int]:
        """How many partitions of each kind are led here."""
        found = dict.fromkeys(TopicKind, 0)
        for name, kind in _KINDS.items():
            topic = self.get(name)
            logs = () if topic is None else topic.partitions
            found[kind] = sum(log.topic_partition in self._led for log in logs)
        return found | {TopicKind.RECORDS: len(self._led) - sum(found.values())}

    def spread(self) -> Generator[None, None, dict[UUID, TopicSize]]:
        """The topics of the metadata log, as far as `decide` has to know them, in steps."""
        found = {}
        for topic_id, record in self._metadata.state.topics.items():
            kind = _KINDS.get(record.name, TopicKind.RECORDS)
            found[topic_id] = TopicSize(kind, record.partitions)
            yield
        return found

    @property
    def standbys(self) -> Mapping[TopicPartition, StandbyLog]:
        """The partitions that are to be led here next, and are read meanwhile."""
        return MappingProxyType(self._standbys)

    def partition_of(self, place: TopicIdPartition) -> TopicPartition | None:
        """A partition by its topic's id; None if there is no such topic or partition."""
        topic = self.by_id(place.topic_id)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        return TopicPartition(topic.name, place.partition)

    async def become_leader(self, place: TopicIdPartition, epoch: int) -> None:
        """Open a partition as its leader in this epoch: serve its records, load its shard.

        No-op if it is led here already, or its topic was deleted. Raises OSError.
        """
        partition, topic = self.partition_of(place), self.by_id(place.topic_id)
        if partition is None or topic is None or partition in self._led:
            return
        settings = self._logs.settings(topic.effective)
        log = await self._shared_logs.take(partition, topic.id, settings, epoch, self.position)
        if self.partition_of(place) != partition:
            await self._shared_logs.release(partition)
            return
        # In epoch 0 there was no other leader.
        log.in_leader_transition = epoch > 0
        self._led[partition] = epoch
        self.taken += 1
        self._standbys.pop(partition, None)
        self._tell_opened(log)

    def end_transition(self, partition: TopicPartition) -> None:
        """End the transition period: producers no longer retry batches sent to the previous leader.

        No-op if the partition is not led here.
        """
        if partition in self._led and (log := self.log(*partition)) is not None:
            log.in_leader_transition = False

    def start_standby(self, place: TopicIdPartition, on_ready: Callable[[], object]) -> None:
        """Read a partition that another node leads, to lead it soon after that node resigns.

        `on_ready` is called when it has been read, if that takes time. No-op if it is led or read
        here already, or its topic was deleted.
        """
        partition, topic = self.partition_of(place), self.by_id(place.topic_id)
        if partition is None or topic is None:
            return
        if partition in self._standbys or partition in self._led:
            return
        settings = self._logs.settings(topic.effective)
        log = self._standbys[partition] = self._shared_logs.stand_by(partition, topic.id, settings)
        log.on_ready = on_ready
        self._tell_opened(log)

    def stop_standby(self, partition: TopicPartition) -> None:
        """Stop reading a partition. No-op if it is not read here."""
        log = self._standbys.pop(partition, None)
        if log is not None:
            self._tell_opened(RemoteLog(partition, log.config))

    async def resign(self, partition: TopicPartition) -> None:
        """Stop leading a partition: requests get NOT_LEADER_OR_FOLLOWER, and appends are rejected.

        No-op if it is not led here. Raises OSError if the outcome of the last append is unknown.
        """
        if self._led.pop(partition, None) is None:
            return
        self.given_up += 1
        log = self.log(*partition)
        if log is not None:
            self._tell_opened(RemoteLog(partition, log.config))
        await self._shared_logs.release(partition)

    def _tell_opened(self, log: Log) -> None:
        for tell in tuple(self._on_reopened):
            tell(log)

    def _reopened(self, log: Log) -> None:
        former = self.log(*log.topic_partition)
        if former is not None and log.topic_partition in self._led:
            # `take` has set that of a log whose former one refuses everything.
            log.in_leader_transition |= former.in_leader_transition
        super()._reopened(log)

    def _retire(self, topic: Topic) -> Iterator[None]:
        yield from super()._retire(topic)
        for log in topic.partitions:
            self._led.pop(log.topic_partition, None)
            self._standbys.pop(log.topic_partition, None)

    def _remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Whoever led it last: that node may be gone."""
        if self._to_remove.get(partition) == topic_id:
            del self._to_remove[partition]
            self._logs.remove_anywhere(partition, topic_id)

    # Producer ids

    async def _take_producer_ids(self) -> Iterable[int]:
        try:
            return await self.allocate_producer_ids()
        except KafkaError as error:
            # As of Kafka's brokers: producers retry it, while many end at another error.
            code = ErrorCode.coordinator_load_in_progress
            raise KafkaError(code, f"no producer ids in hand: {error.message}") from error

    async def _apply(self, record: MetadataRecord) -> None:
        if isinstance(record, ProducerIdsReserved):
            self._producer_id_control.replay(record)
        else:
            await super()._apply(record)
            self.responses.clear()
        self._applied.set()

    # Changing topics: as all nodes know them when the change is logged

    async def catch_up(self, deadline: float | None = None) -> None:
        with suppress(OSError, FencedError, KafkaError, UnknownOutcomeError):
            await self.in_time(self._shared_metadata.read_on(), deadline)

    def ensure_in_time(self, deadline: float | None) -> None:
        if deadline is not None and asyncio.get_running_loop().time() >= deadline:
            raise _timed_out()

    async def in_time(self, work: Awaitable[R], deadline: float | None = None) -> R:
        latest = asyncio.get_running_loop().time() + CHANGED_WITHIN_S
        try:
            async with asyncio.timeout_at(latest if deadline is None else deadline) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise _timed_out() from None

    async def _change(
        self, decide: Callable[[], Sequence[MetadataRecord]], result: Callable[[], R]
    ) -> R:
        """`SharedMetadata.change`; its errors are those for a client."""
        try:
            return await self._shared_metadata.change(decide, result)
        except OutcomeLostError as error:
            raise _timed_out() from error
        except UnknownOutcomeError as error:
            why = OSError(None, "the database does not respond")
            raise storage_error(why) from error
        except FencedError as error:
            raise storage_error(OSError(None, str(error))) from error
        except OSError as error:
            raise storage_error(error) from error

    async def _prepare(self, records: Iterable[TopicRecord]) -> None:
        """Wait for what forgets a topic; a partition has its place once a node leads it."""
        await self._forgotten(each.name for each in records)

    async def _create_each(self, wanted: Sequence[NewTopic]) -> list[Topic | KafkaError]:
        slices = TimeSlices()
        planned: list[TopicRecord | KafkaError] = []
        for new in wanted:
            planned.append(self._planned(new))
            await slices.give_way()
        outcomes: dict[UUID, Topic | KafkaError] = {}
        valid = (each for each in planned if isinstance(each, TopicRecord))
        for some in in_batches(valid, topic_chars):
            try:
                outcomes |= await self._create_batch(some)
            except KafkaError as error:
                outcomes |= dict.fromkeys((each.id for each in some), error)
        return [each if isinstance(each, KafkaError) else outcomes[each.id] for each in planned]

    async def _create_batch(self, planned: Sequence[TopicRecord]) -> dict[UUID, Topic | KafkaError]:
        refused: dict[UUID, KafkaError] = {}

        def decide() -> list[TopicRecord]:
            nonlocal refused
            refused = self._claimed.refused(planned)
            return [each for each in planned if each.id not in refused]

        def created() -> dict[UUID, Topic | KafkaError]:
            topics = [topic for each in planned if (topic := self.by_id(each.id)) is not None]
            for topic in topics:
                log_created(topic)
            return {**refused, **{topic.id: topic for topic in topics}}

        return await self._change(decide, created)

    async def delete_each(self, names: Sequence[str]) -> dict[str, KafkaError]:
        topics = [topic for name in names if (topic := self.get(name)) is not None]
        refused = {name: unknown_topic(name) for name in names if self.get(name) is None}
        for start in range(0, len(topics), BATCH_RECORDS):
            some = topics[start : start + BATCH_RECORDS]
            try:
                refused |= await self._delete_batch(some)
            except KafkaError as error:
                refused |= {topic.name: error for topic in some}
        return refused

    async def _delete_batch(self, topics: Sequence[Topic]) -> dict[str, KafkaError]:
        """Delete topics; those that another node has deleted before are told of."""
        deleted: list[Topic] = []

        def decide() -> list[TopicDeleted]:
            deleted[:] = (each for each in topics if self.by_id(each.id) is not None)
            return [TopicDeleted(each.id) for each in deleted]

        def gone() -> dict[str, KafkaError]:
            for topic in deleted:
                log_deleted(topic)
            return {each.name: unknown_topic(each.name) for each in topics if each not in deleted}

        return await self._change(decide, gone)

    async def _grow_each(self, wanted: Sequence[Growth]) -> list[Topic | KafkaError]:
        grown: list[Topic | KafkaError] = []
        for some in in_batches(wanted, self._growth_chars):
            try:
                grown += await self._grow_batch(some)
            except KafkaError as error:
                grown += [error] * len(some)
        return grown

    async def _grow_batch(self, wanted: Sequence[Growth]) -> list[Topic | KafkaError]:
        planned: list[TopicRecord | KafkaError] = []

        def decide() -> list[TopicRecord]:
            planned[:] = map(self._grown_record, wanted)
            return [each for each in planned if isinstance(each, TopicRecord)]

        def grown() -> list[Topic | KafkaError]:
            return [
                each if isinstance(each, KafkaError) else self._told_grown(each.name)
                for each in planned
            ]

        return await self._change(decide, grown)

    def _grown_record(self, growth: Growth) -> TopicRecord | KafkaError:
        name, total = growth
        try:
            return self.plan_partitions(name, total).record(partitions=total)
        except KafkaError as error:
            return error.with_traceback(None)

    def _told_grown(self, name: str) -> Topic:
        topic = self._existing(name)
        log_grown(topic)
        return topic

    async def alter(self, name: str, configs: Callable[[Topic], Mapping[str, str]]) -> None:
        def decide() -> list[TopicRecord]:
            topic = self._existing(name)
            return [topic.record(configs=validate_topic_configs(configs(topic)))]

        await self.in_time(self._change(decide, _nothing))

    # New partitions, which have a leader when their creation is told, as in Kafka

    async def create_each(
        self, wanted: Sequence[NewTopic], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        made = await super().create_each(wanted, deadline)
        await self._led_soon([each for each in made if isinstance(each, Topic)])
        return made

    async def grow_each(
        self, wanted: Sequence[Growth], deadline: float | None = None
    ) -> list[Topic | KafkaError]:
        grown = await super().grow_each(wanted, deadline)
        await self._led_soon([each for each in grown if isinstance(each, Topic)])
        return grown

    async def _led_soon(self, topics: Iterable[Topic]) -> None:
        """Return when all partitions have a leader, are deleted, or did not get one in time."""
        cluster, slices = self._metadata.state.cluster, TimeSlices()
        with suppress(TimeoutError):
            async with asyncio.timeout(LED_WITHIN_S):
                for topic in topics:
                    for partition in range(len(topic.partitions)):
                        place = TopicIdPartition(topic.id, partition)
                        while self.by_id(topic.id) and cluster.leader(place).node == NO_LEADER:
                            self._applied.clear()
                            await self._applied.wait()
                        await slices.give_way()


def _timed_out() -> KafkaError:
    text = "The request timed out; what it asked for may have been done, or may yet be."
    return KafkaError(ErrorCode.request_timed_out, text)


def _nothing() -> None:
    pass
