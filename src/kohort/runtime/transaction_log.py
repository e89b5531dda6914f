"""Converts the records of a shard of transactional ids to the batches of its log, and back."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from kohort.log.base import LogAppender
from kohort.protocol.batches import Header, decode_records, encode_pair, iterate
from kohort.runtime.log_reading import Batches, KnownKeys, small_batch
from kohort.transactions.records import TransactionRecord, decode, encode
from kohort.types import Timestamp

_BATCH_BYTES: Final = 1 << 17
"""Size at which a batch gets no more records, so that it is read in some milliseconds."""
_RECORD_CHUNK: Final = 500


def append_records(log: LogAppender, records: Iterable[TransactionRecord], now: Timestamp) -> None:
    """Append the records in order, in as few batches as their size allows.

    Raises OSError or KafkaError if the log refuses; earlier records stay appended.
    """
    parts: list[bytes] = []
    size = 0
    for record in records:
        if size > _BATCH_BYTES:
            log.append_encoded(b"".join(parts), len(parts), now)
            parts, size = [], 0
        parts.append(encode_pair(*encode(record), len(parts)))
        size += len(parts[-1])
    if parts:
        log.append_encoded(b"".join(parts), len(parts), now)


def read_records(reads: Iterable[Batches]) -> Iterator[list[TransactionRecord]]:
    """The records of these batches, in chunks that are replayed in some milliseconds each.

    Records that a later record of the same read supersedes are skipped. Raises CorruptRecordError
    if a record does not follow the schema, and as `reads` does.
    """
    keys = KnownKeys()
    for data, _ in reads:
        if not data:
            yield []
        latest: dict[bytes, bytes | None] = {}
        position = keys.store_known(data, 0, latest)
        while (batch := next(iterate(data, position), None)) is not None:
            _, header = batch
            latest.update(_pairs(data, position, header, keys))
            position = keys.store_known(data, position + header.size, latest)
        items = iter(latest.items())
        while some := list(islice(items, _RECORD_CHUNK)):
            decoded = (decode(*item) for item in some)
            yield [record for record in decoded if record is not None]


def _pairs(
    data: bytes, position: int, header: Header, keys: KnownKeys
) -> Iterable[tuple[bytes, bytes | None]]:
    """Key and value of the records of the batch at `position`."""
    if header.is_control:
        return ()
    pairs = small_batch(data, position, header)
    if pairs is None:
        return [(record.key or b"", record.value) for record in decode_records(data, position)]
    if len(pairs) == 1:
        key, value = pairs[0]
        if value is not None:
            keys.add(data, position, header, key, value)
    return pairs
