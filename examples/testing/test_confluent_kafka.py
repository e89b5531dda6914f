"""Consumers of confluent-kafka."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from kohort.testing import EmbeddedKafka

StartConsumer = Callable[..., Consumer]


@pytest.fixture
def start_consumer(kafka: EmbeddedKafka) -> Iterator[StartConsumer]:
    """Starts consumers of the group `billing`, which are closed after the test.

    Further settings have underscores for dots.
    """
    started = []

    def start(client_id: str, **settings: object) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "billing",
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 50,
                "fetch.wait.max.ms": 10,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        consumer.subscribe(["orders"])
        started.append(consumer)
        return consumer

    yield start
    for consumer in started:
        consumer.close()


def poll_until_assigned(*consumers: Consumer) -> None:
    """Poll consumers until each has taken its partitions, for at most a minute.

    A consumer that is closed before it has polled its partitions may wait forever.
    """
    deadline = time.monotonic() + 60
    while not all(consumer.assignment() for consumer in consumers):
        assert time.monotonic() < deadline, "a consumer got no partitions"
        for consumer in consumers:
            consumer.poll(0.005)


def test_another_member_takes_over_after_a_crash(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders", partitions=4)
    a, b = start_consumer("a"), start_consumer("b")
    group = kafka.group("billing")
    group.wait(state="Stable", members=2, poll=lambda: (a.poll(0), b.poll(0)))
    poll_until_assigned(a, b)
    kafka.kill(a)  # its connection is gone, without a LeaveGroup
    kafka.advance(45)  # its session expires now
    stable = group.wait(state="Stable", members=1, poll=lambda: b.poll(0))
    poll_until_assigned(b)
    assert "session expired" in [rebalance.cause for rebalance in stable.rebalances]
    assert stable.members[0].assignment == tuple(("orders", number) for number in range(4))


def test_an_offset_that_does_not_exist_is_reset_to_the_earliest(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders")
    kafka.produce("orders", b"first", b"second")
    kafka.group("billing").commit({("orders", 0): 99})  # beyond the end
    consumer = start_consumer("a")
    assert [message.value() for message in consumer.consume(2, timeout=60)] == [b"first", b"second"]


def test_a_static_member_restarts_without_a_rebalance(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders", partitions=4)
    group = kafka.group("billing")
    first = start_consumer("a", group_instance_id="billing-1")
    poll_until_assigned(first)
    before = group.wait(state="Stable", members=1)
    first.close()  # a static member does not leave
    kafka.advance(30)  # the deployment takes less than its session timeout
    again = start_consumer("a", group_instance_id="billing-1")
    poll_until_assigned(again)
    after = group.read()
    assert after.members[0].member_id != before.members[0].member_id
    assert (after.state, after.generation) == ("Stable", before.generation)
    assert len(after.rebalances) == len(before.rebalances)
