"""Traffic of other client libraries, recorded and replayed.

The server of a replay is in the state in which the recording began, so it differs in nothing.
"""

import asyncio
import time
from pathlib import Path

import aiokafka
import pytest
from confluent_kafka import Consumer, Producer

from kohort.client.config import ClientConfig
from kohort.recording import Proxy, Recorder, ReplayResult, replay
from kohort.testing import AsyncEmbeddedKafka, EmbeddedKafka

pytestmark = [pytest.mark.interop]
QUIET = {"log_level": 0}


def replayed(path: Path) -> ReplayResult:
    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        return kafka.replay(path)


def consumer(bootstrap: str, client_id: str) -> Consumer:
    started = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "client.id": client_id,
            "heartbeat.interval.ms": 50,
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    started.subscribe(["orders"])
    return started


def produce_in_a_transaction(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments", **QUIET})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(10):
        producer.produce("orders", b"paid %d" % number, key=b"Ann")
    producer.commit_transaction(60)


def test_a_takeover_of_librdkafka_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        with kafka.record(path):
            a, b = consumer(kafka.bootstrap, "a"), consumer(kafka.bootstrap, "b")
            group = kafka.group("billing")
            poll = lambda: (a.poll(0), b.poll(0))  # noqa: E731
            group.wait(state="Stable", members=2, poll=poll, timeout=60)
            kafka.kill(a)
            kafka.advance(seconds=45)
            group.wait(state="Stable", members=1, poll=lambda: b.poll(0), timeout=60)
            assert group.rebalances[-1].cause == "session expired"
            kafka.let_killed_leave()
            b.close()
    result = replayed(path)
    assert not result.differences, str(result)
    assert result.responses > 30


def test_a_transaction_of_librdkafka_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        with kafka.record(path, redact_values=True):
            produce_in_a_transaction(kafka.bootstrap)
    with EmbeddedKafka() as other:
        other.topic("orders", partitions=4)
        result = other.replay(path)
        assert not result.differences, str(result)
        assert len(other.records("orders")) == 10


async def test_a_member_of_aiokafka_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with AsyncEmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        with kafka.record(path):
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=kafka.bootstrap, enable_idempotence=True
            )
            async with producer:
                await producer.send_and_wait("orders", b"paid", partition=0)
            member = aiokafka.AIOKafkaConsumer(
                "orders",
                bootstrap_servers=kafka.bootstrap,
                group_id="billing",
                auto_offset_reset="earliest",
            )
            async with member:
                assert (await member.getone()).value == b"paid"
                await member.commit()
    async with AsyncEmbeddedKafka() as other:
        other.topic("orders", partitions=4)
        result = await other.replay(path)
        assert not result.differences, str(result)
        assert other.group("billing").committed["orders", 0] == 1


async def test_a_proxy_records_librdkafka(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    async with AsyncEmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        host, _, port = kafka.bootstrap.rpartition(":")
        with Recorder(path, time.monotonic) as recorder:
            async with Proxy(("127.0.0.1", 0), ((host, int(port)),), recorder) as proxy:
                address = "{}:{}".format(*proxy.address)
                await asyncio.to_thread(produce_in_a_transaction, address)
        assert len(kafka.records("orders")) == 10
    async with AsyncEmbeddedKafka() as other:
        other.topic("orders", partitions=4)
        result = await replay(path, ClientConfig(bootstrap=other.bootstrap))
        assert not result.differences, str(result)
        assert len(other.records("orders")) == 10
