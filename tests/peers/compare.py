"""Servers held against a live Apache Kafka, answer by answer: `make conformance`.

    python -m tests.peers.compare [PEER…] [--only PATTERN]… [--markdown]

For each profile of settings Kafka is started, played every scenario and compared with the answers
recorded in the package; then each peer (Kohort when none is named: kohort, kfake, mock, tansu, or
HOST:PORT) is played the same and compared with what that Kafka said. Peers whose settings cannot be
chosen are played the default profile only. `--markdown` prints the table of docs/conformance.md.
Ends with 1 when Kafka's answers or Kohort's differ.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks import servers
from benchmarks.tools import MissingError
from rich.console import Console
from tests.peers.kafka import VERSION, Kafka, KafkaUnavailableError, free_port
from tests.peers.kohort import kohort
from tests.peers.tansu import TansuUnavailableError, tansu

from kohort_conformance.catalogue import all_scenarios, matching
from kohort_conformance.reference import Reference, load
from kohort_conformance.report import Report, judge, percent, print_table, verdict
from kohort_conformance.runner import Run, UnreachableError, run_all, run_twice
from kohort_conformance.scenario import DEFAULT, PROFILES, Scenario

KAFKA = f"Apache Kafka {VERSION}"
KOHORT = "kohort"
LEAVES_SILENT = 64
"""How many scenarios at once on peers that leave requests unanswered: each such one waits for its
time limit.
"""


@contextmanager
def peer(name: str, profile: str) -> Iterator[str]:
    """A server by name, started, or one that is running by its address."""
    if ":" in name:
        yield name
    elif name == KOHORT:
        with kohort(PROFILES[profile]) as address:
            yield address
    elif name == "tansu":
        with tansu(free_port()) as address:
            yield address
    else:
        with servers.SERVERS[name]() as server:
            yield server.address


def play(address: str, scenarios: Sequence[Scenario]) -> list[Run]:
    host, _, port = address.rpartition(":")
    return asyncio.run(run_all(host, int(port), scenarios, at_once=LEAVES_SILENT))


def play_twice(address: str, scenarios: Sequence[Scenario], reference: Reference) -> list[Run]:
    """As `play`; what differs is played once more, since this machine is busy with two servers."""
    host, _, port = address.rpartition(":")

    def differs(run: Run) -> bool:
        return verdict(reference, run).outcome == "differs"

    return asyncio.run(run_twice(host, int(port), scenarios, differs))


def said_live(runs: Sequence[Run]) -> Reference:
    """What Kafka has just answered, as a reference."""
    return Reference(KAFKA, {run.scenario.name: run.steps for run in runs})


def compare(
    name: str, profile: str, reference: Reference, scenarios: Sequence[Scenario]
) -> Report | None:
    """The peer's report, or None with a word about it when it cannot be had."""
    try:
        with peer(name, profile) as address:
            if name == KOHORT:
                return judge(name, reference, play_twice(address, scenarios, reference))
            return judge(name, reference, play(address, scenarios))
    except (MissingError, TansuUnavailableError, UnreachableError) as missing:
        print(f"{name} is left out: {missing}", file=sys.stderr)
        return None


def as_markdown(reports: Sequence[Report]) -> str:
    """The rows of the table: score, and in which subjects most scenarios differ."""
    lines = [
        "| server | equal scenarios | equal responses | where most scenarios differ |",
        "|---|---|---|---|",
    ]
    for report in reports:
        same, total = report.count("same"), len(report.verdicts)
        differing = Counter(
            one.scenario.subject for one in report.verdicts if one.outcome == "differs"
        )
        worst = ", ".join(f"{subject} {count}" for subject, count in differing.most_common(5))
        argued = f", {report.count('argued')} on purpose" if report.count("argued") else ""
        lines.append(
            f"| {report.address} | {same} of {total}{argued} | {percent(*report.responses)} "
            f"| {worst or 'none'} |"
        )
    return "\n".join(lines)


def compare_all(profile: str, peers: Sequence[str], patterns: Sequence[str]) -> list[Report]:
    """Kafka's own report against what was recorded, and the peers' against it. Raises
    KafkaUnavailableError.
    """
    scenarios = matching(all_scenarios(profile), patterns)
    if not scenarios:
        return []
    with Kafka.start(free_port(neighbours=1), PROFILES[profile]) as node:
        runs = play_twice(node.address, scenarios, load())
    settable = [name for name in peers if profile == DEFAULT or name == KOHORT]
    reports = [judge(KAFKA, load(), runs)]
    reports += [
        one for name in settable if (one := compare(name, profile, said_live(runs), scenarios))
    ]
    return reports


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers.compare", description=__doc__)
    parser.add_argument("peers", metavar="PEER", nargs="*", default=[KOHORT])
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[])
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    reports = []
    try:
        for profile in PROFILES:
            reports += compare_all(profile, options.peers, options.only)
    except KafkaUnavailableError as error:
        print(f"make conformance: {error}", file=sys.stderr)
        return 2
    console = Console(width=None if sys.stdout.isatty() else 200)
    if options.markdown:
        print(as_markdown(reports))
    else:
        for report in reports:
            print_table(report, console)
    return 0 if all(one.conforms for one in reports if one.address in (KAFKA, KOHORT)) else 1


if __name__ == "__main__":
    sys.exit(main())
