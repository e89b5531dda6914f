"""Makes a list of faults small: fewer of them (delta debugging), then shorter ones."""

from collections.abc import Callable, Sequence

from kohort.testing.simulation.faults import Fault


def shrink(
    faults: Sequence[Fault], still_fails: Callable[[Sequence[Fault]], bool], tries: int
) -> list[Fault]:
    """A small list for which `still_fails` holds, as it does for `faults`; at most `tries` calls.

    Without any of the faults that are left it does not hold, unless the tries were used up.
    """
    search = _Search(still_fails, tries)
    smallest = search.remove(list(faults))
    return search.shorten(smallest)


class _Search:
    def __init__(self, still_fails: Callable[[Sequence[Fault]], bool], tries: int) -> None:
        self._still_fails = still_fails
        self._left = tries

    def _fails(self, faults: Sequence[Fault]) -> bool:
        if not self._left:
            return False
        self._left -= 1
        return self._still_fails(faults)

    def remove(self, faults: list[Fault]) -> list[Fault]:
        """Remove large parts first, then smaller ones, down to single faults."""
        size = len(faults)
        while size:
            start = 0
            while start < len(faults):
                fewer = faults[:start] + faults[start + size :]
                if self._fails(fewer):
                    faults = fewer
                else:
                    start += size
            size //= 2
        return faults

    def shorten(self, faults: list[Fault]) -> list[Fault]:
        """Halve the time of each fault as often as it still fails."""
        for index in range(len(faults)):
            while (shorter := faults[index].shorter()) is not None:
                changed = [*faults[:index], shorter, *faults[index + 1 :]]
                if not self._fails(changed):
                    break
                faults = changed
        return faults
