"""Reads kio's message classes from untrusted bytes."""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeAlias

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from kohort.protocol.bounds_check import bounds_check
from kohort.protocol.framing import MalformedError
from kohort.protocol.lenient_decoding import MAX_ELEMENTS, max_response_elements, normalized
from kohort.protocol.stepwise_reading import ReadStep, stepwise_reader

Read: TypeAlias = Callable[[bytes, int], Any]
"""(data, offset) -> entity; bytes behind it are ignored, as in Kafka.

Raises only `MalformedError`, whatever the bytes are.
"""

_UNREADABLE: Final = (SerialError, ValueError, KeyError, IndexError, OverflowError)
"""Errors of kio's readers and of the bounds check."""


@cache
def reader(entity_type: Any) -> Read:
    """A function that reads messages of this class."""
    return _checked(entity_type, entity_reader(entity_type))


@cache
def response_reader(entity_type: Any) -> Read:
    """`reader` of responses: the more bytes one has, the more array elements it may have."""
    return _checked(entity_type, entity_reader(entity_type), max_response_elements)


@cache
def large_reader(entity_type: Any) -> Read:
    """A slower function that reads the same, and lets other threads run meanwhile."""
    return _checked(entity_type, stepwise_reader(entity_type))


def _checked(
    entity_type: Any,
    read_unchecked: ReadStep,
    elements_of: Callable[[bytes], int] = lambda _: MAX_ELEMENTS,
) -> Read:
    """`elements_of`: how many array elements a message of these bytes may have."""
    is_in_bounds = bounds_check(entity_type)

    def read(data: bytes, start: int) -> Any:
        max_elements = elements_of(data)
        try:
            if is_in_bounds(data, start, max_elements):
                return read_unchecked(data, start)[0]
        except _UNREADABLE:
            pass
        try:
            return read_unchecked(normalized(entity_type, data, start, max_elements), 0)[0]
        except MalformedError:
            raise
        except _UNREADABLE as error:
            raise MalformedError(
                f"{entity_type.__name__} v{entity_type.__version__}: {error}"
            ) from None

    return read
