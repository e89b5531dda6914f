"""Reading the partitions of one Fetch from their logs, within the limits of the request."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.log.aborted_index import AbortedTransaction
from kohort.log.base import LogReader
from kohort.log.leader_epochs import EpochEndOffset
from kohort.log.stores import Records
from kohort.server.replicas import Topic, Topics, validate_leader_epoch

UNKNOWN_ERRORS: Final = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.topic_authorization_failed,
)
"""Errors of partitions that do not exist, as far as the client may know."""

READ_COMMITTED: Final = 1
"""The isolation level of readers of committed records."""
MAX_READ_BYTES: Final = 16 * 1024 * 1024
"""Bytes of records that a response has at most, unless its first batch is larger.

They are read from the files in 10 ms, in which nothing else is served. The rest is for the next
Fetch, which a client sends as it receives this response.
"""

TopicKey: TypeAlias = str | UUID | None
"""A topic as the request names it: up to v12 by name, from v13 on by id (None: the zero id)."""


class PartitionRequest(NamedTuple):
    """One partition of a Fetch request."""

    topic: TopicKey
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    """The leader epoch that the client knows, -1 if it sends none."""
    last_fetched_epoch: int = -1
    """The epoch of the last record that it has, -1 if it sends none."""


class FetchPartitionData(NamedTuple):
    """One partition of a Fetch response. Offsets are -1 with an error."""

    request: PartitionRequest
    error: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    log_start_offset: int = -1
    records: Records = b""
    diverging: EpochEndOffset | None = None
    """The end of the client's epoch here, if it read beyond that (KIP-595)."""
    log: LogReader | None = None
    """The log that was read, None with an error."""
    last_stable_offset: int = -1
    aborted: Sequence[AbortedTransaction] | None = None
    """The aborted transactions of the records; None if the client reads uncommitted ones too."""

    @property
    def end(self) -> int:
        """The offset up to which the client reads."""
        return self.high_watermark if self.aborted is None else self.last_stable_offset

    @property
    def is_all(self) -> bool:
        """Whether the client has every record of the partition that it may read."""
        return self.request.offset >= self.end and not (self.error or self.diverging)

    @property
    def has_more(self) -> bool:
        """Whether the limits, or the end of a segment, kept records back."""
        reached = self.request.offset
        if self.records and self.log is not None:
            reached = self.log.next_offset_after(reached, len(self.records))
        return reached < self.end


class FetchLimits(NamedTuple):
    """Limits of a Fetch request as a whole."""

    max_bytes: int
    """Limit for all records, which only a larger first batch exceeds."""
    min_bytes: int
    """Bytes of records that the response waits for."""
    max_wait_s: float
    from_replica: bool = False
    """Whether a broker sent the request; none replicates from this one."""
    committed: bool = False
    """Whether the client reads committed records alone: those up to the last stable offset."""
    may_read: Callable[[str], bool] | None = None
    """Whether the client may read the topic of that name; None: it may read all."""


class ReadResult(NamedTuple):
    """The result of one pass over all partitions of a request."""

    partitions: list[FetchPartitionData]
    size: int
    """Bytes of all records."""
    failed: bool
    """Whether a partition that exists has an error, or diverges."""
    waitable: bool
    """Whether any partition exists: errors of others are sent with the response to those."""


def find_topic(topics: Topics, key: TopicKey) -> Topic | None:
    """The topic of that name or id."""
    return topics.get(key) if isinstance(key, str) else None if key is None else topics.by_id(key)


def read_all(
    topics: Topics, requests: Iterable[PartitionRequest], limits: FetchLimits, bytes_read: int = 0
) -> ReadResult:
    """Read the partitions in their order until the limits are reached; all get their offsets.

    `bytes_read` is the number of bytes that were read for the same response already.

    The first batch that is read is whole, whatever its size: else a consumer with small limits
    would never get past it (KIP-74).
    """
    bytes_left = max(0, min(limits.max_bytes, MAX_READ_BYTES) - bytes_read)
    size, failed, waitable = 0, False, False
    fetched: list[FetchPartitionData] = []
    key: TopicKey = None
    topic: Topic | None = None
    allowed = True
    for request in requests:
        if request.topic is not key:  # most requests are in order of topics
            key = request.topic
            topic = find_topic(topics, key)
            allowed = _is_allowed(limits, key, topic)
        try:
            if not allowed:
                raise KafkaError(ErrorCode.topic_authorization_failed)
            max_bytes = min(request.max_bytes, bytes_left)
            data = _read(topic, request, max_bytes, size + bytes_read == 0, limits)
        except KafkaError as error:
            data = FetchPartitionData(request, error.code)
            failed = failed or error.code not in UNKNOWN_ERRORS
        except OSError:
            data = FetchPartitionData(request, ErrorCode.kafka_storage_error)
            failed = True
        fetched.append(data)
        failed = failed or data.diverging is not None
        waitable = waitable or data.error not in UNKNOWN_ERRORS
        if data.records:
            size += len(data.records)
            bytes_left = max(0, bytes_left - len(data.records))
    return ReadResult(fetched, size, failed, waitable)


def _is_allowed(limits: FetchLimits, key: TopicKey, topic: Topic | None) -> bool:
    name = key if isinstance(key, str) else None if topic is None else topic.name
    return limits.may_read is None or name is None or limits.may_read(name)


def _read(
    topic: Topic | None,
    request: PartitionRequest,
    max_bytes: int,
    at_least_one: bool,
    limits: FetchLimits,
) -> FetchPartitionData:
    """Read one partition. Raises OSError, KafkaError with the code of the partition."""
    if topic is None and not isinstance(request.topic, str):
        raise KafkaError(ErrorCode.unknown_topic_id)
    if topic is None or not 0 <= request.partition < len(topic.partitions):
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    log = topic.partitions[request.partition]
    if limits.from_replica:
        raise KafkaError(ErrorCode.not_leader_or_follower)
    if error := validate_leader_epoch(request.leader_epoch, log):
        raise KafkaError(error)
    log.ensure_open()
    start, end = log.start_offset, log.end_offset
    durable_end, stable_end = log.high_watermark, _stable_end(log, limits.committed)
    aborted: Sequence[AbortedTransaction] | None = () if limits.committed else None
    if request.last_fetched_epoch >= 0:
        diverging = _diverging(log, request)
        if diverging is not None:
            return FetchPartitionData(
                request,
                ErrorCode.none,
                durable_end,
                start,
                b"",
                diverging,
                log,
                stable_end,
                aborted,
            )
    if not start <= request.offset <= end:
        raise KafkaError(ErrorCode.offset_out_of_range)
    records: Records = b""
    is_at_end = request.offset >= (stable_end if limits.committed else durable_end)
    if not is_at_end and (at_least_one or max_bytes > 0):
        max_bytes = max(0, max_bytes)
        if limits.committed:
            records, aborted = log.read_committed(
                request.offset, max_bytes, at_least_one=at_least_one
            )
        else:
            records = log.fetch(request.offset, max_bytes, at_least_one=at_least_one)
    return FetchPartitionData(
        request, ErrorCode.none, durable_end, start, records, None, log, stable_end, aborted
    )


def _diverging(log: LogReader, request: PartitionRequest) -> EpochEndOffset | None:
    """The end of the epoch of the client's last record, if the client read beyond that.

    Raises KafkaError OFFSET_OUT_OF_RANGE if the epoch never was, or the offset is gone.
    """
    epoch, end = log.leader_epochs.end_of(
        request.last_fetched_epoch, log.start_offset, log.end_offset
    )
    if epoch < 0 or request.offset < log.start_offset:
        raise KafkaError(ErrorCode.offset_out_of_range)
    if epoch < request.last_fetched_epoch or end < request.offset:
        return EpochEndOffset(epoch, min(end, log.high_watermark))
    return None


def _stable_end(log: LogReader, committed: bool) -> int:
    """The last stable offset. If it is not known: -1, or, if `committed`, KafkaError or OSError."""
    try:
        return log.last_stable_offset
    except (KafkaError, OSError):
        if committed:
            raise
        return -1
