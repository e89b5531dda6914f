"""Two transcripts of one scenario, and every field in which they differ.

A value that is recorded as varying is equal to any value of its kinds (`varying.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kohort_conformance.plain import Plain
from kohort_conformance.transcript import Step
from kohort_conformance.varying import allows

ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One field of one step: what the reference says, and what was heard."""

    scenario: str
    step: str
    """Its number and label, as in "3. b: JoinGroup v9"."""
    field: str
    """A path like `members[0].error_code`, or "outcome"."""
    expected: Plain
    got: Plain


def differences(
    scenario: str, expected: Sequence[Step], got: Sequence[Step], first: int = 1
) -> list[Difference]:
    """All of them, in the order of the steps; an empty list means that the scenario conforms.

    `first` is the number of the first step.
    """
    found: list[Difference] = []
    for number in range(max(len(expected), len(got))):
        wanted = expected[number] if number < len(expected) else {}
        heard = got[number] if number < len(got) else {}
        label = f"{number + first}. {wanted.get('step') or heard.get('step')}"
        found += [
            Difference(scenario, label, path, one, other)
            for path, one, other in _steps_differ(wanted, heard)
        ]
    return found


def _steps_differ(wanted: Step, heard: Step) -> Iterator[tuple[str, Plain, Plain]]:
    if not wanted or not heard or wanted["step"] != heard["step"]:
        yield "step", _shown(wanted), _shown(heard)
    elif ("outcome" in wanted) or ("outcome" in heard):
        if wanted != heard:
            yield "outcome", _outcome(wanted), _outcome(heard)
    else:
        yield from _differ("", wanted["answer"], heard["answer"])


def _shown(step: Step) -> Plain:
    return f"{step['step']}: {_outcome(step)}" if step else ABSENT


def _outcome(step: Step) -> Plain:
    if "outcome" in step:
        return step["outcome"]
    response = step["answer"]
    return str(response.get("error_code", "answered")) if isinstance(response, dict) else response


def _differ(path: str, wanted: Plain, heard: Plain) -> Iterator[tuple[str, Plain, Plain]]:
    if allows(wanted, heard):
        return
    if isinstance(wanted, dict) and isinstance(heard, dict):
        for name in [*wanted, *(name for name in heard if name not in wanted)]:
            inner = f"{path}.{name}" if path else name
            yield from _differ(inner, wanted.get(name, ABSENT), heard.get(name, ABSENT))
    elif isinstance(wanted, list) and isinstance(heard, list):
        if len(wanted) != len(heard):
            yield f"{path}.length", len(wanted), len(heard)
        for number, (one, other) in enumerate(zip(wanted, heard, strict=False)):
            yield from _differ(f"{path}[{number}]", one, other)
    elif wanted != heard or type(wanted) is not type(heard):
        yield path or "value", wanted, heard
