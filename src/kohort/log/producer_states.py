"""Producers of a log (Kafka's ProducerStateManager, KIP-98): retries, epochs, open transactions.

Each idempotent producer numbers its records per partition. The last five batches of each are
remembered, as many as a producer may have in flight. The first row that fits decides:

| the batch | response |
|---|---|
| is one of the five, by its first and last sequence | the offsets of the first time |
| has an older epoch | INVALID_PRODUCER_EPOCH |
| is transactional, neither verified nor of an open transaction | INVALID_TXN_STATE |
| is the first one, verified for transactions v2, not from sequence 0 | OUT_OF_ORDER_… |
| has a sequence beyond the lowest one that is being verified | OUT_OF_ORDER_… |
| has a newer epoch, and does not start at sequence 0 | OUT_OF_ORDER_SEQUENCE_NUMBER |
| does not follow the last sequence (0 follows 2^31-1) | OUT_OF_ORDER_SEQUENCE_NUMBER |
| is plain while a transaction of its producer is open | INVALID_TXN_STATE |
| is any other | accepted |

An unknown producer may start anywhere: its earlier batches may have been deleted. But where the
server has just refused an earlier batch of it, it has to start with that one. And a log that was
led by another node until lately sends it back with NOT_LEADER_OR_FOLLOWER unless it starts at
sequence 0: Java's producer sends the next batch to the new leader while the former one, which may
hang, has the first. Batches with the sequence -1 are the server's own (transactional offsets), and
their sequence is not checked.

A transactional batch opens a transaction, a marker ends it. Markers with an older epoch get
INVALID_PRODUCER_EPOCH, those of an older coordinator TRANSACTION_COORDINATOR_FENCED. Under
transactions v2 the epoch of a marker must also be newer than that of the producer, unless no
transaction is open: then it repeats an earlier one.

A producer without open transaction is forgotten `producer.id.expiration.ms` after its last batch,
by this server's clock. (Kafka uses the timestamps of the records, so a producer of historical data
loses its protection at the next check.) Of more than `MAX_PRODUCERS` those idle for longest are
forgotten. One with an open transaction never is, as readers would get the records of a transaction
that is not decided. Their number is that of the transactions which the transaction coordinator has
open on the partition, and it keeps more of each.

The state can always be rebuilt from the batches. A snapshot holds the state up to an offset, so
that only later batches are read.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from kohort.errors import ErrorCode, KafkaError
from kohort.log.aborted_index import AbortedTransaction, IndexState
from kohort.protocol.batches import TRANSACTIONAL, EndTransactionMarker, Header, increment_sequence

REMEMBERED_BATCHES = 5
NO_TRANSACTION: Final = -1
"""The first offset of the open transaction of a producer that has none."""
TRANSACTIONS_V2: Final = 2
_NO_EPOCH = -1
_NO_SEQUENCE = -1
_NO_COORDINATOR_EPOCH = -1


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
    """-1 if the producer has no batch of this epoch."""
    last_timestamp: int
    """Largest timestamp of its last batch, or that of its last marker (ms)."""
    coordinator_epoch: int = _NO_COORDINATOR_EPOCH
    """Coordinator epoch of its last marker, -1 without one."""
    transaction_start: int = NO_TRANSACTION
    """First offset of its open transaction, -1 if none is open."""


class VerificationStateEntry:
    """The guard of a Produce: its transaction was not ended here since the verification began.

    The log compares guards by identity.
    """

    __slots__ = ("epoch", "has_ended", "lowest_sequence", "seen", "tv2")

    def __init__(self, epoch: int, sequence: int, tv2: bool, now: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Lowest sequence of the batches that are being verified, all of that epoch."""
        self.tv2 = tv2
        self.has_ended = False
        """Whether a marker was appended meanwhile: the log refuses batches with this guard."""
        self.seen = now
        """Arrival of the first of them (ms)."""

    def add(self, epoch: int, sequence: int) -> None:
        """Add a batch that waits for the same verification."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class ProducerStateEntry:
    """One producer id in one partition."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "packed", "seen", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[SentBatch] = []
        """The latest ones of this epoch, oldest first."""
        self.timestamp = -1
        """Timestamp of the last batch or marker (ms)."""
        self.coordinator_epoch = _NO_COORDINATOR_EPOCH
        self.seen = 0
        """Arrival of its last batch or marker (ms)."""
        self.packed = b""
        """Its bytes in the last snapshot, b"" if it has changed since."""

    def move_to(self, epoch: int) -> None:
        """Set the epoch. A new one starts without batches: their sequences begin at 0 again."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


MAX_PRODUCERS: Final = 10_000
"""Producers that one log remembers: clients choose their ids, and each takes a kilobyte."""
MAX_VERIFICATIONS: Final = 10_000
"""Producers whose verification one log remembers. The oldest is forgotten, and its batch refused.
"""


class ProducerStates:
    """All producers of one log."""

    __slots__ = ("_by_id", "_ended", "_open", "_verifying", "is_transactional")

    def __init__(self) -> None:
        self._by_id: dict[int, ProducerStateEntry] = {}
        self._open: OrderedDict[int, int] = OrderedDict()
        """First offset of each producer's open transaction, in rising order."""
        self._ended: dict[int, int] = {}
        """First offset of each transaction that is ended by a marker at that offset.

        Only those whose marker may lie above the high watermark, in the order of the markers.
        """
        self._verifying: dict[int, VerificationStateEntry] = {}
        self.is_transactional = False
        """Whether the log ever had a transactional batch or a marker."""

    def __len__(self) -> int:
        return len(self._by_id)

    # Batches of producers

    def validate(
        self,
        header: Header,
        verified: VerificationStateEntry | None = None,
        awaited: int | None = None,
        *,
        from_first: bool = False,
    ) -> SentBatch | None:
        """None if the batch may be appended; see `Log.append` for the arguments.

        `from_first`: an unknown producer has to begin with its first batch. Returns the earlier
        batch if it is a duplicate. Raises KafkaError.
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
            raise _fenced(header.producer_id, header.producer_epoch, producer.epoch)
        is_transactional = header.attributes & TRANSACTIONAL
        if is_transactional:
            self._validate_transaction(header, verified)
        if header.base_sequence != _NO_SEQUENCE:
            if self._verifying:
                self._validate_verified_sequence(header, producer)
            if producer is not None and producer.epoch != _NO_EPOCH:
                _validate_sequence(header, producer)
            elif awaited is not None:
                raise _out_of_order(header, awaited)
            elif from_first and header.base_sequence != 0:
                raise KafkaError(
                    ErrorCode.not_leader_or_follower,
                    f"producer {header.producer_id} begins at sequence {header.base_sequence}, and "
                    "the former leader may have had an earlier batch",
                )
        if self._open and not is_transactional and header.producer_id in self._open:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"a plain batch of producer {header.producer_id}, whose transaction is open",
            )
        return None

    def _validate_transaction(
        self, header: Header, verified: VerificationStateEntry | None
    ) -> None:
        if self.ongoing(header.producer_id, header.producer_epoch) is not None:
            return
        if verified is None or self._verifying.get(header.producer_id) is not verified:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has no open transaction here",
            )

    def _validate_verified_sequence(
        self, header: Header, producer: ProducerStateEntry | None
    ) -> None:
        verifying = self._verifying.get(header.producer_id)
        if verifying is None:
            return
        is_first = producer is None or not producer.batches
        if verifying.tv2 and is_first and header.base_sequence != 0:
            raise _out_of_order(header, 0)
        if header.base_sequence > verifying.lowest_sequence:
            raise _out_of_order(header, verifying.lowest_sequence)

    def add(self, header: Header, base_offset: int, timestamp: int, now: int) -> None:
        """Record a batch that was appended at `base_offset` with that max timestamp."""
        producer_id = header.producer_id
        producer = self._by_id.get(producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = self._entry(producer_id, header.producer_epoch)
        producer.timestamp = timestamp
        producer.seen = now
        producer.packed = b""
        if header.base_sequence != _NO_SEQUENCE:
            last_offset = base_offset + header.last_offset_delta
            producer.batches.append(
                SentBatch(
                    header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp
                )
            )
            if len(producer.batches) > REMEMBERED_BATCHES:
                del producer.batches[0]
        if header.attributes & TRANSACTIONAL:
            self.is_transactional = True
            self._verifying.pop(producer_id, None)
            if producer_id not in self._open:
                self._open[producer_id] = base_offset

    def _entry(self, producer_id: int, epoch: int) -> ProducerStateEntry:
        """The state of the producer, which has that epoch from now on."""
        producer = self._by_id.get(producer_id)
        if producer is None:
            producer = self._by_id[producer_id] = ProducerStateEntry(epoch)
            if len(self._by_id) > MAX_PRODUCERS + len(self._open):
                self._forget_oldest()
        else:
            producer.move_to(epoch)
        return producer

    def _forget_oldest(self) -> None:
        """Forget a tenth of the producers without open transaction, those idle for longest."""
        *idle, _ = (
            (producer_id, entry)
            for producer_id, entry in self._by_id.items()
            if producer_id not in self._open
        )
        idle.sort(key=lambda item: item[1].seen)
        for producer_id, _ in idle[: MAX_PRODUCERS // 10]:
            del self._by_id[producer_id]

    # Transactions

    def verify(
        self, producer_id: int, epoch: int, sequence: int, *, tv2: bool, now: int
    ) -> VerificationStateEntry:
        """The guard of a batch whose transaction is now being verified; see `Log`."""
        verifying = self._verifying.get(producer_id)
        if verifying is not None:
            verifying.add(epoch, sequence)
            return verifying
        verifying = VerificationStateEntry(epoch, sequence, tv2, now)
        if self.ongoing(producer_id, epoch) is None:
            self._verifying[producer_id] = verifying
            if len(self._verifying) > MAX_VERIFICATIONS:
                del self._verifying[next(iter(self._verifying))]
        return verifying

    def ongoing(self, producer_id: int, epoch: int) -> int | None:
        """First offset of the open transaction of that producer in that epoch; None without one."""
        first_offset = self._open.get(producer_id)
        return first_offset if first_offset is None or self._has_epoch(producer_id, epoch) else None

    def _has_epoch(self, producer_id: int, epoch: int) -> bool:
        producer = self._by_id.get(producer_id)
        return producer is not None and producer.epoch == epoch

    def validate_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Raise KafkaError if a marker of that transaction must not be appended."""
        producer = self._by_id.get(producer_id) or ProducerStateEntry(_NO_EPOCH)
        is_stale = epoch == producer.epoch and producer_id in self._open
        if epoch < producer.epoch or (transaction_version >= TRANSACTIONS_V2 and is_stale):
            raise _fenced(producer_id, epoch, producer.epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.transaction_coordinator_fenced,
                f"coordinator epoch {coordinator_epoch} for producer {producer_id}, whose last "
                f"marker has {producer.coordinator_epoch}",
            )

    def end(
        self, header: Header, marker: EndTransactionMarker, offset: int, timestamp: int, now: int
    ) -> AbortedTransaction | None:
        """Record a marker that was appended at `offset`, in the batch of `header`.

        Returns the transaction if it is aborted and has records here.
        """
        producer_id = header.producer_id
        producer = self._entry(producer_id, header.producer_epoch)
        producer.timestamp, producer.seen, producer.packed = timestamp, now, b""
        producer.coordinator_epoch = marker.coordinator_epoch
        self.is_transactional = True
        if (verifying := self._verifying.pop(producer_id, None)) is not None:
            verifying.has_ended = True
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        self._ended[offset] = first_offset
        if marker.commit:
            return None
        stable = next(iter(self._open.values()), offset + 1)
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    def first_unstable(self, high_watermark: int) -> int | None:
        """First offset of the transactions without a marker below the high watermark.

        None if all are decided for readers.
        """
        ended = self._ended
        while ended and (oldest := next(iter(ended))) < high_watermark:
            del ended[oldest]
        first = next(iter(self._open.values()), None)
        if not ended:
            return first
        first_ended = min(ended.values())
        return first_ended if first is None else min(first, first_ended)

    # Remembered producers

    def active(self) -> Iterator[ActiveProducer]:
        """The current producers, in the order of their first batches.

        The state of each is read when the iterator reaches it.
        """
        return (
            ActiveProducer(
                producer_id,
                entry.epoch,
                entry.batches[-1].last_sequence if entry.batches else _NO_SEQUENCE,
                entry.timestamp,
                entry.coordinator_epoch,
                self._open.get(producer_id, NO_TRANSACTION),
            )
            for producer_id, entry in zip(
                tuple(self._by_id), tuple(self._by_id.values()), strict=True
            )
        )

    def last_offsets(self) -> frozenset[int]:
        """The last offset of each producer's last batch.

        Compaction keeps at least their headers.
        """
        return frozenset(
            producer.batches[-1].last_offset
            for producer in self._by_id.values()
            if producer.batches
        )

    def expire(self, idle_since: int) -> None:
        """Forget the producers without a batch since `idle_since` (ms), and old verifications."""
        if self._by_id:
            kept = {
                number: producer
                for number, producer in self._by_id.items()
                if producer.seen > idle_since or number in self._open
            }
            if len(kept) < len(self._by_id):
                self._by_id = kept
        while self._verifying:
            oldest = next(iter(self._verifying))
            if self._verifying[oldest].seen > idle_since:
                break
            del self._verifying[oldest]

    # Snapshots: a header with the offset up to which it holds, then each producer with its batches
    # and the state of each index of aborted transactions, all under one CRC.

    def dump(self, end_offset: int, indexes: Mapping[int, IndexState]) -> bytearray:
        """The snapshot of the state at `end_offset`.

        `indexes` has the index of aborted transactions of each segment, by base offset. Only the
        producers that changed since the last snapshot are packed.
        """
        parts = [
            _MAGIC,
            bytes(_CRC.size),
            _HEAD.pack(end_offset, self.is_transactional, len(self._by_id), len(indexes)),
        ]
        parts += [
            entry.packed or self._pack(producer_id, entry)
            for producer_id, entry in self._by_id.items()
        ]
        parts += [_INDEX.pack(base_offset, *state) for base_offset, state in indexes.items()]
        content = bytearray().join(parts)
        _CRC.pack_into(content, len(_MAGIC), crc32c(memoryview(content)[_BODY:]))
        return content

    def _pack(self, number: int, producer: ProducerStateEntry) -> bytes:
        batches = producer.batches
        producer.packed = _PACK[len(batches)](
            number,
            producer.epoch,
            producer.seen,
            producer.timestamp,
            producer.coordinator_epoch,
            self._open.get(number, NO_TRANSACTION),
            len(batches),
            *chain.from_iterable(batches),
        )
        return producer.packed


class ProducerSnapshot(NamedTuple):
    """State of the producers up to an offset."""

    producers: ProducerStates
    end_offset: int
    indexes: Mapping[int, IndexState]
    """State of each segment's index of aborted transactions at that time, by base offset."""
    is_broken: bool = False
    """Whether the stored snapshot was damaged or did not fit the log, and was replaced."""


def load_snapshot(content: bytes) -> ProducerSnapshot:
    """Decode what `ProducerStates.dump` wrote. Raises ValueError if it is damaged."""
    if content[: len(_MAGIC)] != _MAGIC or len(content) < _BODY + _HEAD.size:
        raise ValueError("no snapshot of producers")
    if _CRC.unpack_from(content, len(_MAGIC))[0] != crc32c(memoryview(content)[_BODY:]):
        raise ValueError("a broken snapshot of producers")
    end_offset, is_transactional, count, indexes = _HEAD.unpack_from(content, _BODY)
    producers = ProducerStates()
    producers.is_transactional = is_transactional
    opened = dict(_read_producers(producers._by_id, content, _BODY + _HEAD.size, count))
    producers._open.update(sorted(opened.items(), key=lambda item: item[1]))
    rows = _INDEX.iter_unpack(memoryview(content)[len(content) - indexes * _INDEX.size :])
    return ProducerSnapshot(
        producers, end_offset, {base: IndexState(size, crc) for base, size, crc in rows}
    )


def _read_producers(
    by_id: dict[int, ProducerStateEntry], content: bytes, position: int, count: int
) -> Iterator[tuple[int, int]]:
    """Fill `by_id`; gives (producer id, first offset) of each open transaction."""
    for _ in range(count):
        number, epoch, seen, timestamp, coordinator_epoch, first_offset, batches = (
            _PRODUCER.unpack_from(content, position)
        )
        begin, position = position, position + _PRODUCER.size
        producer = by_id[number] = ProducerStateEntry(epoch)
        producer.seen, producer.timestamp = seen, timestamp
        producer.coordinator_epoch = coordinator_epoch
        for _ in range(batches):
            producer.batches.append(SentBatch._make(_BATCH.unpack_from(content, position)))
            position += _BATCH.size
        producer.packed = content[begin:position]
        if first_offset != NO_TRANSACTION:
            yield number, first_offset


def _validate_sequence(header: Header, producer: ProducerStateEntry) -> None:
    """Raise KafkaError if the batch does not follow the last one."""
    if header.producer_epoch != producer.epoch or not producer.batches:
        expected = 0
    else:
        expected = increment_sequence(producer.batches[-1].last_sequence, 1)
    if header.base_sequence != expected:
        raise _out_of_order(header, expected)


def _fenced(producer_id: int, epoch: int, current: int) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_producer_epoch,
        f"epoch {epoch} of producer {producer_id}, which is at {current}",
    )


def _out_of_order(header: Header, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.out_of_order_sequence_number,
        f"sequence {header.base_sequence} of producer {header.producer_id} epoch "
        f"{header.producer_epoch}, expected {expected}",
    )


_MAGIC = b"KPS2"
DISCARDED: Final = b"-"
"""Stored instead of a snapshot that does not fit the log any more."""
_CRC = Struct(">I")
_BODY: Final = len(_MAGIC) + _CRC.size
_HEAD = Struct(">q?II")
_PRODUCER = Struct(">qhqqiqB")
_BATCH = Struct(">iiqqq")
_PACK: Final = [
    Struct(_PRODUCER.format + count * "iiqqq").pack for count in range(REMEMBERED_BATCHES + 1)
]
"""Packs a producer with so many batches."""
_INDEX = Struct(">qqI")
