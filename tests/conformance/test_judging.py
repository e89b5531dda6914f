"""Transcripts compared field by field, and the score that comes of it."""

import fnmatch
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kohort_conformance import known_differences
from kohort_conformance.catalogue import all_scenarios, matching
from kohort_conformance.comparing import Difference, differences
from kohort_conformance.known_differences import KnownDifference, reason_for
from kohort_conformance.reference import MissingReferenceError, Reference, dump, load, parse
from kohort_conformance.report import Report, as_json, judge, print_table
from kohort_conformance.runner import Run
from kohort_conformance.scenario import Scenario
from kohort_conformance.stage import Stage


async def nothing(stage: Stage) -> None:
    """Nothing."""


def scenario(name: str = "joining.one") -> Scenario:
    return Scenario(name, name.partition(".")[0], "A title.", nothing)


def found(expected: list[Any], got: list[Any]) -> list[tuple[str, str, Any, Any]]:
    return [(one.step, one.field, one.expected, one.got) for one in differences("s", expected, got)]


def step(response: Any, label: str = "a: X v1") -> dict[str, Any]:
    return {"step": label, "answer": response}


def test_the_same_is_no_difference() -> None:
    steps = [
        step({"error_code": "NONE (0)", "members": [{"id": 1}]}),
        {"step": "b", "outcome": "connection closed"},
    ]
    assert found(steps, steps) == []


def test_every_field_that_differs_is_told_with_its_path() -> None:
    expected = [step({"error_code": "NONE (0)", "members": [{"id": 1, "data": "00"}], "gone": 1})]
    got = [step({"error_code": "X (1)", "members": [{"id": 1, "data": "01"}], "new": 2})]
    assert found(expected, got) == [
        ("1. a: X v1", "error_code", "NONE (0)", "X (1)"),
        ("1. a: X v1", "members[0].data", "00", "01"),
        ("1. a: X v1", "gone", 1, "(absent)"),
        ("1. a: X v1", "new", "(absent)", 2),
    ]


def test_lists_of_other_lengths_are_compared_as_far_as_they_go() -> None:
    assert found([step({"a": [1, 2]})], [step({"a": [3]})]) == [
        ("1. a: X v1", "a.length", 2, 1),
        ("1. a: X v1", "a[0]", 1, 3),
    ]


def test_null_empty_false_and_zero_are_four_things() -> None:
    values: list[Any] = [None, "", False, 0]
    for one in values:
        for other in values:
            assert bool(found([step({"f": one})], [step({"f": other})])) == (one is not other)


def test_an_answer_in_place_of_a_hang_up_differs() -> None:
    expected = [{"step": "a", "outcome": "connection closed"}]
    assert found(expected, [step({"error_code": "X (1)"}, "a")]) == [
        ("1. a", "outcome", "connection closed", "X (1)")
    ]
    assert found(expected, []) == [("1. a", "step", "a: connection closed", "(absent)")]
    assert found([], [step(True, "note")]) == [("1. note", "step", "(absent)", "note: True")]


def report(*runs: tuple[str, Any]) -> Report:
    reference = Reference("Kafka", {name: [step({"f": 1})] for name, _ in runs})
    return judge(
        "here:1",
        reference,
        [Run(scenario(name), [step({"f": value})], 0.0) for name, value in runs],
    )


def test_the_score_counts_scenarios() -> None:
    made = report(("joining.one", 1), ("joining.two", 2), ("votes.one", 1))
    assert [made.count(outcome) for outcome in ("same", "argued", "differs")] == [2, 0, 1]
    assert made.count("differs", "joining") == 1
    assert not made.conforms
    assert made.score == "2 of 3 scenarios as Kafka (66.7 %); 2 of 3 answers (66.7 %)"
    assert report(("joining.one", 1)).conforms


def test_a_scenario_without_reference_differs() -> None:
    made = judge("here:1", Reference("Kafka", {}), [Run(scenario(), [step({"f": 1})], 0.0)])
    assert not made.conforms


def test_an_argued_value_is_no_failure_but_any_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        known_differences, "KNOWN_DIFFERENCES", (KnownDifference("joining.one", "f", 2, "because"),)
    )
    assert report(("joining.one", 2)).conforms
    assert report(("joining.one", 2)).count("argued") == 1
    assert not report(("joining.one", 3)).conforms
    assert not report(("joining.two", 2)).conforms
    assert reason_for(Difference("joining.one", "1. a", "f", 1, 2)) == "because"


def test_every_argument_is_about_a_scenario_that_there_is() -> None:
    names = [one.name for one in all_scenarios(None)]
    argued = {one.scenario for one in known_differences.KNOWN_DIFFERENCES}
    assert [one for one in argued if not fnmatch.filter(names, one)] == []


def test_json_tells_every_difference() -> None:
    told = json.loads(as_json(report(("joining.one", 1), ("joining.two", 2))))
    assert (told["scenarios"], told["same"], told["argued"], told["differs"]) == (2, 1, 0, 1)
    assert told["differences"] == [
        {
            "scenario": "joining.two",
            "step": "1. a: X v1",
            "field": "f",
            "expected": 1,
            "got": 2,
            "argument": None,
        }
    ]


def test_the_table_tells_differences_subjects_and_score() -> None:
    text = StringIO()
    print_table(report(("joining.one", 1), ("joining.two", "[x]")), Console(file=text, width=120))
    assert "joining.two" in text.getvalue()
    assert "f: expected 1, got [x]" in text.getvalue()
    assert "1 of 2 scenarios as Kafka (50.0 %)" in text.getvalue()


def test_a_reference_survives_its_file() -> None:
    steps: dict[str, Any] = {"b.x": [step({"f": "ü"})], "a.x": [step(None)]}
    read = parse(dump(Reference("Kafka 9", steps, {18: (0, 5)}, {"f": (0, 1)})))
    assert (read.server, read.apis, read.features) == ("Kafka 9", {18: (0, 5)}, {"f": (0, 1)})
    assert list(read.steps) == ["a.x", "b.x"]
    assert read.steps["b.x"] == [step({"f": "ü"})]


def test_every_scenario_has_its_reference_and_a_title() -> None:
    scenarios = all_scenarios(None)
    assert {one.name for one in scenarios} == set(load().steps)
    assert len(scenarios) >= 200
    assert [one.name for one in scenarios if not one.title.endswith(".")] == []


def test_no_reference_ends_in_a_scene_that_could_not_be_set() -> None:
    broken = [
        name
        for name, steps in load().steps.items()
        if any(one["step"] == "could not go on" for one in steps)
    ]
    assert broken == []


def test_patterns_choose_scenarios() -> None:
    scenarios = [scenario(name) for name in ("joining.one", "joining.two", "votes.one")]
    assert [one.name for one in matching(scenarios, ["joining"])] == ["joining.one", "joining.two"]
    assert [one.name for one in matching(scenarios, ["*.one"])] == ["joining.one", "votes.one"]
    assert [one.name for one in matching(scenarios, ["votes", "two"])] == [
        "joining.two",
        "votes.one",
    ]
    assert matching(scenarios, []) == scenarios


def test_a_package_without_the_recorded_responses_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingReferenceError, match="recorded responses of Apache Kafka"):
        load(tmp_path)
