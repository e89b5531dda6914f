"""Writes the markers of an ending transaction to all its partitions."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from kohort.errors import ErrorCode, KafkaError
from kohort.transactions.result import Markers
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.transactions")

_MARKER_CHUNK: Final = 100
"""Maximum number of markers that are written in one turn, of all transactions together."""
_RETRY_INTERVAL_S: Final = 0.1
_MAX_RETRY_INTERVAL_S: Final = 10.0
_FINISHED: Final = frozenset(
    {
        # The topic was deleted.
        ErrorCode.unknown_topic_or_partition,
        # The partition has a later transaction, so this one has ended. Kafka gives up in this case,
        # and refuses the transactional id until the coordinator is reloaded.
        ErrorCode.invalid_producer_epoch,
        ErrorCode.transaction_coordinator_fenced,
    }
)


class Marker(NamedTuple):
    """The end of a transaction, for one partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    coordinator_epoch: int = 0
    """The leader epoch of the transaction's partition of `__transaction_state`."""


class MarkerWriter(Protocol):
    """Appends markers to the partitions of a server."""

    async def write(self, partition: TopicPartition, marker: Marker) -> None:
        """Append the marker; returns when it is as durable as configured.

        Raises KafkaError with the codes of WriteTxnMarkers, OSError.
        """
        ...


class MarkerLimiter:
    """Limits the markers that are written in one turn of the event loop.

    Very many transactions may end at once: when they time out together, or after a restart.
    """

    def __init__(self) -> None:
        self._remaining = _MARKER_CHUNK
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, count: int) -> None:
        """Wait until `count` markers (at most `_MARKER_CHUNK`) may be written in this turn."""
        if self._remaining == _MARKER_CHUNK:
            asyncio.get_running_loop().call_soon(self._renew)
        if self._remaining >= count and not self._waiting:
            self._remaining -= count
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, admitted))
        await admitted

    def _renew(self) -> None:
        self._remaining = _MARKER_CHUNK
        while self._waiting and self._remaining >= self._waiting[0][0]:
            count, admitted = self._waiting.popleft()
            if not admitted.done():  # else the server is stopping
                admitted.set_result(None)
                self._remaining -= count
        if self._remaining < _MARKER_CHUNK:
            asyncio.get_running_loop().call_soon(self._renew)


async def write_markers(
    writer: MarkerWriter, limiter: MarkerLimiter, markers: Markers, coordinator_epoch: int
) -> None:
    """Write a marker to every partition; retry partitions with temporary errors.

    A partition of a deleted topic, or with a later transaction, needs no marker.
    """
    marker = Marker(
        markers.producer_id,
        markers.producer_epoch,
        markers.commit,
        markers.transaction_version,
        coordinator_epoch,
    )
    remaining = _partitions(markers)
    pause_s = _RETRY_INTERVAL_S
    while True:
        failed: list[TopicPartition] = []
        while some := list(islice(remaining, _MARKER_CHUNK)):
            await limiter.acquire(len(some))
            failed += await _write_some(writer, some, marker)
        if not failed:
            return
        if pause_s == _RETRY_INTERVAL_S:
            logger.warning(
                "transaction of %r waits for markers in %s (partitions: %d)",
                markers.transactional_id,
                failed[0],
                len(failed),
            )
        remaining = iter(failed)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MAX_RETRY_INTERVAL_S)


def _partitions(markers: Markers) -> Iterator[TopicPartition]:
    for topic, partitions in markers.partitions.items():
        for partition in sorted(partitions):
            yield TopicPartition(topic, partition)


async def _write_some(
    writer: MarkerWriter, partitions: Sequence[TopicPartition], marker: Marker
) -> list[TopicPartition]:
    """Write markers. Returns the partitions that must be retried."""
    outcomes = await asyncio.gather(
        *(writer.write(partition, marker) for partition in partitions), return_exceptions=True
    )
    return [
        partition
        for partition, outcome in zip(partitions, outcomes, strict=True)
        if _must_retry(partition, outcome)
    ]


def _must_retry(partition: TopicPartition, outcome: BaseException | None) -> bool:
    if isinstance(outcome, KafkaError):
        return outcome.code not in _FINISHED
    if outcome is not None and not isinstance(outcome, OSError):
        logger.error("cannot write a transaction marker to %s", partition, exc_info=outcome)
    return outcome is not None
