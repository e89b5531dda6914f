"""Reads chosen partitions, without the membership of a group (Java's manual assignment).

    async with Consumer(bootstrap="localhost:9092") as consumer:
        await consumer.assign_topics("orders")          # all partitions, from the first record
        async for record in consumer:
            print(record.offset, record.value)

With a `group_id` the consumer starts at the group's committed offsets, and `commit` stores how far
it came, by itself with `enable_auto_commit`. It takes no part in rebalances: a partition that two
such consumers assign is read twice. Members share partitions through `ConsumerGroup`.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, Generic, Self, Unpack, cast
from uuid import UUID

from kohort.client.admin import Admin
from kohort.client.cluster import EARLIEST, LATEST, Cluster, Offset, list_offsets, open_cluster
from kohort.client.concurrency import own_loop, to_its_end
from kohort.client.config import (
    OUT_OF_RANGE,
    ClientConfig,
    ConsumerConfig,
    ConsumerOptions,
    split_options,
)
from kohort.client.consumer.batch_cursor import BatchCursor
from kohort.client.consumer.manual_committer import ManualCommitter
from kohort.client.errors import ClientClosedError, NotAssignedError, TopicRecreatedError
from kohort.client.fetch import Batch, Fetcher, deserialize
from kohort.client.group_metadata import GroupMetadata, Offsets
from kohort.client.method_names import CONSUMER, MethodHints
from kohort.client.metrics import ConsumerMetrics, moved_back
from kohort.client.offset_and_metadata import (
    OffsetAndMetadata,
    committable,
    validate_offsets,
    validate_partitions,
)
from kohort.client.properties import checks_arguments, shows_options
from kohort.client.record import K, Record, V
from kohort.client.serialization import Deserializer, Deserializers, deserializers
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError, unless_error
from kohort.types import GroupId, TopicPartition

_WAIT_MS: Final = 60_000
_START: Final[Mapping[object, int]] = {"first": EARLIEST, "last": LATEST}


@shows_options(ConsumerConfig, ClientConfig)
@checks_arguments
class Consumer(MethodHints, Generic[K, V]):
    """A reader of chosen partitions, used from one event loop.

    A Cluster that is passed in stays open; with a ClientConfig, or its options, the consumer opens
    its own.
    """

    _OTHER_NAMES = CONSUMER

    def __init__(
        self,
        cluster: ClientConfig | Cluster | None = None,
        *,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """The options are the fields of ConsumerConfig and ClientConfig. Raises ConfigError.

        Deserializers are those of `kohort.client.serialization`.
        """
        own_options, client_options = split_options(options, ConsumerConfig)
        self.config = ConsumerConfig(**own_options)
        self.cluster = open_cluster(cluster, client_options)
        self._owns_cluster = self.cluster is not cluster
        self._fetcher = Fetcher(
            self.cluster,
            isolation=self.config.isolation_level,
            out_of_range=OUT_OF_RANGE.get(self.config.start, "earliest"),
            fetch_min_bytes=self.config.fetch_min_bytes,
            fetch_max_bytes=self.config.fetch_max_bytes,
            fetch_max_wait_ms=self.config.fetch_max_wait_ms,
            max_partition_fetch_bytes=self.config.max_partition_fetch_bytes,
            rack=self.config.client_rack,
        )
        self._deserializers = deserializers(key_deserializer, value_deserializer)
        self._cursor = BatchCursor[K, V]()
        group = self.config.group_id
        self._committer = ManualCommitter(
            Admin(self.cluster), None if group is None else GroupId(group), self._topic_ids
        )
        self._assignment_order = asyncio.Lock()
        """Assignments are made one after the other: each depends on the one before."""
        self._is_fetching = False
        self._closing: asyncio.Task[None] | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._own_loop = own_loop(self._own_loop, "consumer")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Consumer {len(self.assignment)} partitions>"

    async def close(self) -> None:
        """End all requests; with `enable_auto_commit`, commit first. Idempotent.

        The record or batch that was handed out last is not committed: the application did not ask
        for more. Raises KohortError if the commit failed; everything is closed all the same, and
        also if the call is cancelled.
        """
        if self._closing is None:
            self._own_loop = own_loop(self._own_loop, "consumer")
            self._closing = asyncio.create_task(self._close(), name="a consumer closes")
        await to_its_end(self._closing)

    async def _close(self) -> None:
        try:
            await self._committer.close()
        finally:
            await self._fetcher.close()
            if self._owns_cluster:
                await self.cluster.close()

    def metrics(self) -> ConsumerMetrics:
        """Counters since the start, and gauges of this moment; from any thread."""
        fetch = self._fetcher.metrics()
        batch, position = self._cursor.batch, self._cursor.position
        if batch is not None and position < batch.next_offset:
            fetch = moved_back(fetch, batch.topic_partition, position)
        return ConsumerMetrics(
            client_id=self.cluster.config.client_id,
            is_closed=self._closing is not None,
            commits=self._committer.metrics(),
            fetch=fetch,
            connections=self.cluster.metrics().connections,
        )

    # Assignment

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return self._fetcher.assignment

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION and others, TypeError.
        """
        if not isinstance(topic, str):
            raise TypeError(f"topic {topic!r}: a str expected")
        metadata = (await self.cluster.metadata([topic])).topics[topic]
        if metadata.error is not ErrorCode.none:
            raise KafkaError(metadata.error, f"topic {topic}")
        return [TopicPartition(topic, partition.index) for partition in metadata.partitions]

    async def assign_topics(self, *topics: str) -> None:
        """`assign` all partitions that these topics have now."""
        for topic in topics:
            if not isinstance(topic, str):
                raise TypeError(f"topic {topic!r}: a str expected, as assign_topics('a', 'b')")
        by_topic = [await self.partitions_for(topic) for topic in topics]
        await self.assign(tp for partitions in by_topic for tp in partitions)

    async def assign(
        self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]
    ) -> None:
        """Read exactly these partitions; a mapping has their start offsets.

        For an assigned partition an offset works as `seek`; without one its position stays. A new
        partition without an offset starts at the committed offset of `group_id`, else by
        `start_offset`. Raises KohortError, TypeError and ValueError, which leave the assignment
        unchanged.
        """
        self._own_loop = own_loop(self._own_loop, "consumer")
        if not isinstance(partitions, Mapping):
            partitions = tuple(partitions)
            validate_partitions(partitions)
        requested: dict[TopicPartition, int | None] = (
            {tp: _offset(tp, offset) for tp, offset in partitions.items()}
            if isinstance(partitions, Mapping)
            else dict.fromkeys(partitions)
        )
        async with self._assignment_order:
            await self._assign(requested)

    async def _assign(self, requested: Mapping[TopicPartition, int | None]) -> None:
        before = self.assignment
        new = [tp for tp, offset in requested.items() if offset is None and tp not in before]
        starts = await self._start_offsets(new)
        removed = before - requested.keys()
        if self.config.enable_auto_commit and removed:
            await self._committer.commit_finished()
        self._validate_open()
        for tp in removed:
            self._fetcher.remove(tp)
            self._forget(tp)
        for tp, offset in requested.items():
            if offset is not None:
                self._drop(tp)
                self._fetcher.add(tp, offset)
                if tp in before:
                    self._committer.seek(tp, offset)
            elif tp in starts:
                self._fetcher.add(tp, starts[tp].offset, starts[tp].leader_epoch)
        if self.config.enable_auto_commit:
            self._committer.start_auto_commit(self.config.auto_commit_interval_ms)

    async def _start_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets, and those by `start_offset` where there is none."""
        committed = {}
        if self.config.group_id is not None and partitions:
            offsets = await self.committed(partitions)
            committed = {tp: offset for tp, offset in offsets.items() if offset is not None}
        without = [tp for tp in partitions if tp not in committed]
        if not without:
            return committed
        policy = self.config.start
        if policy == "none":
            raise ConfigError(
                f"{without[0]} has no committed offset: give one to `assign`, or set "
                "start_offset to first or last"
            )
        time = policy if isinstance(policy, int) else _START[policy]
        listed = await self._list(dict.fromkeys(without, time))
        late = [tp for tp, start in listed.items() if start.offset < 0]  # no record since then
        listed |= await self._list(dict.fromkeys(late, LATEST))
        return committed | {
            tp: OffsetAndMetadata(offset=start.offset) for tp, start in listed.items()
        }

    # Positions

    def position(self, tp: TopicPartition) -> int:
        """The offset of the next record that is handed out. Raises NotAssignedError."""
        position = self._fetcher.position(tp)
        assert position is not None  # `assign` and `seek` give numbers
        return self._cursor.position if self._cursor.is_within(tp) else position

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Continue at another offset, to be committed next. Raises NotAssignedError, ValueError."""
        offset = _offset(tp, offset)
        self._drop(tp)
        self._fetcher.seek(tp, offset)
        self._committer.seek(tp, offset)

    async def seek_to_beginning(self, *tps: TopicPartition) -> None:
        """Continue at the first records, of all partitions if none is named."""
        for tp, offset in (await self.beginning_offsets(tps or self.assignment)).items():
            self.seek(tp, offset)

    async def seek_to_end(self, *tps: TopicPartition) -> None:
        """Continue at the end of these partitions, by default of all."""
        for tp, offset in (await self.end_offsets(tps or self.assignment)).items():
            self.seek(tp, offset)

    def pause(self, *tps: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. Raises NotAssignedError."""
        for tp in tps:
            if self._cursor.is_within(tp):
                self._hand_back()
            self._fetcher.pause(tp)

    def resume(self, *tps: TopicPartition) -> None:
        """Hand out these again. Raises NotAssignedError."""
        self._fetcher.resume(*tps)

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._fetcher.paused()

    def lag(self, tp: TopicPartition) -> int | None:
        """Offsets from `position` to the end as of the last fetch; None before the first.

        Raises NotAssignedError.
        """
        lag, position = self._fetcher.lag(tp), self._fetcher.position(tp)
        return None if lag is None or position is None else lag + position - self.position(tp)

    # Offsets by time

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition. Raises KohortError."""
        offsets = await self._list(dict.fromkeys(partitions, EARLIEST))
        return {tp: offset.offset for tp, offset in offsets.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offset of each partition. Raises KohortError.

        Under read_committed it is the last stable offset.
        """
        offsets = await self._list(dict.fromkeys(partitions, LATEST))
        return {tp: offset.offset for tp, offset in offsets.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Offset | None]:
        """The first record of each partition since a time (ms); None if there is none so late.

        Raises KohortError, ValueError.
        """
        validate_offsets(times)
        for tp, time in times.items():
            if type(time) is not int or not 0 <= time < 1 << 63:
                raise ValueError(f"{tp}: time {time!r} is not an int of ms since 1970")
        offsets = await self._list(times)
        return {tp: None if offset.offset < 0 else offset for tp, offset in offsets.items()}

    async def _list(self, queries: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        validate_partitions(queries)
        if not queries:
            return {}
        outcomes = await list_offsets(self.cluster, queries, self.config.isolation_level)
        return {tp: unless_error(outcome) for tp, outcome in outcomes.items()}

    # Records

    def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        return self

    async def __anext__(self) -> Record[K, V]:
        """The next record. Raises errors of partitions, as `Fetcher`; the next call continues."""
        while True:
            self._committer.finish()
            record = self._next_record()
            if record is not None:
                return record
            if await self._fetch_batch(_WAIT_MS) is not None:
                self._cursor.iterate()

    async def next_batch(
        self, *, max_wait_ms: float, before: Mapping[TopicPartition, int] | None = None
    ) -> Batch[K, V] | None:
        """The next batch; None if none arrived in time. Raises as `__anext__`.

        After single records of a batch, the remaining ones are returned as a batch. With `before`,
        only partitions whose position is before the offset there are read, and None is returned if
        there is none; the batch may reach further.
        """
        self._committer.finish()
        self._hand_back()
        batch = await self._fetch_batch(max_wait_ms, before)
        if batch is not None:
            self._hand_out(batch, batch.next_offset)
        return batch

    def read_to(self, ends: Mapping[TopicPartition, int]) -> AsyncIterator[Record[K, V]]:
        """Iterate over the records before these offsets, of these partitions; others wait.

        Ends when the position of each partition has reached its offset, also if the last offsets
        are transaction markers, aborted or compacted. Later records are left to later reads.
        Raises NotAssignedError, ValueError, and as `__anext__`.

            async for record in consumer.read_to(await consumer.end_offsets(consumer.assignment)):
        """
        validate_offsets(ends)
        for tp, end in ends.items():
            self._fetcher.position(tp)
            _offset(tp, end)
        return _RecordsBefore(self, dict(ends))

    def is_before(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether any partition's position is before its end. Raises NotAssignedError."""
        return any(self.position(tp) < end for tp, end in ends.items())

    async def _next_before(self, ends: Mapping[TopicPartition, int]) -> Record[K, V] | None:
        """The next record before these offsets; None once all partitions are there."""
        while True:
            self._committer.finish()
            if (record := self._next_record_before(ends)) is not None:
                return record
            if not self.is_before(ends):
                return None
            if await self._fetch_batch(_WAIT_MS, ends) is not None:
                self._cursor.iterate()

    def _next_record_before(self, ends: Mapping[TopicPartition, int]) -> Record[K, V] | None:
        batch = self._cursor.batch
        end = 0 if batch is None else ends.get(batch.topic_partition, 0)
        if batch is None or self._cursor.position >= end:
            self._hand_back()
            return None
        record = self._next_record()
        if record is not None and record.offset >= end:
            self._hand_out(batch, end)
            self._committer.finish()
            self._hand_back()
            return None
        return record

    def used(self, batch: Batch[K, V], offset: int) -> None:
        """Mark only the records before `offset` of the last batch as used.

        `position` and `commit` use that offset, and the next batch begins there.
        """
        if batch is self._cursor.batch:
            self._hand_out(batch, offset)

    async def _fetch_batch(
        self, max_wait_ms: float, before: Mapping[TopicPartition, int] | None = None
    ) -> Batch[K, V] | None:
        if self._is_fetching:
            raise KohortError(
                "another task already reads the consumer, and each record goes to one reader only. "
                "Read it in one task, and pass records on to others"
            )
        self._is_fetching = True
        try:
            return await self._fetch_batch_alone(max_wait_ms, before)
        finally:
            self._is_fetching = False

    async def _fetch_batch_alone(
        self, max_wait_ms: float, before: Mapping[TopicPartition, int] | None
    ) -> Batch[K, V] | None:
        self._own_loop = own_loop(self._own_loop, "consumer")
        while True:
            self._validate_open()
            if not self.assignment:
                raise NotAssignedError("the consumer has no partitions: assign some first")
            try:
                fetched = await self._fetcher.next_any(max_wait_ms=max_wait_ms, before=before)
            except TopicRecreatedError as error:
                self._forget(error.topic_partition)
                raise
            batch = cast("Batch[K, V] | None", fetched)
            self._cursor.open(batch)
            if fetched is None or self._deserializers is None:
                return batch
            if await self._deserialize(fetched, self._deserializers):
                return batch

    def _validate_open(self) -> None:
        if self._closing is not None:
            raise ClientClosedError

    async def _deserialize(self, batch: Batch, deserializers: Deserializers) -> bool:
        """Whether the batch may be returned; False after a seek or pause of its partition."""
        try:
            await deserialize(batch, deserializers)
        except BaseException:
            with suppress(NotAssignedError):
                self._hand_back()
            raise
        return self._cursor.batch is batch

    def _next_record(self) -> Record[K, V] | None:
        cursor = self._cursor
        batch = cursor.batch
        if batch is None:
            return None
        if not cursor.is_iterated:  # it was handed out as a batch, perhaps not all of it `used`
            self._hand_back()
            return None
        try:
            record = cursor.next_record()
        except KohortError:
            self._hand_back()  # the next call must not skip the unreadable batch
            raise
        if record is not None:
            self._hand_out(batch, record.offset + 1)
            return record
        self._hand_out(batch, batch.next_offset)
        self._committer.finish()
        cursor.open(None)
        return None

    def _hand_out(self, batch: Batch[K, V], position: int) -> None:
        self._cursor.position = position
        self._committer.hand_out(batch.topic_partition, position, batch.leader_epoch)

    def _hand_back(self) -> None:
        """Have the fetcher return the remaining records of the batch again."""
        cursor = self._cursor
        if cursor.batch is not None and cursor.is_within(cursor.batch.topic_partition):
            self._fetcher.seek(cursor.batch.topic_partition, cursor.position)
        cursor.open(None)

    def _drop(self, tp: TopicPartition) -> None:
        """Return no more records of the partition's batch, and do not finish it."""
        if self._cursor.batch is not None and self._cursor.batch.topic_partition == tp:
            self._cursor.open(None)
        self._committer.drop(tp)

    def _forget(self, tp: TopicPartition) -> None:
        """Commit no more records that were read."""
        self._drop(tp)
        self._committer.forget(tp)

    # Commits

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offset of each partition. Raises KohortError, ConfigError without group."""
        return await self._committer.committed(partitions)

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit these offsets, or all that was handed out, also the last record or batch.

        Raises CommitError with the error of each partition, KohortError if the group is refused as
        a whole (UNKNOWN_MEMBER_ID: it has members), ConfigError without a group, ValueError.
        """
        _ = self._committer.group
        self._own_loop = own_loop(self._own_loop, "consumer")
        if offsets is None:
            self._committer.finish()
            await self._committer.commit_finished()
        else:
            await self._committer.commit(offsets)

    def to_commit(
        self, offsets: Offsets
    ) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        """For `Transaction.commit_offsets`: the group, without a member, and the offsets to send.

        Raises ConfigError without a group, ValueError for invalid offsets.
        """
        return self._committer.to_commit(offsets)

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, UUID]:
        """For `Transaction.commit_offsets`: the ids of the topics as they were read."""
        topic_ids = self._topic_ids()
        return {tp: topic_ids[tp] for tp in partitions if tp in topic_ids}

    def _topic_ids(self) -> dict[TopicPartition, UUID]:
        """The known ids of the topics that were read."""
        topic_ids = {tp: self._fetcher.topic_id(tp) for tp in self.assignment}
        return {tp: topic_id for tp, topic_id in topic_ids.items() if topic_id is not None}


class _RecordsBefore(AsyncIterator[Record[K, V]]):
    """`Consumer.read_to`; all state is the consumer's, so a cancelled wait loses nothing."""

    def __init__(self, consumer: Consumer[K, V], ends: Mapping[TopicPartition, int]) -> None:
        self._consumer = consumer
        self._ends = ends

    async def __anext__(self) -> Record[K, V]:
        record = await self._consumer._next_before(self._ends)
        if record is None:
            raise StopAsyncIteration
        return record


def _offset(tp: TopicPartition, offset: int) -> int:
    """An offset to continue at. Raises ValueError."""
    return committable(tp, offset).offset
