"""Several passes of a scenario become one transcript, and two references a list of changes."""

import asyncio
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kohort_conformance.comparing import differences
from kohort_conformance.recording import (
    Pass,
    api_versions,
    changes,
    completed,
    only,
    record,
)
from kohort_conformance.reference import Reference, load, write
from kohort_conformance.scenario import Scenario
from kohort_conformance.stage import Stage
from kohort_conformance.varying import UnlikeStepsError, merged, merged_steps, varying_fields


def step(answer: Any, label: str = "a: X v1") -> dict[str, Any]:
    return {"step": label, "answer": answer}


def test_a_value_that_is_the_same_each_time_stays() -> None:
    steps = [step({"a": [1, {"b": None}], "c": ""}), {"step": "b", "outcome": "no answer"}]
    assert merged_steps([steps, steps, steps]) == steps


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ((1, 2, 2), "<varies: number>"),
        ((-1, 2, 3), "<varies: negative number or number>"),
        (("a", "b", "a"), "<varies: text>"),
        ((None, "b", ""), "<varies: empty text or null or text>"),
        ((True, 1, 1), "<varies: boolean or number>"),
        (([1], [1, 2], [1]), "<varies: list>"),
        (({"a": 1}, {"b": 1}, {"a": 1}), "<varies: object>"),
        (([1, 5], [1, 6], [1, 5]), [1, "<varies: number>"]),
        (({"a": 1, "b": "x"}, {"a": 1, "b": "y"}), {"a": 1, "b": "<varies: text>"}),
    ],
)
def test_a_value_that_differs_is_kept_by_its_kinds(values: Any, kept: Any) -> None:
    assert merged(values) == kept


@pytest.mark.parametrize("other", [[], [step(1, "b")], [{"step": "a: X v1", "outcome": "closed"}]])
def test_other_steps_are_refused(other: list[Any]) -> None:
    with pytest.raises(UnlikeStepsError, match="step 1 is 'a: X v1' or "):
        merged_steps([[step(1)], [step(1)], other])


def test_a_value_that_varies_is_equal_to_each_of_its_kinds_and_to_no_other() -> None:
    recorded = [step({"epoch": "<varies: null or number>", "code": 0})]
    for epoch in (None, 0, 7):
        assert differences("s", recorded, [step({"epoch": epoch, "code": 0})]) == []
    for epoch in (-1, "7", True, []):
        [found] = differences("s", recorded, [step({"epoch": epoch, "code": 0})])
        assert (found.field, found.got) == ("epoch", epoch)


def test_places_of_values_that_vary() -> None:
    value: Any = {"a": [{"b": "<varies: text>"}], "c": "<varies: list>", "d": 1}
    assert list(varying_fields(value)) == [("a[0].b", "<varies: text>"), ("c", "<varies: list>")]
    assert list(varying_fields("<varies: text>")) == [("value", "<varies: text>")]


async def nothing(stage: Stage) -> None:
    """Nothing."""


class Server:
    """Answers with the next value of each scenario; the last one stays."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = {f"s.{name}": values for name, values in answers.items()}
        self.scenarios = [Scenario(name, "s", "T.", nothing) for name in self.answers]
        self.played: list[list[str]] = []

    def play(self, scenarios: Sequence[Scenario]) -> Pass:
        names = [one.name for one in scenarios]
        self.played.append(names)
        return {name: self._next(self.answers[name]) for name in names}

    def _next(self, values: list[Any]) -> list[Any]:
        value = values.pop(0) if len(values) > 1 else values[0]
        return value if isinstance(value, list) else [step(value)]


def test_each_scenario_is_played_three_times() -> None:
    server = Server(one=[1], two=[2])
    assert record(server.play, server.scenarios).steps == {"s.one": [step(1)], "s.two": [step(2)]}
    assert server.played == [["s.one", "s.two"]] * 3


def test_a_scenario_that_differs_once_is_played_again_and_kept_exactly() -> None:
    server = Server(late=[1, 9, 1], good=[2])
    assert record(server.play, server.scenarios).steps["s.late"] == [step(1)]
    assert server.played == [["s.late", "s.good"]] * 3 + [["s.late"]] * 3


def test_a_value_that_differs_again_varies() -> None:
    server = Server(counter=[1, 2, 3, 4, 5, 6])
    assert record(server.play, server.scenarios).steps["s.counter"] == [step("<varies: number>")]


def test_scenarios_without_one_course_or_without_an_end_are_refused() -> None:
    unlike = [[step(1)], [step(1, "b")], [step(1)]]
    stuck = [[{"step": "could not go on", "outcome": "no topic"}]]
    server = Server(unlike=unlike * 2, stuck=stuck, good=[1])
    recording = record(server.play, server.scenarios)
    assert set(recording.steps) == {"s.good"}
    assert recording.refused == {
        "s.unlike": "step 1 is 'a: X v1' or 'b'",
        "s.stuck": "could not go on: no topic",
    }


def test_every_change_is_told() -> None:
    before = Reference(
        "Kafka 1",
        {"s.a": [step({"x": 1, "y": 1})], "s.gone": [step(1)]},
        {1: (0, 4), 3: (0, 1)},
        {"f": (0, 1)},
    )
    after = Reference(
        "Kafka 2",
        {"s.a": [step({"x": 2, "y": "<varies: number>"})], "s.new": [step(1)]},
        {1: (0, 5), 2: (1, 1)},
        {"f": (0, 2)},
    )
    assert list(changes(before, after)) == [
        "look at each: it varies from run to run, and did not before (1):",
        "  s.a  1. a: X v1  y: <varies: number>",
        "scenarios changed since Kafka 1 (1):",
        "  s.a  1. a: X v1  x: 1 -> 2",
        "new scenarios (1):",
        "  s.new",
        "scenarios that are gone (1):",
        "  s.gone",
        "APIs (3):",
        "  1: 0-4 -> 0-5",
        "  2: none -> 1-1",
        "  3: 0-1 -> none",
        "features (1):",
        "  f: 0-1 -> 0-2",
    ]
    assert list(changes(after, after)) == []


def test_steps_that_came_and_went_are_told_alone() -> None:
    before = [step(1, "a"), step(2, "b"), step(3, "c"), step(4, "d")]
    after = [step(0, "new"), step(1, "a"), step(9, "c"), step(4, "d")]
    told = list(changes(Reference("K", {"s.a": before}), Reference("K", {"s.a": after})))
    assert told[1:] == [
        "  s.a  1. new  step: (absent) -> new: 0",
        "  s.a  3. b  step: b: 2 -> (absent)",
        "  s.a  3. c  value: 3 -> 9",
    ]


def test_a_long_list_of_changes_is_cut_short_and_what_a_server_said_is_printable() -> None:
    before = Reference("Kafka", {"s.a": [step(["x"] * 20)]})
    after = Reference("Kafka", {"s.a": [step(["\x1b"] * 20)]})
    told = list(changes(before, after))
    assert told[1] == "  s.a  1. a: X v1  [0]: x -> \\x1b"
    assert told[-1] == "  s.a  … and 8 more"


def test_scenarios_that_were_not_played_keep_what_they_had() -> None:
    before = Reference("K", {"s.a": [step(1)], "s.b": [step(1)], "s.gone": [step(1)]}, {1: (0, 1)})
    recorded = Reference("K", {"s.a": [step(2)]}, {1: (0, 2)})
    whole = completed(recorded, before, {"s.b", "s.c"})
    assert whole == Reference("K", {"s.a": [step(2)], "s.b": [step(1)]}, {1: (0, 2)})
    assert only(whole, {"s.b"}).steps == {"s.b": [step(1)]}


def test_the_file_of_a_version_takes_the_place_of_another(tmp_path: Path) -> None:
    for version in ("1.0", "2.0", "2.0"):
        write(Reference(f"Kafka {version}", {"s.a": [step(version)]}), version, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["apache-kafka-2.0.jsonl"]
    assert load(tmp_path).steps == {"s.a": [step("2.0")]}


async def test_api_versions_of_a_server() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        feature = b"\x02" + b"\x02f" + struct.pack(">hh", 0, 2) + b"\0"
        body = b"\x02" + struct.pack(">hhh", 1, 4, 18) + b"\0" + bytes(4)
        tags = b"\x01" + b"\0" + bytes([len(feature)]) + feature
        frame = struct.pack(">ih", 1, 0) + body + tags
        writer.write(struct.pack(">i", len(frame)) + frame)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    assert await api_versions("127.0.0.1", port) == ({1: (4, 18)}, {"f": (0, 2)})
    listener.close()
