"""Checks the arguments of `send` before a record is queued."""

import operator
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypedDict

from kohort.client.serialization import K_in
from kohort.protocol.compression import Buffer
from kohort.protocol.records import Header

Headers: TypeAlias = Iterable[tuple[str, Buffer | None]] | Mapping[str, Buffer | None]


class RecordOptions(TypedDict, Generic[K_in], total=False):
    """Optional arguments of a record, as `Producer.send` documents them."""

    key: K_in | None
    headers: Headers
    partition: int | None
    timestamp: int | None


_LATEST: Final = (1 << 63) - 1


def as_bytes(argument: str, content: Any) -> bytes:
    """A copy of bytes that may change later. Raises TypeError for other types."""
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    advice = {
        str: "encode it: text.encode()",
        dict: "serialize it, for example json.dumps(value).encode()",
        list: "serialize it, for example json.dumps(value).encode()",
        int: "convert it, for example str(number).encode()",
    }.get(type(content), "serialize it")
    raise TypeError(f"{argument}: bytes or None expected, not {type(content).__name__}; {advice}")


def as_timestamp(timestamp: Any) -> int:
    """A timestamp in ms. Raises TypeError, ValueError."""
    try:
        milliseconds = operator.index(timestamp)
    except TypeError:
        raise TypeError(
            f"timestamp {timestamp!r}: an int of milliseconds since 1970 expected, not "
            f"{type(timestamp).__name__}; for a time in seconds: round(seconds * 1000)"
        ) from None
    if not 0 <= milliseconds <= _LATEST:
        raise ValueError(f"timestamp {milliseconds}: milliseconds since 1970 expected")
    return milliseconds


def as_partition(partition: Any) -> int:
    """The index of a partition. Raises TypeError, ValueError."""
    try:
        index = operator.index(partition)
    except TypeError:
        raise TypeError(f"partition {partition!r}: an int expected") from None
    if index < 0:
        raise ValueError(f"partition {index}: partitions are numbered from 0")
    return index


def as_headers(headers: Any) -> tuple[Header, ...]:
    """Headers with copies of bytes that may change later. Raises TypeError."""
    if isinstance(headers, Mapping):
        headers = headers.items()
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise TypeError(f"headers: pairs of a str and bytes expected, not {headers!r}")
    return tuple(map(_header, headers))


def _header(header: Any) -> Header:
    try:
        name, content = header
    except (TypeError, ValueError):
        raise TypeError(f"header {header!r}: a pair of a str and bytes expected") from None
    if not isinstance(name, str):
        raise TypeError(f"header {name!r}: its name is a str, not {type(name).__name__}")
    if content is not None and type(content) is not bytes:
        content = as_bytes(f"header {name!r}", content)
    return name, content
