"""Sources of settings: a TOML file, the environment, `--set NAME=VALUE`.

Each reader returns `RawSetting`s and appends errors of syntax to `problems`. Names and values are
validated later, all together, so that one run reports every error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from kohort.server.config.table import TABLE
from kohort.util.text import did_you_mean

PREFIX: Final = "KOHORT_"

# Not settings: what the command line, the demo and the tests read themselves, and what Kubernetes
# puts into every pod beside a service that is called "kohort" (KOHORT_SERVICE_HOST,
# KOHORT_PORT_9092_TCP_ADDR, ...).
_NOT_SETTINGS = re.compile(
    r"KOHORT_(BOOTSTRAP|CONFIG|PROFILE|SECURITY|(DEMO|TEST|BENCH|INTEROP|CONFORMANCE|SERVICE)_.*|PORT(_\d+_.*)?)"
)
_BY_ENVIRONMENT: Final = {definition.environment: name for name, definition in TABLE.items()}


class RawSetting(NamedTuple):
    """One setting as text or TOML value, before it is parsed."""

    name: str
    value: object
    source: str
    """For people: `kohort.toml`, `KOHORT_NUM_PARTITIONS`, `--set`."""
    rank: int
    """The setting of a name with the highest rank wins; the later one of two with the same rank."""


DEFAULT, FILE, ENVIRONMENT, FLAG, SET, ALL_BROKERS, ONE_BROKER = range(7)
"""Ranks. The last two are of settings that clients make while the server runs."""


class Source(IntEnum):
    """Source of a value in DescribeConfigs (Kafka's ConfigSource)."""

    TOPIC = 1
    ONE_BROKER = 2
    ALL_BROKERS = 3
    BROKER = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def of_rank(cls, rank: int) -> "Source":
        """The source of a broker config."""
        of_ranks = {
            DEFAULT: cls.DEFAULT,
            ALL_BROKERS: cls.ALL_BROKERS,
            ONE_BROKER: cls.ONE_BROKER,
        }
        return of_ranks.get(rank, cls.BROKER)


def read_toml(path: Path, problems: list[str]) -> list[RawSetting]:
    """Settings of a file, written as dotted keys, as tables, or quoted."""
    import tomllib

    try:
        # Editors on Windows begin UTF-8 with a byte-order mark.
        tree = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        problems.append(f"{path}: is not UTF-8")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{path}: {error}{_hint(str(error))}")
    else:
        return [RawSetting(name, value, path.name, FILE) for name, value in _flat(tree)]
    return []


def _hint(error: str) -> str:
    # To TOML, max.connections cannot be a number and hold max.connections.per.ip; to Kafka it can.
    if "overwrite" in error or "redefine" in error or "twice" in error or "declare" in error:
        return '; if one name begins with another, quote both: "max.connections.per.ip" = 10'
    return ""


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def read_environment(environment: Mapping[str, str], problems: list[str]) -> list[RawSetting]:
    """Settings of variables like KOHORT_GROUP_MIN_SESSION_TIMEOUT_MS."""
    raw_settings = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or _NOT_SETTINGS.fullmatch(variable):
            continue
        if variable in _BY_ENVIRONMENT:
            raw_settings.append(RawSetting(_BY_ENVIRONMENT[variable], value, variable, ENVIRONMENT))
        else:
            problems.append(f"{variable}: unknown name{did_you_mean(variable, _BY_ENVIRONMENT)}")
    return raw_settings


def read_sets(pairs: Iterable[str], problems: list[str]) -> list[RawSetting]:
    """Settings of `--set NAME=VALUE`."""
    raw_settings = []
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if separator:
            raw_settings.append(RawSetting(name.strip(), value, "--set", SET))
        else:
            problems.append(f"--set {pair}: is not NAME=VALUE")
    return raw_settings
