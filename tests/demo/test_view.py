"""The picture of one moment, from what the server's HTTP port says."""

from io import StringIO

import pytest
from rich.console import Console

from demo.examples import ENDS, STARTED, group, told
from kohort_demo.group import PartitionState, group_state
from kohort_demo.show import in_hand, merged, next_name
from kohort_demo.stage import is_telling, svg
from kohort_demo.tally import WorkReport, tally
from kohort_demo.view import LEAST_NOTES, Note, Scene, view


def scene(notes: tuple[Note, ...] = ()) -> Scene:
    return Scene(
        group=group(),
        seconds=12.34,
        libraries={
            "member-1": "kohort",
            "member-2": "kohort",
            "member-3": "librdkafka",
            "member-4": "kohort",
        },
        processed={"member-1": 400, "member-2": 510},
        departed={"member-3": 0.2, "member-4": 7.1},
        killed={"member-2": 3.0},
        notes=notes,
    )


def drawn(width: int, height: int = 40, notes: tuple[Note, ...] = ()) -> list[str]:
    console = Console(width=width, height=height, file=StringIO(), record=True)
    console.print(view(scene(notes), width, height))
    return console.export_text().splitlines()


def test_the_group_is_read_from_the_servers_json() -> None:
    state = group()
    assert (state.state, state.generation, state.leader, state.committed, state.lag) == (
        "Stable", 2, "member-1", 900, 600,
    )  # fmt: skip
    assert state.partitions == (
        PartitionState(0, "member-1", 400, 1_000),
        PartitionState(1, "member-2", 500, 500),
        PartitionState(2, "member-1", 0, 0),
    )
    assert [(rebalance.join_ms, rebalance.sync_ms) for rebalance in state.journal] == [
        (1_000, 250),
        (1_000, 250),
    ]


def test_a_group_that_the_server_does_not_know_yet_owns_nothing() -> None:
    state = group_state("counters-1", None, "flights", ENDS)
    assert (state.state, state.members, state.lag) == ("Dead", (), 1_500)


def test_an_abandoned_round_and_a_member_with_unreadable_assignment_are_read() -> None:
    json = told()
    json["members"][0]["assignment"] = None
    json["journal"][0] |= {"generation": -1, "joined": None, "outcome": "disturbed"}
    state = group_state("counters-1", json, "flights", ENDS)
    assert state.partitions[1].owner is None
    assert (state.journal[0].joined, state.journal[0].sync_ms) == (None, 0)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_picture_has_all_of_it_at_any_width(width: int) -> None:
    lines = drawn(width)
    text = "\n".join(lines)
    assert all(len(line) <= width for line in lines)
    for wanted in (
        "Stable",
        "generation 2",
        "900 of 1,500",
        "lag 600",
        "killed 3 s ago",
        "leader",
        "12.3 s",
        "0 2",
    ):
        assert wanted in text


@pytest.mark.parametrize("width", [80, 200])
def test_the_picture_tells_what_a_member_runs_on_and_how_it_goes(width: int) -> None:
    rows = {words[0]: words for line in drawn(width) if (words := members_row(line))}
    assert rows["member-1"] == ["member-1", "kohort", "0", "2", "400", "leader"]
    assert rows["member-3"] == ["member-3", "librdkafka", "-", "0", "leaving"]
    assert rows["member-4"] == ["member-4", "kohort", "-", "0", "left", "7", "s", "ago"]


def members_row(line: str) -> list[str]:
    """The words of a line from the last member's name on, if a library follows."""
    words = line.strip("│ ").split()
    starts = [at for at, word in enumerate(words[:-1]) if words[at + 1] in ("kohort", "librdkafka")]
    return words[starts[-1] :] if starts else []


def test_the_picture_fits_a_small_terminal_and_shows_the_last_notes() -> None:
    notes = tuple(Note(float(number), f"note {number}") for number in range(20))
    lines = drawn(80, 24, notes)
    assert len(lines) <= 24
    assert "note 19" in "\n".join(lines)
    assert f"note {19 - LEAST_NOTES - 8}" not in "\n".join(lines)


def test_the_picture_keeps_its_height_as_notes_come() -> None:
    assert len(drawn(100)) == len(
        drawn(100, notes=(Note(1.0, "one " * 80), Note(2.0, "two", alarm=True)))
    )


def test_the_picture_for_the_docs_fetches_nothing() -> None:
    picture = svg(scene())
    assert picture.startswith("<svg")
    assert "member-2" in picture
    assert "url(" not in picture.replace("url(#", "")


def test_a_dead_member_that_still_counts_is_worth_a_picture() -> None:
    assert is_telling(scene())


def test_the_shows_own_notes_and_the_journals_come_in_order() -> None:
    notes = merged([Note(5.0, "kill -9 member-2", alarm=True)], group().journal, STARTED)
    assert [note.text for note in notes] == [
        "generation 1 after 1,250 ms: member-1, member-2 joined",
        "kill -9 member-2",
        "generation 2 after 1,250 ms: member-2's session expired",
    ]


def test_work_in_hand_is_what_was_processed_and_not_committed() -> None:
    reports = [
        WorkReport(member="member-1", partition=0, first=0, next=450, at=1),
        WorkReport(member="member-2", partition=1, first=0, next=510, at=1),
    ]
    assert in_hand("member-1", group(), tally(reports)) == 50
    assert in_hand("member-2", group(), tally(reports)) == 10


def test_a_group_of_an_earlier_run_is_not_taken_again() -> None:
    assert next_name([]) == "flight-counters-1"
    assert next_name(["flight-counters-1", "flight-counters-2", "mine"]) == "flight-counters-3"
