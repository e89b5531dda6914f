"""Fixtures for tests of handlers."""

from collections.abc import Iterator

import pytest

from server.handlers.bench import HandlerBench


@pytest.fixture
def bench() -> Iterator[HandlerBench]:
    made = HandlerBench()
    yield made
    made.directory.close()


@pytest.fixture
def topic(bench: HandlerBench) -> str:
    """The name of a topic with three partitions."""
    bench.controller.topics.create("orders", 3)
    return "orders"
