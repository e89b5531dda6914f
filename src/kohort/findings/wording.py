"""Numbers, times and names in the texts of findings."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from kohort.util.text import join_names

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def span(time: timedelta | float) -> str:
    """A duration by its two largest units: `9 min 40 s`; seconds with one digit below ten."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else float(time)
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s".replace(".0 s", " s")
    rest = round(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        if rest >= size or parts:
            parts.append(f"{rest // size} {unit}" if rest >= size else "")
            rest %= size
    return " ".join(part for part in parts[:2] if part)


def count(number: int, noun: str) -> str:
    """`1 member`, `1,200 members`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def partitions(numbers: Iterable[int]) -> str:
    """`partition 3`, `partitions 1, 2, 5 and 3 more`."""
    ordered = sorted(set(numbers))
    shown = ", ".join(map(str, ordered[:5]))
    more = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return f"partition{'' if len(ordered) == 1 else 's'} {shown}{more}"


def names(some: Iterable[str]) -> str:
    """Names in order, the first ones only if there are many."""
    return join_names(dict.fromkeys(some))


def tally(values: Sequence[str]) -> str:
    """`3 × left, 1 × vanished`, the most frequent first."""
    counts = sorted({(-values.count(value), value) for value in values})
    return ", ".join(f"{-number} × {value}" for number, value in counts)
