"""Consumers of `kohort.client`, blocking."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import pytest

from kohort.client import Record, StuckError
from kohort.client.sync import ConsumerGroup
from kohort.testing import EmbeddedKafka

StartConsumer = Callable[..., ConsumerGroup]


@pytest.fixture
def start_consumer(kafka: EmbeddedKafka) -> Iterator[StartConsumer]:
    """Starts consumers of the group `billing`, which are closed after the test."""
    with ExitStack() as opened:

        def start(client_id: str, max_poll_interval_ms: int | None = None) -> ConsumerGroup:
            consumer = ConsumerGroup(
                "billing",
                topics=["orders"],
                bootstrap=kafka.bootstrap,
                client_id=client_id,
                session_timeout_ms=45_000,
                heartbeat_interval_ms=50,
                max_poll_interval_ms=max_poll_interval_ms,
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


def test_a_consumer_that_takes_too_long_loses_its_partitions(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders")
    kafka.produce("orders", b"paid")
    slow = start_consumer("slow", max_poll_interval_ms=100)
    batches = iter(slow)
    next(batches)  # and it works on this batch for too long
    kafka.group("billing").wait(state="Empty")
    other = start_consumer("other")
    assert [record.value for record in next(iter(other))] == [b"paid"]
    with pytest.raises(StuckError):
        next(batches)


def total(records: Iterable[Record[bytes, bytes]]) -> dict[str, int]:
    """Cents by currency. The first version of an order had no currency: all were in EUR."""
    totals: dict[str, int] = {}
    for record in records:
        order = json.loads(record.value or b"{}")
        currency = order.get("currency", "EUR")
        totals[currency] = totals.get(currency, 0) + order["cents"]
    return totals


def test_records_of_both_versions_of_a_schema_are_read(
    kafka: EmbeddedKafka, start_consumer: StartConsumer
) -> None:
    kafka.topic("orders")
    kafka.produce("orders", b'{"cents": 500}', b'{"cents": 700, "currency": "USD"}')
    assert total(next(iter(start_consumer("a")))) == {"EUR": 500, "USD": 700}
