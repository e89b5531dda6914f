"""kcat's pack-strings: how `-s` turns bytes into text.

`<` and `>` set little-endian and big-endian, the default. `b B h H i I q Q` are integers of
1, 2, 4 and 8 bytes, upper case unsigned. `c` is a character, `s` the rest unchanged, a space is
a space, and `$` the end of the data. Data after the last token is left out.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from kohort.errors import ConfigError

_SIZES: Final = {letter: Struct(f">{letter}").size for letter in "bBhHiIqQ"}
_TOKENS: Final = frozenset("<>cs$ ") | _SIZES.keys()


def unpacker(pack: str) -> Callable[[bytes], bytes]:
    """The function that unpacks; it raises ValueError for other data. Raises ConfigError."""
    if not pack:
        raise ConfigError("-s: the pack-string is empty; see --help")
    for token in pack:
        if token not in _TOKENS:
            raise ConfigError(
                f"-s {pack}: {token!r} is not a token; there are < > b B h H i I q Q c s $, or "
                "avro as a whole"
            )
    return lambda data: _unpack(pack, data)


def _unpack(pack: str, data: bytes) -> bytes:
    parts: list[bytes] = []
    order, position = ">", 0
    for token in pack:
        match token:
            case "<" | ">":
                order = token
            case " ":
                parts.append(b" ")
            case "s":
                parts.append(data[position:])
                position = len(data)
            case "$":
                if position < len(data):
                    raise ValueError(f"the end expected, but {len(data) - position} bytes remain")
            case _:
                size = _SIZES.get(token, 1)
                if (remaining := len(data) - position) < size:
                    raise ValueError(f"{size} bytes expected for {token}, but {remaining} remain")
                parts.append(_unpacked(order, token, data[position : position + size]))
                position += size
    return b"".join(parts)


def _unpacked(order: str, token: str, data: bytes) -> bytes:
    return data if token == "c" else b"%d" % Struct(order + token).unpack(data)[0]
