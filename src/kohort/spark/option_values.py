"""Parsing of option values; errors use the names of options, not of fields."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from kohort.client.properties import OptionErrors
from kohort.errors import ConfigError

T = TypeVar("T")

PREFIX: Final = "kafka."
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_FIELD: Final = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_UNITS_MS: Final = {
    "": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000
}  # fmt: skip
_DURATION: Final = re.compile(r"(\d+)(ms|s|m|min|h|d|)")


def number(option: str, text: str, least: int = 0, most: int = INT64_MAX) -> int:
    """A whole number within the bounds. Raises ConfigError."""
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        to = "on" if most == INT64_MAX else f"to {most}"
        raise ConfigError(
            f"option {option} is {text!r}; it has to be a whole number from {least} {to}"
        )
    return value


def numbers(
    options: Mapping[str, str], fields: Mapping[str, str], least: int = 0
) -> dict[str, int]:
    """Map the fields of the given `kafka.*` options to numbers. Raises RefusedOptionsError."""
    refusals = OptionErrors()
    values = {
        field: refusals.of(partial(number, PREFIX + name, options[name], least, INT32_MAX), 0)
        for name, field in fields.items()
        if name in options
    }
    refusals.end()
    return values


def duration_ms(option: str, text: str) -> int:
    """A time as Spark writes it: `30s`, `15m`, `500ms`; without a unit it is in ms.

    Raises ConfigError.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError(f"option {option} is {text!r}; it has to be a time such as 30s or 15m")
    return int(match[1]) * _UNITS_MS[match[2]]


def named(options: str, fields: Mapping[str, str], make: Callable[[], T]) -> T:
    """Call `make`, and name `options` in its ConfigError, unless it names an option itself.

    `fields`: property → field, whose names are replaced in the error.
    """
    try:
        return make()
    except ConfigError as error:
        text = str(error)
        if text.startswith("option"):
            raise
        properties = {field: PREFIX + name for name, field in fields.items()}
        text = _FIELD.sub(lambda match: properties.get(match[0], match[0]), text)
        raise ConfigError(f"options {options}: {text}") from None
