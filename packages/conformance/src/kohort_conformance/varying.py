"""Values that differ from run to run on Kafka itself, which a recording keeps by their kind.

A recording plays each scenario several times. A value that differs between two passes is recorded
as `<varies: text>`, with the kinds of all values that were seen. Any value of these kinds is equal
to it. Objects with the same names and lists of the same length are recorded value by value. Steps
must not vary: a scenario whose steps differ has more than one correct outcome, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from kohort_conformance.plain import Plain
from kohort_conformance.transcript import Step

_PREFIX = "<varies: "
_OR = " or "


class UnlikeStepsError(Exception):
    """Two passes of a scenario differ in a step; the text has both."""


def merged_steps(passes: Sequence[Sequence[Step]]) -> list[Step]:
    """One transcript of several of the same scenario. Raises UnlikeStepsError."""
    constant = [[_constant_part(step) for step in steps] for steps in passes]
    for other in constant[1:]:
        if other != constant[0]:
            raise UnlikeStepsError(_first_unlike(constant[0], other))
    return [_merged_step(same) for same in zip(*passes, strict=True)]


def _constant_part(step: Step) -> str:
    """The part of a step that must not vary: the label, and any outcome other than a response."""
    return f"{step['step']}: {step['outcome']}" if "outcome" in step else str(step["step"])


def _first_unlike(first: Sequence[str], second: Sequence[str]) -> str:
    pairs = enumerate(zip_longest(first, second, fillvalue="(absent)"), 1)
    number, (one, other) = next(item for item in pairs if item[1][0] != item[1][1])
    return f"step {number} is {one!r} or {other!r}"


def _merged_step(same: Sequence[Step]) -> Step:
    if "outcome" in same[0]:
        return same[0]
    return {"step": same[0]["step"], "answer": merged([step["answer"] for step in same])}


def merged(values: Sequence[Plain]) -> Plain:
    """One value for all, with `<varies: …>` in each place where they differ."""
    first = values[0]
    objects = [one for one in values if isinstance(one, dict)]
    lists = [one for one in values if isinstance(one, list)]
    if len(objects) == len(values) and all(one.keys() == objects[0].keys() for one in objects):
        return {name: merged([one[name] for one in objects]) for name in objects[0]}
    if len(lists) == len(values) and all(len(one) == len(lists[0]) for one in lists):
        return [merged(list(elements)) for elements in zip(*lists, strict=True)]
    if all(type(one) is type(first) and one == first for one in values):
        return first
    return f"{_PREFIX}{_OR.join(sorted({_kind(one) for one in values}))}>"


def _kind(value: Plain) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "negative number" if value < 0 else "number"
        case str():
            return "text" if value else "empty text"
        case list():
            return "list"
        case _:
            return "object"


def allows(recorded: Plain, value: Plain) -> bool:
    """Whether `recorded` stands for a value that varies, and `value` is of one of its kinds."""
    return varies(recorded) and _kind(value) in str(recorded)[len(_PREFIX) : -1].split(_OR)


def varies(recorded: Plain) -> bool:
    """Whether this stands for a value that varies."""
    return isinstance(recorded, str) and recorded.startswith(_PREFIX)


def varying_fields(value: Plain, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and kinds of each value within `value` that varies; a path is `members[0].epoch`."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from varying_fields(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from varying_fields(one, f"{path}[{number}]")
    elif varies(value):
        yield path or "value", str(value)
