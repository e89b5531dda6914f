"""Runs the scenarios of Kohort with random faults until they have taken so many steps.

    python -m kohort.testing.simulation --steps 100000 --seed 42

Prints a line for each run. A failure prints its seed, its smallest list of faults and its timeline.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Final

from kohort.testing.simulation.runner import SimulationError, simulate
from kohort.testing.simulation.scenarios import SCENARIOS

STEPS: Final = 100_000


def main() -> int:
    """Exit code 1 if an invariant was broken."""
    options = _parser().parse_args()
    first: int = int(time.time()) if options.seed is None else options.seed
    names: list[str] = options.scenario or list(SCENARIOS)
    started, steps, runs, failures = time.monotonic(), 0, 0, 0
    for lines, taken in _results(first, names, options.jobs, options.steps):
        print(lines, flush=True)
        steps, runs, failures = steps + abs(taken), runs + 1, failures + (taken < 0)
    seconds = time.monotonic() - started
    print(f"{runs} runs from seed {first}: {steps:,} steps in {seconds:.1f} s, {failures} failed")
    return 1 if failures else 0


def _results(first: int, names: list[str], jobs: int, steps: int) -> Iterator[tuple[str, int]]:
    """The lines of each run and its steps, which are negative if it failed."""
    # A new interpreter for each worker: a simulation replaces functions of modules.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as executor:
        seed, left = first, steps
        running: set[Future[tuple[str, int]]] = set()
        while left > 0 or running:
            while left > 0 and len(running) < jobs:
                running.add(executor.submit(_run, seed, names[(seed - first) % len(names)]))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                lines, taken = future.result()
                left -= abs(taken)
                yield lines, taken


def _run(seed: int, name: str) -> tuple[str, int]:
    try:
        result, text = simulate(seed, SCENARIOS[name]), "ok"
    except SimulationError as error:
        result, text = error.result, f"FAILED\n{error}"
    line = (
        f"seed {seed} {name}: {result.steps} steps, {result.seconds:.0f} s simulated, "
        f"{len(result.faults)} faults: {text}"
    )
    return line, -result.steps if result.violations else result.steps


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kohort.testing.simulation", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of all runs (%(default)s)")
    parser.add_argument("--seed", type=int, help="seed of the first run (default: by the time)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)"
    )
    parser.add_argument(
        "--scenario", action="append", choices=SCENARIOS, help="repeatable (default: all in turn)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
