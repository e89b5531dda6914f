"""Each fault does what it says, and ends."""

import asyncio
import time

import pytest

from kohort.errors import KohortError
from kohort.testing import Fault, Simulation, simulate
from kohort.testing.simulation.faults import FaultKind
from testing.simulation.programs import GROUP, TOPIC, member, values, write

RECORDS = [str(number).encode() for number in range(10)]


def write_with(fault: Fault) -> tuple[list[bytes | None], float, str]:
    """Write ten records, with a fault 2.5 s after the start.

    Returns the values in the topic, when the program ended, and the timeline.
    """
    outcome: list[tuple[list[bytes | None], float]] = []

    async def scenario(simulation: Simulation) -> None:
        await simulation.topic(TOPIC)
        shop = simulation.start("shop", write, simulation, len(RECORDS))
        await simulation.clock.sleep(2.5)
        simulation.inject(fault)
        await shop.wait()
        if simulation.server.is_running:
            outcome.append((values(simulation), simulation.clock.monotonic()))

    timeline = simulate(1, scenario).timeline
    return *outcome[0], timeline


@pytest.mark.parametrize(
    "fault",
    [
        Fault(0, "cut", "shop"),
        Fault(0, "lose request", "shop"),
        Fault(0, "lose request", "shop", api="Produce"),
        Fault(0, "lose response", "shop", api="Produce"),
        Fault(0, "slow network", "shop", 3.0),
        Fault(0, "slow disk", "kafka", 3.0),
        Fault(0, "restart", "kafka", 1.0),
        Fault(0, "crash", "kafka", 1.0),
        Fault(0, "power loss", "kafka", 1.0),
        Fault(0, "clock jump", "kafka", -1_000.0),
        Fault(0, "clock jump", "shop", 1_000.0),
    ],
    ids=str,
)
def test_an_idempotent_producer_writes_each_record_once(fault: Fault) -> None:
    found, ended_s, timeline = write_with(fault)
    assert found == RECORDS
    assert 9 < ended_s < 60
    assert f"FAULT {fault}" in timeline
    assert ("lost, and the connection cut" in timeline) == fault.kind.startswith("lose")


@pytest.mark.parametrize("kind", ["partition", "pause"])
def test_a_program_waits_for_the_end_of_a_fault(kind: FaultKind) -> None:
    found, ended_s, _ = write_with(Fault(0, kind, "shop", 8.0))
    assert found == RECORDS
    assert 17 < ended_s < 30


def test_a_program_that_crashes_begins_again() -> None:
    found, ended_s, _ = write_with(Fault(0, "crash", "shop", 5.0))
    assert found[:3] == RECORDS[:3]
    assert found[-10:] == RECORDS
    assert len(found) == 13, "three records were written before"
    assert ended_s > 16


def test_a_paused_server_responds_later() -> None:
    found, ended_s, _ = write_with(Fault(0, "pause", "kafka", 4.0))
    assert found == RECORDS
    assert 12 < ended_s < 30


def test_the_wall_clock_of_one_process_jumps() -> None:
    offsets: dict[str, float] = {}

    async def watch(name: str) -> None:
        await asyncio.sleep(10)
        offsets[name] = time.time() - time.monotonic()

    async def scenario(simulation: Simulation) -> None:
        simulation.start("a", watch, "a")
        simulation.start("b", watch, "b")
        simulation.inject(Fault(0, "clock jump", "b", -500.0))
        await simulation.clock.sleep(20)

    simulate(1, scenario)
    assert offsets["a"] - offsets["b"] == 500


def test_a_crashed_member_leaves_when_its_session_expires() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.topic(TOPIC, partitions=4)
        for name in ("a", "b"):
            simulation.start(name, member, simulation)
        await simulation.settle()
        assert len(simulation.group(GROUP).members) == 2
        simulation.inject(Fault(0, "crash", "a", 1_000.0))
        await simulation.clock.sleep(20)
        assert len(simulation.group(GROUP).members) == 2
        await simulation.clock.sleep(25)
        (left,) = simulation.group(GROUP).members
        assert left.client_id == "b"
        assert len(left.assignment) == 4

    simulate(1, scenario)


def test_a_power_loss_takes_what_was_not_synced_and_not_acknowledged() -> None:
    found: list[bytes | None] = []

    async def scenario(simulation: Simulation) -> None:
        await simulation.topic(TOPIC)
        simulation.inject(Fault(0, "slow disk", "kafka", 1_000.0))
        simulation.start("shop", write, simulation, 1)
        log = simulation.server.broker.topics.log(TOPIC, 0)
        assert log is not None
        while not log.end_offset:
            await simulation.clock.sleep(0.001)
        simulation.inject(Fault(0, "crash", "shop", 1_000.0))
        simulation.inject(Fault(0, "power loss", "kafka", 1.0))
        await simulation.clock.sleep(2)
        found.extend(values(simulation))

    losses = 0
    for seed in range(6):
        found.clear()
        simulate(seed, scenario)
        losses += not found
    assert losses, "the machine has lost a record that was in no fsync"


@pytest.mark.parametrize(
    ("kind", "target", "why"),
    [
        ("explode", "shop", "no fault 'explode': use one of cut, lose request"),
        ("power loss", "shop", "the fault 'power loss' has the target 'kafka' alone"),
        ("cut", "kafka", "the fault 'cut' has a program as its target"),
    ],
)
def test_an_impossible_fault_says_what_is_possible(kind: str, target: str, why: str) -> None:
    with pytest.raises(KohortError, match=why):
        Fault(0, kind, target)  # type: ignore[arg-type]


def test_a_fault_of_an_unknown_program_names_the_programs() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start("shop", asyncio.sleep, 1)
        simulation.inject(Fault(0, "cut", "stop"))

    with pytest.raises(KohortError, match="no program 'stop': the targets of faults are kafka, sh"):
        simulate(1, scenario)


def test_a_server_without_fsync_has_no_power_loss() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.run(1_000, weights={"power loss": 1, "crash": 1})
        simulation.inject(Fault(0, "power loss", "kafka"))

    with pytest.raises(KohortError, match="without durability=fsync loses records"):
        simulate(1, scenario, settings={"durability": "os"})


def test_a_server_is_killed_at_any_moment_of_its_start() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.topic(TOPIC)
        simulation.start("shop", write, simulation, 10)
        for number in range(30):
            kind: FaultKind = "power loss" if number % 3 == 0 else "crash"
            simulation.inject(Fault(0, kind, "kafka", 0.001))
            await simulation.clock.sleep(simulation.random.uniform(0, 0.01))
        await simulation.settle()
        await simulation.programs["shop"].wait()
        assert values(simulation) == RECORDS

    for seed in range(3):
        simulate(seed, scenario)
