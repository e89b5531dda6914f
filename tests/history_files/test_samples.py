"""Samples in the directory of a history: written once, kept, merged, and cut at a time."""

from datetime import timedelta

import pytest

from history_files.builds import HOUR_MS, NOW, NOW_MS, Builder, log
from history_files.faults import Dying, KilledError, Quick
from kohort.history.sample_rows import Ends, sampled_rows
from kohort.history.schema import SAMPLES
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.merging import DAY_MS, merge, remove_older
from kohort.history_files.samples import (
    CommittedTopics,
    add_samples,
    last_sample_ms,
    read_samples,
)
from kohort.types import TopicPartition

LOG = log(partitions=2, records=14)
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


@pytest.fixture
def files(tmp_path):
    return LocalFiles(tmp_path / "out", Quick())


def sample(ms, end=5):
    return sampled_rows(ms, {A: Ends(0, end), B: Ends(1, end, end)}, {"a": "id"})


def add(files, *times, now_ms=NOW_MS):
    with opened_for_writing(files, now_ms) as history:
        for ms in times:
            add_samples(history, [sample(ms, ms % 1000)], now_ms)


def snapshot(files):
    return HistoryDirectory(files).snapshot()


def read(files, *arguments, **options):
    rows = read_samples(HistoryDirectory(files), *arguments, **options)
    assert rows.schema == SAMPLES
    return [(row["topic"], row["partition"], row["end"]) for row in rows.to_pylist()]


def test_samples_are_read_by_partition_and_time(files):
    add(files, NOW_MS + 2, NOW_MS + 1)
    assert read(files) == [("a", 0, 1), ("a", 0, 2), ("b", 1, 1), ("b", 1, 2)]
    assert read(files, topics=["b"]) == [("b", 1, 1), ("b", 1, 2)]
    assert read(files, topics=[]) == []


def test_samples_are_cut_at_a_time(files):
    add(files, NOW_MS, NOW_MS + 1, NOW_MS + 2)
    assert read(files, NOW + timedelta(milliseconds=1)) == [
        ("a", 0, 0), ("a", 0, 1), ("b", 1, 0), ("b", 1, 1),
    ]  # fmt: skip
    after = read(files, since=NOW + timedelta(milliseconds=1), topics=["a"])
    assert after == [("a", 0, 1), ("a", 0, 2)]


def test_a_history_without_samples_has_none(files):
    Builder(LOG, files).build()
    assert read(files) == []
    assert last_sample_ms(snapshot(files)) is None
    with opened_for_writing(files, NOW_MS) as history:
        before = history.current
        add_samples(history, [], NOW_MS)
        add_samples(history, [sampled_rows(NOW_MS, {}, {})], NOW_MS)
        assert history.current == before


def test_the_last_sample_tells_what_is_sampled(files):
    add(files, NOW_MS + 2, NOW_MS + 1)
    assert last_sample_ms(snapshot(files)) == NOW_MS + 2


def test_samples_of_a_day_that_is_over_become_one_file(files):
    add(files, *range(NOW_MS, NOW_MS + 5))
    before = read(files)
    with opened_for_writing(files, NOW_MS + DAY_MS) as history:
        merge(history, NOW_MS + DAY_MS)
    (file,) = snapshot(files).files
    assert (file.first_ms, file.last_ms, file.rows) == (NOW_MS, NOW_MS + 4, 10)
    assert read(files) == before


def test_old_samples_are_removed(files):
    add(files, NOW_MS - 3 * HOUR_MS, NOW_MS - HOUR_MS + 7)
    with opened_for_writing(files, NOW_MS) as history:
        remove_older(history, NOW_MS - 2 * HOUR_MS, NOW_MS)
    assert read(files, topics=["a"]) == [("a", 0, 7)]


def test_a_kill_at_any_operation_leaves_each_sample_once_or_not_at_all(tmp_path):
    def build(name, system):
        files = LocalFiles(tmp_path / name, system)
        Builder(LOG, files).build()
        add(files, NOW_MS, NOW_MS + 1)
        return files

    system = Dying()
    built = build("one", system)
    operations = system.count
    whole = read(built)
    for at in range(operations * 2 // 3, operations):
        with pytest.raises(KilledError):
            build(str(at), Dying(at))
        files = LocalFiles(tmp_path / str(at), Quick())
        assert read(files) in (whole, [row for row in whole if row[2] == 0], [])
        with opened_for_writing(files, NOW_MS):
            paths = {f"samples/{name}" for name in files.names("samples")}
        assert paths <= snapshot(files).paths()


class TestCommittedTopics:
    def test_topics_of_commits_have_their_earliest_time(self, files):
        Builder(LOG, files, step=4).build()
        topics = CommittedTopics(files)
        assert topics.update(snapshot(files)) == {f"topic-{number}" for number in range(4)}
        first = min(file.first_ms for file in snapshot(files).files if file.table == "commits")
        assert set(topics.since_ms.values()) == {first}

    def test_only_new_files_are_read(self, files, monkeypatch):
        Builder(LOG, files, step=4).build()
        topics = CommittedTopics(files)
        topics.update(snapshot(files))
        opened = []
        monkeypatch.setattr(files, "open", opened.append)
        assert topics.update(snapshot(files)) == set()
        assert opened == []

    def test_a_new_topic_is_told_once(self, files):
        Builder({0: LOG[0][:3]}, files).build()
        topics = CommittedTopics(files)
        assert topics.update(snapshot(files)) == {"topic-0", "topic-1", "topic-2"}
        Builder({0: LOG[0]}, files).build()
        assert topics.update(snapshot(files)) == {"topic-3"}
