"""The error for records that were not delivered, and whose own error no caller got."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kohort.client.errors import UndeliveredError
from kohort.client.produce.batch import ProduceBatch

_NAMED: Final = 10
"""Partitions that the text names, those with the most records."""


def undelivered(batches: Iterable[ProduceBatch]) -> UndeliveredError | None:
    """The errors of failed batches, with their records counted by partition.

    None if somebody awaited the delivery of each record, or got its error otherwise.
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
    named = [f"{count} of {tp}" for tp, count in lost.most_common(_NAMED)]
    if len(lost) > _NAMED:
        named.append(f"others of {len(lost) - _NAMED} more partitions")
    found = [*errors.values()]
    text = f"{lost.total()} records were not delivered: {', '.join(named)}; first error: {found[0]}"
    return UndeliveredError(text, found)
