"""A compiled expression."""

from collections.abc import Generator
from typing import Final

from kohort.util.regular_expression.automaton import Automaton
from kohort.util.regular_expression.errors import RegularExpressionError
from kohort.util.regular_expression.syntax import parse

MAX_BYTES: Final = 8_192
"""Length of an expression."""


class RegularExpression:
    """A compiled regular expression, matched in time proportional to the text.

    For one thread at a time.
    """

    def __init__(self, regex: str) -> None:
        """Raises RegularExpressionError."""
        if len(regex.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise RegularExpressionError(f"longer than {MAX_BYTES} bytes")
        self._automaton = Automaton(parse(regex))

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        steps = self.steps(text)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def steps(self, text: str) -> Generator[None, None, bool]:
        """`matches`, in steps of at most some milliseconds."""
        return self._automaton.steps(text)
