"""A sync of the metadata log that fails: what was refused is taken back, and service resumes."""

import asyncio
import gc
import logging
import os
import shutil
import threading
import traceback
import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gate import Gate
from kohort.errors import ErrorCode, KafkaError
from kohort.log import durability
from kohort.log.local import LocalDirectory
from kohort.log.partition import PartitionLog
from kohort.server.config.config import Config
from kohort.server.config.resources import ResourceType
from kohort.server.controller import Controller, NewPartitions, NewTopic, open_controller
from kohort.server.metadata import METADATA, SupersededError
from kohort.server.metadata_log import METADATA_LOG_CONFIG
from kohort.types import TopicPartition
from server.handlers.bench import START, batch_of
from server.topic_deletion import delete_topic


class Disk:
    """fsync of this process, which fails while `error` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: OSError | None = None
        self.is_simulated = False
        """Whether nothing is really synced, which is faster."""
        really = os.fsync

        def fsync(descriptor: int) -> None:
            if self.error is not None:
                raise self.error
            if not self.is_simulated:
                really(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.01)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


class Server:
    """Topics on one data directory, started and ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs: LocalDirectory

    def start(self) -> Controller:
        self.logs = LocalDirectory(self.path)
        self.controller = open_controller(self.logs, Config(), lambda: START)
        return self.controller

    def end(self) -> None:
        self.controller.close()
        self.logs.close()


@pytest.fixture
def server(tmp_path: Path, disk: Disk) -> Iterator[Server]:
    made = Server(tmp_path / "data")
    made.start()
    yield made
    disk.error = None
    made.end()


def refused(change: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        change()
    return caught.value.code


async def resumed(server: Server) -> None:
    async with asyncio.timeout(60):
        while server.logs.problems:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def create(controller: Controller) -> None:
    controller.topics.create("more", 1)


async def alter(controller: Controller) -> None:
    await controller.topics.alter("orders", lambda _: {"retention.ms": "7"})


async def alter_broker(controller: Controller) -> None:
    controller.writer.commit(
        *controller.configuration.set_configs(
            ResourceType.BROKER, "0", {"log.segment.bytes": "1100000"}
        )
    )


async def delete(controller: Controller) -> None:
    delete_topic(controller, "orders")


def as_it_is(controller: Controller) -> list[Any]:
    return [controller.configuration.configs_of(ResourceType.BROKER, "0")] + [
        (topic.name, topic.id, dict(topic.configs), [log.end_offset for log in topic.partitions])
        for topic in controller.replicas.topics.all()
    ]


@pytest.mark.parametrize("change", [create, alter, alter_broker, delete])
@pytest.mark.parametrize("number", [5, 28])
async def test_a_change_whose_sync_failed_is_rolled_back(
    server: Server, disk: Disk, change: Callable[[Controller], Awaitable[None]], number: int
) -> None:
    controller = server.controller
    controller.topics.create("orders", 1)
    controller.replicas.topics.log("orders", 0).append(batch_of(b"a", b"b"), START)  # type: ignore[union-attr]
    await controller.writer.durable()
    before = as_it_is(controller)
    await change(controller)
    disk.error = OSError(number, os.strerror(number))
    with pytest.raises(KafkaError, match=os.strerror(number)) as caught:
        await controller.writer.durable()
    assert caught.value.code is ErrorCode.kafka_storage_error
    assert as_it_is(controller) == before
    for each in (create, alter, alter_broker, delete):
        with pytest.raises(KafkaError) as caught:
            await each(controller)
        assert caught.value.code is ErrorCode.kafka_storage_error
    assert as_it_is(controller) == before
    controller.replicas.topics.log("orders", 0).read(0, 1_000)  # type: ignore[union-attr]
    disk.error = None
    await resumed(server)
    assert as_it_is(controller) == before
    server.end()
    assert as_it_is(server.start()) == before
    assert list(server.path.glob("*-stray")) == []


@pytest.mark.parametrize("changes", range(8, 14))
async def test_no_durable_change_is_compacted_away_by_one_that_is_not(
    server: Server, disk: Disk, changes: int
) -> None:
    """The log is durable with each sync of its owner, and not with each append."""
    controller = server.controller
    log = server.logs.open(METADATA, METADATA_LOG_CONFIG)
    log.configure(replace(METADATA_LOG_CONFIG, segment_bytes=400, min_cleanable_dirty_ratio=0.0))
    controller.topics.create("orders", 1)
    for number in range(changes):
        before = as_it_is(controller)
        await controller.topics.alter("orders", lambda _, ms=number: {"retention.ms": str(ms)})  # type: ignore[misc]
    size = log.size
    await server.logs.compact(START)
    assert log.size < size
    disk.error = OSError(5, os.strerror(5))
    with pytest.raises(KafkaError):
        await controller.writer.durable()
    assert as_it_is(controller) == before
    disk.error = None
    await resumed(server)
    server.end()
    assert as_it_is(server.start()) == before


async def test_broker_configs_that_are_taken_back_act_no_more(server: Server, disk: Disk) -> None:
    controller = server.controller
    log = controller.topics.create("orders", 1).partitions[0]
    await controller.writer.durable()
    await alter_broker(controller)
    await controller.replicas.reconfigured()
    assert log.config.segment_bytes == 1_100_000
    disk.error = OSError(5, os.strerror(5))
    with pytest.raises(KafkaError):
        await controller.writer.durable()
    await controller.replicas.reconfigured()
    assert log.config.segment_bytes == 1 << 30


async def test_a_failed_sync_is_reported_and_service_resumes(
    server: Server, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    controller = server.controller
    controller.topics.create("orders", 1)
    disk.error = OSError(5, "Input/output error")
    with pytest.raises(KafkaError):
        await controller.writer.durable()
    async with asyncio.timeout(30):
        while server.logs.problems.failed_syncs < 2:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    (told,) = server.logs.problems.texts(9)
    assert str(METADATA) in told
    assert "Input/output error" in told
    disk.error = None
    await resumed(server)
    assert caplog.text.count("metadata changes were rolled back") == 1
    assert caplog.text.count("recovered; the error was") == 1
    controller.topics.create("orders", 2)
    await controller.writer.durable()
    await controller.topics.create_topics([NewTopic("more", 1)])
    server.end()
    assert {each.name for each in server.start().replicas.topics.all()} == {"orders", "more"}


async def test_a_change_whose_sync_failed_is_not_visible_after_a_kill(
    server: Server, disk: Disk, tmp_path: Path
) -> None:
    server.controller.topics.create("orders", 1)
    disk.error = OSError(5, "Input/output error")
    with pytest.raises(KafkaError):
        await server.controller.writer.durable()
    killed = Server(tmp_path / "killed")
    shutil.copytree(server.path, killed.path)  # what a kill leaves
    disk.error = None
    assert list(killed.start().replicas.topics.all()) == []
    killed.end()


async def test_a_rolled_back_change_does_not_return_with_a_reopened_log(
    server: Server, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = server.controller
    log = server.logs.open(METADATA, METADATA_LOG_CONFIG)
    assert isinstance(log, PartitionLog)
    await create(controller)
    disk.error = OSError(5, "Input/output error")
    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", _refuse)
        with pytest.raises(KafkaError):
            await controller.writer.durable()
        log.fail("it could not be truncated")
        disk.error = None
        await asyncio.sleep(0.1)  # the failed log is retried
        await server.logs.reopen()
    await resumed(server)
    controller.topics.create("orders", 1)
    await controller.writer.durable()
    server.end()
    assert [topic.name for topic in server.start().replicas.topics.all()] == ["orders"]


def _refuse(*_: object) -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("delay_s", [0, 0.05])
async def test_a_close_during_a_sync_that_fails_is_not_clean(
    server: Server, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    server.controller.topics.create("orders", 1)
    gate = Gate()

    def fail(_: int) -> None:
        gate.wait()
        raise OSError(5, os.strerror(5))

    with monkeypatch.context() as patch:  # Linux reports an error to one fsync only
        patch.setattr(os, "fsync", fail)
        change = asyncio.create_task(server.controller.writer.durable())
        await gate.reached()
    threading.Timer(delay_s, gate.open).start()
    server.end()
    assert not (server.path / ".clean-shutdown").exists()
    with pytest.raises(KafkaError, match=os.strerror(5)):
        await change
    assert list(server.start().replicas.topics.all()) == []


@pytest.mark.parametrize("change", ["create_topics", "create_partitions", "delete_topics"])
async def test_each_waiter_gets_the_failure(server: Server, disk: Disk, change: str) -> None:
    controller = server.controller
    controller.topics.create("orders", 1)
    await controller.writer.durable()
    before = as_it_is(controller)
    made = server.logs.directories.make

    def make(*arguments: Any) -> None:
        made(*arguments)
        disk.error = OSError(5, "Input/output error")

    server.logs.directories.make = make  # type: ignore[method-assign]
    if change == "create_topics":
        (outcome,) = await controller.topics.create_topics([NewTopic("more", 1)])
    elif change == "create_partitions":
        (outcome,) = await controller.topics.create_partitions([NewPartitions("orders", 2)])
    else:
        disk.error = OSError(5, "Input/output error")
        outcome = (await controller.writer.change(controller.topics.delete_topics(["orders"])))[
            "orders"
        ]
    assert isinstance(outcome, KafkaError)
    assert outcome.code is ErrorCode.kafka_storage_error
    assert as_it_is(controller) == before
    disk.error = None
    server.logs.directories.make = made  # type: ignore[method-assign]
    await resumed(server)
    server.end()
    assert as_it_is(server.start()) == before
    assert list(server.path.glob("*-stray")) == []


async def test_records_of_a_topic_that_is_taken_back_are_kept(server: Server, disk: Disk) -> None:
    controller = server.controller
    controller.topics.create("orders", 1)
    controller.replicas.topics.log("orders", 0).append(batch_of(b"a"), START)  # type: ignore[union-attr]
    disk.error = OSError(5, "Input/output error")
    with pytest.raises(KafkaError):
        await controller.writer.durable()
    assert controller.replicas.topics.get("orders") is None
    (stray,) = server.path.glob("orders-0.*-stray")
    assert (stray / f"{0:020}.log").stat().st_size


async def test_a_large_topic_that_is_restored_gives_way(
    server: Server, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, total = server.controller, 2_000
    disk.is_simulated = True
    await controller.topics.create_topics([NewTopic("large", total)])
    before = as_it_is(controller)
    opened: list[set[TopicPartition]] = [set()]  # in each turn
    really = server.logs.open

    def note(partition: TopicPartition, *arguments: Any, **options: Any) -> Any:
        opened[-1].add(partition)
        return really(partition, *arguments, **options)

    monkeypatch.setattr(server.logs, "open", note)
    disk.error = OSError(5, "Input/output error")
    deletion = asyncio.create_task(
        controller.writer.change(controller.topics.delete_topics(["large"]))
    )
    while not deletion.done():
        await asyncio.sleep(0)
        opened.append(set())
        if controller.replicas.topics.get("large") is None and any(opened):  # in between
            assert (
                refused(lambda: controller.replication.create_topic("large", 1))
                is ErrorCode.topic_already_exists
            )
    assert deletion.result()["large"].code is ErrorCode.kafka_storage_error
    assert as_it_is(controller) == before
    assert len(set().union(*opened)) == total
    first, second, *_ = (turn for turn in opened if turn)
    assert len(first) < total / 2
    assert first.isdisjoint(second)


async def test_a_log_that_cannot_be_opened_again_is_refused(
    server: Server, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = server.controller
    controller.topics.create("orders", 2)
    await controller.writer.durable()
    really = server.logs.open

    def busy(partition: TopicPartition, *arguments: Any, **options: Any) -> Any:
        if partition == TopicPartition("orders", 1):
            monkeypatch.undo()
            raise OSError(16, "Device or resource busy")
        return really(partition, *arguments, **options)

    delete_topic(controller, "orders")
    disk.error = OSError(5, "Input/output error")
    monkeypatch.setattr(server.logs, "open", busy)
    with pytest.raises(KafkaError, match="Input/output error"):
        await controller.writer.durable()
    controller.replicas.topics.log("orders", 0).read(0, 1_000)  # type: ignore[union-attr]
    with pytest.raises(KafkaError, match="resource busy"):
        controller.replicas.topics.log("orders", 1).read(0, 1_000)  # type: ignore[union-attr]


async def test_failures_take_no_more_and_more_memory(
    server: Server,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class BrokenError(OSError):
        """One that can be referred to weakly."""

    monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.0)
    caplog.set_level(logging.CRITICAL, "kohort.topics")  # pytest keeps what is logged
    errors: weakref.WeakSet[OSError] = weakref.WeakSet()
    for _ in range(40):
        server.controller.topics.create("orders", 1)
        first = server.controller.writer.last_change
        disk.error = BrokenError(5, "Input/output error")
        errors.add(disk.error)
        with pytest.raises(KafkaError):
            await server.controller.writer.durable(first)
        disk.error = None
        await resumed(server)
    gc.collect()
    assert len(errors) < 20
    with pytest.raises(KafkaError):
        await server.controller.writer.durable(1 + first // 2)


async def test_a_refused_change_leaves_nothing_behind(server: Server, disk: Disk) -> None:
    server.controller.topics.create("orders", 1)
    disk.error = OSError(5, "Input/output error")
    with pytest.raises(KafkaError):
        await server.controller.writer.durable()
    lengths = set()
    for _ in range(20):
        with pytest.raises(KafkaError) as caught:
            server.controller.reserve_producer_ids()
        assert caught.value.__cause__ is not None
        lengths.add(len(traceback.extract_tb(caught.value.__cause__.__traceback__)))
    assert len(lengths) == 1, "each failure has its own traceback"


async def test_a_producer_id_is_never_given_twice(server: Server, disk: Disk) -> None:
    controller = server.controller
    refused_id = controller.reserve_producer_ids().start
    disk.error = OSError(5, "Input/output error")
    with pytest.raises(KafkaError):
        await controller.writer.durable()
    disk.error = None
    await resumed(server)
    given = controller.reserve_producer_ids().start
    await controller.writer.durable()
    assert given > refused_id
    server.end()
    assert server.start().reserve_producer_ids().start > given


def test_an_error_of_the_cluster_has_no_number_of_the_system() -> None:
    error = SupersededError(None, "another node has changed the same")
    assert str(error) == "another node has changed the same"
