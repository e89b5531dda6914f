"""Requests of a size, built of one element of an array that is repeated."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import encode, request
from kohort.protocol.packing import pack_array, pack_compact_array
from live.server.server import framed

MARK: Final = "n0000000"
"""A name that each element of an array has in a form of its own."""
_START: Final = b"n0"
"""How all those names begin."""
MAX_ELEMENTS: Final = 260_000
"""Array elements of the largest request that is not refused as malformed, nearly."""

Fields = Mapping[str, Any]
Build = Callable[[int], bytes]
"""Returns a frame of about so many bytes."""


def many(
    api: str, version: int, size: int, before: Fields, one: Fields, *, elements: int = 1
) -> bytes:
    """A frame of about `size` bytes.

    `before` and `one` are the same request without and with one element of an array, which counts
    as so many `elements` with the arrays in it.
    """
    empty = encode(request(BY_NAME[api].key, version, **before))
    single = encode(request(BY_NAME[api].key, version, **one))
    at = next(at for at, byte in enumerate(empty) if single[at] != byte)
    element = single[at + 1 : len(single) - (len(empty) - at - 1)]
    count = min(max(size // len(element), 1), MAX_ELEMENTS // elements)
    flexible = BY_NAME[api].flexible(version)
    head = empty[:at] if flexible else empty[: at - 3]
    number = (pack_compact_array if flexible else pack_array)(count)
    mark = MARK.encode()
    middle = (
        b"".join(element.replace(mark, b"n%07d" % n) for n in range(count))
        if mark in element
        else element * count
    )
    return framed(api, version, b"".join((head, number, middle, empty[at + 1 :])))


def renamed(request_frame: bytes, attempt: int) -> bytes:
    """The same request with names that no attempt before has used."""
    return request_frame.replace(_START, b"%c0" % (ord("n") + attempt))


def repeated(
    api: str, version: int, array: str, element: Any, *, elements: int = 1, **fields: Any
) -> Build:
    return lambda size: many(
        api, version, size, fields | {array: []}, fields | {array: [element]}, elements=elements
    )


def nested(
    api: str,
    version: int,
    array: str,
    element: Fields,
    inner: str,
    inner_element: Any,
    *,
    elements: int = 1,
    **fields: Any,
) -> Build:
    def build(size: int) -> bytes:
        def one(content: list[Any]) -> Fields:
            return fields | {array: [{**element, inner: content}]}

        return many(api, version, size, one([]), one([inner_element]), elements=elements)

    return build


def long_text(api: str, version: int, field: str, **fields: Any) -> Build:
    def build(size: int) -> bytes:
        text = {field: "x" * min(size, 30_000)}
        return framed(api, version, encode(request(BY_NAME[api].key, version, **fields, **text)))

    return build
