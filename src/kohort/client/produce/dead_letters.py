"""Records that nobody can process: put aside, with what there is to know of them, so that the
others go on.

    dead_letters = DeadLetters(producer, topic="orders.dead")

    async for batch in generation.records(partition):
        for record in batch:
            try:
                process(record)
            except ValueError as error:
                await dead_letters.put(record, error)
        await generation.commit({partition: batch.next_offset})

The record keeps its key, value, headers and timestamp; headers that begin with `__kohort.errors.`
tell where it came from and what became of it, as those of Kafka Connect (KIP-298,
`__connect.errors.`) do. `put` returns when the brokers have it: commit after that, and no record is
lost between the two; after a crash in between there are two letters.
"""

import traceback
from typing import Final

from kohort.client.produce.producer import Producer
from kohort.client.record import Record

PREFIX: Final = "__kohort.errors."
LONGEST_TRACE: Final = 8_192
"""Characters; the end tells most."""


class DeadLetters:
    """A topic for records that failed."""

    def __init__(self, producer: Producer, *, topic: str, group_id: str = "") -> None:
        self.topic = topic
        self.count = 0
        """How many were put."""
        self._producer = producer
        self._group_id = group_id

    async def put(self, record: Record, error: BaseException) -> None:
        """Back when the brokers have it. Raises what the producer raises; do not commit the record
        then.
        """
        acknowledged = await self._producer.send(
            self.topic,
            record.value,
            key=record.key,
            headers=(*record.headers, *failure_headers(record, error, self._group_id)),
            timestamp=None if record.timestamp < 0 else record.timestamp,
        )
        await acknowledged
        self.count += 1


def failure_headers(
    record: Record, error: BaseException, group_id: str = ""
) -> tuple[tuple[str, bytes], ...]:
    """Where a record came from, and what became of it."""
    trace = "".join(traceback.format_exception(error))[-LONGEST_TRACE:]
    told = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "exception.message": str(error),
        "exception.stacktrace": trace,
    }
    if group_id:
        told["group"] = group_id
    return tuple((PREFIX + name, value.encode("utf-8", "replace")) for name, value in told.items())
