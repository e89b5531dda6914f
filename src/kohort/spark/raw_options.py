"""Options as Spark passes them: looked up without regard to case, refused by name."""

from collections.abc import Mapping
from typing import TypeAlias

from kohort.errors import ConfigError
from kohort.spark.values import INT64_MAX, PREFIX, number
from kohort.suggestions import closest

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""`kafka.*` options without the prefix, sorted: they name an open cluster."""


class RawOptions:
    """Options by their names in lower case, and the `kafka.*` ones without the prefix."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self.kafka = {
            name.removeprefix(PREFIX): value
            for name, value in self._options.items()
            if name.startswith(PREFIX)
        }

    def get(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def among(self, names: tuple[str, ...]) -> list[str]:
        """Those of `names` that are given."""
        return [name for name in names if self.get(name) is not None]

    def refuse_unknown(self, known: tuple[str, ...], no_counterpart: Mapping[str, str]) -> None:
        """Raise ConfigError for what is not `known`; `no_counterpart` says what else to do."""
        for name in no_counterpart:
            self.refuse(
                (name,), (f"it has no counterpart here, leave it out; {no_counterpart[name]}")
            )
        lower = {name.lower(): name for name in known}
        for name in self._options:
            if name not in lower and not name.startswith(PREFIX):
                match = closest(name, lower)
                hint = f"; is it {lower[match]}?" if match else ""
                raise ConfigError(f"option {name} is not known{hint}")

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        if found := self.among(names):
            raise ConfigError(f"option {found[0]}: {why}")

    def number(self, name: str, least: int = 1, most: int = INT64_MAX) -> int | None:
        text = self.get(name)
        return None if text is None else number(name, text, least, most)

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, values: tuple[str, ...], default: str) -> str:
        given = self.get(name)
        text = default if given is None else given.strip().lower()
        if text not in values:
            raise ConfigError(f"option {name} is {text!r}; it is one of {', '.join(values)}")
        return text
