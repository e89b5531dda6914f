"""Topics: every change is one record, and what the log says is what there is after any restart."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.log.partition_mark import new_cluster_id
from kohort.server.controller import NewPartitions, NewTopic
from kohort.server.metadata import METADATA
from kohort.server.replicas import Topics
from kohort.types import TopicPartition
from server.faulty_logs import EVERY_PARTITION
from server.handlers.bench import HandlerBench
from server.topic_deletion import delete_topic


def snapshot(topics: Topics) -> dict[str, Any]:
    return {
        topic.name: (topic.id, len(topic.partitions), dict(topic.configs), topic.internal)
        for topic in topics.all()
    }


def refused(act: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value.code


async def growth_refused(bench: HandlerBench, name: str, total: int) -> ErrorCode:
    (grown,) = await bench.controller.topics.create_partitions([NewPartitions(name, total)])
    assert isinstance(grown, KafkaError)
    return grown.code


async def test_topics_configs_and_records_survive_a_restart(bench: HandlerBench) -> None:
    bench.controller.topics.create("orders", 3, {"retention.ms": "7"})
    bench.controller.topics.create(
        "__consumer_offsets", 2, {"cleanup.policy": "compact"}, internal=True
    )
    bench.controller.topics.create("gone", 1)
    delete_topic(bench.controller, "gone")
    await bench.controller.topics.create_partitions([NewPartitions("orders", 5)])
    await bench.controller.topics.alter("orders", lambda _: {"retention.bytes": "9"})
    bench.fill("orders", 4)
    before, cluster_id = snapshot(bench.topics), bench.controller.image.cluster_id
    bench.restart()
    assert snapshot(bench.topics) == before
    assert before["orders"][1:] == (5, {"retention.bytes": "9"}, False)
    assert bench.controller.image.cluster_id == cluster_id
    orders = bench.topics.get("orders")
    assert orders is not None
    assert bench.topics.by_id(orders.id) is orders
    assert [log.end_offset for log in orders.partitions] == [0, 0, 0, 0, 1]
    assert orders.partitions[4].config.retention_bytes == 9


def test_a_topic_takes_appends_as_soon_as_it_is_there(bench: HandlerBench) -> None:
    topic = bench.controller.topics.create("orders", 2)
    bench.fill("orders", 1)
    assert topic.partitions[1].end_offset == 1
    assert bench.topics.log("orders", 1) is topic.partitions[1]
    for missing in (("orders", 2), ("orders", -1), ("nope", 0)):
        assert bench.topics.log(*missing) is None


async def test_invalid_changes_of_topics_are_refused(bench: HandlerBench) -> None:
    create = bench.controller.topics.create
    create("a.b", 1)
    assert refused(lambda: create("a.b", 1)) is ErrorCode.topic_already_exists
    assert refused(lambda: create("a_b", 1)) is ErrorCode.invalid_topic_exception
    assert refused(lambda: create("a b", 1)) is ErrorCode.invalid_topic_exception
    assert refused(lambda: create("c", 0)) is ErrorCode.invalid_partitions
    assert refused(lambda: create("c", 10_001)) is ErrorCode.policy_violation
    assert refused(lambda: create("c", 1, {"foo": "1"})) is ErrorCode.invalid_config
    assert await growth_refused(bench, "a.b", 1) is ErrorCode.invalid_partitions
    unknown = ErrorCode.unknown_topic_or_partition
    assert await growth_refused(bench, "nope", 2) is unknown
    assert refused(lambda: delete_topic(bench.controller, "nope")) is unknown
    assert list(snapshot(bench.topics)) == ["a.b"]


def test_a_name_is_free_again_after_deletion_and_the_records_are_gone(bench: HandlerBench) -> None:
    first = bench.controller.topics.create("a.b", 1)
    bench.fill("a.b")
    told: list[frozenset[str]] = []
    bench.controller.replicas.deletions.on_deleted.append(told.append)
    delete_topic(bench.controller, "a.b")
    assert told == [], "a power loss may still bring the topic back"
    bench.controller.writer.flush()
    assert told == [frozenset({"a.b"})]
    assert bench.topics.by_id(first.id) is None
    second = bench.controller.topics.create("a_b", 1)
    delete_topic(bench.controller, "a_b")
    third = bench.controller.topics.create("a.b", 1)
    assert len({first.id, second.id, third.id}) == 3
    assert third.partitions[0].end_offset == 0


async def test_a_name_is_free_once_the_offsets_of_its_topic_are_gone(bench: HandlerBench) -> None:
    gone = asyncio.Event()
    bench.controller.replicas.deletions.on_deleted.append(
        lambda names: [asyncio.create_task(wait_for(gone))]
    )
    bench.controller.topics.create("a.b", 1)
    delete_topic(bench.controller, "a.b")
    await bench.controller.writer.durable()
    creating = asyncio.ensure_future(bench.controller.topics.create_topics([NewTopic("a.b", 1)]))
    await asyncio.wait((creating,), timeout=0.05)
    assert not creating.done()
    gone.set()
    (created,) = await creating
    assert bench.topics.get("a.b") is created


async def wait_for(event: asyncio.Event) -> None:
    await event.wait()


def test_marked_logs_that_belong_to_no_topic_are_set_aside_at_start(bench: HandlerBench) -> None:
    orders = bench.controller.topics.create("orders", 2)
    bench.directory.directories.make(
        {TopicPartition("never-created", 0): UUID(int=9), TopicPartition("orders", 2): orders.id}
    )
    bench.restart()
    assert set(bench.directory.names()) == {METADATA, ("orders", 0), ("orders", 1)}


async def test_a_creation_that_fails_leaves_nothing(bench: HandlerBench) -> None:
    bench.directory.fail("open", TopicPartition("orders", 2))
    assert (
        refused(lambda: bench.controller.topics.create("orders", 3))
        is ErrorCode.kafka_storage_error
    )
    assert set(bench.directory.names()) == {METADATA}
    bench.controller.topics.create("orders", 2)
    assert await growth_refused(bench, "orders", 3) is ErrorCode.kafka_storage_error
    assert snapshot(bench.topics)["orders"][1] == 2
    bench.restart()
    assert snapshot(bench.topics)["orders"][1] == 2


async def test_a_record_that_cannot_be_appended_changes_nothing(bench: HandlerBench) -> None:
    bench.controller.topics.create("orders", 1)
    before = snapshot(bench.topics)
    bench.directory.fail("append", METADATA)
    for act in (
        lambda: bench.controller.topics.create("more", 1),
        lambda: delete_topic(bench.controller, "orders"),
        lambda: bench.controller.writer.commit(
            *bench.controller.client_quotas.alter_quotas(
                {(("user", "a"),): {"producer_byte_rate": 1.0}}
            )
        ),
        bench.controller.reserve_producer_ids,
    ):
        assert refused(act) is ErrorCode.kafka_storage_error
    assert await growth_refused(bench, "orders", 2) is ErrorCode.kafka_storage_error
    with pytest.raises(KafkaError) as caught:
        await bench.controller.topics.alter("orders", lambda _: {"retention.ms": "1"})
    assert caught.value.code is ErrorCode.kafka_storage_error
    assert snapshot(bench.topics) == before
    assert set(bench.directory.names()) == {METADATA, ("orders", 0)}


def test_files_that_could_not_be_removed_do_not_come_back(bench: HandlerBench) -> None:
    bench.controller.topics.create("orders", 1)
    bench.fill("orders")
    bench.directory.fail("remove", EVERY_PARTITION)
    delete_topic(bench.controller, "orders")
    bench.controller.writer.flush()
    bench.directory.heal()
    assert bench.controller.topics.create("orders", 1).partitions[0].end_offset == 0


def test_producer_ids_are_never_given_twice(bench: HandlerBench) -> None:
    given_ids = [bench.controller.reserve_producer_ids().start for _ in range(3)]
    bench.restart()
    given_ids.append(bench.controller.reserve_producer_ids().start)
    assert len(set(given_ids)) == 4


def test_cluster_ids_look_like_kafkas() -> None:
    assert len({new_cluster_id() for _ in range(5)}) == 5
    assert all(
        len(each) == 22 and "-" not in each  # since Kafka 4.4
        for each in (new_cluster_id() for _ in range(200))
    )


def test_a_change_that_is_cancelled_before_it_begins(
    bench: HandlerBench, recwarn: pytest.WarningsRecorder
) -> None:
    async def stop_at_once() -> None:
        for _ in range(2):  # the second waits for the first
            creation = bench.controller.topics.create_topics([NewTopic("orders", 1)])
            asyncio.get_running_loop().create_task(creation)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(stop_at_once())
    gc.collect()
    assert not [each.message for each in recwarn if "never awaited" in str(each.message)]
