"""What a Spark task does: fetch one offset range from its leader, and yield it as Arrow.

While one answer is decoded the next is on its way. No fetch session is asked for: a range has an
end, and the next task of this worker reads another partition. Connections are those that
`background` keeps.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from kohort.client.backoff import retrying
from kohort.client.cluster import EARLIEST, Cluster, Offset, list_offsets
from kohort.client.errors import UNKNOWN_TOPIC, WRONG_LEADER, UnsupportedVersionError
from kohort.client.fetch import (
    FINAL_EPOCH,
    NO_SESSION,
    TOPIC_IDS_SINCE,
    VERSIONS,
    FetchRequest,
    PartitionResponse,
    RequestedPartition,
    error_code,
    read_fetch_response,
)
from kohort.client.net import wire
from kohort.errors import ErrorCode, KafkaError
from kohort.spark import background, workers
from kohort.spark.options import ReadOptions
from kohort.spark.ranges import OffsetRange
from kohort.types import TopicPartition

PURPOSE: Final = "spark fetch"
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of one answer, unless `kafka.max.partition.fetch.bytes` says otherwise: some 38,000 records of
100 bytes.
"""
MAX_WAIT_MS: Final = 500


def read(options: ReadOptions, wanted: OffsetRange) -> Iterator[Any]:
    """The records of `wanted` as Arrow record batches.

    Raises KafkaError, also OFFSET_OUT_OF_RANGE where records are gone, unless `failOnDataLoss` is
    false; GaveUpError if the leader could not be reached.
    """
    from kohort.columnar.decoding import decode_batches

    workers.settle()
    fetch = _Fetch(options, TopicPartition(wanted.topic, wanted.partition), wanted.end)
    ahead: Future[Fetched] | None = background.start(fetch.at(wanted.start))
    try:
        while ahead is not None:
            response = ahead.result()
            more = response.next_offset < wanted.end
            ahead = background.start(fetch.at(response.next_offset)) if more else None
            yield from decode_batches(
                response.records,
                topic=wanted.topic,
                partition=wanted.partition,
                from_offset=response.offset,
                to_offset=wanted.end,
                include_headers=options.include_headers,
                aborted=response.aborted,
                check_crcs=options.check_crcs,
            )
    finally:
        if ahead is not None:
            ahead.cancel()


class Fetched(NamedTuple):
    """Record batches from `offset` to below `next_offset`."""

    offset: int
    next_offset: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]


class _Fetch:
    """Fetches of one partition."""

    def __init__(self, options: ReadOptions, tp: TopicPartition, end: int) -> None:
        self._options = options
        self._tp = tp
        self._end = end
        self._max_bytes = int(options.kafka_option("max.partition.fetch.bytes") or MAX_BYTES)

    async def at(self, offset: int) -> Fetched:
        """The next batches from `offset` on; where records are gone, from the first that is left
        behind it, if any.
        """
        cluster = await background.cluster(self._options.kafka)
        try:
            return await self._retried(cluster, offset)
        except KafkaError as error:
            if error.code is not ErrorCode.offset_out_of_range:
                raise
        start = await self._first(cluster)
        if self._options.fail_on_data_loss:
            raise KafkaError(ErrorCode.offset_out_of_range, lost(self._tp, offset, start))
        if not offset < start < self._end:
            return Fetched(offset, self._end, memoryview(b""), ())
        return await self._retried(cluster, start)

    async def _retried(self, cluster: Cluster, offset: int) -> Fetched:
        return await retrying(
            lambda: self._once(cluster, offset),
            what=f"fetch of {self._tp} at offset {offset}",
            timeout_ms=cluster.config.default_api_timeout_ms,
            backoff=cluster.backoff(),
        )

    async def _first(self, cluster: Cluster) -> int:
        found = (await list_offsets(cluster, {self._tp: EARLIEST}))[self._tp]
        if not isinstance(found, Offset):
            raise found
        return found.offset

    async def _once(self, cluster: Cluster, offset: int) -> Fetched:
        response = await self._asked(cluster, offset)
        if response.error:
            error = KafkaError(error_code(response.error), f"{self._tp} at offset {offset}")
            if error.code in WRONG_LEADER or error.code in UNKNOWN_TOPIC:
                cluster.stale(self._tp.topic)
            raise error
        found = Fetched(
            offset, next_offset(response.records, offset), response.records, response.aborted
        )
        if found.next_offset == offset:
            # What is asked for was there when the task was planned; the leader may have changed,
            # and lag behind.
            raise KafkaError(
                ErrorCode.offset_not_available, (f"{self._tp} has nothing at offset {offset}")
            )
        return found

    async def _asked(self, cluster: Cluster, offset: int) -> PartitionResponse:
        leader = await cluster.ask_leader(self._tp)
        topic = cluster.known_topic(self._tp.topic)
        topic_id = topic.id if topic else None
        connection = await cluster.connection(leader.node_id, PURPOSE)
        version = min(
            connection.version("fetch") or 0, VERSIONS[1] if topic_id else TOPIC_IDS_SINCE - 1
        )
        if version < VERSIONS[0]:
            raise UnsupportedVersionError(
                f"fetch v{VERSIONS[0]} is needed; the broker is older than Kafka 0.11"
            )
        how = wire("fetch", version)
        asked = RequestedPartition(topic_id, offset, leader.epoch, self._max_bytes)
        fields = FetchRequest(NO_SESSION, FINAL_EPOCH, {self._tp: asked}, {}).fields(
            by_id=version >= TOPIC_IDS_SINCE
        )
        body = how.body(
            fields
            | {
                "replica_id": -1,
                "max_wait_ms": int(self._options.kafka_option("fetch.max.wait.ms") or MAX_WAIT_MS),
                "min_bytes": 1,
                "max_bytes": int(self._options.kafka_option("fetch.max.bytes") or 50 * 1024 * 1024),
                "isolation_level": int(self._options.isolation == "read_committed"),
                "rack_id": "",
            }
        )
        frame = await connection.submit(how, body)
        response = read_fetch_response(frame, version, how.body_at(frame))
        if response.error or len(response.partitions) != 1:
            raise KafkaError(
                error_code(response.error or ErrorCode.unknown_server_error), f"fetch of {self._tp}"
            )
        return response.partitions[0]


def next_offset(records: memoryview, offset: int) -> int:
    """Behind the last whole batch in `records`; `offset` if there is none.

    Raises KafkaError: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE if only a part of a batch came.
    """
    from kohort.columnar.kernels import LAST_OFFSET
    from kohort.columnar.payloads import as_bytes
    from kohort.columnar.selection import scan

    table = scan(as_bytes(records))
    if len(table):
        return max(int(table[-1, LAST_OFFSET]) + 1, offset)
    if len(records):
        raise KafkaError(
            ErrorCode.message_too_large,
            f"only {len(records)} bytes of a record batch came; raise "
            "kafka.max.partition.fetch.bytes",
        )
    return offset


def lost(tp: TopicPartition, offset: int, earliest: int) -> str:
    """What to say about records that are gone: before the first one that is left, or behind the
    last one.
    """
    now = (
        f"its first record has offset {earliest} now"
        if offset < earliest
        else "it ends before that now"
    )
    return (
        f"{tp} was to be read from offset {offset}, {now}: what was there is gone "
        "(retention, or the topic was made "
        "anew); set failOnDataLoss to false to go on without it"
    )
