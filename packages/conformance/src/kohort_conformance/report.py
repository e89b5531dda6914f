"""A server's score against the reference, and how it is told: as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort_conformance.comparing import Difference, differences
from kohort_conformance.known_differences import all_known, reason_for
from kohort_conformance.plain import Plain
from kohort_conformance.printable import printable
from kohort_conformance.reference import Reference
from kohort_conformance.runner import Run
from kohort_conformance.scenario import Scenario

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_OF_A_SCENARIO = 12
LONGEST_VALUE = 160


@dataclass(frozen=True)
class Verdict:
    """One scenario: what differs, if anything."""

    scenario: Scenario
    responses: int
    """How many the reference has."""
    differences: Sequence[Difference]

    @property
    def responses_alike(self) -> int:
        """How many of them were the same in every field."""
        return max(0, self.responses - len({one.step for one in self.differences}))

    @property
    def outcome(self) -> str:
        """ "same", "argued" (every difference has its argument) or "differs"."""
        if not self.differences:
            return "same"
        return "argued" if all_known(self.differences) else "differs"


@dataclass(frozen=True)
class Report:
    """All verdicts over one server."""

    address: str
    reference: str
    verdicts: Sequence[Verdict]

    def count(self, outcome: str, subject: str | None = None) -> int:
        return sum(
            1
            for one in self.verdicts
            if one.outcome == outcome and subject in (None, one.scenario.subject)
        )

    @property
    def conforms(self) -> bool:
        return self.count("differs") == 0

    @property
    def score(self) -> str:
        """The first line of the report.

        As in "455 of 460 scenarios as Apache Kafka 4.4.0 (98.9 %), 2 otherwise with an argument;
        2,900 of …".
        """
        same, total, argued = self.count("same"), len(self.verdicts), self.count("argued")
        told = f"{same} of {total} scenarios as {self.reference} ({percent(same, total)})"
        if argued:
            told += f", {argued} otherwise with an argument"
        alike, responses = self.responses
        return f"{told}; {alike:,} of {responses:,} answers ({percent(alike, responses)})"

    @property
    def responses(self) -> tuple[int, int]:
        """How many responses were the same in every field, and how many there should be."""
        return sum(one.responses_alike for one in self.verdicts), sum(
            one.responses for one in self.verdicts
        )


def percent(part: int, whole: int) -> str:
    """As in "98.9 %"."""
    return f"{100 * part / whole if whole else 0:.1f} %"


def judge(address: str, reference: Reference, runs: Iterable[Run]) -> Report:
    """Compare each run with its reference.

    A scenario without one counts as differing in everything.
    """
    return Report(address, reference.server, [verdict(reference, run) for run in runs])


def verdict(reference: Reference, run: Run) -> Verdict:
    """Compare one run with its reference."""
    expected = reference.steps.get(run.scenario.name, ())
    return Verdict(run.scenario, len(expected), differences(run.scenario.name, expected, run.steps))


def as_json(report: Report) -> str:
    """The report for programs: counts, and every difference field by field."""
    told = {
        "address": report.address,
        "reference": report.reference,
        "scenarios": len(report.verdicts),
        **{outcome: report.count(outcome) for outcome in ("same", "argued", "differs")},
        "answers": report.responses[1],
        "answers_same": report.responses[0],
        "differences": [
            _difference(one) for verdict in report.verdicts for one in verdict.differences
        ],
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def _difference(one: Difference) -> dict[str, Plain]:
    return {
        "scenario": one.scenario,
        "step": one.step,
        "field": one.field,
        "expected": one.expected,
        "got": one.got,
        "argument": reason_for(one),
    }


def print_table(report: Report, console: Console) -> None:
    """Every difference, then the counts by subject, then the score."""
    for verdict in report.verdicts:
        if verdict.differences:
            _print_differences(verdict, console)
    _print_subjects(report, console)
    console.print(f"\n[bold]{report.address}[/]: {report.score}")


def _print_differences(verdict: Verdict, console: Console) -> None:
    from rich.markup import escape

    colour = "yellow" if verdict.outcome == "argued" else "red"
    console.print(f"[bold {colour}]{verdict.scenario.name}[/]  {escape(verdict.scenario.title)}")
    for one in verdict.differences[:SHOWN_OF_A_SCENARIO]:
        values = f"expected {escape(_shown(one.expected))}, got {escape(_shown(one.got))}"
        console.print(
            (f"  {escape(one.step)}  [bold]{escape(one.field)}[/]: {values}"), highlight=False
        )
    for why in dict.fromkeys(reason_for(one) for one in verdict.differences):
        if why is not None:
            console.print(f"  argued: {escape(why)}", highlight=False)
    if (more := len(verdict.differences) - SHOWN_OF_A_SCENARIO) > 0:
        console.print(f"  … and {more} more")


def _shown(value: Plain) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value or '""'
    text = printable(text)
    return (
        text
        if len(text) <= LONGEST_VALUE
        else (f"{text[:LONGEST_VALUE]}… ({len(text)} characters)")
    )


def _print_subjects(report: Report, console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("subject")
    for name in ("scenarios", "same", "argued", "differ"):
        table.add_column(name, justify="right")
    for subject in dict.fromkeys(one.scenario.subject for one in report.verdicts):
        counts = [report.count(outcome, subject) for outcome in ("same", "argued", "differs")]
        shown = [str(count or "") for count in (sum(counts), *counts)]
        table.add_row(subject, *shown, style="red" if counts[2] else None)
    console.print(table)
