"""The options that `serve` and `config` share, and how they become a `Config`."""

import argparse
import os
from pathlib import Path
from typing import Final, NamedTuple

from kohort.errors import ConfigError, KohortError
from kohort.server.config import FLAG, Config, Given, read_environment, read_sets, read_toml

REFUSED: Final = 2
"""Exit code when nothing was started: wrong options or configuration, a port or directory in use.
"""


class RefusedError(KohortError):
    """Ends the command with exit code 2; its text is all that the terminal gets."""


class Flag(NamedTuple):
    """A flag that stands for one setting."""

    flag: str
    setting: str
    help: str
    metavar: str | None = None
    """None: the flag takes no value, but stands for `means`."""
    means: object = None
    also: tuple[tuple[str, object], ...] = ()
    """Further settings of a flag without a value, and what they are by it."""


FLAGS: Final = (
    Flag("--listen", "listeners", "address to listen on; port 0 takes a free one", "HOST:PORT"),
    Flag(
        "--advertise",
        "advertised.listeners",
        "address that clients are told to connect to",
        "HOST:PORT",
    ),
    Flag("--data", "log.dir", "directory of all data, made if missing", "DIR"),
    Flag("--storage", "storage", "place of all data", "local|memory|postgresql://…"),
    Flag(
        "--memory",
        "storage",
        "keep all in memory: gone when the server ends",
        means="memory",
        also=(("memory.restart.visible", True),),
    ),
    Flag(
        "--dev",
        "group.initial.rebalance.delay.ms",
        "for development: groups do not wait for more members",
        means=0,
        also=(("group.consumer.assignment.interval.ms", 0),),
    ),
    Flag(
        "--workers", "workers", "processes that share the work, each on a port of its own", "N|auto"
    ),
    Flag(
        "--durability",
        "durability",
        "what acknowledged data survives: a killed process, or power loss",
        "os|fsync",
    ),
    Flag(
        "--http",
        "http.listen",
        "open a port for people and Prometheus: / lists its paths",
        "HOST:PORT",
    ),
    Flag(
        "--insecure",
        "insecure",
        "allow addresses that others can reach, though nobody is authenticated",
        means=True,
    ),
    Flag("--log-format", "logging.format", "form of the log lines", "text|json"),
    Flag(
        "--log-level",
        "logging.level",
        "debug, info, warning or error: the least that is written",
        "LEVEL",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that make a configuration."""
    for flag in FLAGS:
        if flag.metavar is None:
            parser.add_argument(flag.flag, action="store_true", help=flag.help)
        else:
            parser.add_argument(flag.flag, metavar=flag.metavar, help=flag.help)
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help=("TOML file of settings; also KOHORT_CONFIG")
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="one setting by its Kafka name; repeatable, and stronger than all else",
    )


def load_config(options: argparse.Namespace) -> Config:
    """The configuration from options, environment and file. Raises RefusedError."""
    problems: list[str] = []
    given = _read_flags(options, problems)
    given += read_environment(os.environ, problems)
    given += read_sets(options.set, problems)
    file = options.config or os.environ.get("KOHORT_CONFIG")
    if file:
        given += read_toml(Path(file), problems)
    try:
        return Config.of(given, problems)
    except ConfigError as error:
        raise RefusedError(str(error)) from error


def _read_flags(options: argparse.Namespace, problems: list[str]) -> list[Given]:
    given = []
    for flag in FLAGS:
        value = getattr(options, flag.flag[2:].replace("-", "_"))
        if value is None or value is False:
            continue
        given.append(Given(flag.setting, value if flag.metavar else flag.means, flag.flag, FLAG))
        given += [Given(name, means, flag.flag, FLAG) for name, means in flag.also]
    if options.data is not None:
        given.append(Given("storage", "local", "--data", FLAG))
    places = {each.source: each.value for each in given if each.name == "storage"}
    if len({*places.values()}) > 1:
        problems.append(f"{', '.join(places)}: these name different places of all data; choose one")
    return given
