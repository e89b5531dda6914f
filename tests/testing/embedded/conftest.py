"""An embedded Kafka for each test, without the pytest plugin, which may be of another version."""

from collections.abc import Iterator

import pytest

from kohort.testing import EmbeddedKafka


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        yield kafka
