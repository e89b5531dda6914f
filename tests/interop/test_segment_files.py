"""Files of an Apache Kafka and of a Kohort that run and compact, read beside what they serve."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.targets import KohortServe
from kohort.segments import ReadSettings, Replica, find_replicas, read
from peers.kafka import QUICK_START, Kafka, free_port, missing_tools
from waiting import wait_until

pytestmark = pytest.mark.interop

TOPIC = "compacted"
SEGMENT_BYTES = 1 << 20
"""The least that Apache Kafka allows."""
SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "50",
    "transaction.state.log.num.partitions": "1",
}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
}
RUN_S = 20.0
ROUNDS = 4
KEYS = 300


class Node(NamedTuple):
    """A server with the topic."""

    address: str
    data: Path


@pytest.fixture(scope="module", params=["kohort", pytest.param("kafka", marks=pytest.mark.clients)])
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node]:
    with started(request.param, tmp_path_factory) as found:
        admin = AdminClient({"bootstrap.servers": found.address})
        for future in admin.create_topics([NewTopic(TOPIC, 1, config=CONFIGS)]).values():
            future.result(60)
        wait_until(lambda: (found.data / f"{TOPIC}-0").exists())
        yield found


@contextmanager
def started(kind: str, directories: pytest.TempPathFactory) -> Iterator[Node]:
    if kind == "kohort":
        directory = directories.mktemp("kohort")
        server = KohortServe(directory, {"log.cleaner.backoff.ms": "20"})
        try:
            yield Node(server.address, directory / "data")
        finally:
            server.stop()
    elif reason := missing_tools():
        pytest.skip(reason)
    else:
        port = free_port(neighbours=1)
        with Kafka.start(port, SETTINGS, heap="512m", flags=QUICK_START) as kafka:
            yield Node(kafka.address, kafka.directory / "log")


class Written:
    """Two producers, one of them with transactions, until they are stopped."""

    def __init__(self, address: str) -> None:
        self.values: dict[int, bytes] = {}
        """By offset, as the broker acknowledged them."""
        self._address = address
        self._stopped = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._write, args=(each,)) for each in ("", "t")]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def _write(self, transactional_id: str) -> None:
        options = {"bootstrap.servers": self._address, "linger.ms": 5}
        if transactional_id:
            options["transactional.id"] = transactional_id
        producer = Producer(options)
        if transactional_id:
            producer.init_transactions(60)
        choose = random.Random(transactional_id)
        while not self._stopped.is_set():
            if transactional_id:
                producer.begin_transaction()
            for _ in range(400):
                key = b"%d" % choose.randrange(KEYS)
                producer.produce(TOPIC, choose.randbytes(200), key, on_delivery=self._delivered)
            producer.flush(60)
            if transactional_id and choose.random() < 0.3:
                producer.abort_transaction(60)
            elif transactional_id:
                producer.commit_transaction(60)
            time.sleep(0.1)

    def _delivered(self, error: object, message: Any) -> None:
        assert error is None, error
        self.values[message.offset()] = message.value()


def fetched(address: str) -> dict[int, bytes]:
    """The records that the broker serves now, by offset."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False,
         "enable.partition.eof": True, "auto.offset.reset": "earliest",
         "isolation.level": "read_uncommitted"}
    )  # fmt: skip
    found = {}
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), 60)
        while True:
            for message in consumer.consume(500, 0.1):
                if message.error():  # the end
                    return found
                found[message.offset()] = message.value()
                if message.offset() >= end - 1:
                    return found
    finally:
        consumer.close()


def replica_of(data: Path) -> Replica:
    ((replica,),) = find_replicas([str(data)], lambda tp: tp.topic == TOPIC).values()
    return replica


def from_files(replica: Replica, end: int) -> tuple[list[tuple[int, bytes]], set[str]]:
    """(records up to `end` in the order of reading, kinds of control records)"""
    records, controls = [], set()
    for first, last in replica.pieces(replica.start(), end, SEGMENT_BYTES):
        for batch in read(replica, first, last, ReadSettings()):
            rows = batch.select(["offset", "value", "control"]).to_pylist()
            controls |= {row["control"] for row in rows}
            records += [(row["offset"], row["value"]) for row in rows if row["control"] is None]
    return records, controls - {None}


def test_files_of_a_compacting_broker_have_the_records_that_it_serves(node: Node) -> None:
    replica = replica_of(node.data)
    written, rounds, kinds = Written(node.address), 0, set()
    with written.running():
        deadline = time.monotonic() + RUN_S
        while time.monotonic() < deadline or rounds < ROUNDS:
            before = fetched(node.address)
            end = replica.end()
            records, controls = from_files(replica, end)
            after = fetched(node.address)
            offsets = [offset for offset, _ in records]
            assert offsets == sorted(set(offsets)), "in order, and none twice"
            served = before.keys() & after.keys()
            assert [offset for offset in served - set(offsets) if offset < end] == []
            assert {offset: before[offset] for offset in served}.items() <= after.items()
            known = written.values
            assert [at for at, value in records if known.get(at, value) != value] == []
            kinds |= controls
            rounds += 1
    assert kinds == {"commit", "abort"}
    assert len(replica.segments()) < max(written.values) * 200 // SEGMENT_BYTES, "it has compacted"
    for _ in range(50):  # until no compaction comes between
        before = fetched(node.address)
        records, _ = from_files(replica, replica.end())
        if fetched(node.address) == before:
            break
        time.sleep(0.2)
    assert dict(records) == before
    assert len(records) < len(written.values) / 2


def test_a_replica_has_the_id_of_its_topic(node: Node) -> None:
    topics = AdminClient({"bootstrap.servers": node.address}).describe_topics
    from confluent_kafka import TopicCollection

    described = topics(TopicCollection([TOPIC]))[TOPIC].result(60)
    text = str(described.topic_id).translate(str.maketrans("+/", "-_"))  # as Kafka's tools show it
    assert replica_of(node.data).topic_id() == text
