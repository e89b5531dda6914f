"""Fetches one offset range from its leader in a Spark task, and yields it as Arrow.

While one response is decoded the next one is fetched. There is no fetch session: a range has an
end, and the next task of this worker reads another partition. `background` keeps the connections.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.client.backoff import retrying
from kohort.client.cluster import EARLIEST, Cluster, Offset, TopicMetadata, list_offsets
from kohort.client.errors import UNKNOWN_TOPIC, WRONG_LEADER
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.spark import background, workers
from kohort.spark.data_loss import AGAIN, deleted, out_of_range, raise_or_warn
from kohort.spark.options import ReadOptions
from kohort.spark.positions import topic_id
from kohort.spark.ranges import OffsetRange, range_row
from kohort.types import TopicPartition

if TYPE_CHECKING:
    from kohort.client.fetch import PartitionResponse, RequestedPartition
    from kohort.columnar.damaged_batches import Damage

PURPOSE: Final = "spark fetch"
MAX_BYTES: Final = 50 * 1024 * 1024
"""Default of `kafka.fetch.max.bytes`."""
MAX_PARTITION_BYTES: Final = 2 * 1024 * 1024
"""Default of `kafka.max.partition.fetch.bytes`: some 19,000 records of 100 bytes."""
MAX_WAIT_MS: Final = 500
"""Default of `kafka.fetch.max.wait.ms`."""
RECREATED_AFTER: Final = 3
"""Responses with another topic id until the topic counts as recreated: a broker may lag behind."""


def read(options: ReadOptions, offset_range: OffsetRange) -> Iterator[Any]:
    """The records of `offset_range` as Arrow record batches; with `readRanges` the range itself.

    With `damagedBatches` = `rows` a row stands for each damaged batch.

    Raises DataLossError if records were deleted, unless `failOnDataLoss` is false; KafkaError;
    GaveUpError if the leader could not be reached; DamagedLogError.
    """
    if options.read_ranges:
        yield range_row(offset_range)
        return
    from kohort.columnar.machine_code import addresses

    addresses()  # fetches scan batches on the event loop, which loading would hold up
    workers.settle()
    fetch = _Fetch(options, offset_range)
    ahead: Future[FetchedRange] | None = background.start(fetch.at(offset_range.start))
    try:
        while ahead is not None:
            response = ahead.result()
            more = response.next_offset < offset_range.end
            ahead = background.start(fetch.at(response.next_offset)) if more else None
            yield from _records(options, offset_range, response)
    finally:
        if ahead is not None:
            ahead.cancel()


def _records(
    options: ReadOptions, offset_range: OffsetRange, response: "FetchedRange"
) -> Iterator[Any]:
    """The records of a response that are in the range."""
    from kohort.columnar.decoding import decode_batches
    from kohort.protocol.compression import MAX_INFLATED

    def decode(records: memoryview, start: int, end: int) -> Iterator[Any]:
        return decode_batches(
            records,
            topic=offset_range.topic,
            partition=offset_range.partition,
            from_offset=start,
            to_offset=end,
            include_headers=options.include_headers,
            include_batch_fields=options.include_batch_fields,
            aborted=response.aborted,
            check_crcs=options.check_crcs,
            max_inflated=options.max_inflated_batch_bytes or MAX_INFLATED,
        )

    if not options.damaged_rows:
        with naming_option():
            yield from decode(response.records, response.offset, offset_range.end)
        return
    from kohort.spark.damaged_responses import decoded, row_of

    damage, limit = response.damage, offset_range.end
    end = min(response.next_offset if damage is None else damage.start, limit)
    tp = TopicPartition(offset_range.topic, offset_range.partition)
    has_headers = options.include_headers
    yield from decoded(response.records, response.offset, end, tp, decode, has_headers)
    if damage is not None and end < limit:
        yield row_of(damage._replace(end=min(damage.end, limit)), tp, has_headers)


@contextmanager
def naming_option() -> Iterator[None]:
    """Name the option in errors of batches that are too large after decompression."""
    try:
        yield
    except KafkaError as error:
        if error.code is not ErrorCode.message_too_large:
            raise
        raise KafkaError(error.code, f"{error.message}; raise maxInflatedBatchBytes") from None


class FetchedRange(NamedTuple):
    """Record batches from `offset` to below `next_offset`."""

    offset: int
    next_offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]
    damage: "Damage | None" = None
    """What is lost behind them, up to `next_offset`."""


class _Fetch:
    """Fetches of one range."""

    def __init__(self, options: ReadOptions, offset_range: OffsetRange) -> None:
        # Imported by the first task that fetches: the driver, which only plans, does not need it.
        from kohort.client.fetch import FetchSettings

        self._options = options
        self._tp = TopicPartition(offset_range.topic, offset_range.partition)
        self._end = offset_range.end
        self._boundary: int | None = None
        """Where the batches that were read have ended."""
        self._topic_id = offset_range.topic_id
        self._mismatches = 0
        self._settings = FetchSettings(
            isolation=options.isolation,
            min_bytes=1,
            max_bytes=int(options.kafka_option("fetch.max.bytes") or MAX_BYTES),
            max_wait_ms=int(options.kafka_option("fetch.max.wait.ms") or MAX_WAIT_MS),
            partition_bytes=int(
                options.kafka_option("max.partition.fetch.bytes") or MAX_PARTITION_BYTES
            ),
            check_crcs=options.check_crcs,
            rack=options.kafka_option("client.rack") or "",
        )
        self._replica: int | None = None
        """Node id of the follower that the leader named as the preferred replica (KIP-392)."""

    async def at(self, offset: int) -> FetchedRange:
        """The next batches from `offset` on, or from the first record if `offset` was deleted.

        Returns none of a recreated topic: the next plan reads it.
        """
        cluster = await background.cluster(self._options.kafka)
        try:
            return await self._retried(cluster, offset)
        except _RecreatedError:
            loss = deleted(self._tp, AGAIN, offset, self._end)
            start = self._end
        except KafkaError as error:
            if error.code is not ErrorCode.offset_out_of_range:
                raise
            start = await self._first_offset(cluster)
            loss = out_of_range(self._tp, offset, start, self._end)
        raise_or_warn(loss, fail=self._options.fail_on_data_loss)
        if not offset < start < self._end:
            return FetchedRange(offset, self._end, memoryview(b""), ())
        return await self._retried(cluster, start)

    async def _retried(self, cluster: Cluster, offset: int) -> FetchedRange:
        return await retrying(
            lambda: self._once(cluster, offset),
            operation=f"fetch of {self._tp} at offset {offset}",
            timeout_ms=self._options.poll_timeout_ms or cluster.config.default_api_timeout_ms,
            backoff=cluster.backoff(),
        )

    async def _first_offset(self, cluster: Cluster) -> int:
        outcome = (await list_offsets(cluster, {self._tp: EARLIEST}))[self._tp]
        if not isinstance(outcome, Offset):
            raise fresh(outcome)
        return outcome.offset

    async def _once(self, cluster: Cluster, offset: int) -> FetchedRange:
        from kohort.client.fetch import RequestedPartition, error_code

        leader = await cluster.request_leader(self._tp)
        topic = cluster.cached_topic(self._tp.topic)
        self._validate_topic_id(cluster, topic)
        requested = RequestedPartition(
            topic.id if topic else None, offset, leader.epoch, self._settings.partition_bytes
        )
        response = await self._response(cluster, leader.node_id, requested)
        if response.error:
            error = KafkaError(error_code(response.error), f"{self._tp} at offset {offset}")
            if error.code in WRONG_LEADER or error.code in UNKNOWN_TOPIC:
                cluster.stale(self._tp.topic)
            raise fresh(error)
        fetched = self._fetched(response, offset)
        if fetched.next_offset == offset:
            # The records existed when the task was planned; a new leader may lag behind.
            raise KafkaError(
                ErrorCode.offset_not_available, (f"{self._tp} has nothing at offset {offset}")
            )
        return fetched

    def _fetched(self, response: "PartitionResponse", offset: int) -> FetchedRange:
        """The batches of a response. Raises KafkaError."""
        records, aborted = response.records, response.aborted
        if not self._options.damaged_rows:
            return FetchedRange(offset, next_offset(records, offset), records, aborted)
        from kohort.columnar.damaged_batches import Damage
        from kohort.spark.damaged_responses import readable

        part = readable(records, offset, self._tp, begins_batch=offset == self._boundary)
        damage = None
        if part.problem is not None:
            damage = Damage(0, part.end, part.next_offset, part.problem)
        elif part.next_offset > offset:
            self._boundary = part.next_offset
        return FetchedRange(offset, part.next_offset, part.records, aborted, damage)

    def _validate_topic_id(self, cluster: Cluster, topic: TopicMetadata | None) -> None:
        """Raise if the topic was recreated since the plan."""
        now = topic_id(topic.id) if topic else None
        if self._topic_id is None or now is None or now == self._topic_id:
            return
        self._mismatches += 1
        if self._mismatches >= RECREATED_AFTER:
            raise _RecreatedError
        cluster.stale(self._tp.topic)
        raise KafkaError(ErrorCode.unknown_topic_id, f"topic {self._tp.topic} has the id {now}")

    async def _response(
        self, cluster: Cluster, leader: int, requested: "RequestedPartition"
    ) -> "PartitionResponse":
        """The response of the preferred replica in `client.rack`, otherwise of the leader."""
        if self._replica is None:
            response = await self._fetch_from(cluster, leader, requested)
            if response.error or response.preferred_replica < 0:
                return response
            self._replica = response.preferred_replica
        with suppress(KohortError):
            response = await self._fetch_from(cluster, self._replica, requested)
            if not response.error and len(response.records):
                return response
        # The replica is down or behind. The leader returns records only to a client without a rack.
        self._replica, self._settings = None, replace(self._settings, rack="")
        return await self._fetch_from(cluster, leader, requested)

    async def _fetch_from(
        self, cluster: Cluster, node_id: int, requested: "RequestedPartition"
    ) -> "PartitionResponse":
        from kohort.client.fetch import fetch_partition

        connection = await cluster.connection(node_id, PURPOSE)
        return await fetch_partition(connection, self._tp, requested, self._settings)


class _RecreatedError(Exception):
    """The topic was deleted and created again."""


def next_offset(records: memoryview, offset: int) -> int:
    """The offset behind the last whole batch in `records`; `offset` if there is none.

    Raises KafkaError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE if only a part of a batch came.
    """
    from kohort.columnar.kernels import LAST_OFFSET
    from kohort.columnar.payloads import as_bytes
    from kohort.columnar.selection import scan
    from kohort.spark.damaged_responses import too_small

    table = scan(as_bytes(records))
    if len(table):
        return max(int(table[-1, LAST_OFFSET]) + 1, offset)
    if len(records):
        raise too_small(records)
    return offset
