"""The pieces of a request, as few writes as are worth a copy."""

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.protocol.compression import Buffer

MAX_JOINED_SIZE: Final = 32 * 1024
"""Size in bytes up to which a request, or a piece of a larger one, is joined to others."""


def join_pieces(pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """The same bytes, with consecutive small pieces joined."""
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) <= MAX_JOINED_SIZE:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield piece
    if small:
        yield b"".join(small)
