"""Topics of a node that reads what another one has logged of them."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kohort.cluster import worker_of
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.memory import MemoryDirectory
from kohort.log.remote_log import RemoteLog
from kohort.server.config import Config
from kohort.server.config.resources import ResourceType
from kohort.server.controller import (
    Controller,
    ForwardingController,
    NewPartitions,
    NewTopic,
    forwarded_topic_changes,
    open_controller,
)
from kohort.server.metadata import METADATA, ClusterIdRecord, TopicRecord, decode_batches
from kohort.server.metadata_log import FollowedMetadataLog
from kohort.server.metadata_log.local import METADATA_LOG_CONFIG, LocalMetadataLog
from kohort.server.replicas.metadata_loader import MAX_BATCH_TOPICS
from kohort.types import Timestamp, TopicPartition
from server.topic_deletion import delete_topic

WORKERS = 2
NOW = Timestamp(1_700_000_000_000)


def config() -> Config:
    return Config({"storage": "memory"})


def is_of(worker: int, partition: TopicPartition) -> bool:
    return worker_of(partition, WORKERS) == worker


@pytest.fixture
def pair(tmp_path: Path) -> Iterator["Pair"]:
    pair = Pair(tmp_path)
    yield pair
    pair.logs.close()


class Pair:
    """Worker 0, which changes topics, and worker 1, which follows it."""

    def __init__(self, path: Path) -> None:
        self.directory = MemoryDirectory()
        self.leader = open_controller(
            self.directory, config(), lambda: NOW, lambda each: is_of(0, each)
        )
        self.logs = LocalDirectory(path, cluster_id=self.leader.image.cluster_id)
        self.start()

    def start(self) -> None:
        """Have worker 1 start with what worker 0 has logged by now."""
        self.metadata = FollowedMetadataLog()
        for offset, record in decode_batches(self.logged()):
            self.metadata.replay(offset, record)
        self.follower = ForwardingController(
            *(self.logs, config(), lambda each: is_of(1, each)),
            *(self.metadata, self),
        )

    async def create_topics(self, wanted: Sequence[NewTopic]) -> list[KafkaError | None]:
        """As the controller of worker 1."""
        created = await self.leader.topics.create_topics(wanted)
        return [each if isinstance(each, KafkaError) else None for each in created]

    async def allocate_producer_ids(self) -> range:
        return await self.leader.allocate_producer_ids()

    def logged(self) -> bytes:
        log = self.directory.open(METADATA, METADATA_LOG_CONFIG)
        return bytes(log.read(log.start_offset, 1 << 20))

    async def follow(self) -> None:
        await self.follower.follow(decode_batches(self.logged()))

    def check(self, *names: str) -> None:
        """Both know these topics alone, and each has its share of the logs."""
        described = [
            {each.name: each.record() for each in controller.replicas.topics.all()}
            for controller in (self.leader, self.follower)
        ]
        assert described[0] == described[1]
        assert set(described[0]) == set(names)
        for worker, controller in enumerate((self.leader, self.follower)):
            for topic in controller.replicas.topics.all():
                for log in topic.partitions:
                    is_here = is_of(worker, log.topic_partition)
                    assert isinstance(log, RemoteLog) is not is_here
        assert set(self.logs.names()) == {
            log.topic_partition
            for topic in self.follower.replicas.topics.all()
            for log in topic.partitions
            if is_of(1, log.topic_partition)
        }


async def test_topics_come_grow_change_and_go_as_the_other_node_says(pair: "Pair") -> None:
    await pair.leader.topics.create_topics(
        [NewTopic("a", 4), NewTopic("b", 1), NewTopic("gone", 3)]
    )
    await pair.follow()
    pair.check("a", "b", "gone")
    await pair.leader.topics.create_partitions([NewPartitions("a", 7)])
    await pair.leader.topics.alter("b", lambda _: {"retention.ms": "7"})
    delete_topic(pair.leader, "gone")
    await pair.leader.writer.durable()
    told: list[frozenset[str]] = []
    pair.follower.replicas.deletions.on_deleted.append(lambda names: told.append(names) or ())
    await pair.follow()
    pair.check("a", "b")
    assert told == [{"gone"}]
    found = pair.follower.replicas.topics.get("b")
    assert found is not None
    assert found.effective["retention.ms"] == 7


async def test_a_node_that_starts_again_knows_what_was_logged_meanwhile(pair: "Pair") -> None:
    await pair.leader.topics.create_topics([NewTopic("a", 4), NewTopic("gone", 4)])
    await pair.follow()
    delete_topic(pair.leader, "gone")
    await pair.leader.topics.create_partitions([NewPartitions("a", 6)])
    await pair.leader.writer.durable()
    pair.start()
    pair.check("a")
    await pair.follow()
    pair.check("a")


async def test_a_topic_that_is_made_again_under_its_name_is_another_one(pair: "Pair") -> None:
    await pair.leader.topics.create_topics([NewTopic("t", 4)])
    await pair.follow()
    forgetting = asyncio.Event()
    pair.follower.replicas.deletions.on_deleted.append(
        lambda _: [asyncio.create_task(_wait(forgetting))]
    )
    delete_topic(pair.leader, "t")
    await pair.leader.writer.durable()
    await pair.leader.topics.create_topics([NewTopic("t", 2)])
    following = asyncio.create_task(pair.follow())
    await asyncio.sleep(0.01)
    assert (
        pair.follower.replicas.topics.get("t") is None
    )  # offsets of the old one are still being forgotten
    forgetting.set()
    await following
    pair.check("t")


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_records_are_followed_once(pair: "Pair") -> None:
    await pair.leader.topics.create_topics([NewTopic("t", 4)])
    await pair.follow()
    version = pair.follower.replicas.topics.version
    await pair.follow()
    assert pair.follower.replicas.topics.version == version


async def test_a_partition_without_room_is_refused_until_there_is_some(
    pair: "Pair", monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(pair.logs.directories, "make", _no_room)
        await pair.leader.topics.create_topics([NewTopic("t", 4), NewTopic("gone", 4)])
        await pair.follow()
        await pair.leader.topics.create_partitions([NewPartitions("t", 8)])
        delete_topic(pair.leader, "gone")
        await pair.leader.writer.durable()
        await pair.follow()
        errors = {error_of(log) for log in partitions_of(pair, "t")}
        assert errors == {ErrorCode.kafka_storage_error, ErrorCode.not_leader_or_follower}
        assert len(pair.logs.problems)
    await pair.follow()
    pair.check("t")
    errors = {error_of(log) for log in partitions_of(pair, "t")}
    assert errors == {None, ErrorCode.not_leader_or_follower}
    assert not len(pair.logs.problems)


async def test_a_log_that_cannot_be_opened_costs_one_partition(
    pair: "Pair", monkeypatch: pytest.MonkeyPatch
) -> None:
    open_log = pair.logs.open
    places = (TopicPartition("t", number) for number in range(8))
    failing = {next(each for each in places if is_of(1, each))}

    def fail_once(partition: TopicPartition, settings: LogConfig, *, leader_epoch: int) -> Log:
        if partition in failing:
            failing.remove(partition)
            raise OSError(16, "Device or resource busy")
        return open_log(partition, settings, leader_epoch=leader_epoch)

    monkeypatch.setattr(pair.logs, "open", fail_once)
    await pair.leader.topics.create_topics([NewTopic("t", 8)])
    await pair.follow()
    pair.check("t")
    errors = Counter(error_of(log) for log in partitions_of(pair, "t"))
    assert errors[ErrorCode.kafka_storage_error] == 1
    assert errors[None]


def partitions_of(pair: "Pair", name: str) -> Sequence[Log]:
    found = pair.follower.replicas.topics.get(name)
    assert found is not None
    return found.partitions


def error_of(log: Log) -> ErrorCode | None:
    try:
        log.ensure_open()
    except KafkaError as error:
        return error.code
    return None


async def test_places_of_many_topics_are_made_together(
    pair: "Pair", monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = pair.logs.directories.make
    monkeypatch.setattr(
        *(pair.logs.directories, "make"),
        lambda places: (made.append(len(places)), make(places)),
    )
    names = [f"t{number}" for number in range(MAX_BATCH_TOPICS)]
    await pair.leader.topics.create_topics([NewTopic(name, 2) for name in names])
    await pair.leader.topics.create_partitions([NewPartitions("t0", 5)])
    await pair.follow()
    pair.check(*names)
    assert len(made) <= 2
    assert sum(made) == len(set(pair.logs.names()))


async def test_a_name_that_is_taken_refuses_its_topic_alone(pair: "Pair", tmp_path: Path) -> None:
    taken, *others = (
        topic for topic in map("t{}".format, range(20)) if is_of(1, TopicPartition(topic, 0))
    )
    (tmp_path / f"{taken}-0").mkdir()
    await pair.leader.topics.create_topics([NewTopic(name, 1) for name in (taken, *others)])
    await pair.follow()
    for name in others:
        assert error_of(partitions_of(pair, name)[0]) is None
    with pytest.raises(KafkaError, match="did not make it"):
        partitions_of(pair, taken)[0].ensure_open()


def _no_room(_: object) -> None:
    raise OSError(28, "No space left on device")


def set_configs(controller: Controller, *configs: Any) -> None:
    controller.writer.commit(*controller.configuration.set_configs(*configs))


async def test_only_the_other_node_changes_anything(pair: "Pair") -> None:
    for change in (
        lambda: pair.follower.topics.create("t", 1),
        lambda: set_configs(pair.follower, ResourceType.BROKER, "", {"num.partitions": "3"}),
        lambda: pair.follower.reserve_producer_ids(),
    ):
        with pytest.raises(KafkaError) as caught:
            change()
        assert caught.value.code is ErrorCode.not_controller


async def test_topics_are_made_by_the_other_node(pair: "Pair") -> None:
    following = asyncio.create_task(
        pair.follower.topics.create_topics([NewTopic("t", 4), NewTopic("", 1)])
    )
    made, refused = await following
    assert isinstance(made, KafkaError)
    assert made.code is ErrorCode.unknown_topic_or_partition  # it has not followed yet
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.invalid_topic_exception
    await pair.follow()
    pair.check("t")


async def test_a_topic_is_asked_for_once_while_the_other_node_hangs(
    pair: "Pair", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarded_topic_changes, "CREATION_TIMEOUT_S", 0.01)
    asked: list[Sequence[NewTopic]] = []
    responds = asyncio.Event()
    create_topics = pair.create_topics

    async def hang(wanted: Sequence[NewTopic]) -> list[KafkaError | None]:
        asked.append(wanted)
        await responds.wait()
        return await create_topics(wanted)

    monkeypatch.setattr(pair, "create_topics", hang)
    for _ in range(2):
        (unknown,) = await pair.follower.topics.create_topics([NewTopic("t", 4)])
        assert isinstance(unknown, KafkaError)
        assert unknown.code is ErrorCode.unknown_topic_or_partition
    assert len(asked) == 1
    responds.set()
    while pair.leader.replicas.topics.get("t") is None:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0)
    await pair.follow()
    pair.check("t")


async def test_producer_ids_are_those_of_the_other_node(pair: "Pair") -> None:
    given = []
    for controller in (pair.leader, pair.follower) * 3:
        ids = controller.producer_ids
        await ids.fill()
        given += [ids.next() for _ in range(50)]
    assert len(set(given)) == 300


async def test_producers_try_again_while_the_other_node_is_away(
    pair: "Pair", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair, "allocate_producer_ids", _is_away)
    with pytest.raises(KafkaError) as caught:
        await pair.follower.producer_ids.fill()
    assert caught.value.code is ErrorCode.coordinator_load_in_progress


async def _is_away() -> range:
    raise KafkaError(ErrorCode.not_controller)


async def test_metadata_that_is_not_durable_is_not_read() -> None:
    log: Any = MemoryDirectory().open(METADATA, METADATA_LOG_CONFIG)
    metadata = LocalMetadataLog(log, lambda: NOW, "0.2")

    metadata.commit(ClusterIdRecord("c"))
    metadata.flush()
    waiting = asyncio.ensure_future(metadata.wait_beyond(metadata.end_offset))
    metadata.commit(TopicRecord(id=uuid4(), name="t", partitions=1))
    assert [record for _, record in decode_batches(metadata.read(0))] == [ClusterIdRecord("c")]
    assert metadata.read(1) == b""
    await asyncio.sleep(0)
    assert not waiting.done()
    await metadata.durable()
    await waiting
    assert len(list(decode_batches(metadata.read(1)))) == 1
