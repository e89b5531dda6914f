"""How much the random tests try: a profile for every change, a larger one for `make test-long`, and
a smaller one for each further Python.

`make test` and CI load the profile `ci`. `pytest --hypothesis-profile=long` multiplies the examples
of every property by `LONGER`; simulations have that many times more seeds, which are marked `long`.
The profile `short` has a fifth of the examples. All but the long one try the same examples each
time, so that a change fails by what it changes. None has a deadline for an example, and all ignore
slow data generation, because a busy machine causes both. The time limit of a whole test is
pytest-timeout's.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

LONGER = 10
"""How many times more a long run tries."""
EFFORT = {"short": 0.2, "ci": 1, "long": LONGER}
"""By profile: how many times the examples of `ci`."""


def load_profiles() -> None:
    """Register the profiles with Hypothesis and load `ci`; `--hypothesis-profile` overrides it."""
    for name, effort in EFFORT.items():
        settings.register_profile(
            name,
            deadline=None,
            derandomize=name != "long",
            suppress_health_check=[HealthCheck.too_slow],
            max_examples=int(100 * effort),
        )
    settings.load_profile("ci")


def seeds(count: int) -> list[Any]:
    """Parameters for a simulation: `count` seeds, and more that are marked `long`."""
    more = (pytest.param(seed, marks=pytest.mark.long) for seed in range(count, count * LONGER))
    return [*range(count), *more]


def examples(count: int) -> int:
    """The number of examples for `count` of the profile `ci`, in the profile that is loaded.

    Tests call it while they are imported: Hypothesis has loaded its profile by then.
    """
    return max(1, int(count * EFFORT[settings.get_current_profile_name()]))
