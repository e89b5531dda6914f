"""Kafka for tests of unittest."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kohort.testing.embedded.embedded_kafka import EmbeddedKafka


class KafkaTestMixin:
    """Gives each test of a `unittest.TestCase` a Kafka of its own, `self.kafka`.

    class OrdersTest(KafkaTestMixin, unittest.TestCase): …
    """

    kafka_settings: ClassVar[Mapping[str, object]] = {}
    """Settings of the server by Kafka's names, for all tests of the class."""
    kafka: EmbeddedKafka

    if TYPE_CHECKING:
        addCleanup: Callable[..., Any]  # noqa: N815  # of unittest.TestCase

    def setUp(self) -> None:
        """Start the server; it is stopped after `tearDown`. Raises KohortError."""
        super().setUp()  # type: ignore[misc]  # that of unittest.TestCase
        self.kafka = EmbeddedKafka(self.kafka_settings).start()
        self.addCleanup(self.kafka.close)
        self.addCleanup(self.kafka.verify_faults)
