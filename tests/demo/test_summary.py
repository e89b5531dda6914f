"""What happened, from the journal and the members' reports."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from demo.examples import STARTED, group, rebalance, told
from kohort.coordinator.journal import Cause
from kohort_demo.crew import Departure
from kohort_demo.group import GroupState, group_state
from kohort_demo.summary import Outcome, sentences, summary
from kohort_demo.tally import WorkReport, WorkTally, tally
from kohort_demo.words import became

REPORTS = (
    WorkReport(
        member="member-1",
        partition=0,
        first=0,
        next=1_000,
        at=1,
        carriers={"UA": (1_000, 900, 9_000)},
    ),
    WorkReport(
        member="member-2", partition=1, first=0, next=400, at=1, carriers={"HA": (400, 400, 400)}
    ),
    WorkReport(
        member="member-2", partition=1, first=400, next=450, at=2, carriers={"HA": (50, 50, 50)}
    ),
    WorkReport(
        member="member-1", partition=1, first=400, next=500, at=9, carriers={"HA": (100, 100, 100)}
    ),
)


def finished() -> GroupState:
    json = told() | {"state": "Empty", "members": [], "leader": None}
    json["offsets"][0]["committed_offset"] = 1_000
    json["journal"].append(
        rebalance(3, "left", "member-1", "member-3", at=20.0, outcome="empty", members=0)
    )
    return group_state("counters-1", json, "flights", {0: 1_000, 1: 500})


def outcome(processed: WorkTally | None = None, state: GroupState | None = None) -> Outcome:
    return Outcome(
        group=state or finished(),
        tally=processed or tally(REPORTS),
        libraries={"member-1": "kohort", "member-2": "kohort", "member-3": "librdkafka"},
        started=STARTED,
        departures={"member-3": Departure(STARTED + 2.0, STARTED + 2.3)},
        killed={"member-2": STARTED + 3.0},
    )


def test_a_right_end_has_no_problems() -> None:
    assert outcome().problems() == []


def test_the_sentences_tell_counts_death_and_delays() -> None:
    assert sentences(outcome()) == [
        "1,500 of 1,500 records were processed, counted and committed.",
        "member-3 was asked to leave at 2.0 s and gone 0.3 s later, its work finished, "
        "committed and handed over: none "
        "of its 0 records had to be processed again.",
        "member-2 was killed at 3.0 s; its session ended 6.0 s later "
        "(session.timeout.ms=6000), and 50 records that "
        "it had processed but not yet committed were processed a second time.",
        "They counted 1,500 flights of 2 carriers: at departure UA was 10.0 minutes late "
        "on average, HA 1.0.",
    ]


def test_a_death_that_the_server_never_noticed_is_not_dated() -> None:
    state = replace(finished(), journal=())
    assert "its session ended" not in " ".join(sentences(outcome(state=state)))


def test_the_summary_lists_gaps_missing_records_and_missing_commits() -> None:
    short = tally([*REPORTS[:3], replace(REPORTS[3], first=460, next=490)])
    assert outcome(short, group()).problems() == [
        "partition 1: member-1 went on at offset 460, 450 was reached",
        "1,450 of 1,500 records were processed",
        "600 records were never committed",
    ]


def repeated(name: str) -> WorkTally:
    """`name` processed the last 50 records of partition 1, as member-1 did then."""
    late = WorkReport(
        member=name, partition=1, first=450, next=500, at=2, carriers={"HA": (50, 50, 50)}
    )
    return tally([*REPORTS, late])


@pytest.mark.parametrize("name", ["member-1", "member-3"])
def test_a_live_member_whose_records_were_processed_again_is_explained(name: str) -> None:
    found = outcome(repeated(name))
    assert found.problems() == []
    assert (
        f"50 records that {name} processed were processed twice: it lost their partitions before "
        "it had committed them."
    ) in " ".join(sentences(found))


def test_a_session_that_expired_on_a_busy_machine_is_told() -> None:
    state = finished()
    expired = replace(state.journal[1], causes=(Cause("expired", "member-1-7f1c", "member-1"),))
    found = outcome(repeated("member-1"), replace(state, journal=(expired,)))
    assert found.problems() == []
    assert "processed twice: its session expired, as it sent no heartbeat for 6 s." in " ".join(
        sentences(found)
    )


def test_an_expiry_before_the_kill_is_not_that_of_the_dead_member() -> None:
    state = finished()
    early = replace(state.journal[1], started=int((STARTED + 1) * 1000))
    told = " ".join(sentences(outcome(state=replace(state, journal=(early, *state.journal)))))
    assert "its session ended 6.0 s later" in told


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_show_rebalances_and_members(width: int) -> None:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(summary(outcome()))
    text = console.export_text()
    for wanted in (
        "member-2's session",
        "expired",
        "9.0 s",
        "1,000 ms",
        "250 ms",
        "generation 2",
        "killed at 3.0 s",
        "left at 2.0 s",
        "left at the end",
        "librdkafka",
    ):
        assert wanted in text
    assert "an empty group" in text


def test_each_rebalance_in_the_summary_has_its_outcome() -> None:
    entry = finished().journal[0]
    assert became(entry) == "generation 1"
    assert became(replace(entry, outcome="empty")) == "an empty group"
    assert became(replace(entry, outcome="disturbed")) == "disturbed, another round followed"
