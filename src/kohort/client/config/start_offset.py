"""Where a reader of a partition begins, if there is no committed offset, or it is out of range.

`auto.offset.reset` of Kafka. Its names `earliest` and `latest` are accepted beside those here.
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
"""How a Fetcher continues at an offset that is gone; under a timestamp at the first record."""
_SYNONYMS: Final = {"earliest": "first", "latest": "last"}


def plain_start_offset(given: object) -> Literal["first", "last", "none"] | int:
    """`start_offset` without synonyms. Raises ConfigError."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**63:
        return given
    named = _SYNONYMS.get(given, given) if isinstance(given, str) else given
    match named:
        case "first" | "last" | "none":
            return named
    raise ConfigError(
        f"start_offset (auto_offset_reset): {given!r} is not first, last, none, earliest, latest, "
        "or a timestamp in ms since 1970"
    )
