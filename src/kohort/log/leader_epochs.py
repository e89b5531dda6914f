"""Leader epochs of a log with their start offsets (KIP-101): Kafka's LeaderEpochFileCache.

An epoch ends where the next one that has batches begins. Logs never diverge here: a leader has all
that was ever acknowledged. So what consumers learn is only whose records they have read.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

UNDEFINED: Final = -1
MAX_LEADER_EPOCH: Final = 2**31 - 1
"""The largest leader epoch that a batch can have."""


class EpochEntry(NamedTuple):
    """An epoch that has batches, or in which the log is led now."""

    epoch: int
    start_offset: int
    """First offset of its batches; without any, the end of the log when it began."""


class EpochEndOffset(NamedTuple):
    """The end of the largest epoch that is not larger than one that was asked for."""

    epoch: int = UNDEFINED
    end_offset: int = UNDEFINED


class LeaderEpochs:
    """The epochs of one log, up to the one in which it is led now."""

    __slots__ = ("_epochs", "_starts")

    def __init__(
        self, current: int = 0, end_offset: int = 0, batches: Iterable[tuple[int, int]] = ()
    ) -> None:
        """The log is led in the epoch `current` from `end_offset` on.

        `batches` are epoch and base offset of those that it has, in order, or `entries` of them. An
        epoch that ends where it begins is forgotten.
        """
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, base_offset in chain(batches, [(current, end_offset)]):
            if not self._epochs or epoch > self._epochs[-1]:
                while self._starts and self._starts[-1] >= base_offset:
                    self._epochs.pop()
                    self._starts.pop()
                self._epochs.append(epoch)
                self._starts.append(base_offset)

    @classmethod
    def of(cls, entries: Sequence[EpochEntry]) -> "LeaderEpochs":
        """The epochs with these entries, the last one current; without any, `ONLY`."""
        return cls(*entries[-1], entries[:-1]) if entries else ONLY

    @property
    def current(self) -> int:
        return self._epochs[-1]

    def entries(self, start_offset: int) -> tuple[EpochEntry, ...]:
        """The epochs of a log that starts at `start_offset`, in order."""
        first = max(bisect_right(self._starts, start_offset) - 1, 0)
        starts = (max(self._starts[first], start_offset), *self._starts[first + 1 :])
        return tuple(map(EpochEntry, self._epochs[first:], starts))

    def at(self, offset: int) -> int:
        """The epoch of the record at an offset; of the end: the current one."""
        return self._epochs[max(bisect_right(self._starts, offset) - 1, 0)]

    def end_of(self, epoch: int, start_offset: int, end_offset: int) -> EpochEndOffset:
        """The end of an epoch in a log with these ends; undefined if it was not yet, or negative.

        Of an epoch before the first one that is known it is where that begins, as in Kafka.
        """
        if epoch < 0 or epoch > self.current:
            return EpochEndOffset()
        if epoch == self.current:
            return EpochEndOffset(epoch, end_offset)
        following = bisect_right(self._epochs, epoch)
        first = max(bisect_right(self._starts, start_offset) - 1, 0)
        epoch_before = epoch if following <= first else self._epochs[following - 1]
        return EpochEndOffset(epoch_before, max(self._starts[max(following, first)], start_offset))


ONLY: Final = LeaderEpochs()
"""The epochs of a log that never changes its leader."""
