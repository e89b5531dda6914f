"""A Kafka for each test, without the pytest plugin, which may be of another version."""

from collections.abc import Iterator

import pytest

from kohort.testing import EmbeddedKafka, RemoteKafka


@pytest.fixture
def embedded() -> Iterator[EmbeddedKafka]:
    """A Kafka of this process, for tests that look inside or hand over functions."""
    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        yield kafka


@pytest.fixture(params=["embedded", "remote"])
def kafka(request: pytest.FixtureRequest) -> Iterator[EmbeddedKafka]:
    """A Kafka of this process, and one of another process with the same verbs over HTTP."""
    if request.param == "embedded":
        yield request.getfixturevalue("embedded")
        return
    with RemoteKafka(request.getfixturevalue("control")) as kafka:
        kafka.topic("orders", partitions=4)
        yield kafka
