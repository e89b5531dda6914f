"""Records the responses of a server as a reference, and lists the changes against another one.

Each scenario is played three times. If the passes differ, it is played three times more, and only
those count: on a busy machine a timer may come late once. A value that differs again is recorded as
varying (`varying.py`). A scenario whose steps differ has more than one correct outcome: it is
refused and must be rewritten.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any, Final, TypeAlias

from kohort_conformance.comparing import Difference, differences
from kohort_conformance.plain import Plain
from kohort_conformance.printable import printable
from kohort_conformance.reference import Range, Reference
from kohort_conformance.runner import STUCK, Run, run_all
from kohort_conformance.scenario import Scenario
from kohort_conformance.transcript import Step
from kohort_conformance.varying import UnlikeStepsError, merged_steps, varies, varying_fields
from kohort_conformance.wire import RawConnection

TIMES: Final = 3
LONGEST_VALUE: Final = 120
SHOWN_OF_A_SCENARIO: Final = 12

Pass: TypeAlias = Mapping[str, Sequence[Step]]
"""The steps of scenarios, by their names."""
Play: TypeAlias = Callable[[Sequence[Scenario]], Pass]


@dataclass
class Recording:
    """Transcripts of scenarios, and why others have none."""

    steps: dict[str, list[Step]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, passes: Sequence[Sequence[Step]]) -> None:
        """Merge the passes of a scenario, or refuse it."""
        try:
            steps = merged_steps(passes)
        except UnlikeStepsError as error:
            self.refused[name] = str(error)
            return
        last = steps[-1]
        if last["step"] == STUCK:
            self.refused[name] = f"{STUCK}: {last['outcome']}"
        else:
            self.steps[name] = steps


def player(host: str, port: int) -> Play:
    """Plays scenarios on the server at this address. Raises UnreachableError."""

    def play(scenarios: Sequence[Scenario]) -> Pass:
        runs: list[Run] = asyncio.run(run_all(host, port, scenarios))
        return {run.scenario.name: run.steps for run in runs}

    return play


def record(play: Play, scenarios: Sequence[Scenario]) -> Recording:
    """Play all of them three times, and those that differ three times more."""
    recording = Recording()
    passes = _passes(play, scenarios)
    unlike = [one for one in scenarios if not _all_alike(passes[one.name])]
    if unlike:
        passes |= _passes(play, unlike)
    for one in scenarios:
        recording.add(one.name, passes[one.name])
    return recording


def _passes(play: Play, scenarios: Sequence[Scenario]) -> dict[str, list[Sequence[Step]]]:
    played = [play(scenarios) for _ in range(TIMES)]
    return {one.name: [each[one.name] for each in played] for one in scenarios}


def _all_alike(passes: Sequence[Sequence[Step]]) -> bool:
    return not any(differences("", passes[0], other) for other in passes[1:])


async def api_versions(host: str, port: int) -> tuple[dict[int, Range], dict[str, Range]]:
    """The versions of each API of the server, and the levels of each of its features."""
    connection = await RawConnection.open(host, port)
    try:
        software = {"client_software_name": "kohort", "client_software_version": "1"}
        told: Any = await connection.send("ApiVersions", 4, software, "kohort").response()
    finally:
        await connection.close()
    return (
        {one["api_key"]: _range(one) for one in told["api_keys"]},
        {one["name"]: _range(one) for one in told["supported_features"]},
    )


def _range(one: Mapping[str, int]) -> Range:
    return one["min_version"], one["max_version"]


# --- two references


def only(reference: Reference, names: Collection[str]) -> Reference:
    """A reference with these scenarios alone."""
    steps = {name: steps for name, steps in reference.steps.items() if name in names}
    return replace(reference, steps=steps)


def completed(recorded: Reference, before: Reference, names: Collection[str]) -> Reference:
    """`recorded`; scenarios of these names that it lacks are taken from `before`."""
    return replace(recorded, steps={**only(before, names).steps, **recorded.steps})


def changes(before: Reference, after: Reference) -> Iterator[str]:
    """Lines that list every difference of two references."""
    yield from _titled(
        "look at each: it varies from run to run, and did not before", _varying(before, after)
    )
    yield from _titled(f"scenarios changed since {before.server}", _changed(before, after))
    new, gone = after.steps.keys() - before.steps.keys(), before.steps.keys() - after.steps.keys()
    yield from _titled("new scenarios", ([name] for name in sorted(new)))
    yield from _titled("scenarios that are gone", ([name] for name in sorted(gone)))
    yield from _titled("APIs", _ranges(before.apis, after.apis))
    yield from _titled("features", _ranges(before.features, after.features))


def _titled(title: str, entries: Iterable[Sequence[str]]) -> Iterator[str]:
    """A heading with the number of entries, and their lines."""
    shown = list(entries)
    if shown:
        yield f"{title} ({len(shown)}):"
    for lines in shown:
        yield from (f"  {printable(line)}" for line in lines)


def _changed(before: Reference, after: Reference) -> Iterator[list[str]]:
    for name in sorted(after.steps.keys() & before.steps.keys()):
        found = _changes_of(name, before.steps[name], after.steps[name])
        lines = [_difference(one) for one in found if not varies(one.got)]
        if lines:
            more = len(lines) - SHOWN_OF_A_SCENARIO
            yield [*lines[:SHOWN_OF_A_SCENARIO], *([f"{name}  … and {more} more"] * (more > 0))]


def _changes_of(name: str, before: Sequence[Step], after: Sequence[Step]) -> Iterator[Difference]:
    """The differences of two transcripts, which are aligned by the labels of their steps.

    Steps have their numbers in `after`.
    """
    old, new = ([str(step["step"]) for step in steps] for steps in (before, after))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for _, start, end, new_start, new_end in matcher.get_opcodes():
        yield from differences(
            name, before[start:end], after[new_start:new_end], first=new_start + 1
        )


def _difference(one: Difference) -> str:
    values = f"{_shown(one.expected)} -> {_shown(one.got)}"
    return f"{one.scenario}  {one.step}  {one.field}: {values}"


def _varying(before: Reference, after: Reference) -> Iterator[list[str]]:
    for name, steps in sorted(after.steps.items()):
        known = set(_fields(before.steps.get(name, ())))
        for place in _fields(steps):
            if place not in known:
                yield [f"{name}  {'  '.join(place)}"]


def _fields(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    for number, step in enumerate(steps, 1):
        for path, kinds in varying_fields(step.get("answer")):
            yield f"{number}. {step['step']}", f"{path}: {kinds}"


def _ranges(
    before: Mapping[int, Range] | Mapping[str, Range],
    after: Mapping[int, Range] | Mapping[str, Range],
) -> Iterator[list[str]]:
    old: dict[Any, Range] = {**before}
    new: dict[Any, Range] = {**after}
    for name in sorted(old | new):
        if old.get(name) != new.get(name):
            yield [f"{name}: {_bounds(old.get(name))} -> {_bounds(new.get(name))}"]


def _bounds(range_: Range | None) -> str:
    return "none" if range_ is None else f"{range_[0]}-{range_[1]}"


def _shown(value: Plain) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
