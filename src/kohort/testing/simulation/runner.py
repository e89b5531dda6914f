"""Runs scenarios: one seed, and the search for the smallest list of faults that still fails."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

from kohort.errors import KohortError
from kohort.testing.simulation.faults import Fault
from kohort.testing.simulation.ledger import Violation
from kohort.testing.simulation.loop import SimulatedLoop, SimulationStuckError
from kohort.testing.simulation.machine_sources import simulated_sources
from kohort.testing.simulation.shrinking import shrink
from kohort.testing.simulation.simulation import Simulation
from kohort.testing.simulation.timeline import logged_in

Scenario: TypeAlias = Callable[[Simulation], Awaitable[object]]

MAX_STEPS: Final = 2_000_000
MAX_SHRINKS: Final = 200
"""Runs in search of a smaller list of faults."""
_CLEANUP_S: Final = 300.0
"""Simulated seconds for what is left of killed processes."""
_CLEANUP_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """One run of a scenario."""

    seed: int
    steps: int
    """Callbacks of all processes: messages that arrived, timers, tasks that went on."""
    seconds: float
    """Simulated time."""
    faults: tuple[Fault, ...]
    """What `Simulation.run` has injected."""
    violations: tuple[Violation, ...]
    timeline: str
    """The story: faults, generations, warnings."""
    trace: str
    """Every message, besides; equal for equal seeds."""


class SimulationError(AssertionError):
    """A scenario broke an invariant. Its text has the seed, the faults and the timeline."""

    def __init__(self, result: SimulationResult, scenario: str, runs: int) -> None:
        """`runs`: how often the scenario was run to make the list of faults small."""
        self.result = result
        violations = "\n".join(map(str, result.violations))
        faults = "".join(f"\n    {fault!r}," for fault in result.faults)
        super().__init__(
            f"seed {result.seed}: {violations}\n\n{result.timeline}\n\n"
            f"{len(result.faults)} faults are left after {runs} runs. To run it again:\n"
            f"simulate({result.seed}, {scenario}, faults=[{faults}\n])"
        )


def simulate(
    seed: int,
    scenario: Scenario,
    *,
    faults: Sequence[Fault] | None = None,
    settings: Mapping[str, object] | None = None,
    max_steps: int = MAX_STEPS,
    shrinks: int = MAX_SHRINKS,
) -> SimulationResult:
    """Run a scenario on simulated time and a simulated network, and check the invariants.

    The same seed gives the same run. `faults` are those of `Simulation.run`; None: random ones, by
    the seed. `settings` of the server have Kafka's names. After a failure, up to `shrinks` further
    runs search for fewer and shorter faults that break the same invariant.

    Raises SimulationError, and KohortError for settings or faults that cannot be, or if an event
    loop runs in this thread.
    """
    if asyncio._get_running_loop() is not None:
        raise KohortError(
            "a simulation has an event loop of its own: call simulate from a function without async"
        )
    result = run_once(seed, scenario, faults, settings or {}, max_steps)
    if not result.violations:
        return result
    broken = result.violations[0].invariant
    smallest, runs = result, 0

    def still_fails(fewer: Sequence[Fault]) -> bool:
        nonlocal smallest, runs
        runs += 1
        tried = run_once(seed, scenario, fewer, settings or {}, max_steps)
        fails = any(violation.invariant == broken for violation in tried.violations)
        if fails:
            smallest = tried
        return fails

    shrink(result.faults, still_fails, shrinks)
    raise SimulationError(smallest, _name_of(scenario), runs)


def _name_of(scenario: Any) -> str:
    if isinstance(scenario, partial):
        arguments = "".join(f", {name}={value!r}" for name, value in scenario.keywords.items())
        return f"partial({scenario.func.__name__}{arguments})"
    return getattr(scenario, "__name__", None) or repr(scenario)


def run_once(
    seed: int,
    scenario: Scenario,
    faults: Sequence[Fault] | None,
    settings: Mapping[str, object],
    max_steps: int = MAX_STEPS,
) -> SimulationResult:
    """Run a scenario, and return what happened, broken invariants included.

    Raises KohortError for settings or faults that cannot be.
    """
    loop = SimulatedLoop(Random(f"{seed} order"), max_steps)
    try:
        with simulated_sources(loop, str(seed)):
            simulation = Simulation(seed, loop, settings, faults)
            loop.set_exception_handler(lambda _, context: _unhandled(simulation, context))
            with logged_in(simulation.timeline):
                try:
                    _run(loop, simulation, scenario)
                finally:
                    steps, seconds = loop.steps, loop.time()
                    _clean_up(loop, simulation)
    finally:
        loop.close()
    return SimulationResult(
        seed=seed,
        steps=steps,
        seconds=seconds,
        faults=tuple(simulation.injected),
        violations=tuple(simulation.ledger.violations),
        timeline=str(simulation.timeline),
        trace=simulation.timeline.trace,
    )


def _run(loop: SimulatedLoop, simulation: Simulation, scenario: Scenario) -> None:
    async def main() -> None:
        await simulation.server.start()
        await scenario(simulation)
        await simulation.finish()

    try:
        loop.run_until_complete(main())
    except SimulationStuckError as error:
        simulation.ledger.report("progress", str(error))
    except AssertionError as error:
        simulation.ledger.report("scenario", str(error) or "an assertion failed")
    except RuntimeError:  # the loop was stopped
        if not simulation.ledger.violations:
            raise


def _unhandled(simulation: Simulation, context: dict[str, Any]) -> None:
    error = context.get("exception")
    text = f"{context['message']}: {error!r}"
    if error is None or "never retrieved" in context["message"]:
        simulation.timeline.add(text)
    else:
        simulation.ledger.report("unhandled exception", text)


async def _cancel(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CLEANUP_S)


def _clean_up(loop: SimulatedLoop, simulation: Simulation) -> None:
    """End what is left of all processes, which the outcome does not depend on any more."""
    simulation.timeline.is_over = True
    simulation.server.kill()
    mains: list[asyncio.Task[object]] = []
    for program in simulation.programs.values():
        program.kill()
        for process, task in program.killed:
            loop.revive(process)
            mains.append(task)
    for process in simulation.server.ended:
        loop.revive(process)
    loop.allow_steps(MAX_STEPS)

    async def end_tasks() -> None:
        # A program ends its own tasks, in its own order. What is left after that belongs to nobody.
        await _cancel(mains)
        for _ in range(_CLEANUP_ROUNDS):
            await _cancel([task for task in loop.tasks if task is not asyncio.current_task()])

    try:
        loop.run_until_complete(end_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
    except SimulationStuckError:
        pass
    for task in loop.tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
