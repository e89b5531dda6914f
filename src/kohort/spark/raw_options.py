"""Options as Spark passes them: looked up without regard to case, refused by name.

The option `security` names a properties file with `security.protocol`, `sasl.*` and `ssl.*`, which
the driver reads. Its secrets are in no option of the query.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from kohort.client.properties import RefusedOptionsError, over, read_properties
from kohort.client.security import SECURITY_PROPERTIES
from kohort.errors import ConfigError
from kohort.spark.option_values import INT64_MAX, PREFIX, number
from kohort.util.text import closest

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""`kafka.*` options without the prefix, sorted: they name an open cluster."""


_OF_TABLES: Final = frozenset((
    "clustering", "collation", "comment", "external", "is_managed_location", "location", "owner",
    "provider",
))  # fmt: skip
"""Properties of a table in Spark's catalog, which Spark passes among the options of the table."""
SECURITY: Final = "security"
"""Option with the path of a file; `kafka.*` options override its settings."""
_TWICE: Final = "option."
"""Prefix of a second name of each option of a table."""


class RawOptions:
    """Options by their names in lower case, and the `kafka.*` ones without the prefix."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises RefusedOptionsError if the file of `security` cannot be read."""
        self._options = {
            name.lower(): value
            for name, value in options.items()
            if name.lower() not in _OF_TABLES and not name.startswith(_TWICE)
        }
        explicit = {
            name.removeprefix(PREFIX): value
            for name, value in self._options.items()
            if name.startswith(PREFIX)
        }
        self.kafka = over(_of_file(self.get(SECURITY)), explicit)

    def get(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def among(self, names: Iterable[str]) -> list[str]:
        """The `names` that are set."""
        return [name for name in names if self.get(name) is not None]

    def unknown(self, names: Iterable[str]) -> Iterator[str]:
        """An error for each option that is neither in `names` nor a `kafka.*` option."""
        lower = {name.lower(): name for name in names}
        for name in self._options:
            if name not in lower and not name.startswith(PREFIX):
                match = closest(name, lower)
                hint = f"; is it {lower[match]}?" if match else ""
                yield f"option {name} is not known{hint}"

    def refused(self, names: tuple[str, ...], why: str) -> Iterator[str]:
        """An error for each of `names` that is set."""
        return (f"option {name}: {why}" for name in self.among(names))

    def number(self, name: str, least: int = 1, most: int = INT64_MAX) -> int | None:
        text = self.get(name)
        return None if text is None else number(name, text, least, most)

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, values: tuple[str, ...], default: str) -> str:
        value = self.get(name)
        text = default if value is None else value.strip().lower()
        if text not in values:
            raise ConfigError(f"option {name} is {text!r}; it is one of {', '.join(values)}")
        return text


def _of_file(path: str | None) -> dict[str, str]:
    """The security settings of a properties file; others are ignored."""
    if path is None:
        return {}
    try:
        properties = read_properties(Path(path))
    except ConfigError as error:
        raise RefusedOptionsError([f"option {SECURITY}: {path} {error}"]) from None
    return {name: value for name, value in properties.items() if name in SECURITY_PROPERTIES}
