"""Reads `.properties` files as java.util.Properties does.

A name ends at the first `=`, `:` or white space. A backslash takes the meaning from the next
character, begins `\\uXXXX`, `\\t`, `\\n`, `\\r` or `\\f`, or continues the line. Lines that begin
with `#` or `!` are comments. Files are in UTF-8, where Java has ISO 8859-1, perhaps with a
byte-order mark, as editors on Windows write it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kohort.errors import ConfigError

_BLANK: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_PAIR: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TRIMMED: Final = "".join(map(chr, range(ord(" ") + 1)))
"""Characters that Java's String.trim removes."""


def read_properties(path: Path) -> dict[str, str]:
    """The properties in a file; of two with one name the last. Raises ConfigError.

    Values are trimmed, as Kafka does.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}") from None
    return {name: value.strip(_TRIMMED) for name, value in parse_properties(text).items()}


def parse_properties(text: str) -> dict[str, str]:
    """Parse the text of a file as java.util.Properties does.

    Raises ConfigError, whose text contains no values: they may be passwords.
    """
    properties = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None
        try:
            name = _unescaped(pair[1])
            properties[name] = _unescaped(pair[2])
        except ValueError:
            raise ConfigError(
                f"property {pair[1]} has a \\u without the four hexadecimal digits of a "
                "character; a backslash itself is written \\\\"
            ) from None
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuation lines, without comments, blank lines and indentation."""
    joined = ""
    for physical_line in _LINE_END.split(text):
        line = physical_line.lstrip(_BLANK)
        if not joined and line[:1] in ("", "#", "!"):
            continue
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if is_continued else line
        if not is_continued:
            yield joined
            joined = ""
    if joined:
        yield joined


def _unescaped(text: str) -> str:
    """Raises ValueError for an escape of half a character, or without digits."""
    plain = _ESCAPE.sub(_character, text)
    # Java's characters are those of UTF-16: two escapes may be one of Unicode.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _character(escape: re.Match[str]) -> str:
    escaped = escape[1]
    if escaped[0] != "u":
        return _NAMED.get(escaped, escaped)
    return chr(int(escaped[1:], 16))
