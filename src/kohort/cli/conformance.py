"""Compare a server's responses with Apache Kafka's, field by field, over raw requests.

The scenarios create groups and topics with names of their own and remove them. With a
group.initial.rebalance.delay.ms other than 0 the first joins take that long, and with a
group.consumer.assignment.interval.ms other than 0 targets come later than recorded. Exit code 1
when responses differ.
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.client.admin import Admin, ConfigResource
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.conformance.catalogue import all_scenarios, matching
from kohort.conformance.reference import MissingReferenceError, Reference, load
from kohort.conformance.report import Report, as_json, judge, print_table
from kohort.conformance.runner import Run, UnreachableError, run_all
from kohort.conformance.scenario import DEFAULT, PROFILES, Scenario
from kohort.errors import KohortError, unless_error

OUTPUTS: Final = ("table", "json")
RECORDED_WITH: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "memory.restart.visible": "false",
}
"""Settings without which responses differ; others have the defaults, or those of the profile."""
SETTINGS_S: Final = 10.0
"""How long the server may take to tell its settings."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="HOST:PORT", nargs="?", help="the server to compare")
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        default=[],
        help="scenarios by name, as in static_members or '*.join*'",
    )
    parser.add_argument(
        "--profile",
        metavar="|".join(PROFILES),
        default=DEFAULT,
        help="what the server is configured to be: small has group.max.size=2 and short "
        "limits (default: default)",
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and end")
    parser.add_argument(
        "--output",
        metavar="|".join(OUTPUTS),
        default="table",
        help="form of the report (default: table)",
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if options.output not in OUTPUTS:
        raise RefusedError(f"--output {options.output}: is not one of {' | '.join(OUTPUTS)}")
    if options.profile not in PROFILES:
        raise RefusedError(f"--profile {options.profile}: is not one of {' | '.join(PROFILES)}")
    scenarios = matching(all_scenarios(options.profile), options.only)
    if not scenarios:
        raise RefusedError(
            f"no scenario matches {' or '.join(options.only)}; see kohort conformance --list"
        )
    if options.list:
        return _list(scenarios)
    host, port = _address(options.address)
    try:
        reference = load()
    except MissingReferenceError as error:
        raise RefusedError(str(error)) from None
    report = _compare(host, port, scenarios, reference)
    if options.output == "json":
        print(as_json(report))
    else:
        from rich.console import Console

        print_table(report, Console(width=None if sys.stdout.isatty() else 200))
    if not report.conforms and options.profile == DEFAULT:
        _tell_settings(options.address)
    return 0 if report.conforms else 1


def _list(scenarios: Sequence[Scenario]) -> int:
    for one in scenarios:
        print(f"{one.name:<60} {one.title}")
    return 0


def _address(text: str | None) -> tuple[str, int]:
    if text is None:
        raise RefusedError("conformance needs the HOST:PORT of a server")
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise RefusedError(f"{text}: is not HOST:PORT")
    return host.strip("[]"), int(port)


def _tell_settings(address: str) -> None:
    if differing := asyncio.run(differing_settings(address)):
        recorded = {name: RECORDED_WITH[name] for name in differing}
        print_message(
            f"the server has {_told(differing)}; Kafka's responses were recorded with "
            f"{_told(recorded)}, as by kohort serve --dev"
        )


def _told(settings: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


async def differing_settings(address: str) -> dict[str, str | None]:
    """Those of `RECORDED_WITH` that the server has otherwise; none if it does not tell."""
    with suppress(KohortError, TimeoutError):
        async with asyncio.timeout(SETTINGS_S), Cluster(ClientConfig(bootstrap=address)) as cluster:
            broker = ConfigResource("broker", str(min((await cluster.metadata()).brokers)))
            found = unless_error((await Admin(cluster).describe_configs([broker]))[broker])
            return {
                name: found[name].value
                for name, value in RECORDED_WITH.items()
                if name in found and found[name].value != value
            }
    return {}


def _compare(host: str, port: int, scenarios: Sequence[Scenario], reference: Reference) -> Report:
    """Run the scenarios, with a counter if stderr is a terminal. Raises RefusedError."""
    seen = 0

    def done(_: Run) -> None:
        nonlocal seen
        seen += 1
        print(f"\r{seen} of {len(scenarios)} scenarios", end="", file=sys.stderr, flush=True)

    watched = sys.stderr.isatty()
    try:
        runs = asyncio.run(run_all(host, port, scenarios, done=done if watched else lambda _: None))
    except UnreachableError as error:
        raise RefusedError(str(error)) from error
    if watched:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return judge(f"{host}:{port}", reference, runs)
