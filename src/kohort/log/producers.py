"""Idempotent producers of a log (Kafka's ProducerStateManager, KIP-98): no retry is stored twice.

Each producer numbers its records per partition. The last five batches of each are remembered, as
many as a producer may have in flight:

| the batch | response |
|---|---|
| is one of the five, by its first and last sequence | the offsets of the first time |
| has an older epoch | INVALID_PRODUCER_EPOCH |
| has a newer epoch | accepted from sequence 0, else OUT_OF_ORDER_SEQUENCE_NUMBER |
| follows the last sequence (0 follows 2^31-1) | accepted |
| is of an unknown producer | accepted: its earlier batches may have been deleted |
| is any other | OUT_OF_ORDER_SEQUENCE_NUMBER |
| is transactional | INVALID_TXN_STATE: no transaction is open |

A producer is forgotten `producer.id.expiration.ms` after its last batch, by this server's clock.
(Kafka uses the timestamps of the records, so a producer of historical data loses its protection at
the next check.)

The state can always be rebuilt from the batch headers. A snapshot holds the state up to an offset,
so that only later headers are read.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.batches import Header, increment_sequence

REMEMBERED_BATCHES = 5
_NO_EPOCH = -1


class SentBatch(NamedTuple):
    """A batch that is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """Its max timestamp as stored (ms)."""


class ActiveProducer(NamedTuple):
    """A producer as DescribeProducers shows it."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    """Largest timestamp of its last batch (ms)."""


class ProducerStateEntry:
    """One producer id in one partition."""

    __slots__ = ("batches", "epoch", "seen")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[SentBatch] = []
        """The latest ones of this epoch, oldest first."""
        self.seen = 0
        """When its last batch came (ms)."""


MAX_PRODUCERS: Final = 10_000
"""Producers that one log remembers: clients choose their ids, and each takes a kilobyte."""


class Producers:
    """All producers of one log."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, ProducerStateEntry] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def validate(self, header: Header) -> SentBatch | None:
        """None if the batch may be appended.

        The earlier batch if it is a duplicate. Raises KafkaError.
        """
        producer = self._by_id.get(header.producer_id)
        if producer is not None and producer.epoch == header.producer_epoch:
            for sent in producer.batches:
                if (
                    sent.base_sequence == header.base_sequence
                    and sent.last_sequence == header.last_sequence
                ):
                    return sent
        if producer is not None and header.producer_epoch < producer.epoch:
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"epoch {header.producer_epoch} of producer {header.producer_id}, which "
                f"is at {producer.epoch}",
            )
        if header.is_transactional:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has no open transaction here",
            )
        if producer is None or producer.epoch == _NO_EPOCH:
            return None
        expected = 0 if header.producer_epoch != producer.epoch else _next_sequence(producer)
        if header.base_sequence != expected:
            raise KafkaError(
                ErrorCode.out_of_order_sequence_number,
                f"sequence {header.base_sequence} of producer {header.producer_id} epoch "
                f"{header.producer_epoch}, "
                f"expected {expected}",
            )
        return None

    def add(self, header: Header, base_offset: int, timestamp: int, now: int) -> None:
        """Record a batch that was appended at `base_offset` with that max timestamp."""
        producer = self._by_id.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._by_id[header.producer_id] = ProducerStateEntry(header.producer_epoch)
            if len(self._by_id) > MAX_PRODUCERS:
                self._forget_oldest()
        last_offset = base_offset + header.last_offset_delta
        sent = SentBatch(
            header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp
        )
        producer.batches.append(sent)
        if len(producer.batches) > REMEMBERED_BATCHES:
            del producer.batches[0]
        producer.seen = now

    def _forget_oldest(self) -> None:
        """Forget a tenth of the producers, those that were idle for longest."""
        *others, new = self._by_id.items()
        others.sort(key=lambda each: each[1].seen)
        self._by_id = dict((*others[MAX_PRODUCERS // 10 :], new))

    def active(self) -> list[ActiveProducer]:
        """All producers, those whose first batch came first in front."""
        return [
            ActiveProducer(number, each.epoch, last.last_sequence, last.timestamp)
            for number, each in self._by_id.items()
            for last in each.batches[-1:]
        ]

    def last_offsets(self) -> frozenset[int]:
        """The last offset of each producer's last batch.

        Compaction keeps at least their headers.
        """
        return frozenset(producer.batches[-1].last_offset for producer in self._by_id.values())

    def expire(self, idle_since: int) -> None:
        """Forget the producers without a batch since `idle_since` (ms)."""
        if self._by_id:
            kept = {
                number: producer
                for number, producer in self._by_id.items()
                if producer.seen > idle_since
            }
            if len(kept) < len(self._by_id):
                self._by_id = kept

    # Snapshots: a header with the offset up to which it holds, then each producer with its batches,
    # all under one CRC.

    def dump(self, end_offset: int) -> bytes:
        """The snapshot of the state at `end_offset`."""
        parts = [_HEAD.pack(end_offset, len(self._by_id))]
        for number, producer in self._by_id.items():
            parts.append(
                _PRODUCER.pack(number, producer.epoch, producer.seen, len(producer.batches))
            )
            parts += [_BATCH.pack(*sent) for sent in producer.batches]
        body = b"".join(parts)
        return _MAGIC + _CRC.pack(crc32c(body)) + body

    @classmethod
    def load(cls, snapshot: bytes) -> tuple["Producers", int]:
        """Decode a snapshot of `dump` and its offset. Raises ValueError if it is damaged."""
        start = len(_MAGIC) + _CRC.size
        if snapshot[: len(_MAGIC)] != _MAGIC or len(snapshot) < start + _HEAD.size:
            raise ValueError("no snapshot of producers")
        if _CRC.unpack_from(snapshot, len(_MAGIC))[0] != crc32c(memoryview(snapshot)[start:]):
            raise ValueError("a broken snapshot of producers")
        producers = cls()
        end_offset, count = _HEAD.unpack_from(snapshot, start)
        producers._by_id = dict(_read_producers(snapshot, start + _HEAD.size, count))
        return producers, end_offset


def _next_sequence(producer: ProducerStateEntry) -> int:
    return increment_sequence(producer.batches[-1].last_sequence, 1)


def _read_producers(
    snapshot: bytes, position: int, count: int
) -> Iterator[tuple[int, ProducerStateEntry]]:
    for _ in range(count):
        number, epoch, seen, batches = _PRODUCER.unpack_from(snapshot, position)
        position += _PRODUCER.size
        producer = ProducerStateEntry(epoch)
        producer.seen = seen
        for _ in range(batches):
            producer.batches.append(SentBatch._make(_BATCH.unpack_from(snapshot, position)))
            position += _BATCH.size
        yield number, producer


_MAGIC = b"KPS1"
_CRC = Struct(">I")
_HEAD = Struct(">qI")
_PRODUCER = Struct(">qhqB")
_BATCH = Struct(">iiqqq")
