"""A log in a list: the parts of the contract that the runtime needs, and appends that fail."""

import asyncio

from kohort.log.base import Appended, LogConfig
from kohort.protocol.batches import control_batch, decode_records, head, read_header
from kohort.types import TopicPartition


class FakeLog:
    is_loading = False
    leader_epoch = 0
    failed_syncs = 0

    def __init__(self, partition=0):
        self.topic_partition = TopicPartition("__consumer_offsets", partition)
        self.batches = []
        self.config = LogConfig()
        self.end_offset = 0
        self.reads = 0
        """Reads so far."""
        self.start_offset = 0
        self.failure = None
        """Raised by every append while it is set."""
        self.refused = None
        """Raised by appends of transactional batches and markers while it is set."""
        self.undurable = None
        """What `durable` waits for, or raises; None: at once."""
        self.ongoing = set()
        """(producer id, epoch) of open transactions."""
        self.verified = []
        """The guard of each append."""

    def append(self, batch, now, *, verified=None):
        if self.failure is not None:
            raise self.failure
        if self.refused is not None and read_header(batch).is_transactional:
            raise self.refused
        self.verified.append(verified)
        header = read_header(batch)
        base = self.end_offset
        self.batches.append(base.to_bytes(8, "big") + bytes(batch[8:]))
        self.end_offset = base + header.last_offset_delta + 1
        return Appended(base, self.end_offset - 1, -1)

    def append_encoded(self, content, count, now):
        self.append(head(0, 0, content, count, now) + content, now)

    def append_marker(
        self,
        producer_id,
        producer_epoch,
        *,
        commit,
        coordinator_epoch,
        transaction_version,
        timestamp,
    ):
        marker = control_batch(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=timestamp,
        )
        return self.append(marker, timestamp).base_offset

    def ongoing_transaction(self, producer_id, producer_epoch):
        return 0 if (producer_id, producer_epoch) in self.ongoing else None

    def begin_verification(self, producer_id, producer_epoch, sequence, now, *, tv2):
        return f"{producer_id}/{producer_epoch}"

    @property
    def high_watermark(self):
        return self.end_offset

    @property
    def size(self):
        return sum(map(len, self.batches))

    def ensure_open(self):
        pass

    def read(self, offset, max_bytes, *, at_least_one=True, durable=False):
        self.reads += 1
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
