"""The assignors of Kafka's server as the measure: the same targets, in the order of its records."""

from collections.abc import Iterator

import pytest

from assignors.jvm import running

from .histories import History
from .java import Java

pytestmark = pytest.mark.interop

STEPS = 8


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    yield from running(Java)


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 400), marks=pytest.mark.long)], ids=["some", "many"]
)
def test_targets_are_those_of_kafkas_assignor(seeds: range, java: Java) -> None:
    for seed in seeds:
        for question in History(seed).questions(STEPS):
            java.assign(question).check(question)
