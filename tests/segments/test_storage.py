"""File systems that are not local, and errors that show no keys of theirs."""

import pytest
from pyarrow import fs

from kohort.errors import ConfigError, KohortError
from kohort.segments import ReadSettings, find_replicas, longest, offset_at, read, storage
from kohort.types import TopicPartition
from segments.files import Partition, log_of


@pytest.fixture
def other(tmp_path, monkeypatch):
    """A file system of another kind, below `tmp_path`."""
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    resolve = storage._resolved

    def resolved(path):
        if not path.startswith("sub://"):
            return resolve(path)
        return system, path.removeprefix("sub://").rpartition("@")[2]

    monkeypatch.setattr(storage, "_resolved", resolved)
    return system


def test_another_file_system_has_partitions_and_records(other, tmp_path):
    Partition(tmp_path / "data", "orders-0").fill(0, 8, 20)
    Partition(tmp_path / "data" / "worker1", "orders-1").fill(0, 4)
    found = find_replicas(["sub://data"])
    replica = longest(found[TopicPartition("orders", 0)])
    assert str(replica) == "subtree://data/orders-0"
    batches = read(replica, 3, replica.end(), ReadSettings())
    assert [at for each in batches for at in each.column("offset").to_pylist()] == list(
        range(3, 20)
    )
    assert len(found) == 2


def test_another_file_system_has_single_files(other, tmp_path):
    Partition(tmp_path / "data").fill(0, 8, 20)
    (replicas,) = find_replicas([f"sub://data/orders-0/{8:020}.log"]).values()
    assert (replicas[0].start(), replicas[0].end()) == (8, 20)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:secret@bucket/data?endpoint_override=127.0.0.1:1&region=x&wrong=secret",
        "gs://key:secret@bucket/data?secret=secret",
        "unknown://secret:secret@host/data",
    ],
)
def test_errors_show_no_keys_of_a_uri(uri):
    with pytest.raises(ConfigError) as caught:
        find_replicas([uri])
    assert "/data cannot be opened" in str(caught.value)
    assert "key" not in str(caught.value).partition("cannot be opened")[0]
    assert ":secret@" not in str(caught.value)


def test_a_missing_path_shows_no_keys(other):
    with pytest.raises(ConfigError, match=r"^sub://host/data does not exist$"):
        find_replicas(["sub://key:secret@host/data"])


def test_a_directory_has_no_keys_in_its_text():
    directory = storage.Directory("s3://key:secret@bucket/data", "bucket/data")
    assert "secret" not in repr(directory)


def test_a_file_that_fails_while_it_is_read_is_an_error(tmp_path, monkeypatch):
    partition = Partition(tmp_path)
    partition.segment(0, log_of(0, 8))
    (replicas,) = find_replicas([str(tmp_path)]).values()

    class Failing:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def size(self):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(
        storage.Directory, "open", lambda _, name: Failing() if name.endswith(".log") else None
    )
    for reading in (
        lambda: list(read(replicas[0], 0, 8, ReadSettings())),
        replicas[0].end,
        lambda: offset_at(replicas[0], 0),
    ):
        with pytest.raises(KohortError, match=rf"{0:020}.log cannot be read: .*Input/output error"):
            reading()
