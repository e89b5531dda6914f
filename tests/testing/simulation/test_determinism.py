"""Same seed, same run: byte for byte, in any process."""

import os
import subprocess
import sys
from functools import partial

import pytest

from kohort.testing.simulation.runner import run_once
from kohort.testing.simulation.scenarios import SCENARIOS

PROGRAM = """
import sys
from functools import partial
from kohort.testing.simulation.runner import run_once
from kohort.testing.simulation.scenarios import SCENARIOS
result = run_once(int(sys.argv[1]), partial(SCENARIOS[sys.argv[2]], period_s=40), None, {})
assert not result.violations, result.violations
sys.stdout.write(result.trace)
"""


def trace_of_a_process(seed: int, name: str, hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seed), name],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_have_the_same_trace_for_a_seed(name: str) -> None:
    first = trace_of_a_process(11, name, "0")
    assert "FAULT" in first
    assert first.count("\n") > 500
    assert trace_of_a_process(11, name, "4711") == first


def test_seeds_differ_and_repeat_within_a_process() -> None:
    scenario = partial(SCENARIOS["consumer"], period_s=10)
    traces = [run_once(seed, scenario, None, {}).trace for seed in (1, 2, 1)]
    assert traces[0] == traces[2]
    assert traces[0] != traces[1]
