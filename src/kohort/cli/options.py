"""The options that `serve` and `config` share, and how they become a `Config`."""

import argparse
import os
from pathlib import Path
from typing import Final, NamedTuple

from kohort.errors import ConfigError, KohortError
from kohort.server.config import FLAG, Config, RawSetting, read_environment, read_sets, read_toml

REFUSED: Final = 2
"""Exit code if nothing was started: wrong options or configuration, a port or directory in use."""


class RefusedError(KohortError):
    """Ends the command with exit code 2; its text is all that the terminal gets."""


class Flag(NamedTuple):
    """A flag that sets one setting."""

    flag: str
    setting: str
    help: str
    metavar: str | None = None
    """None: the flag takes no value, and sets `means`."""
    means: object = None
    also: tuple[tuple[str, object], ...] = ()
    """More settings of a flag without a value, each with its value."""


FLAGS: Final = (
    Flag("--listen", "listeners", "address to listen on; port 0 takes a free one", "HOST:PORT"),
    Flag(
        "--advertise",
        "advertised.listeners",
        "address to which clients connect",
        "HOST:PORT",
    ),
    Flag("--data", "log.dir", "data directory; created if it does not exist", "DIR"),
    Flag("--storage", "storage", "where data is stored", "local|memory|postgresql://…"),
    Flag(
        "--memory",
        "storage",
        "keep all data in memory; it is lost when the server stops",
        means="memory",
        also=(("memory.restart.visible", True),),
    ),
    Flag(
        "--dev",
        "group.initial.rebalance.delay.ms",
        "development mode: groups do not wait for more members before a rebalance",
        means=0,
        also=(("group.consumer.assignment.interval.ms", 0),),
    ),
    Flag("--workers", "workers", "number of server processes, each with its own port", "N|auto"),
    Flag(
        "--durability",
        "durability",
        "what acknowledged records survive: a killed process (os) or a power loss (fsync)",
        "os|fsync",
    ),
    Flag(
        "--http",
        "http.listen",
        "address of the HTTP port for status pages and metrics; / lists its paths",
        "HOST:PORT",
    ),
    Flag(
        "--insecure",
        "insecure",
        "allow listeners that other machines can reach without authentication",
        means=True,
    ),
    Flag("--log-format", "logging.format", "format of the log lines", "text|json"),
    Flag(
        "--log-level",
        "logging.level",
        "lowest level that is logged: debug, info, warning or error",
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
        "--config",
        metavar="FILE",
        type=Path,
        help=("TOML file of settings (default: KOHORT_CONFIG)"),
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a Kafka setting; repeatable, overrides every other source",
    )


def load_config(options: argparse.Namespace) -> Config:
    """The configuration from options, environment and file. Raises RefusedError."""
    problems: list[str] = []
    settings = _read_flags(options, problems)
    settings += read_environment(os.environ, problems)
    settings += read_sets(options.set, problems)
    file = options.config or os.environ.get("KOHORT_CONFIG")
    if file:
        settings += read_toml(Path(file), problems)
    try:
        return Config.of(settings, problems)
    except ConfigError as error:
        raise RefusedError(str(error)) from error


def _read_flags(options: argparse.Namespace, problems: list[str]) -> list[RawSetting]:
    settings = []
    for flag in FLAGS:
        value = getattr(options, flag.flag[2:].replace("-", "_"))
        if value is None or value is False:
            continue
        settings.append(
            RawSetting(flag.setting, value if flag.metavar else flag.means, flag.flag, FLAG)
        )
        settings += [RawSetting(name, means, flag.flag, FLAG) for name, means in flag.also]
    if options.data is not None:
        settings.append(RawSetting("storage", "local", "--data", FLAG))
    storages = {setting.source: setting.value for setting in settings if setting.name == "storage"}
    if len({*storages.values()}) > 1:
        problems.append(f"{', '.join(storages)}: name different storages; choose one")
    return settings
