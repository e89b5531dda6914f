"""Names in messages: lists of bounded length, and close matches of a misspelt one."""

from collections.abc import Iterable
from typing import Final

_SIMILAR: Final = 0.55
"""`ratio` of names that may be mistaken for each other."""


def join_names(names: Iterable[str], most: int = 5) -> str:
    """The names in order, with commas: the first `most` of them, and how many more there are."""
    sorted_names = sorted(names)
    more = f" and {len(sorted_names) - most} more" if len(sorted_names) > most else ""
    return ", ".join(sorted_names[:most]) + more


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The name among `candidates` that is most like `name`; None if none is similar.

    Dashes before an option make it like any other option, and do not count.
    """
    import difflib  # Imported only when an error is reported.

    names = {candidate.lstrip("-"): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.lstrip("-"), names, n=1, cutoff=_SIMILAR)
    return names[matches[0]] if matches else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint for the end of an error message: "; did you mean X?", or "" if no name is similar."""
    match = closest(name, candidates)
    return f"; did you mean {match}?" if match else ""


def offset_span(start: int, end: int) -> str:
    """The offsets in [start, end)."""
    return f"offsets from {start} to below {end}"
