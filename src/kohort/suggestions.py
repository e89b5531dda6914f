"""Close matches for misspelt names, for error messages."""

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """The name among `known` that is most like `name`; None if none is similar."""
    import difflib  # Imported only when an error is reported.

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for the end of an error message: "; did you mean X?", or "" if no name is similar."""
    match = closest(name, known)
    return f"; did you mean {match}?" if match else ""
