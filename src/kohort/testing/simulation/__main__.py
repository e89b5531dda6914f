"""Runs the scenarios of Kohort with random faults until they have taken so many steps.

    python -m kohort.testing.simulation --steps 100000 --seed 42

Prints a line for each run. A failure prints its seed, its smallest list of faults and its timeline.
"""

import argparse
import os
import sys
import time
from typing import Final

from kohort.testing.simulation.many_seeds import run_seeds
from kohort.testing.simulation.scenarios import PERIOD_S, SCENARIOS

STEPS: Final = 100_000


def main() -> int:
    """Exit code 1 if an invariant was broken."""
    options = _parser().parse_args()
    first: int = int(time.time()) if options.seed is None else options.seed
    names: list[str] = options.scenario or list(SCENARIOS)
    started, steps, runs, failures = time.monotonic(), 0, 0, 0
    for outcome in run_seeds(first, names, options.jobs, options.steps, options.seconds):
        print(outcome.text, flush=True)
        steps, runs, failures = steps + outcome.steps, runs + 1, failures + outcome.has_failed
    seconds = time.monotonic() - started
    print(f"{runs} runs from seed {first}: {steps:,} steps in {seconds:.1f} s, {failures} failed")
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kohort.testing.simulation",
        description="Run the scenarios of Kohort with random faults.",
    )
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of all runs (%(default)s)")
    parser.add_argument("--seed", type=int, help="seed of the first run (default: by the time)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=PERIOD_S, help="simulated time with faults (%(default)s)"
    )
    parser.add_argument(
        "--scenario", action="append", choices=SCENARIOS, help="repeatable (default: all in turn)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
