"""How much the random tests try: a profile for every change, and a larger one for `make test-long`.

`make test` and CI load the profile `ci`. `pytest --hypothesis-profile=long` multiplies the examples
of every property by `LONGER`; simulations have that many times more seeds, which are marked `long`.
The profile `ci` tries the same examples each time, so that a change fails by what it changes; the
long one tries others each time. Both have no deadline for an example and ignore slow data
generation, because a busy machine causes both. The time limit of a whole test is pytest-timeout's.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

LONGER = 10
"""How many times more a long run tries."""


def load_profiles() -> None:
    """Register both profiles with Hypothesis and load `ci`; `--hypothesis-profile` overrides it."""
    for name in ("ci", "long"):
        settings.register_profile(
            name,
            deadline=None,
            derandomize=name == "ci",
            suppress_health_check=[HealthCheck.too_slow],
            max_examples=100 * (LONGER if name == "long" else 1),
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
    return count * LONGER if settings.get_current_profile_name() == "long" else count
