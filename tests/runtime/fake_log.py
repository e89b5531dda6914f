"""A log in a list: the parts of the contract that the runtime needs, and appends that fail."""

import asyncio

from kohort.log.base import Appended, LogConfig
from kohort.protocol.batches import decode_records, head, read_header
from kohort.types import TopicPartition


class FakeLog:
    def __init__(self, partition=0):
        self.topic_partition = TopicPartition("__consumer_offsets", partition)
        self.batches = []
        self.config = LogConfig()
        self.end_offset = 0
        self.start_offset = 0
        self.failure = None
        """Raised by every append while it is set."""
        self.undurable = None
        """What `durable` waits for, or raises; None: at once."""

    def append(self, batch, now):
        if self.failure is not None:
            raise self.failure
        header = read_header(batch)
        base = self.end_offset
        self.batches.append(base.to_bytes(8, "big") + bytes(batch[8:]))
        self.end_offset = base + header.last_offset_delta + 1
        return Appended(base, self.end_offset - 1, -1)

    def append_encoded(self, content, count, now):
        self.append(head(0, 0, content, count, now) + content, now)

    @property
    def high_watermark(self):
        return self.end_offset

    @property
    def size(self):
        return sum(map(len, self.batches))

    def ensure_open(self):
        pass

    def read(self, offset, max_bytes, *, at_least_one=True, durable=False):
        found = b""
        for batch in self.batches:
            if read_header(batch).last_offset >= offset and (
                not found or len(found) + len(batch) <= max_bytes
            ):
                found += batch
        return found

    async def durable(self):
        if isinstance(self.undurable, asyncio.Future):
            await self.undurable

    # --- for tests ---

    def records(self):
        """(key, value) of each record, batch by batch."""
        return [
            [(record.key, record.value) for record in decode_records(batch)]
            for batch in self.batches
        ]
