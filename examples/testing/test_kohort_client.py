"""Consumers of `kohort.client`, blocking."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kohort.client.sync import ConsumerGroup
from kohort.testing import EmbeddedKafka

StartConsumer = Callable[[str], ConsumerGroup]


@pytest.fixture
def start_consumer(kafka: EmbeddedKafka) -> Iterator[StartConsumer]:
    """Starts consumers of the group `billing`, which are closed after the test."""
    with ExitStack() as opened:

        def start(client_id: str) -> ConsumerGroup:
            consumer = ConsumerGroup(
                "billing",
                topics=["orders"],
                bootstrap=kafka.bootstrap,
                client_id=client_id,
                session_timeout_ms=45_000,
                heartbeat_interval_ms=50,
            )
            return opened.enter_context(consumer)

        yield start


def test_another_member_takes_over_after_a_crash(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders", partitions=4)
    a = start_consumer("a")
    start_consumer("b")
    group = kafka.group("billing")
    group.wait(state="Stable", members=2)
    kafka.kill(a)  # its connection is gone, without a LeaveGroup
    kafka.advance(45)  # its session expires now
    stable = group.wait(state="Stable", members=1)
    assert stable.rebalances[-1].cause == "session expired"
    assert len(stable.members[0].assignment) == 4


def test_a_record_comes_again_if_its_commit_was_lost_with_the_process(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders")
    kafka.produce("orders", b"paid")
    a = start_consumer("a")
    handled = [record.value for record in next(iter(a))]
    kafka.kill(a)  # before its commit
    kafka.advance(45)
    b = start_consumer("b")
    handled += [record.value for record in next(iter(b))]
    b.commit()
    assert handled == [b"paid", b"paid"], "at least once: the program has to bear it"
    assert kafka.group("billing").committed["orders", 0] == 1
