"""Consumers of kafka-python."""

import json
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer  # type: ignore[import-untyped]

from kohort.testing import EmbeddedKafka

StartConsumer = Callable[[str], KafkaConsumer]


@pytest.fixture
def start_consumer(kafka: EmbeddedKafka) -> Iterator[StartConsumer]:
    """Starts consumers of the group `billing`, which are closed after the test."""
    started = []

    def start(client_id: str) -> KafkaConsumer:
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap,
            group_id="billing",
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=45_000,
            heartbeat_interval_ms=50,
            retry_backoff_ms=20,
        )
        started.append(consumer)
        return consumer

    yield start
    for consumer in started:
        consumer.close()


def test_another_member_takes_over_after_a_crash(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders", partitions=4)
    a, b = start_consumer("a"), start_consumer("b")
    group = kafka.group("billing")
    group.wait(state="Stable", members=2, poll=lambda: (a.poll(5), b.poll(5)))
    kafka.kill(a)  # its connection is gone, without a LeaveGroup
    kafka.advance(45)  # its session expires now
    stable = group.wait(state="Stable", members=1, poll=lambda: b.poll(5))
    assert "session expired" in [rebalance.cause for rebalance in stable.rebalances]
    assert len(stable.members[0].assignment) == 4


def handle(consumer: KafkaConsumer, totals: list[int], put_aside: Callable[..., object]) -> None:
    """The program that is tested: add up amounts, and put aside what is no amount."""
    for records in consumer.poll(100).values():
        for record in records:
            try:
                totals.append(json.loads(record.value)["amount"])
            except (ValueError, KeyError):
                put_aside("orders.dead", record.value, key=record.key)
    consumer.commit()


def test_a_poison_record_is_put_aside_and_the_next_one_is_handled(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders")
    kafka.topic("orders.dead")
    kafka.produce("orders", b'{"amount": 1}', b"\x00poison", b'{"amount": 2}')
    consumer, totals = start_consumer("a"), list[int]()
    kafka.group("billing").wait(
        committed={("orders", 0): 3}, poll=lambda: handle(consumer, totals, kafka.produce)
    )
    assert totals == [1, 2]
    assert [record.value for record in kafka.records("orders.dead")] == [b"\x00poison"]
