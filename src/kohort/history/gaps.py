"""Gaps of a log partition; `coverage` finds them."""

from typing import NamedTuple


class Gap(NamedTuple):
    """A part of the log in which records are missing that say something about then."""

    hole: int
    """Offset of the first record behind its first hole; of damage, the first one that is lost."""
    complete_from: int | None
    """Offset from which on nothing is missing; None: not yet."""
    is_later: bool
    """Whether records before it were read before the others were removed.

    Else they were what compaction had left: a record before it is still the last one of its key.
    """
    is_data_loss: bool = False
    """Whether retention or damage took records, the last ones of their keys among them."""
