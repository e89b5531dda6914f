"""`simulate`: what it checks, what it raises, and what it takes from the machine."""

import asyncio
import logging
import os
import random
import secrets
import threading
import time
from uuid import uuid4

import pytest

from kohort.errors import ConfigError, KohortError
from kohort.testing import Simulation, SimulationError, simulate
from kohort.testing.simulation.ledger import Claim, Ledger
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.timeline import Timeline
from kohort.types import TopicPartition
from testing.simulation.programs import GROUP, TOPIC, member, write


def invariant_of(error: SimulationError) -> str:
    return error.result.violations[0].invariant


# --- violations ---


def test_a_failed_assertion_of_the_scenario() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.run(60, per_minute=10)
        assert simulation.seed == 4, "another seed"

    with pytest.raises(SimulationError, match="seed 3: scenario: another seed") as failed:
        simulate(3, scenario)
    assert failed.value.result.faults == (), "it fails without faults, too"
    assert simulate(4, scenario).faults


def test_an_error_of_a_program_that_is_not_kohorts() -> None:
    async def program() -> None:
        await asyncio.sleep(5)
        raise ZeroDivisionError("none")

    async def scenario(simulation: Simulation) -> None:
        simulation.start("shop", program)
        await simulation.clock.sleep(10)

    with pytest.raises(SimulationError, match="shop ended with ZeroDivisionError") as failed:
        simulate(1, scenario)
    assert invariant_of(failed.value) == "program"
    assert failed.value.result.seconds == pytest.approx(5, abs=1)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_program_starts_again_after_an_error_of_kohort(restarts: bool) -> None:
    starts: list[float] = []

    async def program(simulation: Simulation) -> None:
        starts.append(simulation.clock.monotonic())
        if len(starts) == 1:
            raise KohortError("once")

    async def scenario(simulation: Simulation) -> None:
        await simulation.start("shop", program, simulation, restarts=restarts).wait()

    if restarts:
        simulate(1, scenario)
        assert starts[1] - starts[0] == pytest.approx(1)
    else:
        with pytest.raises(SimulationError, match="program: shop ended with KohortError"):
            simulate(1, scenario, shrinks=0)


def test_a_scenario_that_waits_for_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.server.stop()
        await asyncio.Event().wait()

    with pytest.raises(SimulationError, match="nothing is left to happen"):
        simulate(1, scenario)


@pytest.mark.parametrize("pause_s", [0, 1])
def test_a_scenario_that_does_not_end(pause_s: float) -> None:
    async def scenario(simulation: Simulation) -> None:
        while True:
            await simulation.clock.sleep(pause_s)

    with pytest.raises(SimulationError, match="did not end within 5000 steps"):
        simulate(1, scenario, max_steps=5_000)


def test_members_that_have_not_converged() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.topic(TOPIC, partitions=2)
        simulation.start("a", member, simulation)
        await simulation.clock.sleep(20)
        simulation.start("b", member, simulation)
        await simulation.clock.sleep(0.1)
        await simulation.settle(0)

    with pytest.raises(SimulationError, match=r"after 0 s without faults: members have") as failed:
        simulate(1, scenario)
    assert invariant_of(failed.value) == "convergence"


def test_two_owners_of_a_partition_in_one_generation() -> None:
    loop = SimulatedLoop(random.Random(1), 1)
    timeline = Timeline(loop)
    ledger = Ledger(timeline, lambda _: None, lambda: None)
    partition, released = TopicPartition(TOPIC, 0), False
    ledger.claim(GROUP, 1, partition, Claim("a", lambda: released))
    ledger.claim(GROUP, 1, partition, Claim("a", lambda: False))
    ledger.claim(GROUP, 2, partition, Claim("b", lambda: False))
    assert not ledger.violations
    ledger.claim(GROUP, 1, partition, Claim("b", lambda: False))
    assert {violation.invariant for violation in ledger.violations} == {"one owner"}
    assert "orders-0 is owned by a and by b in generation 1" in str(timeline)
    loop.close()


# --- arguments ---


def test_settings_of_the_server_are_checked() -> None:
    async def scenario(simulation: Simulation) -> None:
        pytest.fail(f"{simulation} has begun")

    with pytest.raises(ConfigError, match=r"group\.max\.size"):
        simulate(1, scenario, settings={"group.max.size": "many"})


def test_each_program_has_a_name_of_its_own() -> None:
    async def scenario(simulation: Simulation) -> None:
        simulation.start("shop", asyncio.sleep, 1)
        simulation.start("shop", asyncio.sleep, 1)

    with pytest.raises(KohortError, match="there is a process 'shop' already"):
        simulate(1, scenario)


async def test_a_running_event_loop_is_refused() -> None:
    async def scenario(_: Simulation) -> None:
        pytest.fail("it has begun")

    with pytest.raises(KohortError, match="from a function without async"):
        simulate(1, scenario)


# --- clients of their own, and the machine ---


def test_a_group_may_rewind_if_the_scenario_says_so() -> None:
    async def rewind(simulation: Simulation) -> None:
        async with simulation.consumer(GROUP, topics=[TOPIC]) as group:
            generation = await group.next()
            async with generation:
                (partition,) = generation.assignment
                await generation.commit({partition: 5})
                await generation.commit({partition: 2})
                group.stop()

    async def scenario(simulation: Simulation, allowed: bool = True) -> None:
        await simulation.topic(TOPIC)
        if allowed:
            simulation.allow_rewinds(GROUP)
        await simulation.start("shop", write, simulation, 6).wait()
        await simulation.start("a", rewind, simulation).wait()
        assert simulation.group(GROUP).committed == {(TOPIC, 0): 2}

    async def forbidden(simulation: Simulation) -> None:
        await scenario(simulation, allowed=False)

    simulate(1, scenario)
    with pytest.raises(SimulationError, match="has committed 5 and then 2 of orders-0"):
        simulate(1, forbidden)


def test_time_and_randomness_are_of_the_simulation() -> None:
    seen: list[tuple[object, ...]] = []
    of_thread: list[float] = []
    started = time.time()

    async def scenario(simulation: Simulation) -> None:
        await simulation.clock.sleep(100)
        thread = threading.Thread(target=lambda: of_thread.append(time.time()))
        thread.start()
        thread.join()
        seen.append(
            (
                *(time.time(), time.monotonic(), time.perf_counter_ns(), simulation.clock.time()),
                *(random.random(), uuid4(), os.urandom(8), secrets.token_hex()),
            )
        )

    for seed in (1, 1, 2):
        random.seed(7)
        simulate(seed, scenario)
        assert random.random() == random.Random(7).random()
    assert seen[0] == seen[1]
    wall_s, monotonic_s, counter_ns, clock_s = seen[0][:4]
    assert wall_s == clock_s == pytest.approx(1_700_000_100, abs=0.1)
    assert (monotonic_s, counter_ns) == (pytest.approx(100, abs=0.1), pytest.approx(1e11, rel=1e-3))
    assert all(one != other for one, other in zip(seen[0][4:], seen[2][4:], strict=True))
    assert time.time() >= of_thread[0] >= started
    assert os.urandom(8) != os.urandom(8)


def test_log_lines_are_in_the_timeline_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.topic(TOPIC)
        simulation.start("a", member, simulation)
        await simulation.settle()

    before = logging.getLogger("kohort").propagate
    timeline = simulate(1, scenario).timeline
    assert "a: billing: generation: 1 with 1 partitions by range, leads" in timeline
    assert not [record for record in caplog.records if record.name.startswith("kohort")]
    assert logging.getLogger("kohort").propagate is before
