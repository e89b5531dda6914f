"""When things happen to the group, and when the show gives up: without members, on no clock."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from demo.examples import group
from kohort_demo.crew import Departure
from kohort_demo.group import GroupState, MemberState
from kohort_demo.show import DIES_AT, JOINS_AT, LEAVES_AT, SPARED_UNTIL, Show
from kohort_demo.stage import Display
from kohort_demo.view import Note, Scene
from kohort_demo.work import Pace


@dataclass
class Crew:
    """A crew of which nobody does anything."""

    did: list[str] = field(default_factory=list)
    departures: dict[str, Departure] = field(default_factory=dict)
    reports: tuple[()] = ()

    def start(self, name: str, _library: Any) -> None:
        self.did.append(f"start {name}")

    def ask_to_leave(self, name: str) -> None:
        self.did.append(f"ask {name}")
        self.departures[name] = Departure(1.0)

    def kill(self, name: str) -> None:
        self.did.append(f"kill {name}")


class Server:
    def groups(self) -> list[str]:
        return ["flight-counters-1"]


@pytest.fixture
def show(tmp_path: Path) -> Show:
    return Show(Server(), {0: 100}, 22.0, tmp_path / "members.log")  # type: ignore[arg-type]


def with_members(count: int, state: str = "Stable") -> GroupState:
    members = tuple(MemberState(f"m-{n}", f"m-{n}", ()) for n in range(count))
    return replace(group(), state=state, members=members)


def frame(show: Show, script: Iterator[float], share: float, found: GroupState) -> float:
    show._share, show._group = share, found
    return next(script, 1.0)


def test_the_clock_stands_still_until_the_group_is_as_far(show: Show) -> None:
    """On a busy machine members start slowly: the show is not over before they had their part."""
    crew = Crew()
    script = show._script(crew)  # type: ignore[arg-type]
    for late in (with_members(0, "Dead"), with_members(2), with_members(3, "PreparingRebalance")):
        assert frame(show, script, JOINS_AT, late) == JOINS_AT
    assert crew.did == ["start member-1", "start member-2", "start member-3"]
    assert frame(show, script, JOINS_AT, with_members(3)) == LEAVES_AT
    assert frame(show, script, LEAVES_AT, with_members(3)) == LEAVES_AT
    assert frame(show, script, LEAVES_AT, with_members(4)) == DIES_AT
    assert crew.did[3:] == ["start member-4", "ask member-1"]
    crew.departures["member-1"] = Departure(1.0, 9.0)
    assert frame(show, script, DIES_AT, with_members(4)) == DIES_AT
    assert frame(show, script, DIES_AT, with_members(3)) == SPARED_UNTIL
    assert frame(show, script, SPARED_UNTIL, with_members(3)) == 1.0
    assert crew.did[5:] == ["kill member-2"]


def test_members_see_the_pace_that_the_show_sets(tmp_path: Path) -> None:
    pace = Pace(tmp_path / "pace")
    pace.set(0.0)
    assert Pace(pace.path).due(1_000) == 0
    pace.set(0.25)
    assert Pace(pace.path).due(1_000) == 250
    pace.set(1.0)
    assert Pace(pace.path).due(1_001) == 1_001


def test_a_note_that_comes_late_is_told_and_none_twice() -> None:
    """The journal tells of a rebalance after the show has said something that was later."""
    console = Console(record=True, width=100, force_terminal=False)
    with Display(console, None) as display:
        for notes in ([Note(2.0, "kill")], [Note(1.9, "joined"), Note(2.0, "kill")]):
            display.show(
                Scene(group=group(), seconds=2.0, libraries={}, processed={}, departed={},
                      killed={}, notes=notes)
            )  # fmt: skip
    assert console.export_text().split() == ["2.0", "s", "kill", "1.9", "s", "joined"]
