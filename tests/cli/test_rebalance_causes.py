"""The causes of a rebalance as a sentence."""

import pytest

from kohort.cli.rebalance_causes import describe_causes
from kohort.coordinator.journal import Cause


@pytest.mark.parametrize(
    ("causes", "sentence"),
    [
        (
            (Cause("joined", "a-1", "a"), Cause("joined", "b-1", "b"), Cause("left", "c-1", "c")),
            "a, b joined; c left",
        ),
        ((Cause("joined", "a-1", "a"), Cause("joined", "a-2", "a")), "a joined"),
        ((Cause("left", "a-1"),), "a-1 left"),
        ((Cause("something new", "a-1", "a"),), "a: something new"),
        ((), "no cause is recorded"),
    ],
)
def test_causes_become_a_sentence(causes: tuple[Cause, ...], sentence: str) -> None:
    assert describe_causes(causes) == sentence
