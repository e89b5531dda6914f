"""Records the responses of an Apache Kafka: `make record [KAFKA=4.4.0] [ONLY=PATTERN]`.

    python -m tests.peers.record [--version 4.4.0] [--only PATTERN]…

Starts a Kafka for each profile of settings and records all scenarios of the profile on it, as
described in `recording.py` of `packages/conformance`. Prints what changed, and replaces the former
recording. With `--only` the other scenarios keep their steps; if the version is not the recorded
one, nothing is written then. The exit code is 1 if a scenario was refused.
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
    """The responses of this version to the scenarios that match, and why some were refused.

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


def keep(before: Reference, recorded: Reference, unplayed: Collection[str], version: str) -> None:
    """Write the recording, unless it is partial and the one before is of another version."""
    if unplayed and before.server != recorded.server:
        print(f"nothing is written: the recorded version is {before.server}")
        return
    whole = completed(recorded, before, unplayed)
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
    unplayed = {one.name for one in all_scenarios(None)} - played
    for line in changes(only(before, played) if unplayed else before, recorded):
        print(line)
    for name, why in refused.items():
        print(f"refused: {name}: {why}", file=sys.stderr)
    keep(before, recorded, unplayed, options.version)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
