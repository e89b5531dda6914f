"""Consumers of confluent-kafka."""

from confluent_kafka import Consumer

from kohort.testing import EmbeddedKafka


def start_consumer(kafka: EmbeddedKafka, client_id: str, **settings: object) -> Consumer:
    """A consumer of the group `billing`, with further settings (underscores for dots)."""
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
    return consumer


def test_another_member_takes_over_after_a_crash(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", partitions=4)
    a, b = start_consumer(kafka, "a"), start_consumer(kafka, "b")
    group = kafka.group("billing")
    group.wait(state="Stable", members=2, poll=lambda: (a.poll(0), b.poll(0)))
    kafka.kill(a)  # its connection is gone, without a LeaveGroup; it is not closed either
    kafka.advance(45)  # its session expires now
    stable = group.wait(state="Stable", members=1, poll=lambda: b.poll(0))
    assert "session expired" in [rebalance.cause for rebalance in stable.rebalances]
    assert stable.members[0].assignment == tuple(("orders", number) for number in range(4))
