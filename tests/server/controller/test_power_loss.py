"""No power loss undoes what was promised, nor leaves a data directory that cannot be started."""

from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kohort.errors import KafkaError
from kohort.log.local import LocalDirectory
from kohort.log.partition_mark import read_mark
from kohort.server.config.config import Config
from kohort.server.controller import NewPartitions, NewTopic, open_controller
from kohort.server.replicas import Topic
from log.power_loss import VolatileDisk
from server.handlers.bench import START, batch_of
from server.topic_deletion import delete_topic


class Attempt(NamedTuple):
    """A change of a topic was begun: until the next promise it may have happened or not."""

    topic: str


class Promise(NamedTuple):
    """What a client was told of one topic."""

    topic: str
    id: UUID | None
    """None: there is no such topic."""
    partitions: int = 0
    configs: tuple[tuple[str, str], ...] = ()
    records: int = 0
    """In partition 0."""


async def scenario(disk: VolatileDisk, path: Path, durability: Any) -> None:
    """Create, grow, alter, produce, delete and create again, promising what clients are told."""
    logs = LocalDirectory(path, durability=durability)
    controller = open_controller(logs, Config(), lambda: START)

    def promise(name: str, records: int = 0) -> None:
        topic = controller.replicas.topics.get(name)
        if topic is None:
            disk.mark(Promise(name, None))
        else:
            configs = tuple(topic.configs.items())
            disk.mark(Promise(name, topic.id, len(topic.partitions), configs, records))

    disk.mark(Attempt("a"))
    disk.mark(Attempt("b"))
    await controller.topics.create_topics([NewTopic("a", 2), NewTopic("b", 1)])
    await controller.writer.durable()
    promise("a")
    promise("b")
    disk.mark(Attempt("a"))
    (grown,) = await controller.topics.create_partitions([NewPartitions("a", 3)])
    assert not isinstance(grown, KafkaError)
    await controller.writer.durable()
    promise("a")
    disk.mark(Attempt("a"))
    await controller.topics.alter("a", lambda _: {"retention.ms": "-1"})
    await controller.writer.durable()
    promise("a")
    log = controller.replicas.topics.log("b", 0)
    assert log is not None
    log.append(batch_of(b"1", b"2"), START)
    await log.durable()
    promise("b", records=2 if durability == "fsync" else 0)
    disk.mark(Attempt("a"))
    delete_topic(controller, "a")
    await controller.writer.durable()
    promise("a")
    disk.mark(Attempt("a"))
    created = await controller.topics.create_topics([NewTopic("a", 1)])
    assert not isinstance(created[0], KafkaError)
    await controller.writer.durable()
    promise("a")
    disk.mark(Attempt("b"))
    delete_topic(controller, "b")
    controller.topics.create("b", 1)  # at once, as an embedding program does
    await controller.writer.durable()
    promise("b")
    logs.close()


def check(path: Path, promises: list[Any]) -> None:
    """Start on what is left, and hold it against the promises."""
    if (path / ".lock").exists():  # by a machine that was booted since
        (path / ".lock").write_text("1\nanother-boot\n")
    logs = LocalDirectory(path)
    try:
        controller = open_controller(logs, Config(), lambda: START)
        for last in {each.topic: each for each in promises}.values():
            if isinstance(last, Promise):
                hold(controller.replicas.topics.get(last.topic), last)
        for topic in controller.replicas.topics.all():
            for log in topic.partitions:
                assert read_mark(str(path / str(log.topic_partition))) == topic.id
                assert log.end_offset in (0, 2)
        # What was left over does not get in the way of new topics.
        for name in ("a", "b", "c"):
            if controller.replicas.topics.get(name) is None:
                assert controller.topics.create(name, 2).partitions[0].end_offset == 0
    finally:
        logs.close()


def hold(topic: Topic | None, promise: Promise) -> None:
    """Assert that the topic is as was promised."""
    assert (topic and topic.id) == promise.id
    if topic is not None:
        assert len(topic.partitions) == promise.partitions
        assert tuple(topic.configs.items()) == promise.configs
        assert topic.partitions[0].end_offset >= promise.records


@pytest.mark.parametrize("durability", ["os", "fsync"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
async def test_promises_hold_after_a_power_loss_at_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, seed: int
) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)  # the disk is simulated, and this is faster
    disk = VolatileDisk(tmp_path / "data")
    with disk.recording():
        await scenario(disk, tmp_path / "data", durability)
    assert len(disk.operations) > 60
    for count in range(len(disk.operations) + 1):
        left = tmp_path / f"left-{count}"
        promises = disk.remains(count, seed + 10 * count if seed > 1 else seed, left)
        before = sorted(str(each.relative_to(left)) for each in left.rglob("*"))
        try:
            check(left, promises)
        except Exception as error:
            error.add_note(
                f"after {count} operations: {disk.operations[max(count - 3, 0) : count]}"
            )
            error.add_note(f"left: {before}")
            raise
