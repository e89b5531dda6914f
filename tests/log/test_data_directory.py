"""What is Kohort's below a data directory: nothing else is moved, removed or written to."""

import os
import threading
from pathlib import Path
from uuid import UUID

import pytest

from kohort import __version__
from kohort.errors import KohortError
from kohort.log.base import LogConfig
from kohort.log.directory_format import decode_format, encode_format
from kohort.log.local import LocalDirectory
from kohort.log.partition_directories import NameTakenError
from kohort.log.partition_mark import base64_id, decode_mark, encode_mark, read_mark
from kohort.types import Timestamp, TopicPartition

from .conftest import ORDERS, ORDERS_ID, fill

OTHER_ID = UUID(int=8)


def tree(path: Path) -> dict[str, bytes | None]:
    """Everything below a directory: names and contents."""
    return {
        str(each.relative_to(path)): each.read_bytes() if each.is_file() else None
        for each in sorted(path.rglob("*"))
    }


def refused(path: Path) -> str:
    """Why the directory is refused; nothing in it may have changed."""
    before = tree(path)
    with pytest.raises(KohortError) as caught:
        LocalDirectory(path)
    assert tree(path) == before
    assert str(path) in str(caught.value)
    return str(caught.value)


class TestWhoseItIs:
    @pytest.mark.parametrize("name", ["meta.properties", "replication-offset-checkpoint"])
    def test_kafkas_directory_is_refused(self, data: Path, name: str) -> None:
        (data / "orders-0").mkdir(parents=True)
        (data / "orders-0" / f"{0:020}.log").write_bytes(b"records")
        (data / name).write_text("version=1\n")
        assert "is a data directory of Apache Kafka" in refused(data)
        assert "--data" in refused(data)

    def test_directory_of_kafkas_controller_is_refused(self, data: Path) -> None:
        (data / "__cluster_metadata-0").mkdir(parents=True)
        (data / "__cluster_metadata-0" / "quorum-state").write_text("{}")
        assert "Apache Kafka" in refused(data)

    def test_any_other_directory_with_something_in_it_is_refused(self, data: Path) -> None:
        (data / "experiment-42").mkdir(parents=True)
        for name in "abc":
            (data / f"{name}.txt").touch()
        assert "not empty: it has a.txt, b.txt, c.txt and 1 more" in refused(data)

    def test_kafka_in_a_directory_of_kohort_is_refused(self, data: Path) -> None:
        LocalDirectory(data).close()
        (data / "meta.properties").touch()
        assert "Apache Kafka" in refused(data)

    def test_an_empty_file_system_is_accepted(self, data: Path) -> None:
        (data / "lost+found").mkdir(parents=True)
        LocalDirectory(data).close()
        assert (data / "lost+found").is_dir()

    def test_the_remains_of_a_killed_first_start_are_accepted(self, data: Path) -> None:
        data.mkdir()
        for name in (".lock", ".clean-shutdown", "kohort.properties.new"):
            (data / name).touch()
        LocalDirectory(data).close()
        assert (data / "kohort.properties").exists()

    def test_file_in_place_of_the_directory_is_refused(self, data: Path) -> None:
        data.touch()
        with pytest.raises(OSError):
            LocalDirectory(data)


class TestFormat:
    def test_a_new_directory_says_its_format(self, data: Path) -> None:
        directory = LocalDirectory(data)
        found = decode_format((data / "kohort.properties").read_bytes())
        assert found == (1, directory.directories.cluster_id, __version__, 1)
        directory.close()
        again = LocalDirectory(data)
        assert again.directories.cluster_id == directory.directories.cluster_id
        again.close()

    def test_a_later_format_is_refused(self, data: Path) -> None:
        data.mkdir()
        (data / "kohort.properties").write_text("version=3\nwritten.by=3.7.1\nnodes=5\n")
        why = refused(data)
        assert "written by Kohort 3.7.1 in format 3" in why
        assert "Start Kohort 3.7.1 or later" in why

    @pytest.mark.parametrize(
        "content", [b"", b"version=x\n", b"version=1\n", b"cluster.id=x\n", b"version=0", b"\xff\0"]
    )
    def test_a_damaged_format_file_is_refused(self, data: Path, content: bytes) -> None:
        data.mkdir()
        (data / "kohort.properties").write_bytes(content)
        assert "kohort.properties is damaged" in refused(data)

    def test_unknown_lines_of_the_same_format_are_passed_over(self) -> None:
        found = decode_format(encode_format("c") + b"# more\nrack=a\n")
        assert found == (1, "c", __version__, 1)


class TestMarks:
    def test_partition_metadata_is_as_kafka_writes_it(self) -> None:
        topic_id = UUID("de1955-67b9-1745-8789-8cf49206130090".replace("-", "").zfill(32)[-32:])
        assert encode_mark(topic_id) == b"version: 0\ntopic_id: " + base64_id(topic_id).encode()
        assert decode_mark(encode_mark(topic_id)) == topic_id
        assert decode_mark(encode_mark(topic_id) + b"\n") == topic_id

    @pytest.mark.parametrize(
        "content",
        [b"", b"version: 0", b"version: 1\ntopic_id: " + b"A" * 22, b"version: 0\ntopic_id: A",
         b"\xff",
         b"version: 0\ntopic_id: " + b"\xc3\xa9" * 11, b"version: 0\ntopic_id: " + b"!" * 22],
    )  # fmt: skip
    def test_a_partition_mark_with_other_content_is_ignored(self, content: bytes) -> None:
        assert decode_mark(content) is None

    def test_a_new_place_is_marked_and_empty(self, data: Path) -> None:
        directory = LocalDirectory(data)
        directory.directories.make({ORDERS: ORDERS_ID})
        assert tree(data / "orders-0") == {"partition.metadata": encode_mark(ORDERS_ID)}
        assert directory.directories.marks() == {ORDERS: ORDERS_ID}
        assert directory.open(ORDERS, LogConfig()).end_offset == 0
        directory.close()

    def test_many_partitions_are_marked_at_once(self, data: Path) -> None:
        directory = LocalDirectory(data)
        many = {TopicPartition("many", at): ORDERS_ID for at in range(600)}
        directory.directories.make(many)
        assert directory.directories.marks() == many
        directory.close()


class TestNamesThatAreTaken:
    def test_name_is_taken_by_a_foreign_directory(self, data: Path) -> None:
        directory = LocalDirectory(data)
        (data / "orders-1").mkdir()
        (data / "orders-1" / "mine.txt").write_text("keep")
        before = tree(data)
        with pytest.raises(NameTakenError) as caught:
            directory.directories.make({TopicPartition("orders", at): ORDERS_ID for at in range(3)})
        assert caught.value.partition == TopicPartition("orders", 1)
        assert "Move it out of the data directory" in str(caught.value)
        assert tree(data) == before
        directory.close()

    @pytest.mark.parametrize("kind", ["empty directory", "file", "link to nowhere"])
    def test_name_is_taken_by_an_empty_directory_or_a_file(self, data: Path, kind: str) -> None:
        directory = LocalDirectory(data)
        if kind == "empty directory":
            (data / "orders-0").mkdir()
        elif kind == "file":
            (data / "orders-0").write_text("x")
        else:
            (data / "orders-0").symlink_to("nowhere")
        with pytest.raises(NameTakenError):
            directory.directories.make({ORDERS: ORDERS_ID})
        assert os.path.lexists(data / "orders-0")
        directory.close()

    def test_name_is_taken_by_an_earlier_topic(self, data: Path) -> None:
        directory = LocalDirectory(data)
        directory.directories.make({ORDERS: OTHER_ID})
        fill(directory.open(ORDERS, LogConfig()), 3)
        directory.retire(ORDERS)
        directory.directories.make({ORDERS: ORDERS_ID})
        assert directory.directories.marks() == {ORDERS: ORDERS_ID}
        assert directory.open(ORDERS, LogConfig()).end_offset == 0
        (stray,) = data.glob("*-stray")
        assert read_mark(str(stray)) == OTHER_ID
        assert (stray / f"{0:020}.log").stat().st_size
        directory.close()


class TestStrays:
    def set_aside(self, directory: LocalDirectory, topic: str = "orders") -> str:
        partition = TopicPartition(topic, 0)
        directory.directories.make({partition: ORDERS_ID})
        return directory.directories.set_aside(partition)

    def test_two_strays_of_one_name(self, data: Path) -> None:
        directory = LocalDirectory(data)
        names = {self.set_aside(directory), self.set_aside(directory)}
        assert len(names) == 2
        assert {path.name for path in data.glob("*-stray")} == names
        assert list(directory.names()) == []
        directory.close()

    def test_stray_of_the_longest_name(self, data: Path) -> None:
        directory = LocalDirectory(data)
        name = self.set_aside(directory, "x" * 249)
        assert (len(name), name[-6:]) == (255, "-stray")
        directory.close()

    async def test_strays_are_kept_for_the_documented_time(
        self, data: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        directory = LocalDirectory(data, stray_retention_ms=1_000)
        name = self.set_aside(directory)
        (data / "mine-stray").mkdir()
        (data / ("mine." + "0" * 32 + "-stray")).mkdir()
        now = (data / name).stat().st_mtime_ns // 1_000_000
        await directory.retain(now + 1_000)
        assert (data / name).is_dir()
        await directory.retain(now + 1_001)
        directory.close()
        assert not (data / name).exists()
        assert name in caplog.text
        assert (data / "mine-stray").is_dir()
        assert (data / ("mine." + "0" * 32 + "-stray")).is_dir()

    async def test_strays_are_searched_in_a_thread(
        self, data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The directory has a name for each partition, and there may be very many."""
        directory = LocalDirectory(data)
        threads: list[threading.Thread] = []

        def listed(path: str) -> list[str]:
            threads.append(threading.current_thread())
            return []

        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", listed)
            await directory.retain(Timestamp(0))
        directory.close()
        assert threads
        assert threading.current_thread() not in threads

    async def test_strays_are_kept_for_ever(self, data: Path) -> None:
        directory = LocalDirectory(data, stray_retention_ms=-1)
        name = self.set_aside(directory)
        await directory.retain(2**62)
        directory.close()
        assert (data / name).is_dir()


class TestRemoval:
    def test_remove_leaves_partitions_of_another_topic(self, data: Path) -> None:
        directory = LocalDirectory(data)
        directory.directories.make({ORDERS: ORDERS_ID})
        directory.remove(ORDERS, OTHER_ID)
        directory.remove(TopicPartition("none", 0), ORDERS_ID)
        (data / "mine-0").mkdir()
        directory.remove(TopicPartition("mine", 0), ORDERS_ID)
        directory.close()
        assert (data / "mine-0").is_dir()
        assert read_mark(str(data / "orders-0")) == ORDERS_ID

    def test_remove_leaves_foreign_files(self, data: Path) -> None:
        directory = LocalDirectory(data)
        directory.directories.make({ORDERS: ORDERS_ID})
        (data / "orders-0" / "mine").mkdir()
        (data / "orders-0" / "mine" / "file").write_text("keep")
        directory.remove(ORDERS, ORDERS_ID)
        directory.close()
        assert [path.read_text() for path in data.rglob("file")] == ["keep"]

    def test_foreign_directories_named_like_work_in_progress_stay(self, data: Path) -> None:
        LocalDirectory(data).close()
        for name in ("~new-mine", "~removed-mine"):
            (data / name).mkdir()
            (data / name / "file").write_text("keep")
            (data / (name + "-empty")).mkdir()
        LocalDirectory(data).close()
        assert len(list(data.rglob("file"))) == 2
        assert len(list(data.glob("~*-empty"))) == 2

    def test_foreign_files_inside_a_partition_stay(self, data: Path) -> None:
        directory = LocalDirectory(data)
        directory.directories.make({ORDERS: ORDERS_ID})
        fill(directory.open(ORDERS, LogConfig()), 3)
        directory.close()
        mine = [f"{0:020}.log.old.deleted", "notes.new", "1.log.cleaned", "mine.swap"]
        made = [f"{9:020}.timeindex.cleaned", f"{9:020}.log.deleted", "producers.new"]
        for name in mine + made:
            (data / "orders-0" / name).touch()
        directory = LocalDirectory(data)
        directory.open(ORDERS, LogConfig())
        directory.close()
        left = os.listdir(data / "orders-0")
        assert (set(mine) - set(left), set(made) & set(left)) == (set(), set())

    def test_a_creation_that_was_cut_short_leaves_nothing(self, data: Path) -> None:
        LocalDirectory(data).close()
        for number, names in enumerate([(), ("partition.metadata.new",), ("partition.metadata",)]):
            unfinished = data / f"~new-{number:032x}"
            unfinished.mkdir()
            for name in names:
                (unfinished / name).touch()
        LocalDirectory(data).close()
        assert list(data.glob("~new*")) == []


class TestCase:
    def test_case_sensitivity_of_the_file_system_is_detected(self, data: Path) -> None:
        directory = LocalDirectory(data)
        assert not directory.directories.is_case_insensitive
        directory.close()
        (data / ".LOCK").touch()  # as if it were the same file
        directory = LocalDirectory(data)
        assert directory.directories.is_case_insensitive
        directory.close()


def test_a_read_only_directory(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LocalDirectory(data)

    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("os.mkdir", read_only)
        with pytest.raises(OSError, match="Read-only"):
            directory.directories.make({ORDERS: ORDERS_ID})
    directory.directories.make({ORDERS: ORDERS_ID})
    directory.close()


@pytest.mark.parametrize("step", ["os.write", "os.fsync", "os.replace", "os.rename"])
def test_places_are_made_all_or_none(
    data: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    directory = LocalDirectory(data)
    name = step.removeprefix("os.")
    done, calls = getattr(os, name), []

    def failing(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        return done(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(step, failing)
        with pytest.raises(OSError, match="No space"):
            directory.directories.make({TopicPartition("orders", at): ORDERS_ID for at in range(5)})
    left = directory.directories.marks()
    assert list(left) == [] or (step == "os.rename" and set(left.values()) == {ORDERS_ID})
    assert list(data.glob("~new*")) == []
    directory.directories.make({ORDERS: OTHER_ID})
    assert directory.open(ORDERS, LogConfig()).end_offset == 0
    directory.close()
