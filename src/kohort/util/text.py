"""Names in messages: lists of bounded length, and close matches of a misspelt one."""

from collections.abc import Iterable
from typing import Final

_SIMILAR: Final = 0.55
"""`ratio` of names that may be mistaken for each other."""


def join_names(names: Iterable[str], most: int = 5) -> str:
    """The names in order, with commas: the first `most` of them, and how many more there are."""
    found = sorted(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def closest(name: str, known: Iterable[str]) -> str | None:
    """The name among `known` that is most like `name`; None if none is similar.

    Dashes before an option make it like any other option, and do not count.
    """
    import difflib  # Imported only when an error is reported.

    names = {each.lstrip("-"): each for each in known}
    matches = difflib.get_close_matches(name.lstrip("-"), names, n=1, cutoff=_SIMILAR)
    return names[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for the end of an error message: "; did you mean X?", or "" if no name is similar."""
    match = closest(name, known)
    return f"; did you mean {match}?" if match else ""
