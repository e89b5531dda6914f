"""Long lists of names in one message."""

from collections.abc import Iterable


def shortened(names: Iterable[str], most: int = 5) -> str:
    """The names in order, with commas: the first `most` of them, and how many more there are."""
    found = sorted(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more
