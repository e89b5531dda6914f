"""Whose directories the server takes, at the start and when topics are created."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import data_directory
from kohort.log.directory_format import METADATA_ID
from kohort.log.local import LocalDirectory
from kohort.log.partition_mark import MARK, read_mark, write_mark
from kohort.server.config.config import Config
from kohort.server.controller import Controller, NewPartitions, NewTopic, open_controller
from kohort.server.metadata import METADATA
from kohort.types import TopicPartition
from server.handlers.bench import START, batch_of
from server.topic_deletion import delete_topic


class Server:
    """Topics on one data directory, started and stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs: LocalDirectory | None = None

    def start(self, *, is_case_insensitive: bool | None = None) -> Controller:
        self.stop()
        self.logs = LocalDirectory(self.path, is_case_insensitive=is_case_insensitive)
        return open_controller(self.logs, Config(), lambda: START)

    def stop(self) -> None:
        if self.logs is not None:
            self.logs.close()
            self.logs = None

    def strays(self) -> list[Path]:
        return sorted(self.path.glob("*-stray"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "data")
    yield made
    made.stop()


def fill(controller: Controller, topic: str, value: bytes = b"a") -> None:
    controller.replicas.topics.log(topic, 0).append(batch_of(value), START)  # type: ignore[union-attr]


def as_version_0_1(path: Path) -> None:
    """Make the directory what version 0.1 left: neither a format nor marks."""
    (path / "kohort.properties").unlink()
    for mark in path.glob(f"*/{MARK}"):
        mark.unlink()


def flip_a_bit(mark: Path) -> bytes:
    """Make the mark that of another topic; its content before."""
    content = mark.read_bytes()
    mark.write_bytes(content[:-5] + bytes((content[-5] ^ 1,)) + content[-4:])
    return content


def fill_two(server: Server) -> None:
    """Leave the topics orders, with a record in partition 0, and more."""
    controller = server.start()
    controller.topics.create("orders", 2)
    controller.topics.create("more", 1)
    fill(controller, "orders")
    server.stop()


class TestForeignDirectories:
    def test_foreign_directories_are_left_unchanged(
        self, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.start().topics.create("orders", 1)
        mine = server.path / "experiment-42"
        mine.mkdir()
        (mine / f"{0:020}.log").write_bytes(b"results")
        server.start()
        assert (mine / f"{0:020}.log").read_bytes() == b"results"
        assert sorted(os.listdir(mine)) == [f"{0:020}.log"]
        assert caplog.text.count("ignoring directories with partition names") == 1

    async def test_a_topic_of_that_name_is_refused(self, server: Server) -> None:
        controller = server.start()
        (server.path / "experiment-1").mkdir()
        with pytest.raises(KafkaError, match="Move it out of the data directory") as caught:
            controller.topics.create("experiment", 2)
        assert caught.value.code is ErrorCode.invalid_topic_exception
        created = await controller.topics.create_topics(
            [NewTopic("a", 1), NewTopic("experiment", 2), NewTopic("b", 1)]
        )
        assert [each.code if isinstance(each, KafkaError) else each.name for each in created] == [
            "a",
            ErrorCode.invalid_topic_exception,
            "b",
        ]
        controller.topics.create("experiment", 1)
        (grown,) = await controller.topics.create_partitions([NewPartitions("experiment", 2)])
        assert isinstance(grown, KafkaError)
        assert "experiment-1" in grown.message
        assert {each.name for each in server.start().replicas.topics.all()} == {
            "a",
            "b",
            "experiment",
        }

    def test_a_foreign_directory_in_the_place_of_a_partition_makes_it_alone_unreadable(
        self, server: Server
    ) -> None:
        fill_two(server)
        mark = server.path / "orders-0" / MARK
        content = mark.read_bytes()
        mark.unlink()
        (server.path / "orders-0" / "mine").write_bytes(b"results")
        before = os.listdir(server.path / "orders-0")
        controller = server.start()
        with pytest.raises(KafkaError, match="the directory orders-0 has the name of") as caught:
            controller.replicas.topics.log("orders", 0).read(0, 1_000)  # type: ignore[union-attr]
        assert caught.value.code is ErrorCode.kafka_storage_error
        assert "topic_id: " in caught.value.message
        assert server.logs is not None
        (told,) = server.logs.problems.texts(9)
        assert "move the directory away" in told
        for other in (
            controller.replicas.topics.log("orders", 1),
            controller.replicas.topics.log("more", 0),
        ):
            other.append(batch_of(b"a"), START)  # type: ignore[union-attr]
        delete_topic(controller, "more")
        delete_topic(controller, "orders")
        controller.writer.flush()
        assert sorted(os.listdir(server.path / "orders-0")) == sorted(before)
        mark.write_bytes(content)
        server.start()
        assert len(server.strays()) == 1, "its topic is gone"

    def test_a_foreign_directory_in_the_place_of_the_metadata_ends_the_start(
        self, server: Server
    ) -> None:
        server.start()
        server.stop()
        (server.path / str(METADATA) / MARK).unlink()
        with pytest.raises(KohortError, match="the directory __cluster_metadata-0 has the name"):
            server.start()

    def test_a_directory_with_a_flipped_bit_in_its_mark_is_foreign(self, server: Server) -> None:
        fill_two(server)
        content = flip_a_bit(server.path / "orders-0" / MARK)
        with pytest.raises(KafkaError, match="the directory orders-0 has the name of"):
            server.start().replicas.topics.log("orders", 0).read(0, 1_000)  # type: ignore[union-attr]
        server.stop()
        (server.path / "orders-0" / MARK).write_bytes(content)
        flip_a_bit(server.path / str(METADATA) / MARK)
        with pytest.raises(KohortError, match="the directory __cluster_metadata-0 has the name"):
            server.start()
        assert not server.strays()

    def test_the_directories_of_two_topics_are_swapped(self, server: Server) -> None:
        def swap() -> None:
            (server.path / "orders-0").rename(server.path / "x")
            (server.path / "more-0").rename(server.path / "orders-0")
            (server.path / "x").rename(server.path / "more-0")

        fill_two(server)
        swap()
        controller = server.start()
        for name in ("orders", "more"):
            with pytest.raises(KafkaError, match="its topic_id is"):
                controller.replicas.topics.log(name, 0).read(0, 1_000)  # type: ignore[union-attr]
        assert controller.replicas.topics.log("orders", 1).end_offset == 0  # type: ignore[union-attr]
        server.stop()
        swap()
        assert server.start().replicas.topics.log("orders", 0).end_offset == 1  # type: ignore[union-attr]

    @pytest.mark.parametrize("kind", ["file", "dangling link"])
    def test_a_file_in_the_place_of_a_partition_makes_it_alone_unreadable(
        self, server: Server, kind: str
    ) -> None:
        fill_two(server)
        place = server.path / "orders-0"
        place.rename(server.path / "away")
        if kind == "file":
            place.write_bytes(b"mine")
        else:
            place.symlink_to(server.path / "nowhere")
        controller = server.start()
        with pytest.raises(KafkaError, match="move the directory away"):
            controller.replicas.topics.log("orders", 0).read(0, 1_000)  # type: ignore[union-attr]
        assert controller.replicas.topics.log("more", 0).end_offset == 0  # type: ignore[union-attr]
        assert os.path.lexists(place)

    def test_a_directory_whose_mark_is_restored_is_served_again(self, server: Server) -> None:
        fill_two(server)
        mark = server.path / "orders-0" / MARK
        content = mark.read_bytes()
        mark.unlink()
        server.start()
        mark.write_bytes(content)
        assert server.start().replicas.topics.log("orders", 0).end_offset == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("left", [0, 100])
def test_metadata_whose_end_is_missing(server: Server, left: int) -> None:
    fill_two(server)
    (stored,) = (server.path / str(METADATA)).glob("*.log")
    content = stored.read_bytes()
    stored.write_bytes(content[:left])
    with pytest.raises(KohortError, match="which were synced, are missing"):
        server.start()
    assert not server.strays()
    stored.write_bytes(content)
    assert server.start().replicas.topics.log("orders", 0).end_offset == 1  # type: ignore[union-attr]


class TestLeftovers:
    def test_a_namesake_never_gets_the_records(self, server: Server) -> None:
        controller = server.start()
        first = controller.topics.create("orders", 1)
        fill(controller, "orders")
        delete_topic(controller, "orders")
        controller.topics.create("orders", 1)
        server.stop()
        # the directory of the first, as a worker leaves it that was away
        shutil.rmtree(server.path / "orders-0")
        (server.path / "orders-0").mkdir()
        write_mark(str(server.path / "orders-0"), first.id)
        (server.path / "orders-0" / f"{0:020}.log").write_bytes(batch_of(b"old"))
        controller = server.start()
        assert controller.replicas.topics.log("orders", 0).end_offset == 0  # type: ignore[union-attr]
        (stray,) = server.strays()
        assert read_mark(str(stray)) == first.id
        assert (stray / f"{0:020}.log").read_bytes() == batch_of(b"old")

    def test_a_growth_that_was_cut_short(self, server: Server) -> None:
        controller = server.start()
        orders = controller.topics.create("orders", 1)
        assert server.logs is not None
        server.logs.directories.make({TopicPartition("orders", 1): orders.id})
        assert len(server.start().topics.create("more", 1).partitions) == 1
        assert [each.name.split(".")[0] for each in server.strays()] == ["orders-1"]

    def test_a_partition_that_is_missing_is_made_again(
        self, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        orders = server.start().topics.create("orders", 2)
        server.stop()
        shutil.rmtree(server.path / "orders-1")
        controller = server.start()
        assert "partition directories are missing" in caplog.text
        assert controller.replicas.topics.log("orders", 1).end_offset == 0  # type: ignore[union-attr]
        assert read_mark(str(server.path / "orders-1")) == orders.id


class TestVersion01:
    def test_partitions_of_version_0_1_are_marked_at_the_first_start(self, server: Server) -> None:
        controller = server.start()
        orders = controller.topics.create("orders", 2)
        fill(controller, "orders")
        cluster_id = controller.image.cluster_id
        server.stop()
        as_version_0_1(server.path)
        (server.path / "experiment-42").mkdir()
        (server.path / "mine").mkdir()
        controller = server.start()
        assert controller.image.cluster_id == cluster_id
        assert controller.replicas.topics.log("orders", 0).end_offset == 1  # type: ignore[union-attr]
        assert read_mark(str(server.path / "orders-1")) == orders.id
        assert read_mark(str(server.path / f"{METADATA}")) == METADATA_ID
        assert os.listdir(server.path / "experiment-42") == []
        assert f"cluster.id={cluster_id}" in (server.path / "kohort.properties").read_text()
        assert server.strays() == []

    def test_a_migration_that_was_cut_short_is_completed(self, server: Server) -> None:
        controller = server.start()
        orders = controller.topics.create("orders", 2)
        fill(controller, "orders")
        server.stop()
        as_version_0_1(server.path)
        write_mark(str(server.path / "orders-0"), orders.id)
        controller = server.start()
        assert controller.replicas.topics.log("orders", 0).end_offset == 1  # type: ignore[union-attr]
        assert read_mark(str(server.path / "orders-1")) == orders.id

    def test_interrupted_removals_of_version_0_1_are_completed(self, server: Server) -> None:
        server.start()
        server.stop()
        as_version_0_1(server.path)
        (server.path / "~removed-77-0").mkdir()
        (server.path / "~removed-77-0" / f"{0:020}.log").touch()
        server.start()
        server.stop()
        assert list(server.path.glob("~removed*")) == []


class TestMixedDirectories:
    def test_a_data_directory_without_its_metadata_is_refused(self, server: Server) -> None:
        server.start().topics.create("orders", 1)
        server.stop()
        shutil.rmtree(server.path / str(METADATA))
        with pytest.raises(KohortError, match=r"orders-0.*restore that directory from a copy"):
            server.start()
        assert (server.path / "orders-0").is_dir()

    def test_a_mark_of_the_metadata_log_that_is_read_once_only_ends_the_start(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.start().topics.create("orders", 1)
        server.stop()
        reads = 0

        def read(path: str) -> UUID | None:
            nonlocal reads
            reads += path.endswith(str(METADATA))
            if reads == 2 and path.endswith(str(METADATA)):
                raise OSError(5, "Input/output error")
            return read_mark(path)

        monkeypatch.setattr(data_directory, "read_mark", read)
        with pytest.raises(KohortError, match=str(METADATA)):
            server.start()
        assert server.start().replicas.topics.get("orders") is not None

    def test_a_data_directory_with_the_metadata_of_another_cluster_is_refused(
        self, server: Server, tmp_path: Path
    ) -> None:
        server.start().topics.create("orders", 1)
        server.stop()
        other = Server(tmp_path / "other")
        other.start()
        other.stop()
        shutil.rmtree(server.path / str(METADATA))
        shutil.copytree(other.path / str(METADATA), server.path / str(METADATA))
        with pytest.raises(KohortError, match="restore all of it from one copy"):
            server.start()
        assert (server.path / "orders-0").is_dir()


class TestCase:
    async def test_topic_names_that_differ_only_in_case_collide_without_case(
        self, server: Server
    ) -> None:
        controller = server.start(is_case_insensitive=True)
        controller.topics.create("orders", 1)
        with pytest.raises(KafkaError, match="Topic 'Orders' collides with existing topic: orders"):
            controller.topics.create("Orders", 1)
        created = await controller.topics.create_topics([NewTopic("A", 1), NewTopic("a", 1)])
        assert [isinstance(each, KafkaError) for each in created] == [False, True]
        delete_topic(controller, "orders")
        controller.topics.create("Orders", 1)
        assert {
            each.name for each in server.start(is_case_insensitive=True).replicas.topics.all()
        } == {
            "A",
            "Orders",
        }

    def test_topics_that_differ_in_case_are_kept_apart(self, server: Server) -> None:
        controller = server.start()
        for name in ("orders", "Orders"):
            controller.topics.create(name, 1)
        fill(controller, "Orders")
        assert controller.replicas.topics.log("orders", 0).end_offset == 0  # type: ignore[union-attr]
        with pytest.raises(KohortError, match="tells upper from lower case"):
            server.start(is_case_insensitive=True)


async def test_names_collide_within_one_request_too(server: Server) -> None:
    controller = server.start()
    created = await controller.topics.create_topics([NewTopic("a.b", 1), NewTopic("a_b", 1)])
    assert [isinstance(each, KafkaError) for each in created] == [False, True]
    delete_topic(controller, "a.b")
    assert controller.topics.create("a_b", 1).id != UUID(int=0)


async def test_a_client_that_goes_away_does_not_cut_a_creation_short(server: Server) -> None:
    controller = server.start()
    creating = asyncio.ensure_future(controller.topics.create_topics([NewTopic("orders", 3)]))
    await asyncio.sleep(0)
    creating.cancel()
    # the next change waits for the one before
    (again, other) = await controller.topics.create_topics(
        [NewTopic("orders", 1), NewTopic("more", 1)]
    )
    assert isinstance(again, KafkaError)
    assert again.code is ErrorCode.topic_already_exists
    assert not isinstance(other, KafkaError)
    orders = controller.replicas.topics.get("orders")
    assert orders is not None
    assert len(orders.partitions) == 3
    assert server.strays() == []
