"""Servers held against a live Apache Kafka, answer by answer: `make conformance`.

    python -m tests.peers.compare [PEER…] [--only PATTERN]… [--markdown]

Kafka is started, played every scenario and compared with the answers recorded in the package; then each peer (Kohort
when none is named: kohort, kfake, mock, tansu, or HOST:PORT) is played the same and compared with what that Kafka
said. `--markdown` prints the table of docs/conformance.md. Ends with 1 when Kafka's answers or Kohort's differ.
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
from tests.peers.kafka import VERSION, Kafka, KafkaUnavailableError
from tests.peers.tansu import TansuUnavailableError, tansu

from kohort.conformance.reference import Reference, load
from kohort.conformance.report import Report, judge, percent, print_table
from kohort.conformance.runner import Run, UnreachableError, run_all
from kohort.conformance.scenario import Scenario, all_scenarios, matching

KAFKA = f"Apache Kafka {VERSION}"
LEAVES_SILENT = 64
"""How many scenarios at once on peers that leave requests unanswered: each such one waits for its time limit."""


@contextmanager
def peer(name: str) -> Iterator[str]:
    """A server by name, started, or one that is running by its address."""
    if ":" in name:
        yield name
    elif name == "tansu":
        with tansu(servers.free_port()) as address:
            yield address
    else:
        key = "kohort-memory" if name == "kohort" else name
        with servers.SERVERS[key]() as server:
            yield server.address


def play(address: str, scenarios: Sequence[Scenario], at_once: int = 16) -> list[Run]:
    host, _, port = address.rpartition(":")
    return asyncio.run(run_all(host, int(port), scenarios, at_once=at_once))


def said_live(runs: Sequence[Run]) -> Reference:
    """What Kafka has just answered, as a reference."""
    return Reference(KAFKA, {run.scenario.name: run.steps for run in runs})


def compare(name: str, reference: Reference, scenarios: Sequence[Scenario]) -> Report | None:
    """The peer's report, or None with a word about it when it cannot be had."""
    try:
        with peer(name) as address:
            runs = play(address, scenarios, 16 if name in ("kafka", "kohort") else LEAVES_SILENT)
    except (MissingError, TansuUnavailableError, UnreachableError) as missing:
        print(f"{name} is left out: {missing}", file=sys.stderr)
        return None
    return judge(name, reference, runs)


def as_markdown(reports: Sequence[Report]) -> str:
    """The rows of the table: score, and in which subjects most scenarios differ."""
    lines = ["| server | scenarios alike | answers alike | where most scenarios differ |", "|---|---|---|---|"]
    for report in reports:
        same, total = report.count("same"), len(report.verdicts)
        differing = Counter(one.scenario.subject for one in report.verdicts if one.outcome == "differs")
        worst = ", ".join(f"{subject} {count}" for subject, count in differing.most_common(5))
        argued = f" and {report.count('argued')} argued" if report.count("argued") else ""
        scenarios = f"{same} of {total}{argued} ({percent(same, total)})"
        lines.append(f"| {report.address} | {scenarios} | {percent(*report.answers)} | {worst or 'none'} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers.compare", description=__doc__)
    parser.add_argument("peers", metavar="PEER", nargs="*", default=["kohort"])
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[])
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    scenarios = matching(all_scenarios(), options.only)
    try:
        with Kafka.start(servers.free_port(and_next=True)) as node:
            runs = play(node.address, scenarios)
    except KafkaUnavailableError as error:
        print(f"make conformance: {error}", file=sys.stderr)
        return 2
    itself = judge(KAFKA, load(), runs)
    found = [compare(name, said_live(runs), scenarios) for name in options.peers]
    reports = [itself, *(one for one in found if one is not None)]
    console = Console(width=None if sys.stdout.isatty() else 200)
    for report in reports:
        if not options.markdown:
            print_table(report, console)
    if options.markdown:
        print(as_markdown(reports))
    return 0 if all(one.conforms for one in reports if one.address in (KAFKA, "kohort")) else 1


if __name__ == "__main__":
    sys.exit(main())
