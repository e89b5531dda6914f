"""Scenarios of Kohort's own hold with random faults."""

from functools import partial

import pytest

from kohort.testing import simulate
from kohort.testing.simulation.scenarios import SCENARIOS


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_invariant_is_broken(name: str, seed: int) -> None:
    result = simulate(seed, partial(SCENARIOS[name], period_s=60))
    assert result.steps > 1_000
    assert result.seconds > 60


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_invariant_is_broken_for_many_seeds(name: str, seed: int) -> None:
    simulate(seed, SCENARIOS[name])
