"""Reads and writes the records of a topic without a client."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.log.stores import FileSlice
from kohort.protocol.aborted_transactions import committed_batches
from kohort.protocol.batches import Record, build, decode_records, iterate
from kohort.server.broker import Broker
from kohort.server.metadata import INTERNAL
from kohort.testing.embedded.partitions import find_log, find_topic

_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """In ms since the epoch."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_records(broker: Broker, name: str) -> list[TopicRecord]:
    """The committed records of a topic, by partition and offset.

    Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION.
    """
    return [
        TopicRecord(
            topic=name,
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for partition, log in enumerate(find_topic(broker, name).partitions)
        for record in _committed(log)
    ]


def append_records(
    broker: Broker,
    name: str,
    values: Sequence[bytes | None],
    *,
    key: bytes | None,
    partition: int,
    headers: Sequence[tuple[str, bytes | None]],
) -> int:
    """Append records to a partition; returns the offset of the first one. Raises KafkaError."""
    log = find_log(broker, name, partition)
    if name in INTERNAL:
        raise KafkaError(ErrorCode.invalid_topic_exception, f"{name} belongs to the coordinators")
    now = broker.clock.timestamp()
    records = [Record(key, value, tuple(headers), now) for value in values]
    return log.append(build(records), now).base_offset


def _committed(log: Log) -> Iterator[Record]:
    offset = log.start_offset
    while offset < log.last_stable_offset:
        read, aborted = log.read_committed(offset, _CHUNK_BYTES)
        data = read.read(0, len(read)) if isinstance(read, FileSlice) else read
        transactions = [(each.producer_id, each.first_offset) for each in aborted]
        for position, _ in committed_batches(data, transactions):
            yield from (
                record for record in decode_records(data, position) if record.offset >= offset
            )
        *_, (_, last) = iterate(data)
        offset = last.last_offset + 1
