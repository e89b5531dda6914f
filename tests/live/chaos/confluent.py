"""Producers and members of confluent-kafka (librdkafka), each on a thread of its own."""

import logging
import random
import re
import threading
import time
from concurrent.futures import Future

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from live.chaos.ledger import Ledger, commit_mark
from live.chaos.settings import (
    BOTH,
    HEARTBEAT_MS,
    PARTITIONS,
    RECORDS_A_SECOND,
    SESSION_MS,
    UNACKNOWLEDGED,
    MemberPlan,
    ProducerPlan,
    Protocol,
)

logger = logging.getLogger("librdkafka")
logger.setLevel(logging.DEBUG)

COMMIT_SECONDS = 20.0
"""A commit that takes longer may never return, and another instance takes the place of the member.

librdkafka 2.16 was seen to wait in `rd_kafka_commit_queue` for good, in a group of the consumer
protocol whose coordinator had moved several times. `rd_kafka_commit` has no time limit.
"""
QUERY_LOST = re.compile(r"Failed to fetch committed offsets for (partitions|\d+ partition)")
"""How the error begins with which librdkafka 2.16 gives up partitions for good.

OffsetFetch was refused for the whole group, as by NOT_COORDINATOR, or a connection ended before its
response and the assignment had changed meanwhile. `rd_kafka_assignment_handle_OffsetFetch` then
leaves the partitions among those whose query is on its way. They are not read; in a group of the
consumer protocol they are not revoked either, and once the coordinator expels the member for that,
it does not join again.
"""
DOWNGRADED = "ConsumerGroupHeartbeat fatal error: Broker: The group id does not exist"
"""How the error ends with which a member of the consumer protocol stops for good: the group became
a classic one while it was away. Apache Kafka has the same code (69) for it.
"""
_KEEPS_ORDER = {"metadata.recovery.strategy": "none"}
"""After a rebootstrap, librdkafka may send its newest record ahead of those that it retries."""
EPOCHS_TOLD = {"debug": "eos", "log_level": 7}
"""Has librdkafka log epoch bumps: batches that it sends again after one may be stored twice."""
QUIET = {"log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}


class GaveUpError(Exception):
    """The library of a member says that it does not go on, and only another instance can."""


def produce(
    plan: ProducerPlan, address: str, ledger: Ledger, stop: threading.Event, rng: random.Random
) -> None:
    value = 0
    client = plan.name

    def delivered(error, message):
        if error is not None:
            ledger.violation(f"{client} could not deliver {message.value()!r}: {error}")
        else:
            at = (message.topic(), message.partition())
            offset = message.offset()
            # None: it learned only that the record was a duplicate.
            known = -1 if offset is None else offset
            ledger.record_acknowledged(client, at, known, int(message.value()))

    def failed(error):
        if error.fatal():
            ledger.violation(f"{client} failed: {error}")

    while not stop.is_set():
        producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": plan.idempotent,
                "max.in.flight.requests.per.connection": 5 if plan.idempotent else 1,
                "acks": "all",
                "linger.ms": 5,
                "error_cb": failed,
                **QUIET,
                **(EPOCHS_TOLD if plan.idempotent else _KEEPS_ORDER),
            },
            logger=logger,
        )
        ends = time.monotonic() + rng.uniform(*plan.life_seconds)
        while time.monotonic() < ends and not stop.is_set():
            if len(producer) < UNACKNOWLEDGED:
                at = value % PARTITIONS
                producer.produce(plan.topic, b"%d" % value, partition=at, on_delivery=delivered)
                value += 1
            producer.poll(1 / RECORDS_A_SECOND)
        if producer.flush(60):
            ledger.violation(f"{client} has undelivered records")


def consume(
    plan: MemberPlan, address: str, ledger: Ledger, stop: threading.Event, rng: random.Random
) -> None:
    def assigned(consumer, partitions):
        owned = [(each.topic, each.partition) for each in partitions]
        if (member := consumer.memberid()) is not None:  # else it was expelled meanwhile
            ledger.record_owned(plan.group, None, member, owned)

    while not stop.is_set():
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": plan.group,
                "client.id": plan.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **_protocol(rng.choice(plan.protocols)),
                **QUIET,
            }
        )
        consumer.subscribe(list(plan.topics), on_assign=assigned)
        ends = time.monotonic() + rng.uniform(*plan.life_seconds)
        try:
            while time.monotonic() < ends and not stop.is_set():
                _step(plan, consumer, ledger)
        except TimeoutError:
            ledger.replaced[plan.name] += 1  # to close it would wait for the commit too
        except GaveUpError as error:
            logger.warning("%s is replaced: %s", plan.name, error)
            ledger.replaced[plan.name] += 1
            consumer.close()
        else:
            consumer.close()


def _protocol(protocol: Protocol) -> dict[str, str | int]:
    """Settings of the protocol: in that of consumer groups the server has the other ones."""
    if protocol == "consumer":
        # Who waits for a commit for good leaves the group by itself, and gives up what it owns.
        return {"group.protocol": protocol, "max.poll.interval.ms": round(COMMIT_SECONDS * 1_000)}
    return {
        "partition.assignment.strategy": "range",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }


def _step(plan: MemberPlan, consumer: Consumer, ledger: Ledger) -> None:
    """Raises GaveUpError; TimeoutError if its commit takes too long."""
    following = {}
    for message in consumer.consume(500, 0.2):
        if (error := message.error()) is not None:
            _hear(plan, error, ledger)
            if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                ledger.violation(f"{plan.name} failed: {error}")
            continue
        partition = (message.topic(), message.partition())
        ledger.record_read(plan.name, partition, message.offset(), message.value())
        following[partition] = message.offset() + 1
    if not following:
        return
    offsets = [
        TopicPartition(*partition, offset, metadata=commit_mark(plan.name))
        for partition, offset in following.items()
    ]
    try:
        done = _commit(consumer, offsets)
    except KafkaException as refused:
        _hear(plan, refused.args[0], ledger)
        return  # nothing was acknowledged: the group rebalances, or the server is down
    for each in done:
        if each.error is None:
            ledger.record_committed(
                plan.name, plan.group, (each.topic, each.partition), each.offset
            )


def _hear(plan: MemberPlan, error: KafkaError, ledger: Ledger) -> None:
    """Raises GaveUpError if nothing but that can come of it."""
    said = ledger.errors[plan.name] = error.str()
    if QUERY_LOST.match(said) or (plan.protocols == BOTH and said.endswith(DOWNGRADED)):
        raise GaveUpError(said)


def _commit(consumer: Consumer, offsets: list[TopicPartition]) -> list[TopicPartition]:
    """What is committed. Raises KafkaException; TimeoutError if it takes too long."""
    outcome: Future[list[TopicPartition]] = Future()

    def commit() -> None:
        try:
            outcome.set_result(consumer.commit(offsets=offsets, asynchronous=False))
        except KafkaException as error:
            outcome.set_exception(error)

    threading.Thread(target=commit, daemon=True).start()
    return outcome.result(COMMIT_SECONDS)
