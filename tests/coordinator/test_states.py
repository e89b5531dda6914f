"""The table of states: what each request gets in each state, and which moves there are."""

import pytest

from kohort.coordinator.classic import VALID_PREVIOUS_STATES, State
from kohort.coordinator.result import SessionExpires, TimerFired
from kohort.testing.bench import Bench

LEADER, FOLLOWER = "client-0001", "client-0002"
DEAD, EMPTY, PREPARING, COMPLETING, STABLE = (
    State.DEAD,
    State.EMPTY,
    State.PREPARING_REBALANCE,
    State.COMPLETING_REBALANCE,
    State.STABLE,
)
NEW = {"range": b"new"}


def in_state(state):
    """A group in this state. With members: a leader and a follower whose generation is 1; in the
    join phase the leader's JoinGroup is parked, in the sync phase nobody's SyncGroup.
    """
    bench = Bench()
    if state is DEAD:
        return bench
    if state is COMPLETING:
        ids = [bench.join().response.member_id for _ in range(2)]
        for member_id in ids:
            bench.join("g", member_id)
        bench.advance(0)
    else:
        bench.stable(members=2)
    if state is PREPARING:
        bench.join("g", LEADER)
    elif state is EMPTY:
        bench.leave("g", LEADER, FOLLOWER)
    assert bench.state() is state
    return bench


def outcome(call):
    """The error of one answer, "parked" without one."""
    if call.parked:
        return "parked"
    response = call.response
    if getattr(response, "members", ()) and hasattr(response.members[0], "error"):
        return response.members[0].error.name
    if hasattr(response, "results"):
        return response.results[0][1].name
    return response.error.name


REQUESTS = {
    "a new member's join": lambda bench: bench.join(version=3),
    "a request for an id": lambda bench: bench.join(),
    "the leader's unchanged join": lambda bench: bench.join("g", LEADER),
    "a follower's unchanged join": lambda bench: bench.join("g", FOLLOWER),
    "a follower's changed join": lambda bench: bench.join("g", FOLLOWER, protocols=NEW),
    "a stranger's join": lambda bench: bench.join("g", "nobody"),
    "the leader's sync": lambda bench: bench.sync("g", LEADER, 1),
    "a follower's sync": lambda bench: bench.sync("g", FOLLOWER, 1),
    "a heartbeat": lambda bench: bench.heartbeat("g", FOLLOWER, 1),
    "a follower's leave": lambda bench: bench.leave("g", FOLLOWER),
    "everybody's leave": lambda bench: bench.leave("g", FOLLOWER, LEADER),
    "a member's commit": lambda bench: bench.commit(
        "g", {("t", 0): 1}, member_id=FOLLOWER, generation=1
    ),
    "a simple commit": lambda bench: bench.commit("g", {("t", 0): 1}),
    "a fetch": lambda bench: bench.fetch("g", ("t", 0)),
    "a deletion": lambda bench: bench.delete("g"),
}

FOLLOWER_EXPIRES = "the end of a follower's session"

# state → request → (outcome, next state)
TABLE = {
    DEAD: {
        "a new member's join": ("parked", PREPARING),
        "a request for an id": ("member_id_required", EMPTY),
        "the leader's unchanged join": ("unknown_member_id", DEAD),
        "a follower's unchanged join": ("unknown_member_id", DEAD),
        "a follower's changed join": ("unknown_member_id", DEAD),
        "a stranger's join": ("unknown_member_id", DEAD),
        "the leader's sync": ("unknown_member_id", DEAD),
        "a follower's sync": ("unknown_member_id", DEAD),
        "a heartbeat": ("unknown_member_id", DEAD),
        "a follower's leave": ("unknown_member_id", DEAD),
        "everybody's leave": ("unknown_member_id", DEAD),
        "a member's commit": ("group_id_not_found", DEAD),
        "a simple commit": ("none", EMPTY),
        "a fetch": ("none", DEAD),
        "a deletion": ("group_id_not_found", DEAD),
    },
    EMPTY: {
        "a new member's join": ("parked", PREPARING),
        "a request for an id": ("member_id_required", EMPTY),
        "the leader's unchanged join": ("unknown_member_id", EMPTY),
        "a follower's unchanged join": ("unknown_member_id", EMPTY),
        "a follower's changed join": ("unknown_member_id", EMPTY),
        "a stranger's join": ("unknown_member_id", EMPTY),
        "the leader's sync": ("unknown_member_id", EMPTY),
        "a follower's sync": ("unknown_member_id", EMPTY),
        "a heartbeat": ("unknown_member_id", EMPTY),
        "a follower's leave": ("unknown_member_id", EMPTY),
        "everybody's leave": ("unknown_member_id", EMPTY),
        "a member's commit": ("unknown_member_id", EMPTY),
        "a simple commit": ("none", EMPTY),
        "a fetch": ("none", EMPTY),
        "a deletion": ("none", DEAD),
    },
    PREPARING: {
        "a new member's join": ("parked", PREPARING),
        "a request for an id": ("member_id_required", PREPARING),
        "the leader's unchanged join": ("parked", PREPARING),
        "a follower's unchanged join": ("none", COMPLETING),
        "a follower's changed join": ("none", COMPLETING),
        "a stranger's join": ("unknown_member_id", PREPARING),
        "the leader's sync": ("rebalance_in_progress", PREPARING),
        "a follower's sync": ("rebalance_in_progress", PREPARING),
        "a heartbeat": ("rebalance_in_progress", PREPARING),
        "a follower's leave": ("none", COMPLETING),
        "everybody's leave": ("none", EMPTY),
        "a member's commit": ("none", PREPARING),
        "a simple commit": ("unknown_member_id", PREPARING),
        "a fetch": ("none", PREPARING),
        "a deletion": ("non_empty_group", PREPARING),
        FOLLOWER_EXPIRES: ("", COMPLETING),
    },
    COMPLETING: {
        "a new member's join": ("parked", PREPARING),
        "a request for an id": ("member_id_required", COMPLETING),
        "the leader's unchanged join": ("none", COMPLETING),
        "a follower's unchanged join": ("none", COMPLETING),
        "a follower's changed join": ("parked", PREPARING),
        "a stranger's join": ("unknown_member_id", COMPLETING),
        "the leader's sync": ("none", STABLE),
        "a follower's sync": ("parked", COMPLETING),
        "a heartbeat": ("none", COMPLETING),
        "a follower's leave": ("none", PREPARING),
        "everybody's leave": ("none", EMPTY),
        "a member's commit": ("rebalance_in_progress", COMPLETING),
        "a simple commit": ("unknown_member_id", COMPLETING),
        "a fetch": ("none", COMPLETING),
        "a deletion": ("non_empty_group", COMPLETING),
        FOLLOWER_EXPIRES: ("", PREPARING),
    },
    STABLE: {
        "a new member's join": ("parked", PREPARING),
        "a request for an id": ("member_id_required", STABLE),
        "the leader's unchanged join": ("parked", PREPARING),
        "a follower's unchanged join": ("none", STABLE),
        "a follower's changed join": ("parked", PREPARING),
        "a stranger's join": ("unknown_member_id", STABLE),
        "the leader's sync": ("none", STABLE),
        "a follower's sync": ("none", STABLE),
        "a heartbeat": ("none", STABLE),
        "a follower's leave": ("none", PREPARING),
        "everybody's leave": ("none", EMPTY),
        "a member's commit": ("none", STABLE),
        "a simple commit": ("unknown_member_id", STABLE),
        "a fetch": ("none", STABLE),
        "a deletion": ("non_empty_group", STABLE),
        FOLLOWER_EXPIRES: ("", PREPARING),
    },
}
CELLS = [(state, what, *cell) for state, row in TABLE.items() for what, cell in row.items()]


@pytest.mark.parametrize(
    ("state", "what", "expected", "after"),
    CELLS,
    ids=[f"{state}-{what}" for state, what, *_ in CELLS],
)
def test_every_request_in_every_state(state, what, expected, after):
    bench = in_state(state)
    if what == FOLLOWER_EXPIRES:
        bench.now += 10_000
        bench.post(TimerFired(SessionExpires("g", FOLLOWER)))
    else:
        assert outcome(REQUESTS[what](bench)) == expected
    assert bench.state() is after


def test_the_table_has_every_request_in_every_state():
    for state, row in TABLE.items():
        assert set(row) - {FOLLOWER_EXPIRES} == set(REQUESTS), state


def test_the_moves_of_the_table_are_the_valid_ones():
    """A request may make several: everybody's leave ends the join phase that it began, and a commit
    or a join makes the group that it is then decided in.
    """
    at_once = {(STABLE, EMPTY), (COMPLETING, EMPTY), (DEAD, PREPARING)}
    for state, what, _, after in CELLS:
        if after is not state and (state, after) not in at_once:
            assert state in VALID_PREVIOUS_STATES[after], what


def test_every_valid_move_is_made():
    seen = {(state, after) for state, _, _, after in CELLS}
    assert {
        (before, after) for after, befores in VALID_PREVIOUS_STATES.items() for before in befores
    } <= seen


@pytest.mark.parametrize("state", [EMPTY, STABLE])
def test_after_a_restart_of_the_coordinator_only_what_was_logged_is_left(state):
    bench = in_state(state)
    bench.restart()
    assert bench.state() is state


@pytest.mark.parametrize(
    ("state", "loaded"), [(PREPARING, STABLE), (COMPLETING, EMPTY), (DEAD, DEAD)]
)
def test_a_round_is_not_logged(state, loaded):
    bench = in_state(state)
    bench.restart()
    assert bench.state() is loaded
