"""A request that a connection sends again and again, word for word: a member's heartbeats between
two rebalances.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from kohort.protocol.apis import APIS
from kohort.protocol.packing import pack_int32

Ask: TypeAlias = Callable[[], bytes]
"""The body of the answer, as it is now: asked every time, nothing of it is remembered."""

_ID: Final = 8
"""Where the correlation id stands: behind the frame's size, the API key and its version."""
_REST: Final = _ID + 4


class Repeat:
    """What a connection was asked last, read once: the next frame is compared with it, and not read
    if it is the same.

    All but the correlation id has to be equal, so the same request is asked; what it is answered is
    judged anew.
    """

    __slots__ = ("_ask", "_rest", "_start", "_tags", "api_key")

    def __init__(self, data: bytes, api_key: int, version: int, ask: Ask) -> None:
        """`data` is a whole frame whose header was read, not of ApiVersions; `ask` is what its
        handler made of it.
        """
        self.api_key = api_key
        self._start = data[:_ID]
        self._rest = data[_REST:]
        self._tags = b"\0" if APIS[api_key].flexible(version) else b""
        self._ask = ask

    def answer(self, data: bytes) -> bytes | None:
        """The whole frame that answers `data`; None if `data` is anything but this request again."""
        if data[_REST:] != self._rest or data[:_ID] != self._start:
            return None
        body = self._ask()
        return b"".join(
            (pack_int32(len(self._tags) + 4 + len(body)), data[_ID:_REST], self._tags, body)
        )
