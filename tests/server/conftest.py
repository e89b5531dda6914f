"""Fixtures for tests of handlers."""

from collections.abc import Iterator

import pytest

from server.handlers.bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.directory.close()


@pytest.fixture
def topic(bench: Bench) -> str:
    """The name of a topic with three partitions."""
    bench.topics.create("orders", 3)
    return "orders"
