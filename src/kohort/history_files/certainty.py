"""What of the committed offsets at a time is certain.

Compaction keeps the last record of each key. So a record that was in force at the time, and is
still there, was the last one then: its offset is exact. A partition whose first remaining record is
later is unknown if the time is in a gap, and else had no commit.

If records were removed after a record had been read (`Gap.is_later`), it may have been replaced by
one of them: its partition is unknown from there to its next record. If retention or damage took
them (`Gap.is_data_loss`), so is a partition without an offset.

A record that cannot be decoded may have been a commit. So its partition is unknown from there to
its next record that can be.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kohort.history.gaps import Gap

NO_CUT: Final = 2**63 - 1
"""The cut of a log partition that has no later record."""
EXACT: Final = "exact"
UNKNOWN: Final = "unknown"


class Limits(NamedTuple):
    """What the commits of one log partition tell of the offsets before a cut."""

    known_from: int = 0
    """Log offset before which a commit may have been replaced by one that was removed."""
    removed_from: int = 0
    """Log offset before which a tombstone may have been followed by a commit that was removed."""
    is_uncertain: bool = False
    """Whether a partition whose first record is behind the cut may have had an offset."""

    def certainty(
        self, last: int | None, *, is_tombstone: bool = False, unreadable: int = -1
    ) -> str | None:
        """`exact` or `unknown`; None: the partition had no offset.

        `last`: the log offset of the partition's last record in force before the cut; None: its
        records are all behind the cut. `unreadable`: that of its last record before the cut that
        cannot be decoded; -1: none.
        """
        if unreadable > (-1 if last is None else last):
            return UNKNOWN
        if last is None:
            return UNKNOWN if self.is_uncertain else None
        if is_tombstone:
            return UNKNOWN if last < self.removed_from else None
        return UNKNOWN if last < self.known_from else EXACT


def limits_of(gaps: Iterable[Gap], cut: int) -> Limits:
    """By the gaps that begin before the cut, the first offset whose record is not seen."""
    begun = [gap for gap in gaps if gap.hole <= cut]
    known_from = max((gap.hole for gap in begun if gap.is_later), default=0)
    losses = [gap.hole for gap in begun if gap.is_data_loss]
    # At the end of the log the last record of each key is there, also if it is in a gap.
    is_inside = cut < NO_CUT and is_in_gap(begun, cut)
    return Limits(
        known_from=known_from,
        removed_from=known_from if is_inside else max(losses, default=0),
        is_uncertain=is_inside or (bool(losses) and cut < NO_CUT),
    )


def gap_at(gaps: Iterable[Gap], cut: int) -> Gap | None:
    """The last gap whose missing records say something about this offset; None: there is none.

    `cut` is the first record that is not seen: if that is the one behind a hole, those in the hole
    may have been seen.
    """
    found = None
    for gap in gaps:
        if gap.hole <= cut and (gap.complete_from is None or cut <= gap.complete_from):
            found = gap
    return found


def is_in_gap(gaps: Iterable[Gap], cut: int) -> bool:
    """Whether records that are missing say something about this offset, as `gap_at`."""
    return gap_at(gaps, cut) is not None
