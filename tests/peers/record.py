"""Apache Kafka's responses, recorded anew: `make record [KAFKA=4.4.0] [ONLY=PATTERN]`.

    python -m tests.peers.record [--version 4.4.0] [--only PATTERN]…

For each profile of settings Kafka is started and played every scenario, as `recording.py` of
`packages/conformance` says. The recording takes the place of the one before, and what changed is
printed. With `--only` the other scenarios keep what they have; of a version that is not the
recorded one nothing is written then. Ends with 1 when a scenario was refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Collection, Mapping, Sequence

from tests.peers.kafka import VERSION, Kafka, KafkaUnavailableError, free_port

from kohort_conformance.catalogue import all_scenarios, matching
from kohort_conformance.recording import (
    Recording,
    api_versions,
    changes,
    completed,
    only,
    player,
    record,
)
from kohort_conformance.reference import MissingReferenceError, Range, Reference, load, write
from kohort_conformance.runner import UnreachableError
from kohort_conformance.scenario import DEFAULT, PROFILES


def record_all(version: str, patterns: Sequence[str]) -> tuple[Reference, Mapping[str, str]]:
    """What this version answers to the scenarios that match, and why others were refused.

    Raises KafkaUnavailableError and UnreachableError.
    """
    whole = Recording()
    apis: dict[int, Range] = {}
    features: dict[str, Range] = {}
    for profile, settings in PROFILES.items():
        scenarios = matching(all_scenarios(profile), patterns)
        if not scenarios and profile != DEFAULT:
            continue
        began = time.monotonic()
        with Kafka.start(free_port(neighbours=1), settings, version=version) as node:
            if profile == DEFAULT:
                apis, features = asyncio.run(api_versions(node.host, node.port))
            of_profile = record(player(node.host, node.port), scenarios)
        whole.steps |= of_profile.steps
        whole.refused |= of_profile.refused
        seconds = time.monotonic() - began
        print(f"{profile}: {len(scenarios)} scenarios in {seconds:.0f} s", file=sys.stderr)
    return Reference(f"Apache Kafka {version}", whole.steps, apis, features), whole.refused


def before_now() -> Reference:
    """The reference so far, or an empty one."""
    try:
        return load()
    except MissingReferenceError:
        return Reference("nothing", {})


def tell(before: Reference, recorded: Reference, played: Collection[str]) -> None:
    """Print what changed of the scenarios that were played, or of all."""
    names = {one.name for one in all_scenarios(None)}
    old = before if names <= played else only(before, played)
    for line in changes(old, recorded):
        print(line)


def keep(before: Reference, recorded: Reference, played: Collection[str], version: str) -> None:
    """Write what was recorded, unless it is a part of another version than the one before."""
    names = {one.name for one in all_scenarios(None)}
    if before.server != recorded.server and not names <= played:
        print(f"nothing is written: the recorded version is {before.server}")
        return
    whole = completed(recorded, before, names - played)
    print(f"{len(whole.steps)} scenarios are in {write(whole, version)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers.record", description=__doc__)
    parser.add_argument("--version", default=VERSION)
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[])
    options = parser.parse_args()
    before = before_now()
    try:
        recorded, refused = record_all(options.version, options.only)
    except (KafkaUnavailableError, UnreachableError) as error:
        print(f"make record: {error}", file=sys.stderr)
        return 2
    played = recorded.steps.keys() | refused.keys()
    tell(before, recorded, played)
    for name, why in refused.items():
        print(f"refused: {name}: {why}", file=sys.stderr)
    keep(before, recorded, played, options.version)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
