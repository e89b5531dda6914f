"""Batches of the metadata log: records that are logged together or not at all."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from kohort.protocol import batches
from kohort.server.metadata.codec import UndecodableError, decode, encode
from kohort.server.metadata.records import MetadataRecord

BATCH_RECORDS: Final = 500
BATCH_CHARS: Final = 32 * 1024
"""Characters of the records of a batch, but one record may have more. A character takes up to 12
bytes, and the batch must fit into a segment.
"""

T = TypeVar("T")


def in_batches(items: Iterable[T], chars: Callable[[T], int]) -> Iterator[list[T]]:
    """Items whose records fit into one batch together, in order; `chars` are those of a record."""
    batch: list[T] = []
    total = 0
    for item in items:
        total += chars(item)
        if batch and (len(batch) >= BATCH_RECORDS or total > BATCH_CHARS):
            yield batch
            batch, total = [], chars(item)
        batch.append(item)
    if batch:
        yield batch


def encode_batch(
    records: Iterable[MetadataRecord], now: int, author: int = batches.NO_PRODUCER_ID
) -> bytes:
    """One batch: its records are in the log together or not at all.

    `author` is stored in place of a producer id; it is negative, like the id of no producer.
    """
    return batches.pack([encode(record) for record in records], now, producer_id=author)


def decode_batches(data: batches.Buffer) -> Iterable[tuple[int, MetadataRecord]]:
    """(offset, record) of the whole batches in `data`, in order.

    Raises UndecodableError with the offset in its text.
    """
    for position, _ in batches.iterate(data):
        for record in batches.decode_records(data, position):
            try:
                if record.key is None:
                    raise UndecodableError("has no key")
                yield record.offset, decode(record.key, record.value)
            except UndecodableError as error:
                raise UndecodableError(f"the record at offset {record.offset} {error}") from None
