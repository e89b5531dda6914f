"""The client without an event loop, in threads and forked processes."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from interop.processes import PATIENCE_S
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.errors import (
    DeserializationError,
    GaveUpError,
    SerializationError,
    UndeliveredError,
)
from kohort.client.group_errors import GenerationEndedError, GroupError
from kohort.client.sync import Consumer, ConsumerGroup, Producer, run
from kohort.errors import ConfigError, KafkaError, KohortError
from kohort.types import TopicPartition
from live.client.brokers import Site

QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}


@pytest.fixture
def config(site: Site) -> ClientConfig:
    return ClientConfig(bootstrap=site.address, retry_backoff_ms=20)


@pytest.fixture
def topic(config: ClientConfig) -> str:
    """A fresh one with three partitions."""
    name = f"sync-{uuid4().hex}"
    create(config, name, partitions=3)
    return name


def create(config: ClientConfig, name: str, **options: Any) -> None:
    async def create() -> None:
        async with Cluster(config) as cluster:
            await Admin(cluster).create_topic(name, **options)

    run(create())


@pytest.fixture
def filled(config: ClientConfig, topic: str) -> str:
    """The topic with twenty records in each partition."""
    with Producer(config) as producer:
        for n in range(60):
            producer.send(topic, b"%d" % (n // 3), partition=n % 3)
    return topic


def test_records_are_sent_and_read(config: ClientConfig, topic: str) -> None:
    with Producer(config, linger_ms=5) as producer:
        first = producer.send_and_wait(topic, b"first", partition=0)
        assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
        deliveries = [producer.send(topic, b"%d" % n, partition=0) for n in range(2_000)]
        assert [each.result(PATIENCE_S).offset for each in deliveries] == list(range(1, 2_001))
        assert all(each.done() for each in deliveries)
        assert producer.metrics().records == 2_001
    with Consumer(config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = [next(consumer).value for _ in range(2_001)]
        (partition,) = consumer.metrics().fetch.partitions.values()
        assert (partition.position, partition.lag) == (2_001, 0)
    assert found == [b"first", *(b"%d" % n for n in range(2_000))]


def test_threads_share_a_producer_and_each_keeps_its_order(
    config: ClientConfig, topic: str
) -> None:
    with Producer(config) as producer:

        def send(partition: int) -> None:
            for n in range(300):
                producer.send(topic, b"%d" % n, partition=partition)

        threads = [threading.Thread(target=send, args=(each,)) for each in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        producer.flush()
        with Consumer(config) as consumer:
            for partition in range(3):
                consumer.assign([TopicPartition(topic, partition)])
                assert [next(consumer).value for _ in range(300)] == [b"%d" % n for n in range(300)]


def test_a_refused_record_is_told_once(
    config: ClientConfig, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(config) as producer:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            producer.send(topic, bytes(2_000_000)).result(PATIENCE_S)
        producer.flush()
    gc.collect()
    assert caplog.text == ""


def test_no_record_is_lost_without_an_error(config: ClientConfig) -> None:
    name = f"compacted-{uuid4().hex}"
    create(config, name, partitions=1, configs={"cleanup.policy": "compact"})
    with Producer(config) as producer:
        heard = producer.send(name, b"no key")
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            heard.result(PATIENCE_S)
        producer.send(name, b"no key")
        producer.send(name, bytes(2_000_000))
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            producer.send("not a name", b"v")
        with pytest.raises(UndeliveredError, match="1 records were not delivered") as info:
            producer.flush()
        assert len(info.value.exceptions) == 2
        assert "MESSAGE_TOO_LARGE" in str(info.value)
        with pytest.raises(TypeError, match="encode it"):
            producer.send(name, "text")  # type: ignore[arg-type]
    with pytest.raises(KohortError, match="the producer is closed"):
        producer.send(name, b"v", key=b"k")


def test_an_error_of_the_application_loses_no_record(config: ClientConfig, topic: str) -> None:
    def produce() -> None:
        with Producer(config, buffer_memory=40_000) as producer:
            for _ in range(2_000):
                producer.send(topic, bytes(100), partition=0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        produce()
    with Consumer(config) as consumer:
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2_000}


LEFT_OPEN = """
import sys
from kohort.client import ClientConfig
from kohort.client.sync import Producer

def send(address, topic):
    producer = Producer(ClientConfig(bootstrap=address), linger_ms=60_000)
    for _ in range(3):
        producer.send(topic, b"v")

send(*sys.argv[1:])
"""


def test_a_process_that_ends_tells_what_an_open_producer_loses(
    config: ClientConfig, topic: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN, str(config.bootstrap), topic],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "3 records were not delivered" in ended.stderr


def test_positions_of_a_consumer_follow_each_record(config: ClientConfig, filled: str) -> None:
    first, second, _ = (TopicPartition(filled, index) for index in range(3))
    with Consumer(config, group_id=f"g-{uuid4().hex}") as consumer:
        consumer.assign({first: 4})
        assert [next(consumer).offset for _ in range(3)] == [4, 5, 6]
        assert consumer.position(first) == 7
        consumer.commit()
        assert [next(consumer).offset for _ in range(2)] == [7, 8]
        found = consumer.committed([first])[first]
        assert found is not None
        assert found.offset == 7
        consumer.pause(first)
        consumer.resume(first)
        assert next(consumer).offset == 9
        batch = consumer.next_batch(max_wait_ms=PATIENCE_S * 1_000)
        assert batch is not None
        assert [record.offset for record in batch] == list(range(10, 20))
        consumer.seek(first, 2)
        assert next(consumer).offset == 2
        consumer.seek_to_end()
        assert consumer.position(first) == 20
        assert consumer.end_offsets([first, second]) == {first: 20, second: 20}


def here(content: Any) -> Any:
    """Plain functions may block: they run in the thread of the application."""
    assert threading.current_thread() is threading.main_thread()
    return json.loads(content) if isinstance(content, bytes) else json.dumps(content).encode()


async def on_the_loop(content: Any) -> Any:
    assert threading.current_thread() is not threading.main_thread()
    await asyncio.sleep(0)
    return json.loads(content) if isinstance(content, bytes) else json.dumps(content).encode()


@pytest.mark.parametrize("convert", [here, on_the_loop])
def test_values_are_serialized_and_deserialized(
    config: ClientConfig, topic: str, convert: Any
) -> None:
    with Producer(config, value_serializer=convert) as producer:
        producer.send(topic, {"n": 0}, partition=0)
        with pytest.raises(SerializationError):
            producer.send(topic, object(), partition=0)
        producer.send(topic, None, partition=0)
        producer.send(topic, {"n": 2}, partition=0)
    with Producer(config) as plain:
        plain.send(topic, b"{", partition=0)
    with Consumer(config, value_deserializer=convert) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = [next(consumer) for _ in range(4)]
        consumer.seek_to_beginning()
        batch = consumer.next_batch(max_wait_ms=PATIENCE_S * 1_000)
        assert batch is not None
        assert batch.records[0].value == {"n": 0}
    assert [each.value for each in found[:3]] == [{"n": 0}, None, {"n": 2}]
    with pytest.raises(DeserializationError, match=f"{topic}-0 at offset 3"):
        found[3].value  # noqa: B018
    with ConsumerGroup(
        f"g-{uuid4().hex}",
        topics=[topic],
        value_deserializer=convert,
        bootstrap=config.bootstrap,
        **QUICK,
    ) as group:
        assert next(iter(next(group))).value == {"n": 0}


def test_a_batch_whose_deserializing_is_interrupted_comes_again(
    config: ClientConfig, filled: str
) -> None:
    interrupted: list[bytes] = []

    def interrupted_once(data: bytes) -> bytes:
        if not interrupted:
            interrupted.append(data)
            raise KeyboardInterrupt
        return data

    def consumer() -> Consumer:
        found = Consumer(config, value_deserializer=interrupted_once)
        found.assign([TopicPartition(filled, 0)])
        return found

    def group() -> ConsumerGroup:
        return ConsumerGroup(
            f"g-{uuid4().hex}",
            topics=[filled],
            value_deserializer=interrupted_once,
            bootstrap=config.bootstrap,
            **QUICK,
        )

    with consumer() as reading:
        with pytest.raises(KeyboardInterrupt):
            next(reading)
        assert [next(reading).offset for _ in range(20)] == list(range(20))
    interrupted.clear()
    with group() as member:
        with pytest.raises(KeyboardInterrupt):
            next(member)
        with pytest.raises(KohortError, match="no batch in work"):
            member.commit()
        assert len(values(member, 60)) == 60


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest, site: Site) -> str:
    """Of the group."""
    if request.param == "consumer" and site.name.startswith("kafka-3"):
        pytest.skip("Apache Kafka 3 has no consumer groups of KIP-848")
    return request.param


@pytest.fixture
def group(config: ClientConfig, filled: str, protocol: str) -> Iterator[ConsumerGroup]:
    with ConsumerGroup(
        f"g-{uuid4().hex}",
        topics=[filled],
        bootstrap=config.bootstrap,
        protocol=protocol,
        **QUICK,
    ) as group:
        yield group


def values(group: ConsumerGroup, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for batch in group:
        found += [(record.partition, record.offset) for record in batch]
        group.commit()
        if len(found) >= count:
            break
    return found


def test_a_group_reads_all_and_commits(config: ClientConfig, group: ConsumerGroup) -> None:
    found = values(group, 60)
    assert sorted(found) == [(partition, n) for partition in range(3) for n in range(20)]
    metrics = group.metrics()
    assert (metrics.fetch.lag, metrics.commits.partitions > 0) == (0, True)
    group.stop()
    assert list(group) == []
    with pytest.raises(KohortError, match="no batch in work"):
        group.commit()


def test_no_batch_is_handed_out_after_a_stop(group: ConsumerGroup) -> None:
    """Those of the other partitions wait to be taken."""
    next(group)
    time.sleep(0.2)
    group.stop()
    assert list(group) == []


def test_a_group_is_entered_once(group: ConsumerGroup) -> None:
    with pytest.raises(KohortError, match="entered before"):
        group.__enter__()
    group.close()
    with pytest.raises(KohortError, match="entered before"):
        group.__enter__()


def test_a_group_that_was_not_entered_says_so() -> None:
    group = ConsumerGroup("g", topics=["t"], bootstrap="127.0.0.1:1")
    for use in (group.stop, group.__next__):
        with pytest.raises(KohortError, match="enter the group first"):
            use()
    group.close()


def test_an_error_ends_the_iteration_and_a_closed_group_is_at_its_end(
    config: ClientConfig, filled: str
) -> None:
    options = QUICK | {"session_timeout_ms": 100_000_000}
    with ConsumerGroup("g", topics=[filled], bootstrap=config.bootstrap, **options) as group:
        for _ in range(2):
            with pytest.raises(GroupError, match="session_timeout_ms is outside"):
                next(group)
    assert list(group) == []
    group.close()


def test_a_second_member_takes_over_where_the_first_committed(
    config: ClientConfig, group: ConsumerGroup, protocol: str
) -> None:
    found = values(group, 20)
    group.close()
    with ConsumerGroup(
        group.group_id,
        topics=group.topics,
        bootstrap=config.bootstrap,
        protocol=protocol,
        **QUICK,
    ) as other:
        found += values(other, 60 - len(found))
    assert sorted(found) == [(partition, n) for partition in range(3) for n in range(20)]


def test_a_batch_in_work_is_finished_before_a_partition_moves(
    config: ClientConfig, filled: str, group: ConsumerGroup, protocol: str
) -> None:
    batch = next(group)
    joined = threading.Event()
    found: list[tuple[int, int]] = []

    def join() -> None:
        with ConsumerGroup(
            group.group_id,
            topics=[filled],
            bootstrap=config.bootstrap,
            protocol=protocol,
            **QUICK,
        ) as other:
            for batch in other:
                if batch.topic_partition == moved:
                    joined.set()
                found.extend((record.partition, record.offset) for record in batch)
                other.commit()
                if len(found) + len(mine) >= 60:
                    other.stop()

    moved = batch.topic_partition
    mine = [(record.partition, record.offset) for record in batch]
    thread = threading.Thread(target=join)
    thread.start()
    time.sleep(1)
    assert not joined.is_set()  # the partition waits for the batch in work
    group.commit()
    group.stop()
    assert list(group) == []
    group.close()
    thread.join(PATIENCE_S)
    assert sorted(mine + found) == [(partition, n) for partition in range(3) for n in range(20)]


def test_an_owner_that_is_too_late_cannot_commit(config: ClientConfig, filled: str) -> None:
    options = QUICK | {"rebalance_timeout_ms": 1_000, "drain_timeout_ms": 200}
    name = f"g-{uuid4().hex}"
    with ConsumerGroup(name, topics=[filled], bootstrap=config.bootstrap, **options) as group:
        next(group)
        with ConsumerGroup(name, topics=[filled], bootstrap=config.bootstrap, **options) as other:
            next(other)
            with pytest.raises(GenerationEndedError):
                group.commit()


def test_a_signal_ends_the_iteration(group: ConsumerGroup) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    group.stop_on([signal.SIGUSR1])
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    for _ in group:
        group.commit()
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_forked_process_is_told_to_open_its_own(config: ClientConfig, topic: str) -> None:
    with Producer(config) as producer:
        producer.send_and_wait(topic, b"v", partition=0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                producer.send_and_wait(topic, b"v")
            except KohortError as error:
                with Producer(config) as own:
                    own.send_and_wait(topic, b"of the child", partition=0)
                status = 0 if "open one in each process" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.send_and_wait(topic, b"v", partition=0).offset == 2


def in_a_fork(work: Callable[[], object]) -> str:
    """The text of the KohortError that `work` raises in a forked process."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE_S))
        try:
            work()
        except KohortError as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as text:
        told = text.read()
    os.waitpid(child, 0)
    return told


def test_a_fork_while_records_are_taken(config: ClientConfig, topic: str) -> None:
    with Producer(config, max_block_ms=1_000) as producer:
        refused = producer.send(topic, b"v", partition=99)
        assert "open one in each process" in in_a_fork(lambda: producer.send(topic, b"v"))
        with pytest.raises(GaveUpError, match="the topic has 3 partitions"):
            refused.result(PATIENCE_S)


def test_a_fork_of_a_member(group: ConsumerGroup) -> None:
    assert "open one in each process" in in_a_fork(lambda: next(group))


def test_a_group_can_write_every_so_often(config: ClientConfig, filled: str) -> None:
    group = f"group-{uuid4().hex}"
    options = QUICK | {"retry_backoff_ms": 20}
    collected: list[bytes] = []
    offsets: dict[TopicPartition, int] = {}
    with ConsumerGroup(group, topics=[filled], bootstrap=config.bootstrap, **options) as members:
        with pytest.raises(KohortError, match="no batch of it"):
            members.commit({TopicPartition(filled, 0): 1})
        for batch in members.batches(max_wait_ms=100):
            if batch is not None:
                collected += [record.value or b"" for record in batch]
                offsets[batch.topic_partition] = batch.next_offset
            elif len(collected) == 60:
                members.commit(offsets)
                break
        assert next(members.batches(max_wait_ms=0)) is None
        with pytest.raises(ValueError, match="max_wait_ms is -1"):
            members.batches(max_wait_ms=-1)
        members.stop()
        assert list(filter(None, members.batches(max_wait_ms=60_000))) == []
    assert sorted(collected) == sorted(b"%d" % (n // 3) for n in range(60))
    assert len(offsets) == 3
    with Consumer(config, group_id=group) as consumer:
        found = consumer.committed(offsets)
    assert {tp: each and each.offset for tp, each in found.items()} == dict.fromkeys(offsets, 20)


def test_reading_to_an_end(config: ClientConfig, filled: str) -> None:
    partitions = [TopicPartition(filled, index) for index in range(3)]
    first = partitions[0]
    with Consumer(config, group_id=f"group-{uuid4().hex}") as consumer:
        consumer.assign_topics(filled)
        found = [(each.partition, each.offset) for each in consumer.read_to({first: 5})]
        assert found == [(0, n) for n in range(5)]
        assert [consumer.position(each) for each in partitions] == [5, 0, 0]
        assert next(consumer.read_to({first: 9}), None) is not None
        assert list(consumer.read_to({first: 3})) == []
        assert consumer.position(first) == 6
        consumer.commit()
        assert consumer.committed([first])[first] is not None
        rest = list(consumer.read_to(consumer.end_offsets(partitions)))
        assert len(rest) == 54
        assert [consumer.position(each) for each in partitions] == [20] * 3


def test_a_group_subscribes_to_another_topic(config: ClientConfig, group: ConsumerGroup) -> None:
    other = f"sync-{uuid4().hex}"
    create(config, other, partitions=1)
    with Producer(config) as producer:
        producer.send_and_wait(other, b"value")
    next(group)
    with pytest.raises(ConfigError, match="a list of names is needed"):
        group.subscribe(other)
    group.subscribe([other])
    assert any(batch.topic_partition.topic == other for batch in group)


def test_positions_of_a_group(group: ConsumerGroup, filled: str) -> None:
    batch = next(group)
    here = batch.topic_partition
    others = [each for each in group.assignment if each != here]
    assert {here, *others} == {TopicPartition(filled, index) for index in range(3)}
    assert group.position(here) == batch.next_offset
    assert group.lag(here) == 20 - batch.next_offset
    group.seek(here, 5)
    group.pause(*others)
    assert [group.position(each) for each in others] == [0, 0]
    again = next(group)
    assert (again.topic_partition, again.first_offset) == (here, 5)
    group.commit()
    group.seek(here, 20)
    assert next(group.batches(max_wait_ms=50)) is None
    group.resume(*others)
    assert next(group).topic_partition in others
    with pytest.raises(GenerationEndedError, match="is not assigned"):
        group.seek(TopicPartition(filled, 3), 0)


def test_records_of_a_group(config: ClientConfig, group: ConsumerGroup, filled: str) -> None:
    read = []
    for record in group.records():
        read.append((record.partition, record.offset))
        if len(read) == 30:
            group.seek(TopicPartition(filled, record.partition), record.offset + 1)
        if len(read) == 60:
            group.stop()
    assert sorted(read) == [(partition, n) for partition in range(3) for n in range(20)]
    group.close()
    partitions = [TopicPartition(filled, index) for index in range(3)]
    with Consumer(config, group_id=group.group_id) as consumer:
        found = consumer.committed(partitions)
    assert [each and each.offset for each in found.values()] == [20] * 3
