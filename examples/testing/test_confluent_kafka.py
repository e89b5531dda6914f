"""Consumers of confluent-kafka."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer

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


def test_a_cooperative_hand_over_leaves_the_other_partitions_alone(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders", partitions=4)
    revoked: set[int] = set()
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
    a = start_consumer("a", **cooperative)
    a.subscribe(["orders"], on_revoke=lambda _, taken: revoked.update(tp.partition for tp in taken))
    poll_until_assigned(a)
    b = start_consumer("b", **cooperative)
    poll_until_assigned(a, b)
    assert len(revoked) == 2
    assert {tp.partition for tp in b.assignment()} == revoked
    assert {tp.partition for tp in a.assignment()} == {0, 1, 2, 3} - revoked


def test_a_commit_finds_the_next_coordinator(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders")
    kafka.produce("orders", b"paid")
    consumer = start_consumer("a")
    (message,) = consumer.consume(1, timeout=60)
    group = kafka.group("billing")
    group.move_coordinator()  # NOT_COORDINATOR until the client looks for it
    consumer.commit(message=message, asynchronous=False)
    assert group.committed["orders", 0] == 1


class Copier:
    """Copies records of orders to invoices, each in a transaction."""

    def __init__(self, bootstrap: str) -> None:
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "copier", "linger.ms": 0}
        )
        self.producer.init_transactions(60)  # ends a transaction that a crash left open

    def copy(self, consumer: Consumer, message: Message) -> None:
        self.producer.begin_transaction()
        self.producer.produce("invoices", message.value())
        self.producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60
        )


def test_a_record_is_copied_exactly_once_after_a_crash(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders")
    kafka.topic("invoices")
    kafka.produce("orders", b"paid")
    a = start_consumer("a")
    (message,) = a.consume(1, timeout=60)
    Copier(kafka.bootstrap).copy(a, message)  # and it crashes before it commits
    kafka.kill(a)
    kafka.advance(45)
    b, copier = start_consumer("b"), Copier(kafka.bootstrap)
    (message,) = b.consume(1, timeout=60)
    copier.copy(b, message)
    copier.producer.commit_transaction(60)
    assert [record.value for record in kafka.records("invoices")] == [b"paid"]
    assert kafka.group("billing").committed["orders", 0] == 1
