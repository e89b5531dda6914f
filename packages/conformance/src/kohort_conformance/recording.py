"""Records the reference: `python -m kohort_conformance record HOST:PORT` of an Apache Kafka.

The suite is run several times, and only responses that are the same each time are written: a
scenario whose response differs on Kafka itself is reported and refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kohort_conformance.catalogue import all_scenarios
from kohort_conformance.comparing import Difference, differences
from kohort_conformance.reference import SERVER, dump, parse, path_in_source_tree
from kohort_conformance.runner import Run, UnreachableError, run_all
from kohort_conformance.scenario import DEFAULT, PROFILES
from kohort_conformance.transcript import Step


def record(host: str, port: int, times: int, profile: str) -> tuple[list[Run], list[Difference]]:
    """The runs of the first pass, and the differences of later passes."""
    passes = [asyncio.run(run_all(host, port, all_scenarios(profile))) for _ in range(times)]
    return passes[0], [one for later in passes[1:] for one in unstable(passes[0], later)]


def unstable(first: Sequence[Run], second: Sequence[Run]) -> list[Difference]:
    """How two passes over one server differ."""
    pairs = zip(first, second, strict=True)
    return [
        item
        for one, other in pairs
        for item in differences(one.scenario.name, one.steps, other.steps)
    ]


def _before(path: Path) -> Mapping[str, Sequence[Step]]:
    return parse(path.read_text(encoding="utf-8")).steps if path.exists() else {}


def _names_of_others(profile: str) -> set[str]:
    return {one.name for one in all_scenarios(None) if one.profile != profile}


def main(arguments: Sequence[str]) -> int:
    """Record as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m kohort_conformance record", description=__doc__
    )
    parser.add_argument("address", metavar="HOST:PORT")
    parser.add_argument("--times", type=int, default=2, help="passes that must agree")
    parser.add_argument(
        "--profile", choices=PROFILES, default=DEFAULT, help="what the server is configured to be"
    )
    parser.add_argument("--to", type=Path, default=path_in_source_tree(), metavar="FILE")
    parser.add_argument("--server", default=SERVER, help="the server's name and version")
    options = parser.parse_args(arguments)
    host, _, port = options.address.rpartition(":")
    try:
        runs, changed = record(host, int(port), options.times, options.profile)
    except UnreachableError as error:
        print(error, file=sys.stderr)
        return 2
    for item in changed:
        print(
            f"{item.scenario} {item.step} {item.field}: {item.expected!r}, then {item.got!r}",
            file=sys.stderr,
        )
    if changed:
        return 1
    others = {
        name: steps
        for name, steps in _before(options.to).items()
        if name in _names_of_others(options.profile)
    }
    options.to.write_text(
        dump(options.server, {**others, **{one.scenario.name: one.steps for one in runs}})
    )
    print(f"{len(runs)} scenarios written to {options.to}")
    return 0
