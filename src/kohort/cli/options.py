"""The options that `serve` and `config` share, and how they become a `Config`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from kohort.errors import ConfigError
from kohort.server.config import Config
from kohort.server.config_sources import FLAG, Given, read_environment, read_sets, read_toml

REFUSED = 2
"""Exit code when nothing was started: wrong options or configuration, a port or directory in use."""

Listen = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address to listen on; port 0 takes a free one.")]
Advertise = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Address that clients are told to connect to.")
]
Data = Annotated[str | None, typer.Option(metavar="DIR", help="Directory of all data, made if missing.")]
Memory = Annotated[bool, typer.Option("--memory", help="Keep everything in memory: gone when the server ends.")]
Dev = Annotated[bool, typer.Option("--dev", help="For development: no initial rebalance delay.")]
Durability = Annotated[
    str | None,
    typer.Option(metavar="os|fsync", help="What an acknowledged append survives: a killed process, or a power loss."),
]
Http = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Open a port with /metrics, /health and /groups.")]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="Allow addresses that other machines can reach; there is no authentication."),
]
File = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="TOML file of settings.", envvar="KOHORT_CONFIG"),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="One setting by its Kafka name; repeatable."),
]
LogFormat = Annotated[str | None, typer.Option(metavar="text|json", help="Form of the log lines.")]
LogLevel = Annotated[
    str | None,
    typer.Option(metavar="LEVEL", help="debug, info, warning or error: the least severe line written."),
]


def load_config(
    *,
    listen: str | None = None,
    advertise: str | None = None,
    data: str | None = None,
    memory: bool = False,
    dev: bool = False,
    durability: str | None = None,
    http: str | None = None,
    insecure: bool = False,
    file: Path | None = None,
    sets: Sequence[str] = (),
    log_format: str | None = None,
    log_level: str | None = None,
) -> Config:
    """The configuration that the options, the environment and the file make. Raises ConfigError."""
    named = (
        ("listeners", listen, "--listen"),
        ("advertised.listeners", advertise, "--advertise"),
        ("log.dir", data, "--data"),
        ("storage", None if data is None else "local", "--data"),
        ("storage", "memory" if memory else None, "--memory"),
        ("group.initial.rebalance.delay.ms", 0 if dev else None, "--dev"),
        ("durability", durability, "--durability"),
        ("http.listen", http, "--http"),
        ("insecure", insecure or None, "--insecure"),
        ("logging.format", log_format, "--log-format"),
        ("logging.level", log_level, "--log-level"),
    )
    problems = ["--memory: choose it or --data, not both"] if memory and data is not None else []
    given = [Given(name, value, flag, FLAG) for name, value, flag in named if value is not None]
    given += read_environment(os.environ, problems)
    given += read_sets(sets, problems)
    if file is not None:
        given += read_toml(file, problems)
    return Config.of(given, problems)


def load_config_or_exit(**options: object) -> Config:
    """`load_config`, but what is wrong is printed and ends the process with exit code 2."""
    try:
        return load_config(**options)  # type: ignore[arg-type]
    except ConfigError as error:
        refuse(str(error))


def refuse(why: str) -> NoReturn:
    """Say on standard error why nothing was started, and end with exit code 2."""
    print(f"kohort: {why}", file=sys.stderr)
    raise typer.Exit(REFUSED)
