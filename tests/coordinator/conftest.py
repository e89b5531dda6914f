import pytest

from kohort.testing.bench import Bench


@pytest.fixture
def bench():
    """A shard without an initial rebalance delay."""
    return Bench()
