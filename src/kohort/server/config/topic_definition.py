"""Definition of one topic config: type, parsing and validation, with Kafka's error texts.

The broker's own configuration has rules of its own (`config_def.py`), which help a person at a
terminal. These are sent to clients, where tools and tests compare the text, so they say what
Kafka says.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from kohort.errors import ErrorCode, KafkaError
from kohort.server.config.definition import INT_MAX, LONG_MAX, Kind, Value
from kohort.server.config.java_double import java_double

__all__ = ["INT_MAX", "LONG_MAX", "TopicConfig", "replica_list", "split_list"]

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)")
"""What Java's Double.parseDouble reads, without hexadecimal numbers."""
_WIDTH = {"int": INT_MAX, "long": LONG_MAX}
_THROTTLED = re.compile(r"[0-9]+:[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One row of the table. `doc` says what the config does in Kohort."""

    name: str
    kind: Kind
    default: Value
    doc: str
    minimum: int | None = None
    maximum: int | None = None
    excluded: tuple[int, ...] = ()
    """Values inside the range that are refused all the same."""
    range_text: str | None = None
    """Kafka's words for a range of an unusual form."""
    choices: tuple[str, ...] = ()
    broker: tuple[str, ...] = ()
    """Broker configs that it defaults to; the first, which holds the resolved value, is Kafka's
    synonym.
    """
    internal: bool = False
    """Whether it is described only where it is set."""
    synonym: str | None = None
    """Kafka's broker config that it defaults to, and that Kohort does not have."""
    set_on_clusters: bool = False
    """Whether a new cluster of Kafka sets the default on all brokers, where tools see it as set."""
    check: Callable[[str, tuple[str, ...]], None] | None = None
    """Judges a list as a whole: (name of the config, words)."""

    def parse(self, text: str) -> Value:
        """The typed value. Raises KafkaError INVALID_CONFIG, with Kafka's text, if refused."""
        text = text.strip()
        match self.kind:
            case "boolean":
                return self._boolean(text)
            case "int" | "long":
                return self._in_range(self._integer(text))
            case "double":
                return self._in_range(self._double(text))
            case "list":
                return self._list(text)
            case _:
                return self._chosen(text)

    def _boolean(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            self._refuse(text, "Expected value to be either true or false")
        return text.lower() == "true"

    def _integer(self, text: str) -> int:
        most = _WIDTH[self.kind]
        if not _INTEGER.fullmatch(text) or not -most - 1 <= int(text) <= most:
            self._refuse(text, f"Not a number of type {self.kind.upper()}")
        return int(text)

    def _double(self, text: str) -> float:
        # float() would also take 1_000, other scripts' digits and "inf".
        if not _DOUBLE.fullmatch(text):
            self._refuse(text, "Not a number of type DOUBLE")
        return float(text.rstrip("dDfF"))

    def _in_range(self, value: int | float) -> int | float:
        low, high = self.minimum, self.maximum
        too_low, too_high = low is not None and value < low, high is not None and value > high
        if self.range_text and (too_low or too_high or value in self.excluded):
            self._refuse(value, self.range_text)
        if too_high:
            self._refuse(value, f"Value must be no more than {high}")
        if too_low or value != value:
            self._refuse(value, f"Value must be at least {low}")
        return value

    def _chosen(self, word: str) -> str:
        if self.choices and word not in self.choices:
            self._refuse(word, f"String must be one of: {', '.join(self.choices)}")
        return word

    def _list(self, text: str) -> tuple[str, ...]:
        words = split_list(text)
        if "" in words:
            raise KafkaError(
                ErrorCode.invalid_config, (f"Configuration '{self.name}' values must not be empty.")
            )
        for word in words:
            self._chosen(word)
        if self.check is not None:
            self.check(self.name, words)
        return words

    def _refuse(self, value: object, why: str) -> NoReturn:
        text = java_double(value) if isinstance(value, float) else value
        raise KafkaError(
            ErrorCode.invalid_config,
            f"Invalid value {text} for configuration {self.name}: {why}",
        )


def split_list(text: str) -> tuple[str, ...]:
    """The words of a list as Kafka reads it: an empty text has none."""
    return tuple(word.strip() for word in text.split(",")) if text.strip() else ()


def replica_list(name: str, words: tuple[str, ...]) -> None:
    """Pairs of partition and broker, or "*". Raises KafkaError INVALID_CONFIG."""
    if words != ("*",) and not all(_THROTTLED.fullmatch(word) for word in words):
        raise KafkaError(
            ErrorCode.invalid_config,
            f"Invalid value [{', '.join(words)}] for configuration {name}: {name} must "
            "be the literal '*' or a list "
            "of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
