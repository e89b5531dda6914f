"""Reads the log of a shard, from its start or from where a standby has come to."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.protocol.batches import CODEC_BITS, CONTROL, HEADER_SIZE, SIZE_OVERHEAD, Header, iterate
from kohort.protocol.records import read_pairs

_READ_BYTES: Final = 1 << 18


_SMALL: Final = 8
"""Most records of a small batch. A larger one is read sooner in columns than record by record."""
_NOT_PLAIN: Final = CODEC_BITS | CONTROL


class Batches(NamedTuple):
    """The batches of one read."""

    data: bytes
    headers: Sequence[tuple[int, Header]]
    """Position of each batch in `data`, and its header."""


NO_BATCHES: Final = Batches(b"", ())


def read_batches(log: Log, offset: int | None = None) -> Iterator[Batches]:
    """All batches of the log from `offset` on, or from its start.

    `NO_BATCHES` are given where they have to be loaded: the caller awaits `Log.loaded` then.

    Raises KafkaError if the log is not served or damaged, OSError.
    """
    log.ensure_open()
    offset = log.start_offset if offset is None else offset
    while offset < log.high_watermark:
        data = log.read(offset, _READ_BYTES, durable=True)
        if not data and log.is_loading:
            yield NO_BATCHES
            continue
        if not data:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"{log.topic_partition} holds nothing from offset {offset} on, though it ends at "
                f"{log.high_watermark}",
            )
        batches = batches_in(data)
        offset = batches.headers[-1][1].last_offset + 1
        yield batches


def batches_in(data: bytes) -> Batches:
    """The batches of a read."""
    return Batches(data, list(iterate(data)))


def small_batch(
    data: bytes, position: int, header: Header
) -> list[tuple[bytes, bytes | None]] | None:
    """Key and value of the records of a small batch at `position`.

    None if it is large, compressed or a control batch, or has to be read record by record.
    """
    count = header.record_count
    if count > _SMALL or header.attributes & _NOT_PLAIN:
        return None
    start = position + HEADER_SIZE
    return read_pairs(data, start, position + header.length + SIZE_OVERHEAD, count)
