"""Reads the log of a shard, from its start or from where a standby has come to."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.protocol.batches import Header, iterate

_READ_BYTES: Final = 1 << 18


Batches: TypeAlias = Sequence[tuple[memoryview, Header]]
"""Those of one read; the bytes go on behind a batch's end."""


def read_batches(log: Log, offset: int | None = None) -> Iterator[Batches]:
    """All batches of the log from `offset` on, or from its start.

    None are given where they have to be loaded: the caller awaits `Log.loaded` then.

    Raises KafkaError if the log is not served or damaged, OSError.
    """
    log.ensure_open()
    offset = log.start_offset if offset is None else offset
    while offset < log.high_watermark:
        data = log.read(offset, _READ_BYTES, durable=True)
        if not data and log.is_loading:
            yield ()
            continue
        if not data:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"{log.topic_partition} holds nothing from offset {offset} on, though it ends at "
                f"{log.high_watermark}",
            )
        batches = batches_in(data)
        offset = batches[-1][1].last_offset + 1
        yield batches


def batches_in(data: bytes) -> Batches:
    """The batches of a read."""
    view = memoryview(data)
    return [(view[position:], header) for position, header in iterate(data)]
