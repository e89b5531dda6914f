"""Start offset without a committed one, or if that is out of range: Kafka's `auto.offset.reset`.

Kafka's names `earliest` and `latest` are accepted besides the names here.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from kohort.errors import ConfigError

OutOfRange: TypeAlias = Literal["earliest", "latest", "error"]
StartOffset: TypeAlias = Literal["first", "last", "earliest", "latest", "none"] | int

OUT_OF_RANGE: Final[Mapping[object, OutOfRange]] = {
    "first": "earliest",
    "last": "latest",
    "none": "error",
}
"""How a Fetcher continues if an offset is out of range; for a timestamp at the first record."""
_SYNONYMS: Final = {"earliest": "first", "latest": "last"}


def plain_start_offset(start: object) -> Literal["first", "last", "none"] | int:
    """`start_offset` without synonyms. Raises ConfigError."""
    if isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 2**63:
        return start
    named = _SYNONYMS.get(start, start) if isinstance(start, str) else start
    match named:
        case "first" | "last" | "none":
            return named
    raise ConfigError(
        f"start_offset (auto_offset_reset): {start!r} is not first, last, none, earliest, latest, "
        "or a timestamp in ms since 1970"
    )
