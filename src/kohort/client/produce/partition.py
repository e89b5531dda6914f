"""The batches of one partition in order, and the sequences that keep the order in the log.

Pure: time is an argument (`now`), and the sender reports the results.

An idempotent producer numbers its records (KIP-98). The broker takes a batch only if its sequence
is the next one. So several batches can be in flight, and a batch that is sent again is not appended
twice. When one of them fails, those behind it fail as well (OUT_OF_ORDER_SEQUENCE_NUMBER). Nothing
new is then sent until all batches in flight have a response; they are sent again in order, one at a
time until one succeeds. If the broker refuses the sequence of the very first one, it has lost the
earlier ones: the producer takes the next epoch, and sequences begin at 0 (KIP-360).

The first batch under a producer id is sent alone. A broker that does not know the id takes any
sequence (Kafka's ProducerAppendInfo). If it refused the first batch, as it does while the topic is
being created, and took the second, the order would be lost.

Without idempotence one batch is in flight at a time: two could change places on a retry.
"""

from collections import deque
from typing import Final

from kohort.client.produce.batch import NO_SEQUENCE, NOBODY, ProduceBatch, ProducerId
from kohort.protocol.batch_format import increment_sequence
from kohort.types import TopicPartition

NEVER: Final = float("inf")


class ProducePartition:
    """The batches of one partition."""

    def __init__(self, tp: TopicPartition, max_in_flight: int) -> None:
        self.tp = tp
        self.waiting: deque[ProduceBatch] = deque()
        """Batches to send; the last one may be open."""
        self.in_flight: list[ProduceBatch] = []
        self.not_before = 0.0
        """Backoff after a failure, by the loop's clock."""
        self._max_in_flight = max_in_flight
        self._recovering = False
        """One batch at a time until one succeeds: later ones could overtake it."""
        self._reset = False
        self._numbers = 0
        self._producer = NOBODY
        self._next_sequence = 0

    def __repr__(self) -> str:
        return (
            f"<ProducePartition {self.tp} {len(self.waiting)} waiting, {len(self.in_flight)} "
            "in flight>"
        )

    @property
    def open(self) -> ProduceBatch | None:
        """The batch that takes records, if any."""
        return self.waiting[-1] if self.waiting and not self.waiting[-1].is_closed else None

    def next_number(self) -> int:
        """The number of a new batch."""
        self._numbers += 1
        return self._numbers

    @property
    def unsettled(self) -> tuple[ProduceBatch, ...]:
        """The batches in flight, then the waiting ones."""
        return (*self.in_flight, *self.waiting)

    @property
    def is_idle(self) -> bool:
        """Whether no batch is waiting or in flight."""
        return not self.waiting and not self.in_flight

    def due(self, linger_s: float, *, skip_linger: bool) -> float:
        """When the next batch may be sent: 0 (at once), a time, or NEVER (after a response)."""
        if not self.waiting or len(self.in_flight) >= self._max_in_flight:
            return NEVER
        if (self._recovering or self._reset) and self.in_flight:
            return NEVER
        first = self.waiting[0]
        due_at = 0.0 if first.is_closed or skip_linger else first.created + linger_s
        return max(due_at, self.not_before)

    def next_batch(self, producer: ProducerId) -> ProduceBatch | None:
        """The next batch to send under that producer id; None while older ones are in flight."""
        if (self._reset or producer != self._producer) and not self._adopt(producer):
            return None
        batch = self.waiting.popleft()
        batch.close()
        if self._producer != NOBODY and batch.sequence == NO_SEQUENCE:
            batch.producer, batch.sequence = self._producer, self._next_sequence
            self._next_sequence = increment_sequence(self._next_sequence, batch.count)
        batch.attempts += 1
        self.in_flight.append(batch)
        return batch

    def _adopt(self, producer: ProducerId) -> bool:
        """Use another producer id, with sequences from 0, unless batches depend on the old one.

        False if the old id is unusable, and some of its batches have no response yet.
        """
        if self._reset:
            if self.in_flight:
                return False
        elif self._producer != NOBODY and (
            self.in_flight or self.waiting[0].sequence != NO_SEQUENCE
        ):
            return True
        for batch in self.waiting:
            batch.producer, batch.sequence = NOBODY, NO_SEQUENCE
        self._producer, self._next_sequence, self._reset = producer, 0, False
        self._recovering = True
        return True

    def succeeded(self, batch: ProduceBatch) -> None:
        """The broker has the batch."""
        self.in_flight.remove(batch)
        self._recovering = False
        self.not_before = 0.0

    def failed(self, batch: ProduceBatch) -> None:
        """The batch failed for good; the broker refuses the sequences of later batches."""
        self.in_flight.remove(batch)
        if batch.sequence != NO_SEQUENCE:
            self._recovering = self._recovering or bool(self.in_flight)

    def retry(self, batch: ProduceBatch, not_before: float) -> None:
        """Send the batch again, at its place in the order."""
        self.in_flight.remove(batch)
        self._recovering = True
        self.not_before = not_before
        self._put_back(batch)

    def replace(self, batch: ProduceBatch, halves: tuple[ProduceBatch, ProduceBatch]) -> None:
        """Send the two halves instead of the batch."""
        self.in_flight.remove(batch)
        self._recovering = True
        sequence = batch.sequence
        for half in halves:
            if sequence != NO_SEQUENCE:
                half.producer, half.sequence = batch.producer, sequence
                sequence = increment_sequence(sequence, half.count)
        for half in reversed(halves):
            self._put_back(half)

    def is_first(self, batch: ProduceBatch) -> bool:
        """Whether no batch that was sent before it is unsettled."""
        return all(other is batch or _place(other) > _place(batch) for other in self.unsettled)

    def reset_sequences(self) -> None:
        """The broker lost the sequences: number all unsettled batches from 0."""
        self._reset = True

    def _put_back(self, batch: ProduceBatch) -> None:
        behind = (
            index for index, waiting in enumerate(self.waiting) if _place(waiting) >= _place(batch)
        )
        self.waiting.insert(next(behind, len(self.waiting)), batch)

    def expired(self, now: float, timeout_s: float) -> list[ProduceBatch]:
        """Remove and return the batches that have waited for so long.

        It is decided by the sum for which the sender sleeps, which is rounded: by the difference,
        a batch could wait on when the sender wakes, and have it wake again and again.
        """
        if not self.waiting or self.waiting[0].created + timeout_s > now:
            return []
        expired = [batch for batch in self.waiting if batch.created + timeout_s <= now]
        self.waiting = deque(batch for batch in self.waiting if batch.created + timeout_s > now)
        return expired


def _place(batch: ProduceBatch) -> tuple[int, int]:
    """Order of batches; halves share a number, and differ in their sequence."""
    return batch.number, batch.sequence
