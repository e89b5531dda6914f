"""Definition of one setting: its name, type, default and range, and the parsing of its text.

Names, types and units are Kafka's, so a value that is right in a `server.properties` is right here.
The rules for text are those of Kafka's ConfigDef: surrounding blanks are dropped, booleans are
`true` or `false` in any case, a list is separated by commas. There are no unit suffixes: the unit
is the last word of the name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kohort.server.config.java_double import java_double
from kohort.server.config.storage_url import storage_without_secrets
from kohort.util.text import did_you_mean

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
Kind: TypeAlias = Literal["boolean", "int", "long", "double", "string", "list", "password"]

HIDDEN: Final = "[hidden]"


class Password(str):
    """A secret, which is shown nowhere."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_WIDTH = {"int": (-(2**31), INT_MAX), "long": (-(2**63), LONG_MAX)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDef:
    """One row of the table. `doc` says what the configuration does in Kohort."""

    name: str
    kind: Kind
    default: Value
    doc: str
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[str], object] | None = None
    """Raises ValueError if a string is not of the form that is wanted."""
    kohort_only: bool = False
    """True for the few names that Kafka does not have."""
    per_listener: bool = False
    """Whether a listener may have a value of its own."""

    def parse(self, raw: object) -> Value:
        """The typed value of a text, or of a value that TOML or a caller has typed already.

        Raises ValueError, whose text completes "NAME: ", if it is not of this type or out of range.
        """
        if raw is None or (self.default is None and raw == ""):
            if self.default is not None:
                raise ValueError("a value is needed")
            return None
        value = _PARSERS[self.kind](raw.strip() if isinstance(raw, str) else raw)
        if isinstance(value, str | tuple):
            self._validate_words(value)
        elif not isinstance(value, bool):
            self._validate_range(value)
        return value

    @property
    def valid(self) -> str:
        """The range or the choices in words, "" if the type says it all."""
        if self.choices:
            return " | ".join(self.choices)
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            return f"{low} to {high}"
        if low is not None:
            return f"at least {low}"
        return f"at most {high}" if high is not None else ""

    @property
    def environment(self) -> str:
        """Name of its environment variable."""
        return f"KOHORT_{self.name.upper().replace('.', '_')}"

    def _validate_range(self, value: int | float) -> None:
        widest = _WIDTH.get(self.kind)
        if widest is not None and not widest[0] <= value <= widest[1]:
            raise ValueError(
                f"{value} does not fit the type {self.kind} ({widest[0]} to {widest[1]})"
            )
        low, high = self.minimum, self.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            nearest = low if low is not None and value < low else high
            raise ValueError(f"{value} is out of range: {self.valid}; the nearest is {nearest}")

    def _validate_words(self, value: str | tuple[str, ...]) -> None:
        for word in (value,) if isinstance(value, str) else value:
            if self.choices and word not in self.choices:
                raise ValueError(
                    f"{word!r} is not one of {self.valid}{did_you_mean(word, self.choices)}"
                )
            if self.check is not None:
                self.check(word)


def as_text(value: Value) -> str | None:
    """The value as Kafka writes it in DescribeConfigs; None stays None, a secret stays hidden."""
    if isinstance(value, Password):
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return java_double(value)
    return None if value is None else storage_without_secrets(str(value))


def _boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    raise ValueError(f"{raw!r} is neither true nor false")


def _integer(raw: object) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    # int() would also take 1_000 and other scripts' digits, which no Kafka tool does.
    if isinstance(raw, str) and raw.isascii() and raw.lstrip("+-").isdigit() and len(raw) <= 20:
        try:
            return int(raw)
        except ValueError:
            pass
    raise ValueError(f"{raw!r} is not a whole number")


def _double(raw: object) -> float:
    try:
        value = (
            float(raw) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else None
        )
    except (ValueError, OverflowError):
        value = None
    if value is None or value != value:
        raise ValueError(f"{raw!r} is not a number")
    return value


def _string(raw: object) -> str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, int) and not isinstance(raw, bool):  # TOML has types
        return str(raw)
    raise ValueError(f"{raw!r} is not a string")


def _password(raw: object) -> Password:
    if isinstance(raw, str):
        return Password(raw)
    raise ValueError("it is not a string")


def _list(raw: object) -> tuple[str, ...]:
    if isinstance(raw, str):
        return tuple(word.strip() for word in raw.split(",")) if raw else ()
    if isinstance(raw, list | tuple) and all(isinstance(word, str) for word in raw):
        return tuple(raw)
    raise ValueError(f"{raw!r} is not a list of strings")


_PARSERS: dict[Kind, Callable[[object], bool | int | float | str | tuple[str, ...]]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "double": _double,
    "string": _string,
    "list": _list,
    "password": _password,
}
