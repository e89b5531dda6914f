"""Lag from the samples of a history: those of a period, fewer of them the older they are."""

from datetime import timedelta

import pyarrow as pa
import pytest

from history_files.builds import HOUR_MS, NOW, NOW_MS
from history_files.faults import Quick
from kohort.history.sample_rows import Ends, sampled_rows
from kohort.history.schema import COMMITS, SAMPLES, TIME
from kohort.history_files.directory import opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.lags import SamplesByTopic, lags_of, samples_of, thinned
from kohort.history_files.samples import add_samples
from kohort.types import TopicPartition

MINUTE_MS = 60_000
COMMITTED = pa.schema([
    pa.field("group", pa.string()), pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()), pa.field("committed", pa.int64()),
    pa.field("in_force_time", TIME),
])  # fmt: skip


def sample(minutes_ago, end=10, partition=0):
    tp = TopicPartition("t", partition)
    return sampled_rows(NOW_MS - minutes_ago * MINUTE_MS, {tp: Ends(0, end)}, {})


def minutes_ago(table):
    return [round((NOW - row["time"]).total_seconds() / 60) for row in table.to_pylist()]


@pytest.fixture
def files(tmp_path):
    files = LocalFiles(tmp_path / "out", Quick())
    with opened_for_writing(files, NOW_MS) as history:
        add_samples(history, [sample(ago) for ago in (90, 60, 30, 0)], NOW_MS)
    return files


def lags(files, since=None, until=None):
    key = {"group": "g", "topic": "t", "partition": 0}
    commits = [
        key | {"committed": 4, "in_force": 7, "in_force_time": NOW - timedelta(minutes=40),
               "kind": "advance"}
    ]  # fmt: skip
    earlier = [key | {"committed": 1, "in_force_time": NOW - timedelta(hours=2)}]
    with opened_for_writing(files, NOW_MS) as history:
        samples = samples_of(files, history.current, ["t"], since, until)
    rows = lags_of(
        pa.Table.from_pylist(commits, COMMITS),
        pa.Table.from_pylist(earlier, COMMITTED),
        samples,
        since,
    )
    return list(zip(minutes_ago(rows), rows["lag"].to_pylist(), strict=True))


def test_lag_is_that_of_commits_before_a_period_and_in_it(files):
    assert lags(files) == [(90, 9), (60, 9), (30, 6), (0, 6)]
    hour = timedelta(hours=1)
    assert lags(files, NOW - hour, NOW - hour / 2) == [(60, 9), (30, 6)]


def test_old_samples_are_taken_once_in_a_period():
    ages = [*range(0, 400, 5), *range(3_000, 3_300, 20)]
    batches = [sample(ago, partition=number) for ago in ages for number in range(2)]
    table = pa.Table.from_batches(batches, SAMPLES)
    found = thinned(table, NOW_MS)
    taken = minutes_ago(found.filter(pa.compute.equal(found["partition"], 0)))
    assert sorted(age for age in taken if age < 360) == list(range(0, 360, 5))
    assert sorted(age for age in taken if 360 <= age < 400) == [360, 365, 375, 385, 395]
    assert sorted(age for age in taken if age >= 3_000) == [
        3_000,
        3_020,
        3_080,
        3_140,
        3_200,
        3_260,
    ]
    assert minutes_ago(found.filter(pa.compute.equal(found["partition"], 1))) == taken
    assert thinned(found, NOW_MS).num_rows == found.num_rows


def test_no_sample_is_none():
    assert thinned(SAMPLES.empty_table(), NOW_MS + HOUR_MS).num_rows == 0


def test_samples_of_topics_are_found():
    batches = [
        sampled_rows(NOW_MS + ms, {TopicPartition(topic, 0): Ends(0, ms)}, {})
        for ms in (2, 1) for topic in "bca"
    ]  # fmt: skip
    by_topic = SamplesByTopic(pa.Table.from_batches(batches, SAMPLES))

    def of(*topics):
        return [(row["topic"], row["end"]) for row in by_topic.of(topics).to_pylist()]

    assert of("c", "a", "none") == [("a", 1), ("a", 2), ("c", 1), ("c", 2)]
    assert of() == []
    assert SamplesByTopic(SAMPLES.empty_table()).of(["a"]).num_rows == 0
