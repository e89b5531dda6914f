"""What a group costs grows with its members, not with their square: the core's instructions that
are run, counted.
"""

import sys
from collections.abc import Callable
from itertools import count

import pytest

from kohort.coordinator.requests import ConnectionClosed
from kohort.testing.bench import Bench

FEW, MANY = 25, 100


def instructions(work: Callable[[], object]) -> int:
    """How many bytecode instructions of `kohort.coordinator` are run."""
    numbers = count()

    def trace(frame, event, _):
        if "coordinator" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            next(numbers)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return next(numbers)


def ids(bench, members):
    return [bench.join("g", connection=f"c{n}").response.member_id for n in range(members)]


def settled(bench, members):
    """The members of a stable group, the leader's id first."""
    known = ids(bench, members)
    joins = [bench.join("g", member_id, connection=f"c{n}") for n, member_id in enumerate(known)]
    bench.advance(0)
    sync(bench, known, joins[0].response)
    return known


def sync(bench, known, joined):
    followers = [member_id for member_id in known if member_id != joined.leader]
    for member_id in followers:
        bench.sync("g", member_id, joined.generation, {})
    bench.sync("g", joined.leader, joined.generation, dict.fromkeys(known, b"a"))


def first_round(members):
    bench = Bench()
    return lambda: settled(bench, members)


def next_round(members):
    bench = Bench()
    known = settled(bench, members)

    def work():
        bench.leave("g", known[-1])
        joins = [bench.join("g", member_id) for member_id in known[:-1]]
        sync(bench, known[:-1], joins[0].response)

    return work


def all_leave_one_by_one(members):
    bench = Bench()
    known = settled(bench, members)
    return lambda: [bench.leave("g", member_id) for member_id in known]


def all_expire(members):
    bench = Bench()
    settled(bench, members)
    return lambda: bench.advance(1_000_000)


def clients_ask_for_ids_and_go(members):
    bench = Bench()
    settled(bench, members)
    ids(bench, members)
    return lambda: [bench.post(ConnectionClosed(f"c{n}")) for n in range(members)]


def newcomers_join_while_others_sync(members):
    """Each newcomer disturbs the sync phase only once: the round that follows takes all of them."""
    bench = Bench()
    known = settled(bench, members)
    bench.leave("g", known[-1])
    for member_id in known[:-1]:
        bench.join("g", member_id)
    newcomers = ids(bench, members)
    return lambda: [bench.join("g", member_id) for member_id in newcomers]


@pytest.mark.parametrize(
    "scenario",
    [
        first_round,
        next_round,
        all_leave_one_by_one,
        all_expire,
        clients_ask_for_ids_and_go,
        newcomers_join_while_others_sync,
    ],
)
def test_four_times_the_members_take_about_four_times_the_work(scenario):
    instructions(scenario(FEW))  # Python 3.12 and 3.13 leave out what code runs for the first time
    few, many = instructions(scenario(FEW)), instructions(scenario(MANY))
    assert many < 1.05 * MANY / FEW * few
