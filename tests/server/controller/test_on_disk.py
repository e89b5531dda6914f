"""Topics on files, seen as a killed server leaves them: the directory as it is, with nothing closed
or flushed.
"""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from kohort.errors import KafkaError
from kohort.log.local import LocalDirectory
from kohort.server.config.config import Config
from kohort.server.controller import Controller, NewPartitions, open_controller
from kohort.server.metadata import METADATA
from kohort.types import TopicPartition
from server.faulty_logs import FaultyDirectory
from server.handlers.bench import START, batch_of
from server.topic_deletion import delete_topic


class Disk:
    """A data directory, and servers that are killed."""

    def __init__(self, root: Path) -> None:
        self._root, self._lives = root, 0
        self._opened: list[FaultyDirectory] = []

    def start(self) -> Controller:
        """Another server on what the last one left."""
        before, self._lives = self._life(), self._lives + 1
        if before.exists():
            copytree(before, self._life(), ignore=ignore_patterns("~removed*"))
        self.directory = FaultyDirectory(LocalDirectory(self._life()))
        self._opened.append(self.directory)
        return open_controller(self.directory, Config(), lambda: START)

    def close(self) -> None:
        for directory in self._opened:
            directory.close()

    @property
    def path(self) -> Path:
        """The directory of the server that was started last."""
        return self._life()

    def _life(self) -> Path:
        return self._root / str(self._lives)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.close()


async def test_acknowledged_changes_are_on_the_disk(disk: Disk) -> None:
    controller = disk.start()
    cluster_id = controller.image.cluster_id
    controller.topics.create("orders", 2, {"retention.ms": "-1"})
    await controller.topics.create_partitions([NewPartitions("orders", 3)])
    controller.topics.create("gone", 1)
    delete_topic(controller, "gone")
    first_id = controller.reserve_producer_ids().start
    controller.replicas.topics.log("orders", 2).append(batch_of(b"a", b"b"), START)  # type: ignore[union-attr]
    controller = disk.start()
    assert controller.image.cluster_id == cluster_id
    (orders,) = controller.replicas.topics.all()
    assert (orders.name, orders.configs) == ("orders", {"retention.ms": "-1"})
    assert [log.end_offset for log in orders.partitions] == [0, 0, 2]
    assert controller.reserve_producer_ids().start > first_id


def test_a_creation_that_was_cut_short_leaves_nothing(disk: Disk) -> None:
    controller = disk.start()

    class Killed(BaseException):
        pass

    disk.directory.fail("append", METADATA, Killed())
    with pytest.raises(Killed):
        controller.topics.create("orders", 2)
    assert TopicPartition("orders", 1) in set(disk.directory.names())
    controller = disk.start()
    assert list(controller.replicas.topics.all()) == []
    assert {each.topic for each in disk.directory.names()} == {"__cluster_metadata"}
    assert controller.topics.create("orders", 1).partitions[0].end_offset == 0


def test_a_deletion_that_was_cut_short_is_set_aside(disk: Disk) -> None:
    controller = disk.start()
    controller.topics.create("orders", 2)
    delete_topic(controller, "orders")  # the records go once the deletion is on the disk
    controller = disk.start()
    assert list(controller.replicas.topics.all()) == []
    assert {each.topic for each in disk.directory.names()} == {"__cluster_metadata"}
    strays = sorted(each.name for each in disk.path.glob("*-stray"))
    assert [name.split(".")[0] for name in strays] == ["orders-0", "orders-1"]
    assert controller.topics.create("orders", 1).partitions[0].end_offset == 0


def test_a_torn_record_was_not_acknowledged(disk: Disk) -> None:
    controller = disk.start()
    controller.topics.create("kept", 1)
    disk.directory.close()
    (log,) = (disk.path / "__cluster_metadata-0").glob("*.log")
    whole = log.read_bytes()
    controller = disk.start()
    controller.topics.create("torn", 1)
    (log,) = (disk.path / "__cluster_metadata-0").glob("*.log")
    log.write_bytes(log.read_bytes()[: len(whole) + 40])
    controller = disk.start()
    assert [topic.name for topic in controller.replicas.topics.all()] == ["kept"]
    assert controller.topics.create("torn", 1).partitions[0].end_offset == 0


def test_names_of_any_legal_form_are_files(disk: Disk) -> None:
    controller = disk.start()
    names = ["...", "-", "_", "a-0", "a-0-1", "x" * 249]
    for name in names:
        try:
            controller.topics.create(name, 1)
        except KafkaError as error:
            pytest.fail(f"{name}: {error}")
    controller = disk.start()
    assert [topic.name for topic in controller.replicas.topics.all()] == names


def test_after_a_crash_of_the_machine_all_logs_are_checked_before_they_are_opened(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    controller = disk.start()
    controller.topics.create("orders", 2).partitions[1].append(batch_of(b"one"), START)
    (disk.path / ".lock").write_text("1\nan earlier boot\n")
    with caplog.at_level("INFO", "kohort.log"):
        found = disk.start().replicas.topics.log("orders", 1)
    assert any("recovered 2 logs" in message for message in caplog.messages)
    assert found is not None
    assert found.end_offset == 1


async def test_topics_with_the_same_configs_share_what_they_mean(disk: Disk) -> None:
    controller = disk.start()
    for name, configs in (("a", {}), ("b", {}), ("c", {"retention.ms": "7"})):
        controller.topics.create(name, 1, configs)
    again = disk.start()
    a, b, c = (again.replicas.topics.get(name) for name in "abc")
    assert a is not None
    assert b is not None
    assert c is not None
    assert a.effective is b.effective
    assert c.effective == {**a.effective, "retention.ms": 7}
    await again.topics.alter("a", lambda _: {"retention.ms": "8"})
    assert (a.effective["retention.ms"], b.effective["retention.ms"]) == (8, 604_800_000)
