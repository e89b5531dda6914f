"""Lags of committed offsets as the server's metrics and HTTP port show them."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from kohort.errors import KafkaError
from kohort.lag import (
    NOT_FETCHED,
    NOTHING_UNREAD,
    UNKNOWN_TIME,
    NextRecord,
    RecordsLag,
    TimeLag,
    lag_by_samples,
    records_lag,
)
from kohort.log.base import LogReader
from kohort.log.remote_log import RemoteLog
from kohort.protocol.batch_format import iterate
from kohort.server.cluster import LogOffsets
from kohort.server.monitoring.end_samples import EndSamples
from kohort.server.replicas import Topics
from kohort.types import TopicPartition

_MAX_MARKERS: Final = 2
"""Lag up to which the log is read for records: a transaction ends with one marker."""
_MARKER_BYTES: Final = 256
"""Room for two control batches, of 78 bytes each."""


class GroupLag(NamedTuple):
    """Lag of a group in one partition, in records and in time."""

    records: RecordsLag
    time: TimeLag

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON output."""
        return {
            "lag": self.records.lag,
            "lost": self.records.lost,
            "case": self.records.case,
            "lag_ms": self.time.lag_ms,
            "method": self.time.method,
            "confidence_ms": self.time.confidence_ms,
        }


NO_LAG: Final[dict[str, Any]] = {
    "lag": None,
    "lost": 0,
    "case": None,
    "lag_ms": None,
    "method": UNKNOWN_TIME.method,
    "confidence_ms": None,
}
"""The fields of a partition that is gone, or whose leader does not respond."""

LagOf: TypeAlias = Callable[[TopicPartition, int, LogOffsets], GroupLag]
"""The lag of an offset that was committed in a partition with these log offsets."""


def lag_in_records(_: TopicPartition, committed: int, log: LogOffsets) -> GroupLag:
    """The lag by the log offsets alone, unknown in time."""
    return GroupLag(records_lag(committed, log.start, log.end), UNKNOWN_TIME)


class GroupLags:
    """Lags at one moment, by sampled ends and this server's logs."""

    def __init__(self, samples: EndSamples, topics: Topics) -> None:
        self._samples, self._topics, self._now = samples, topics, int(samples.now())

    def lag(self, partition: TopicPartition, committed: int, log: LogOffsets) -> GroupLag:
        """The lag in records and in time; takes some 10 µs, and one read for a lag of 1 or 2."""
        found = records_lag(committed, log.start, log.end)
        position = max(committed, log.start)
        if found.lag and found.lag <= _MAX_MARKERS:
            next_record = self._next_record(partition, position, log.end)
            found = records_lag(committed, log.start, log.end, next_record=next_record)
        if not found.lag:
            return GroupLag(found, UNKNOWN_TIME if found.lag is None else NOTHING_UNREAD)
        samples = self._samples.up_to_now(partition, log.end, self._now)
        return GroupLag(found, lag_by_samples(position, samples, self._now))

    def _next_record(self, partition: TopicPartition, position: int, end: int) -> NextRecord:
        log = self._topics.log(*partition)
        if log is None or isinstance(log, RemoteLog):
            return NOT_FETCHED
        return None if has_only_markers(log, position, end) else NOT_FETCHED


def has_only_markers(log: LogReader, position: int, end: int) -> bool:
    """Whether all from `position` to `end` are markers of transactions, as a short read tells."""
    try:
        tail = log.read(position, _MARKER_BYTES, at_least_one=False, durable=True)
        reached = position
        for _, header in iterate(tail):
            if not header.is_control:
                return False
            reached = header.last_offset + 1
    except (KafkaError, OSError):
        return False
    return reached >= end
