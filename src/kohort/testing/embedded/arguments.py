"""Checks of what a test passes: a wrong argument raises at the call, not in the server's thread.

Each function returns the argument. It raises KohortError with the argument's name.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kohort.errors import KohortError
from kohort.util.text import did_you_mean

MAX_SECONDS: Final = 366 * 86_400
"""Longest time that one call may pass: a year."""
MAX_OFFSET: Final = 2**63 - 1


def seconds(name: str, value: object) -> float:
    """A number from 0 to `MAX_SECONDS`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise _unlike(name, "a number of seconds", value)
    if not 0 <= value <= MAX_SECONDS:
        raise _unlike(name, f"from 0 to {MAX_SECONDS} seconds, a year", value)
    return value


def whole(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """A whole number of at least `least`, at most `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unlike(name, "a whole number", value)
    if value < least or (most is not None and value > most):
        raise _unlike(name, f"at least {least}" if value < least else f"at most {most}", value)
    return value


def text(name: str, value: object) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise _unlike(name, "a string that is not empty", value)
    return value


def names(name: str, value: object) -> tuple[str, ...]:
    """Strings that are not empty, each once."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _unlike(name, f'names, as in {name}=["orders"]', value)
    if len(set(map(str, value))) < len(value):
        raise _unlike(name, "each name once", value)
    return tuple(text(f"a name in {name}", each) for each in value)


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    """One of the names that are known."""
    candidates = list(known)
    if text(name, value) not in candidates:
        raise KohortError(f"no {name} {value!r}{did_you_mean(str(value), candidates)}")
    return str(value)


def data(name: str, value: object) -> bytes | None:
    """Bytes, or None: a null of Kafka."""
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        hint = ": encode the string" if isinstance(value, str) else ""
        raise _unlike(name, f"bytes or None{hint}", value)
    return None if value is None else bytes(value)


def headers(value: object) -> tuple[tuple[str, bytes | None], ...]:
    """Pairs of a name and bytes."""
    if isinstance(value, Mapping) or not isinstance(value, Sequence):
        raise _unlike("headers", 'pairs, as in [("name", b"value")]', value)
    pairs = [pair for pair in value if isinstance(pair, Sequence) and len(pair) == 2]
    if len(pairs) != len(value):
        raise _unlike("headers", 'pairs, as in [("name", b"value")]', value)
    return tuple(
        (text("name of a header", name), data(f"header {name}", item)) for name, item in pairs
    )


def function(name: str, value: object) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(value):
        raise _unlike(name, "a function", value)
    return value


def mapping(name: str, value: object) -> dict[str, Any]:
    """A mapping with strings as keys."""
    if not isinstance(value, Mapping):
        raise _unlike(name, "a mapping of names to values", value)
    return {text(f"a name in {name}", key): item for key, item in value.items()}


def offsets(value: object) -> dict[tuple[str, int], int]:
    """Offsets by topic and partition."""
    if not isinstance(value, Mapping) or not value:
        raise _unlike("offsets", 'a mapping, as in {("orders", 0): 42}', value)
    checked = {}
    for partition, offset in value.items():
        if not isinstance(partition, tuple) or len(partition) != 2:
            raise _unlike("a partition", 'a pair, as in ("orders", 0)', partition)
        topic, number = partition
        key = text("topic", topic), whole("partition", number, least=0)
        checked[key] = whole(f"offset of {topic}-{number}", offset, least=0, most=MAX_OFFSET)
    return checked


def values_by_partition(name: str, value: object) -> dict[tuple[str, int], list[bytes]]:
    """Values of records by topic and partition, at least one for each."""
    example = f'a mapping, as in {name}={{("orders", 0): [b"paid"]}}'
    if not isinstance(value, Mapping) or not all(map(_is_list, value.values())):
        raise _unlike(name, example, value)
    partitions = offsets(dict.fromkeys(value, 0)) if value else {}
    return {
        partition: [data("a value", each) or b"" for each in values]
        for partition, values in zip(partitions, value.values(), strict=True)
    }


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value)


def _unlike(name: str, expected: str, value: object) -> KohortError:
    return KohortError(f"{name}: expected {expected}, not {value!r}")
