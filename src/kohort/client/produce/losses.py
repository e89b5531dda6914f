"""The error for undelivered records whose own errors no caller got."""

import logging
from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from kohort.client.errors import UndeliveredError
from kohort.client.produce.batch import ProduceBatch
from kohort.errors import fresh

log: Final = logging.getLogger("kohort.client.producer")

_MAX_PARTITIONS_NAMED: Final = 10
"""Most partitions in the text; those with the most records come first."""
_MAX_BATCHES: Final = 10_000
"""Most batches whose errors `flush` raises, the latest ones; older errors are logged."""


def undelivered(batches: Iterable[ProduceBatch]) -> UndeliveredError | None:
    """The errors of failed batches, with their records counted by partition.

    None if the delivery of each record was awaited, or a caller got its error otherwise.
    """
    lost: Counter[str] = Counter()
    errors: dict[int, Exception] = {}
    for batch in batches:
        error = batch.outcome.done.exception()
        if isinstance(error, Exception) and (count := batch.unobserved_failures):
            lost[str(batch.tp)] += count
            errors[id(error)] = error
    if not errors:
        return None
    named = [f"{count} of {tp}" for tp, count in lost.most_common(_MAX_PARTITIONS_NAMED)]
    if len(lost) > _MAX_PARTITIONS_NAMED:
        named.append(f"others of {len(lost) - _MAX_PARTITIONS_NAMED} more partitions")
    distinct = [*errors.values()]
    text = (
        f"{lost.total()} records were not delivered: {', '.join(named)}; first error: {distinct[0]}"
    )
    return UndeliveredError(text, distinct)


class Losses:
    """The failed batches of a producer, until their errors are raised or dropped."""

    def __init__(self) -> None:
        self._failed: deque[ProduceBatch] = deque(maxlen=_MAX_BATCHES)

    def add(self, batch: ProduceBatch) -> None:
        """Remember a failed batch.

        If there are too many, the oldest one is forgotten, and logged unless its errors were
        raised.
        """
        if len(self._failed) == _MAX_BATCHES and (lost := undelivered([self._failed[0]])):
            log.error("%s", lost)
        self._failed.append(batch)

    def clear(self) -> None:
        """Forget the failed batches: their errors are raised elsewhere."""
        self._failed.clear()

    def pop_error(self) -> UndeliveredError | None:
        """The errors that no caller got; None if there are none. They are forgotten."""
        failed = tuple(self._failed)
        self._failed.clear()
        return undelivered(failed)

    def raise_all(self) -> None:
        """Raise UndeliveredError with the errors that no caller got, if there are any."""
        if (losses := self.pop_error()) is not None:
            raise fresh(losses)
