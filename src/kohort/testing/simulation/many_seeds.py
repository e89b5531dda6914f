"""Runs of many seeds, in several processes."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from typing import NamedTuple

from kohort.testing.simulation.runner import SimulationError, simulate
from kohort.testing.simulation.scenarios import SCENARIOS


class SeedOutcome(NamedTuple):
    """One run of one of `SCENARIOS`."""

    text: str
    """A line, and after a failure the error."""
    steps: int
    has_failed: bool


def run_seeds(
    first: int, names: Sequence[str], jobs: int, steps: int, period_s: float
) -> Iterator[SeedOutcome]:
    """Run seeds from `first` on, with the scenarios in turn, until they have so many steps.

    Each has faults for `period_s` of simulated time.
    """
    # A new interpreter for each worker: a simulation replaces functions of modules.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as executor:
        seed, left = first, steps
        running: set[Future[SeedOutcome]] = set()
        while left > 0 or running:
            while left > 0 and len(running) < jobs:
                name = names[(seed - first) % len(names)]
                running.add(executor.submit(run_seed, seed, name, period_s))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                outcome = future.result()
                left -= outcome.steps
                yield outcome


def run_seed(seed: int, name: str, period_s: float) -> SeedOutcome:
    """Run one seed; a failure is made small."""
    try:
        result, text = simulate(seed, partial(SCENARIOS[name], period_s=period_s)), "ok"
    except SimulationError as error:
        result, text = error.result, f"FAILED\n{error}"
    line = (
        f"seed {seed} {name}: {result.steps} steps, {result.seconds:.0f} s simulated, "
        f"{len(result.faults)} faults: {text}"
    )
    return SeedOutcome(line, result.steps, bool(result.violations))
