"""Options of all commands that connect to a cluster, and running such a command to its exit code.

`--bootstrap` and `--command-config` are Kafka's, `-b`, `-X` and `-F` kcat's. A properties file may
have any name that Java's or librdkafka's clients know. Those of the connection are used, others are
ignored, so that another tool's file can be used. An unknown name in `-X` is refused. `--security`
is another name of `--command-config`, `--profile NAME` one of ~/.config/kohort/NAME.properties.
Without an option, KOHORT_PROFILE or KOHORT_SECURITY name the file, KOHORT_BOOTSTRAP the servers.
"""

import argparse
import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Final

from kohort.cli.exit_codes import FAILED
from kohort.cli.librdkafka_names import WITHOUT_COUNTERPART
from kohort.cli.opened_cluster import opened_cluster
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.properties import (
    DURATION_FIELDS,
    LIBRDKAFKA,
    RECOVERY_PROPERTIES,
    in_javas_names,
    over,
    read_properties,
    recovery_fields,
)
from kohort.client.security import SECURITY_PROPERTIES, security_of_properties
from kohort.errors import ConfigError, KohortError
from kohort.util.printable import PrintableFormatter
from kohort.util.text import did_you_mean

TIMEOUT_MS: Final = 30_000
REQUEST_TIMEOUT_MS: Final = 30_000
SECURITY_FILE: Final = "KOHORT_SECURITY"
"""Environment variable with the path of the file of `--command-config`."""

BOOTSTRAP: Final = "KOHORT_BOOTSTRAP"
"""Environment variable with the servers to connect to."""
PROFILE: Final = "KOHORT_PROFILE"
"""Environment variable with the name of a profile."""

_PROPERTIES: Final = ".properties"
_NAMES: Final = DURATION_FIELDS | {
    "bootstrap.servers": "bootstrap",
    "client.id": "client_id",
}
_PORT: Final = 9092


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        help="bootstrap servers, with port 9092 unless given (default: bootstrap.servers of -X, "
        "--command-config or --profile, then KOHORT_BOOTSTRAP, then localhost)",
    )
    add(
        "-F",
        "--command-config",
        "--security",
        metavar="FILE",
        type=Path,
        help="properties file of a Java or librdkafka client (default: KOHORT_SECURITY)",
    )
    add(
        "--profile",
        metavar="NAME",
        help="use ~/.config/kohort/NAME.properties as --command-config (default: KOHORT_PROFILE)",
    )
    add(
        "-X",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="properties",
        help="set a client property; repeatable",
    )
    add(
        "--timeout",
        metavar="MS",
        type=int,
        help="time to wait for a broker, in ms (default: 30000; none if this machine refuses "
        "the connection)",
    )


def timeout_ms(options: argparse.Namespace) -> int:
    """How long the command tries."""
    return TIMEOUT_MS if options.timeout is None else options.timeout


def client_config(
    options: argparse.Namespace, properties: Mapping[str, str] | None = None
) -> ClientConfig:
    """Raises RefusedError."""
    try:
        return _config(options, client_properties(options) if properties is None else properties)
    except ConfigError as error:
        raise RefusedError(str(error)) from error


def client_properties(
    options: argparse.Namespace, command_names: Iterable[str] = ()
) -> dict[str, str]:
    """The properties of the file, `-X` and `--bootstrap` by Java's names.

    Later ones override earlier ones. `command_names`: Java's names of the command's own properties.
    Other properties of the file are ignored. Raises RefusedError.
    """
    readable = {*_NAMES, *RECOVERY_PROPERTIES, *SECURITY_PROPERTIES, *command_names}
    readable |= {alias for alias, name in LIBRDKAFKA.items() if name in readable}
    try:
        properties = over(
            _ambient_properties(options, readable),
            _explicit_properties(options.properties, readable),
        )
        if options.bootstrap is not None:
            properties = over(properties, {"bootstrap.servers": options.bootstrap})
        properties = in_javas_names(properties)
    except ConfigError as error:
        raise RefusedError(str(error)) from error
    if servers := properties.get("bootstrap.servers"):
        properties["bootstrap.servers"] = ",".join(map(_with_port, servers.split(",")))
    return properties


def _config(options: argparse.Namespace, properties: Mapping[str, str]) -> ClientConfig:
    timeout = timeout_ms(options)
    if timeout < 1:
        raise ConfigError(f"--timeout {timeout}: is not a number of milliseconds")
    fields: dict[str, Any] = {
        "default_api_timeout_ms": timeout,
        "request_timeout_ms": min(timeout, REQUEST_TIMEOUT_MS),
        **{
            _NAMES[name]: _typed(name, value)
            for name, value in properties.items()
            if name in _NAMES
        },
        **recovery_fields(properties),
    }
    return ClientConfig(**fields, security=security_of_properties(properties))


def _with_port(server: str) -> str:
    """HOST:PORT of HOST, as in librdkafka."""
    host = server.strip().rpartition("://")[2]
    named = host.endswith("]") if host.startswith("[") else ":" not in host
    return f"{host}:{_PORT}" if host and named else server


def _typed(name: str, value: str) -> int | str:
    if not name.endswith(".ms"):
        return value
    if not value.strip().isdecimal():
        raise ConfigError(f"{name}={value}: is not a number of milliseconds")
    return int(value)


def _explicit_properties(pairs: Iterable[str], readable: Set[str]) -> dict[str, str]:
    """The properties of `-X`. Raises ConfigError."""
    properties: dict[str, str] = {}
    for word in pairs:
        name, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"-X {word}: is not NAME=VALUE")
        if name in WITHOUT_COUNTERPART - readable:
            raise ConfigError(
                f"-X {name}: is a librdkafka property that kohort does not support; leave it out"
            )
        if name not in readable:
            raise ConfigError(f"-X {name}: unknown property{did_you_mean(name, sorted(readable))}")
        if properties.setdefault(name, value) != value:
            raise ConfigError(f"-X {name}: is given twice, with different values")
    return properties


def _ambient_properties(options: argparse.Namespace, readable: Set[str]) -> dict[str, str]:
    """The properties of a file and of KOHORT_BOOTSTRAP, which overrides a file of the environment.

    Raises ConfigError.
    """
    source, path = _file(options)
    servers = os.environ.get(BOOTSTRAP)
    servers_property = {"bootstrap.servers": servers} if servers else {}
    if path is None:
        return servers_property
    try:
        properties = read_properties(path)
    except ConfigError as error:
        raise ConfigError(f"{source} {path}: {error}") from None
    file = {name: value for name, value in properties.items() if name in readable}
    return over(servers_property, file) if source.startswith("-") else over(file, servers_property)


def _file(options: argparse.Namespace) -> tuple[str, Path | None]:
    """The option or variable that names the properties file, and its path. Raises ConfigError."""
    if options.command_config is not None and options.profile is not None:
        raise ConfigError("--command-config and --profile: choose one of them")
    if options.command_config is not None:
        return "--command-config", options.command_config
    if options.profile is not None:
        return "--profile", _profile("--profile", options.profile)
    if name := os.environ.get(PROFILE):
        return PROFILE, _profile(PROFILE, name)
    path = os.environ.get(SECURITY_FILE)
    return SECURITY_FILE, Path(path) if path else None


def _profile(source: str, name: str) -> Path:
    """The file of a profile. Raises ConfigError if there is none."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    directory = Path(base, "kohort")
    path = directory / f"{name}{_PROPERTIES}"
    if path.is_file():
        return path
    profiles = sorted(path_of_profile.stem for path_of_profile in directory.glob(f"*{_PROPERTIES}"))
    if name.endswith(_PROPERTIES) or Path(name).name != name or Path(name).is_file():
        stem = Path(name).stem
        profile = f", and {source} {stem} is a profile" if stem in profiles else ""
        file = SECURITY_FILE if source == PROFILE else "--command-config"
        raise ConfigError(
            f"{source} {name}: is a file, not the NAME of {directory}/NAME{_PROPERTIES}; "
            f"{file} {name} reads a file{profile}"
        )
    raise ConfigError(f"{source} {name}: there is no {path}{did_you_mean(name, profiles)}")


def run_with_cluster(options: argparse.Namespace, work: Callable[[Cluster], Awaitable[int]]) -> int:
    """Run `work` to an exit code.

    An error is one line on stderr and code 1. Raises RefusedError.
    """
    config = client_config(options)

    async def connected() -> int:
        async with opened_cluster(options, config) as cluster:
            return await work(cluster)

    return run_to_exit_code(connected())


def run_with_admin(options: argparse.Namespace, work: Callable[[Admin], Awaitable[int]]) -> int:
    """As `run_with_cluster`."""
    return run_with_cluster(options, lambda cluster: work(Admin(cluster)))


def _print_log_lines() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter("kohort: %(message)s"))
    logging.basicConfig(handlers=[handler])


def run_to_exit_code(work: Awaitable[int]) -> int:
    """Run `work`; an error is one line on stderr and exit code 1. Raises RefusedError."""

    _print_log_lines()

    async def awaited() -> int:
        return await work

    try:
        return asyncio.run(awaited())
    except RefusedError:
        raise
    except ConfigError as error:
        raise RefusedError(str(error)) from error
    except KohortError as error:
        print_message(str(error))
        return FAILED
