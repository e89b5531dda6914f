"""Text from elsewhere, made safe to print: what a terminal acts upon is shown, not done.

Clients choose the ids of groups, members, instances, transactions and themselves, and a server
chooses its texts of errors. Control and format characters in them (Unicode's Cc and Cf, so line
ends, ANSI escapes and bidirectional marks), line and paragraph separators (Zl, Zp) and surrogates
(Cs) are written as Python's escapes: `\\x1b`, `\\n`, `\\u202e`. All that the command line prints
passes through here, but for JSON, CSV in a pipe or file, and the records that `consume` writes.
"""

import logging
import unicodedata
from typing import Any, Final

_ESCAPED: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def printable(text: str) -> str:
    """`text` on one line, without characters that a terminal acts upon."""
    return text if text.isprintable() else "".join(map(_shown, text))


def indented(lines: str) -> str:
    """Each line `printable`, with space in front: no name in it begins a line as ours begin."""
    return "\n".join(f"  {printable(line)}" for line in lines.split("\n"))


class PrintableFormatter(logging.Formatter):
    """Formats log lines with what others chose in them; a traceback is `indented`."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return indented(super().formatException(ei))


def _shown(character: str) -> str:
    if unicodedata.category(character) in _ESCAPED:
        return character.encode("unicode_escape").decode("ascii")
    return character
