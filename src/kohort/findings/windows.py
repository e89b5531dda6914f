"""Episodes: times at which many events fall into one window."""

from collections.abc import Sequence
from datetime import datetime, timedelta


def episodes(times: Sequence[datetime], least: int, window: timedelta) -> list[range]:
    """The indexes of ascending `times` that are among `least` ones within a window.

    Windows that overlap are one episode.
    """
    found: list[range] = []
    for first in range(len(times) - least + 1):
        last = first + least - 1
        if times[last] - times[first] <= window:
            if found and first < found[-1].stop:
                found[-1] = range(found[-1].start, last + 1)
            else:
                found.append(range(first, last + 1))
    return found
