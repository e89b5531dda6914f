"""Which partitions there are below paths, by what a broker and others leave in directories."""

import os
import shutil

import pytest

from kohort.errors import ConfigError, KohortError
from kohort.segments import find_replicas, longest
from kohort.segments.storage import Directory
from kohort.types import TopicPartition
from segments.files import Partition, batch, log_of

ORDERS = TopicPartition("orders", 0)


def found(*paths, **options):
    """{partition: paths of its replicas}"""
    return {
        str(tp): [str(replica) for replica in replicas]
        for tp, replicas in find_replicas([str(path) for path in paths], **options).items()
    }


class TestDataDirectories:
    def test_partitions_are_directories_by_kafkas_names(self, tmp_path):
        for name in ("orders-0", "orders-12", "a.b_c-d-3"):
            Partition(tmp_path, name)
        assert found(tmp_path) == {
            name: [f"{tmp_path}/{name}"] for name in ("a.b_c-d-3", "orders-0", "orders-12")
        }

    def test_other_directories_and_files_are_none(self, tmp_path):
        Partition(tmp_path, "orders-0")
        for name in (
            "orders-1.0123456789abcdef0123456789abcdef-delete",
            "orders-1.0123456789abcdef0123456789abcdef-future",
            "orders-1.0123456789abcdef0123456789abcdef-stray",
            "~new-0123456789abcdef0123456789abcdef", "~removed-1-2", "lost+found", "orders", "-1",
            "orders-01", "orders-99999999999", "ord ers-1", "sub/orders-7",
        ):  # fmt: skip
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "orders-5").write_bytes(b"a file")
        (tmp_path / "orders-6").symlink_to(tmp_path / "nowhere")
        (tmp_path / "orders-8").symlink_to(tmp_path / "orders-8")
        (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"")
        assert list(found(tmp_path)) == ["orders-0"]

    def test_a_link_to_a_directory_is_a_partition(self, tmp_path):
        Partition(tmp_path / "elsewhere", "x").segment(0, batch(0))
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "orders-0").symlink_to(tmp_path / "elsewhere" / "x")
        assert list(found(tmp_path / "data")) == ["orders-0"]

    def test_a_worker_that_is_deleted_meanwhile_is_left_out(self, tmp_path, monkeypatch):
        Partition(tmp_path, "orders-0")
        Partition(tmp_path / "worker1", "orders-1")
        self._delete_before_listing(monkeypatch, "worker1")
        assert list(found(tmp_path)) == ["orders-0"]

    def test_a_path_that_is_deleted_meanwhile_is_named(self, tmp_path, monkeypatch):
        Partition(tmp_path / "data", "orders-0")
        self._delete_before_listing(monkeypatch, "data")
        with pytest.raises(KohortError, match="data was deleted while it was read"):
            found(tmp_path / "data")

    def _delete_before_listing(self, monkeypatch, name):
        listed = Directory.entries

        def entries(directory):
            if directory.name == name:
                shutil.rmtree(directory.path)
            return listed(directory)

        monkeypatch.setattr(Directory, "entries", entries)

    def test_workers_of_kohort_have_directories_of_their_own(self, tmp_path):
        Partition(tmp_path, "orders-0")
        Partition(tmp_path / "worker1", "orders-1")
        Partition(tmp_path / "worker12", "orders-2")
        Partition(tmp_path / "worker01", "orders-3")
        Partition(tmp_path / "backup", "orders-4")
        assert list(found(tmp_path)) == ["orders-0", "orders-1", "orders-2"]

    def test_a_data_directory_may_be_named_like_a_partition(self, tmp_path):
        Partition(tmp_path / "kafka-1", "orders-0")
        assert list(found(tmp_path / "kafka-1")) == ["orders-0"]

    def test_a_name_beyond_64_bits_is_no_segment(self, tmp_path):
        partition = Partition(tmp_path).fill(0, 4)
        (partition.path / f"{2**63 - 1:020}.log").write_bytes(b"")
        (partition.path / f"{10**20 - 1:020}.log").write_bytes(b"")
        ((replica,),) = find_replicas([str(tmp_path)]).values()
        assert (replica.start(), replica.end()) == (0, 4)

    def test_a_directory_without_partitions_is_refused(self, tmp_path):
        (tmp_path / "other").mkdir()
        with pytest.raises(ConfigError, match="neither directories named TOPIC-PARTITION nor"):
            found(tmp_path)

    def test_a_path_that_does_not_exist_is_refused(self, tmp_path):
        with pytest.raises(ConfigError, match="nowhere does not exist"):
            found(tmp_path / "nowhere")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_a_directory_that_cannot_be_read_is_an_error(self, tmp_path):
        Partition(tmp_path / "data")
        (tmp_path / "data").chmod(0)
        with pytest.raises(KohortError, match="cannot be read"):
            found(tmp_path / "data")

    def test_only_wanted_partitions_are_returned(self, tmp_path):
        for name in ("orders-0", "orders-1", "payments-0"):
            Partition(tmp_path, name)
        assert list(found(tmp_path, is_wanted=lambda tp: tp.partition == 0)) == [
            "orders-0",
            "payments-0",
        ]


class TestPartitionsAndFiles:
    def test_a_directory_with_segments_is_that_of_a_partition(self, tmp_path):
        partition = Partition(tmp_path).fill(0, 4)
        Partition(partition.path, "inner-0")
        assert list(found(partition.path)) == ["orders-0"]
        assert list(found(f"{partition.path}/")) == ["orders-0"]

    def test_a_partition_may_have_no_files(self, tmp_path):
        partition = Partition(tmp_path)
        ((replica,),) = find_replicas([str(partition.path)]).values()
        assert (replica.start(), replica.end(), replica.topic_id()) == (0, 0, None)

    def test_segments_need_a_directory_named_like_a_partition(self, tmp_path):
        partition = Partition(tmp_path, "copy").fill(0, 4)
        with pytest.raises(ConfigError, match="is not named TOPIC-PARTITION"):
            found(partition.path)

    def test_named_segments_are_read_and_no_others(self, tmp_path):
        partition = Partition(tmp_path).fill(0, 4, 8, 12)
        paths = [str(partition.path / f"{offset:020}.log") for offset in (4, 8)]
        ((replica,),) = find_replicas(paths).values()
        assert (replica.start(), replica.end()) == (4, 12)

    def test_other_files_are_refused(self, tmp_path):
        path = Partition(tmp_path).segment(0, b"", ".log.deleted")
        with pytest.raises(ConfigError, match="is no segment file"):
            found(path)

    def test_the_mark_of_a_directory_has_the_topics_id(self, tmp_path):
        partition = Partition(tmp_path)
        (partition.path / "partition.metadata").write_text(
            "version: 0\ntopic_id: 3hlZVxe5RYeJjPSSBhMCkA"
        )
        ((replica,),) = find_replicas([str(tmp_path)]).values()
        assert replica.topic_id() == "3hlZVxe5RYeJjPSSBhMCkA"


class TestReplicas:
    def test_the_replica_with_the_highest_end_is_chosen(self, tmp_path):
        for name, end in (("a", 10), ("b", 14), ("c", 12)):
            Partition(tmp_path / name).fill(0, 8, end)
        replicas = find_replicas([str(tmp_path / name) for name in "abc"])[ORDERS]
        assert len(replicas) == 3
        assert str(longest(replicas)) == f"{tmp_path}/b/orders-0"

    def test_the_first_of_equal_replicas_is_chosen(self, tmp_path):
        for name in "ab":
            Partition(tmp_path / name).fill(0, 8)
        replicas = find_replicas([str(tmp_path / name) for name in "ba"])[ORDERS]
        assert str(longest(replicas)) == f"{tmp_path}/a/orders-0"

    def test_a_path_given_twice_is_one_replica(self, tmp_path):
        Partition(tmp_path).fill(0, 8)
        assert len(find_replicas([str(tmp_path), f"file://{tmp_path}"])[ORDERS]) == 1

    def test_a_replica_whose_last_segment_is_empty_ends_at_its_base(self, tmp_path):
        Partition(tmp_path / "a").fill(0, 8).segment(8, b"")
        Partition(tmp_path / "b").fill(0, 6)
        replicas = find_replicas([str(tmp_path / name) for name in "ab"])[ORDERS]
        assert longest(replicas).end() == 8

    def test_a_cut_batch_does_not_count(self, tmp_path):
        whole = log_of(0, 8)
        Partition(tmp_path).segment(0, whole + batch(8)[:-1])
        ((replica,),) = find_replicas([str(tmp_path)]).values()
        assert replica.end() == 8
