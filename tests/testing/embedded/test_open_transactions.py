"""Open transactions that an embedded Kafka starts with."""

from typing import Any

import pytest

from kohort.client.sync import Producer
from kohort.errors import KafkaError, KohortError
from kohort.testing import EmbeddedKafka

ORDERS = ("orders", 0)


def values(kafka: EmbeddedKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records("orders")]


def test_records_of_an_open_transaction_are_not_committed(kafka: EmbeddedKafka) -> None:
    transaction = kafka.open_transaction("payments", {ORDERS: [b"1", b"2"], ("orders", 3): [b"3"]})
    assert (transaction.producer_id >= 0, transaction.producer_epoch) == (True, 0)
    kafka.produce("orders", b"after", partition=0)
    assert values(kafka) == []  # the last stable offset is that of the transaction
    kafka.advance_until(lambda: values(kafka))
    assert values(kafka) == [b"after"]


def test_a_transaction_is_aborted_after_its_timeout(kafka: EmbeddedKafka) -> None:
    kafka.open_transaction("payments", {ORDERS: [b"1"]}, timeout_ms=5_000)
    kafka.produce("orders", b"after", partition=0)
    kafka.advance(4)
    assert values(kafka) == []
    kafka.advance(15)  # the server looks for them every 10 s
    assert values(kafka) == [b"after"]


def test_a_new_producer_with_its_id_aborts_a_transaction(kafka: EmbeddedKafka) -> None:
    kafka.open_transaction("payments", {ORDERS: [b"lost"]})
    producer = Producer(bootstrap=kafka.bootstrap, transactional_id="payments")
    with producer, producer.transaction():
        producer.send("orders", b"kept", partition=0)
    assert values(kafka) == [b"kept"]


def test_offsets_of_an_open_transaction_are_not_committed(kafka: EmbeddedKafka) -> None:
    kafka.group("billing").commit({ORDERS: 1})
    kafka.open_transaction("payments", {}, offsets={ORDERS: 5}, group="billing")
    assert kafka.group("billing").committed == {ORDERS: 1}
    kafka.advance(75)
    assert kafka.group("billing").committed == {ORDERS: 1}


def test_an_unknown_topic_is_refused_as_for_a_producer(kafka: EmbeddedKafka) -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        kafka.open_transaction("payments", {("absent", 0): [b"1"]})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"records": {}}, "opens with its first record or offset"),
        ({"records": {ORDERS: []}}, "records: expected a mapping"),
        ({"records": {ORDERS: b"1"}}, "records: expected a mapping"),
        ({"records": {"orders": [b"1"]}}, "a partition: expected a pair"),
        ({"records": {ORDERS: ["1"]}}, "a value: expected bytes or None: encode the string"),
        ({"records": {ORDERS: [b"1"]}, "offsets": {ORDERS: 1}}, "group: expected a string"),
        ({"records": {ORDERS: [b"1"]}, "timeout_ms": 0}, "timeout_ms: expected at least 1"),
    ],
)
def test_wrong_arguments_of_a_transaction_are_named(
    embedded: EmbeddedKafka, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(KohortError) as error:
        embedded.open_transaction("payments", **fields)
    assert reason in str(error.value)
