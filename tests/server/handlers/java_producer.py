"""A model of Java's idempotent producer with one partition, without its network.

It sends new batches to the leader in its metadata while earlier ones are in flight to the former
leader. Batches that failed are sent again one at a time, the lowest sequence first, and before any
new one (RecordAccumulator.shouldStopDrainBatchesForPartition).
"""

from collections import deque
from dataclasses import dataclass

from kohort.errors import ErrorCode

MAX_IN_FLIGHT = 5
"""`max.in.flight.requests.per.connection`."""


class EpochBumpError(Exception):
    """The producer bumps its epoch."""


@dataclass(slots=True, eq=False)
class ProduceRequest:
    """A request with one batch of one record; `error` is that of its response."""

    sequence: int
    node: int
    error: ErrorCode | None = None


class JavaProducer:
    """A producer that is to send batches 0 to `batches` - 1."""

    def __init__(self, batches: int) -> None:
        self.leader = 0
        """The node that leads the partition by its metadata."""
        self.in_flight: list[ProduceRequest] = []
        self.acknowledged: set[int] = set()
        self._to_retry: set[int] = set()
        self._unsent = deque(range(batches))

    def drain(self) -> ProduceRequest | None:
        """The next request, None if nothing may be sent now."""
        if sum(batch.node == self.leader for batch in self.in_flight) >= MAX_IN_FLIGHT:
            return None
        sequence = self._next_sequence()
        if sequence is None:
            return None
        self.in_flight.append(ProduceRequest(sequence, self.leader))
        return self.in_flight[-1]

    def _next_sequence(self) -> int | None:
        if not self._to_retry:
            return self._unsent.popleft() if self._unsent else None
        lowest = min(self._to_retry)
        if any(batch.sequence < lowest for batch in self.in_flight):
            return None
        self._to_retry.remove(lowest)
        return lowest

    def complete(self, request: ProduceRequest) -> None:
        """Handle the response to a request. Raises EpochBumpError."""
        self.in_flight.remove(request)
        if request.error is ErrorCode.none:
            self.acknowledged.add(request.sequence)
            return
        follows = request.sequence == max(self.acknowledged, default=-1) + 1
        if request.error is ErrorCode.out_of_order_sequence_number and follows:
            raise EpochBumpError
        self._to_retry.add(request.sequence)

    def disconnect(self, node: int) -> None:
        """The responses of that node are lost."""
        self._to_retry |= {batch.sequence for batch in self.in_flight if batch.node == node}
        self.in_flight = [batch for batch in self.in_flight if batch.node != node]
