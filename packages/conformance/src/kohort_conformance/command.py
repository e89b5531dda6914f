"""Compare a server's responses with Apache Kafka's, field by field, over raw requests.

The scenarios create groups and topics with names of their own and remove them. With a
group.initial.rebalance.delay.ms other than 0 the first joins take that long, and with a
group.consumer.assignment.interval.ms other than 0 targets come later than recorded. Exit code 1
when responses differ, 2 when nothing can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kohort_conformance.catalogue import all_scenarios, matching
from kohort_conformance.reference import MissingReferenceError, load
from kohort_conformance.report import Report, as_json, judge, print_table
from kohort_conformance.runner import Run, UnreachableError, run_all
from kohort_conformance.scenario import DEFAULT, PROFILES, Scenario
from kohort_conformance.settings import RECORDED_WITH, differing_settings

OUTPUTS: Final = ("table", "json")
REFUSED: Final = 2


class NotComparedError(Exception):
    """The options are wrong, or no server was reached; the text says so in one line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="HOST:PORT", nargs="?", help="address of the server to compare"
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        default=[],
        help="run only these scenarios, by name or pattern, as static_members or '*.join*'",
    )
    parser.add_argument(
        "--profile",
        metavar="|".join(PROFILES),
        default=DEFAULT,
        help="configuration of the server; small has group.max.size=2 and short limits (default: "
        "default)",
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    parser.add_argument(
        "--output",
        metavar="|".join(OUTPUTS),
        default="table",
        help="format of the report (default: table)",
    )


def main(arguments: Sequence[str]) -> int:
    """Compare as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m kohort_conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except NotComparedError as error:
        _warn(str(error))
        return REFUSED


def _warn(text: str) -> None:
    print(f"kohort_conformance: {text}", file=sys.stderr)


def run(options: argparse.Namespace, warn: Callable[[str], None] = _warn) -> int:
    """Compare, and print the report; `warn` gets what else there is to know.

    Returns the exit code. Raises NotComparedError.
    """
    scenarios = _chosen(options)
    if options.list:
        return _list(scenarios)
    host, port = _address(options.address)
    report = _compare(host, port, scenarios)
    if options.output == "json":
        print(as_json(report))
    else:
        from rich.console import Console

        print_table(report, Console(width=None if sys.stdout.isatty() else 200))
    if not report.conforms and options.profile == DEFAULT:
        _tell_settings(host, port, warn)
    return 0 if report.conforms else 1


def _chosen(options: argparse.Namespace) -> Sequence[Scenario]:
    if options.output not in OUTPUTS:
        raise NotComparedError(f"--output {options.output}: is not one of {' | '.join(OUTPUTS)}")
    if options.profile not in PROFILES:
        raise NotComparedError(f"--profile {options.profile}: is not one of {' | '.join(PROFILES)}")
    scenarios = matching(all_scenarios(options.profile), options.only)
    if not scenarios:
        raise NotComparedError(f"no scenario matches {' or '.join(options.only)}; see --list")
    return scenarios


def _list(scenarios: Sequence[Scenario]) -> int:
    for one in scenarios:
        print(f"{one.name:<60} {one.title}")
    return 0


def _address(text: str | None) -> tuple[str, int]:
    if text is None:
        raise NotComparedError("conformance needs the HOST:PORT of a server")
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise NotComparedError(f"{text}: is not HOST:PORT")
    return host.strip("[]"), int(port)


def _tell_settings(host: str, port: int, warn: Callable[[str], None]) -> None:
    if differing := asyncio.run(differing_settings(host, port)):
        recorded = {name: RECORDED_WITH[name] for name in differing}
        warn(
            f"the server has {_listed(differing)}; Kafka's responses were recorded with "
            f"{_listed(recorded)}"
        )


def _listed(settings: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _compare(host: str, port: int, scenarios: Sequence[Scenario]) -> Report:
    """Run the scenarios, with a counter if stderr is a terminal. Raises NotComparedError."""
    try:
        reference = load()
        return judge(f"{host}:{port}", reference, _run(host, port, scenarios))
    except (MissingReferenceError, UnreachableError) as error:
        raise NotComparedError(str(error)) from error


def _run(host: str, port: int, scenarios: Sequence[Scenario]) -> list[Run]:
    seen = 0

    def done(_: Run) -> None:
        nonlocal seen
        seen += 1
        print(f"\r{seen} of {len(scenarios)} scenarios", end="", file=sys.stderr, flush=True)

    watched = sys.stderr.isatty()
    runs = asyncio.run(run_all(host, port, scenarios, done=done if watched else lambda _: None))
    if watched:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return runs
