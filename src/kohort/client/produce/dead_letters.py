"""Sends records that cannot be processed to a dead letter topic, with the cause in headers.

    dead_letters = DeadLetters(producer, topic="orders.dead")

    async for batch in generation.records(partition):
        for record in batch:
            try:
                process(record)
            except ValueError as error:
                await dead_letters.put(record, error)
        await generation.commit({partition: batch.next_offset})

The record keeps its key, value, headers and timestamp. Key and value are the bytes that were in the
log, also of a record that was, or could not be, deserialized, and whatever serializers the producer
has. Headers that begin with `__kohort.errors.` give its origin and the error, like those of Kafka
Connect (KIP-298, `__connect.errors.`). `put` returns when the brokers have the record. A commit
after that loses nothing; a crash in between leaves a duplicate.
"""

import traceback
from typing import Any, Final

from kohort.client.config import validate_text
from kohort.client.produce.producer import Producer
from kohort.client.properties import checks_arguments
from kohort.client.record import Record
from kohort.errors import ConfigError

PREFIX: Final = "__kohort.errors."
MAX_TRACE_LENGTH: Final = 8_192
"""Characters of a stack trace that are kept, its last ones."""


@checks_arguments
class DeadLetters:
    """A topic for records that failed."""

    def __init__(self, producer: Producer[Any, Any], *, topic: str, group_id: str = "") -> None:
        """Raises ConfigError."""
        if not isinstance(producer, Producer):
            raise ConfigError(f"producer is {producer!r}; it has to be a kohort.client.Producer")
        validate_text("topic", topic)
        if not topic:
            raise ConfigError("topic: a name is needed, not ''")
        validate_text("group_id", group_id)
        self.topic = topic
        self.count = 0
        """Number of records that were put."""
        self._producer = producer
        self._group_id = group_id

    async def put(self, record: Record[Any, Any], error: BaseException) -> None:
        """Send the record to the topic, and return when the brokers have it.

        Raises the producer's errors; do not commit the record then.
        """
        raw = record.raw
        acknowledged = await self._producer.send(
            self.topic,
            raw.value,
            key=raw.key,
            serialized=True,
            headers=(*record.headers, *failure_headers(record, error, self._group_id)),
            timestamp=None if record.timestamp < 0 else record.timestamp,
        )
        await acknowledged
        self.count += 1


def failure_headers(
    record: Record[Any, Any], error: BaseException, group_id: str = ""
) -> tuple[tuple[str, bytes], ...]:
    """Headers that say where a record came from, and why it failed."""
    trace = "".join(traceback.format_exception(error))[-MAX_TRACE_LENGTH:]
    headers = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "exception.message": str(error),
        "exception.stacktrace": trace,
    }
    if group_id:
        headers["group"] = group_id
    return tuple(
        (PREFIX + name, value.encode("utf-8", "replace")) for name, value in headers.items()
    )
