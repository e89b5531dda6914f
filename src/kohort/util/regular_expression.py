r"""Regular expressions that clients send, as Kafka's library RE2/J takes them.

RE2 takes nearly the same expressions as RE2/J: both are linear in the text and have no look-around
or back-references. What only RE2 takes is refused here: names of groups that come twice or are not
ASCII, `\C`, and counts that no number can hold. What only RE2/J takes stays refused: nested counts
beyond 1,000, escapes of letters beyond ASCII, and expressions that need too much memory or time.
Scripts of newer Unicode versions are taken.
"""

import re
from typing import Final

import re2

MAX_BYTES: Final = 16_384
"""Length of an expression."""
MAX_UNICODE_CLASSES: Final = 256
r"""Classes like `\pL` in one expression, which take long to compile."""
MAX_MEMORY: Final = 1 << 20
"""Bytes that RE2 may use for an expression: its program, and states while it matches."""

_TOKENS: Final = re.compile(
    r"""
      \\Q .*? (?: \\E | \Z )
    | (?P<byte> \\C )
    | \\ .
    | \[ \^? \]? (?: \\. | \[: \^? \w+ :\] | [^\]\\] )* \]
    | \( \? P? < (?P<name> [^>]* ) >
    | (?P<count> \{ (?: [0-9]{9,} (?: , [0-9]* )? | [0-9]+ , [0-9]{9,} ) \} )
    """,
    re.VERBOSE | re.DOTALL,
)


class RegularExpressionError(ValueError):
    """An expression is not valid, or too large; the text says why."""


class RegularExpression:
    """A compiled regular expression, matched in time proportional to the text."""

    def __init__(self, regex: str) -> None:
        """Raises RegularExpressionError."""
        encoded = regex.encode("utf-8", "surrogatepass")
        if len(encoded) > MAX_BYTES:
            raise RegularExpressionError(f"longer than {MAX_BYTES} bytes")
        if len(re.findall(r"\\[pP]", regex)) > MAX_UNICODE_CLASSES:
            raise RegularExpressionError(f"more than {MAX_UNICODE_CLASSES} Unicode classes")
        try:
            self._compiled = re2.compile(encoded, _options())
        except re2.error as error:
            raise RegularExpressionError(error.args[0].decode(errors="replace")) from None
        finally:
            # The module would keep the last 128 expressions.
            re2.purge()
        _validate(regex)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        return self._compiled.fullmatch(text.encode()) is not None


def _options() -> re2.Options:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    return options


def _validate(regex: str) -> None:
    """Refuse what RE2 takes and RE2/J does not, in an expression that RE2 takes."""
    names = set[str]()
    for token in _TOKENS.finditer(regex):
        name = token["name"]
        if token["byte"] is not None:
            raise RegularExpressionError(f"invalid escape sequence: {token['byte']}")
        if token["count"] is not None:
            raise RegularExpressionError(f"invalid repeat count: {token['count']}")
        if name is not None and (name in names or not name.isascii()):
            raise RegularExpressionError(f"invalid or duplicate group name: {name}")
        names |= set() if name is None else {name}
