"""Refused batches that idempotent producers must retry before the server takes later ones.

A producer has up to five requests in flight. If its node begins to lead a partition between the
first and the second, the log would find a gap before the second: OUT_OF_ORDER_SEQUENCE_NUMBER. Or
it does not know the producer yet, would begin with the second, and refuse the first for ever.
librdkafka answers a gap with a new epoch for all its partitions. Batches of others whose response
was lost then come again under that epoch, and are twice in their logs.

So the second gets the error of the first, and the producer sends both again, in order. Apache Kafka
has that gap, but its leaders change less often.
"""

from collections import OrderedDict
from typing import Final, NamedTuple, Self, TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.log.producer_states import REMEMBERED_BATCHES
from kohort.protocol.batch_format import HEADER_SIZE, MAGIC, MAX_SEQUENCE, read_header
from kohort.protocol.batches import Buffer

RETRIED_ERRORS: Final = frozenset(
    {
        ErrorCode.kafka_storage_error,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""Errors after which a producer retries a batch; another leader may take it then."""
MAX_SENDERS: Final = 10_000
"""Entries (producer, partition) that are kept, in 9 MB. Beyond it the one refused longest ago is
dropped.
"""
_MAX_RESPONSES: Final = REMEMBERED_BATCHES
"""Error responses while one batch is awaited, one for each request in flight. If it has not been
retried by then, another leader has accepted it, and the producer continues.
"""
_SEQUENCES: Final = MAX_SEQUENCE + 1
"""0 follows the largest one."""

Sender: TypeAlias = tuple[str | UUID | None, int, int]
"""A producer in one partition: topic by name or id as requested, partition, producer id."""


class NumberedBatch(NamedTuple):
    """The partition, producer id, epoch and base sequence of one batch."""

    sender: Sender
    epoch: int
    sequence: int

    @classmethod
    def read(cls, topic: str | UUID | None, index: int, records: Buffer | None) -> Self | None:
        """Read the header of a batch, valid or not; None if no idempotent producer wrote it."""
        if records is None or len(records) < HEADER_SIZE:
            return None
        header = read_header(records)
        if header.magic != MAGIC or header.producer_id < 0 or header.base_sequence < 0:
            return None
        sender = topic, index, header.producer_id
        return cls(sender, header.producer_epoch, header.base_sequence)


class Refused:
    """Refused batches of one producer in one partition."""

    __slots__ = ("epoch", "error", "responses_left", "sequences")

    def __init__(self, epoch: int, error: ErrorCode) -> None:
        self.epoch = epoch
        self.error = error
        self.sequences: list[int] = []
        """Base sequences of batches that were not retried yet, the latest last."""
        self.responses_left = _MAX_RESPONSES

    def add(self, sequence: int) -> None:
        if sequence in self.sequences:
            self.sequences.remove(sequence)
        self.sequences.append(sequence)
        if len(self.sequences) > REMEMBERED_BATCHES:
            del self.sequences[0]  # another leader has taken it

    def first_before(self, sequence: int) -> int | None:
        earlier = (refused for refused in self.sequences if _is_before(refused, sequence))
        return min(earlier, key=lambda refused: (refused - sequence) % _SEQUENCES, default=None)

    def forget_skipped_before(self, sequence: int) -> None:
        """Forget earlier batches, refused before `sequence`, if `sequence` is a retry.

        A producer retries batches in their order: another leader has taken those it skips.
        """
        if sequence in self.sequences:
            index = self.sequences.index(sequence)
            later = (
                earlier for earlier in self.sequences[:index] if not _is_before(earlier, sequence)
            )
            self.sequences = [*later, *self.sequences[index:]]

    def remove_up_to(self, sequence: int) -> None:
        self.sequences = [later for later in self.sequences if _is_before(sequence, later)]
        self.responses_left = _MAX_RESPONSES


def _is_before(sequence: int, later: int) -> bool:
    return 0 < (later - sequence) % _SEQUENCES < _SEQUENCES // 2


class RefusedBatches:
    """Refused batches of all producers of one server."""

    __slots__ = ("_by_sender",)

    def __init__(self) -> None:
        self._by_sender: OrderedDict[Sender, Refused] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_sender)

    def add(self, batch: NumberedBatch, error: ErrorCode) -> None:
        """Note that `batch` was refused with `error`, one of `RETRIED_ERRORS`."""
        refused = self._by_sender.get(batch.sender)
        if refused is not None and batch.epoch < refused.epoch:
            return  # its producer is fenced
        if refused is None or refused.epoch != batch.epoch:
            refused = self._by_sender[batch.sender] = Refused(batch.epoch, error)
            if len(self._by_sender) > MAX_SENDERS:
                self._by_sender.popitem(last=False)
        self._by_sender.move_to_end(batch.sender)
        refused.error = error
        refused.responses_left = _MAX_RESPONSES
        refused.add(batch.sequence)

    def before(self, batch: NumberedBatch) -> int | None:
        """The sequence that must be retried before `batch`, which was received now; None: none."""
        refused = self._by_sender.get(batch.sender)
        if refused is None or batch.epoch < refused.epoch:
            return None
        refused.forget_skipped_before(batch.sequence)
        first = refused.first_before(batch.sequence)
        if refused.epoch != batch.epoch or (first is not None and not refused.responses_left):
            del self._by_sender[batch.sender]
            return None
        if first is None:
            self._forget_up_to(batch, refused)
        return first

    def error_of(self, batch: NumberedBatch, outcome: ErrorCode) -> ErrorCode:
        """The error to respond with for a batch that has a refused one before it.

        `outcome` is the log's error. If the log took the batch, it has the earlier ones, too.
        """
        refused = self._by_sender[batch.sender]
        if outcome is ErrorCode.out_of_order_sequence_number:
            refused.responses_left -= 1
            refused.add(batch.sequence)
            return refused.error
        if outcome is ErrorCode.none:
            self._forget_up_to(batch, refused)
        elif outcome in RETRIED_ERRORS:
            self.add(batch, outcome)
        return outcome

    def _forget_up_to(self, batch: NumberedBatch, refused: Refused) -> None:
        refused.remove_up_to(batch.sequence)
        if not refused.sequences:
            del self._by_sender[batch.sender]
