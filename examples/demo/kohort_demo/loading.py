"""The topic: made once, filled once with a real producer, found again by the next run."""

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kohort_demo import flights
from kohort_demo.errors import DemoError
from kohort_demo.flights import Flight

TOPIC = "flights"
PARTITIONS = 6
PATIENCE = 300.0
"""Seconds that one request may take, which is librdkafka's most."""
LIMITS = {"log_level": 0, "socket.timeout.ms": int(PATIENCE * 1000)}

Ends = Mapping[int, int]
"""Partition → end offset."""


def existing(address: str) -> Ends | None:
    """The end offsets of a topic that an earlier run filled, None if there is no topic yet.

    Raises DemoError for another topic of this name, KafkaException without a response.
    """
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", **LIMITS})
    try:
        topic = consumer.list_topics(TOPIC, PATIENCE).topics[TOPIC]
        if topic.error is not None or not topic.partitions:
            return None
        marks = {
            at: consumer.get_watermark_offsets(TopicPartition(TOPIC, at), PATIENCE)
            for at in topic.partitions
        }
    finally:
        consumer.close()
    ends = {at: mark[1] for at, mark in sorted(marks.items()) if mark is not None}
    if len(ends) != PARTITIONS or sum(ends.values()) < flights.COUNT:
        raise DemoError(
            f"topic {TOPIC!r} is there already, with {len(ends)} partitions and "
            f"{sum(ends.values()):,} records where "
            f"{PARTITIONS} and {flights.COUNT:,} are expected: delete it, or name "
            "another directory with --data"
        )
    return ends


def load(address: str, records: Iterable[Flight], on_progress: Callable[[int], None]) -> Ends:
    """Make the topic and produce all records; the topic is deleted again if that does not succeed.

    `on_progress` gets the number of records that are acknowledged so far, now and then.
    """
    admin = AdminClient({"bootstrap.servers": address, **LIMITS})
    # The records carry the hours of 2013: retention by age would take them away at once.
    topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
    try:
        admin.create_topics([topic], request_timeout=PATIENCE)[TOPIC].result()
        produce(address, records, on_progress)
        ends = existing(address)
    except KafkaException as error:
        forget(admin)
        raise DemoError(f"the flights could not be loaded: {error.args[0]}") from error
    except BaseException:
        forget(admin)
        raise
    if ends is None:
        raise DemoError(f"topic {TOPIC!r} is gone right after it was filled")
    return ends


def produce(address: str, records: Iterable[Flight], on_progress: Callable[[int], None]) -> None:
    """Keyed by carrier, lz4, idempotent, acknowledged by the server before this returns."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.num.messages": 500,
            "queue.buffering.max.messages": 50_000,
            "message.timeout.ms": 2 * LIMITS["socket.timeout.ms"],
            **LIMITS,
        }
    )
    sent = 0
    for carrier, line, hour in records:
        while True:
            try:
                producer.produce(TOPIC, line, carrier, timestamp=hour)
                break
            except BufferError:
                producer.poll(0.05)
        sent += 1
        if sent % 2_000 == 0:
            on_progress(max(0, sent - len(producer)))
    while left := producer.flush(0.1):
        on_progress(max(0, sent - left))
    on_progress(sent)


def forget(admin: AdminClient) -> None:
    """Delete a topic that was filled in part, as far as that is possible."""
    try:
        admin.delete_topics([TOPIC], request_timeout=PATIENCE)[TOPIC].result()
    except KafkaException:
        pass
