"""The sampler without Spark: which topics it asks for, their past, and failures of the brokers."""

import logging

import pytest

from history_files.builds import NOW_MS, Builder, log
from history_files.fake_fold import State, fold_parts
from history_files.faults import Quick
from kohort.errors import KohortError
from kohort.history.sample_rows import FUTURE_MS, Ends
from kohort.history_files.directory import opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.samples import add_samples
from kohort.spark.history import sampling
from kohort.spark.history.sampling import Present, Sampler, TopicsToSample, take
from kohort.types import TopicPartition
from waiting import wait_until

LOG = log(partitions=1, records=8)


class Brokers:
    """Brokers whose topics have one partition, with ten records that are older than all."""

    def __init__(self):
        self.asked, self.times = [], []

    def present(self, topics):
        self.asked.append(sorted(topics))
        return Present(NOW_MS, {TopicPartition(each, 0): Ends(0, 10, 10) for each in topics}, {})

    def first_since(self, partitions, time_ms):
        self.times.append(time_ms)
        return dict.fromkeys(partitions, -1)


@pytest.fixture
def history(tmp_path, monkeypatch):
    monkeypatch.setattr("kohort.history.fold.fold_parts", fold_parts)
    monkeypatch.setattr("kohort.history.state.State", State)
    files = LocalFiles(tmp_path / "out", Quick())
    Builder(LOG, files).build()
    with opened_for_writing(files, NOW_MS) as opened:
        yield opened


def methods(batches):
    return [(row["topic"], row["method"]) for rows in batches for row in rows.to_pylist()]


TOPICS = [f"topic-{number}" for number in range(4)]


def test_committed_topics_are_sampled_and_their_past_is_asked_for_once(history):
    brokers, topics = Brokers(), TopicsToSample.of(history)
    first = take(brokers, topics)
    assert brokers.asked == [TOPICS]
    assert brokers.times[0] == NOW_MS - 8 * 3_600_000, "the first commit"
    assert brokers.times[-1] == NOW_MS + FUTURE_MS
    assert {method for _, method in methods(first)} == {"sampled", "grid"}
    assert methods(take(brokers, topics)) == [(topic, "sampled") for topic in TOPICS]


def test_the_past_is_asked_for_since_the_last_sample(history):
    rows = take(Brokers(), TopicsToSample.of(history))
    add_samples(history, rows[:1], NOW_MS)
    brokers = Brokers()
    take(brokers, TopicsToSample.of(history))
    assert brokers.times == [], "the last sample is of now"


def test_a_history_without_commits_asks_nothing(tmp_path):
    brokers = Brokers()
    with opened_for_writing(LocalFiles(tmp_path / "none", Quick()), NOW_MS) as empty:
        assert take(brokers, TopicsToSample.of(empty)) == []
    assert brokers.asked == []


def test_a_build_that_is_stopped_takes_no_grid(history):
    brokers = Brokers()
    assert methods(take(brokers, TopicsToSample.of(history), lambda: True)) == [
        (topic, "sampled") for topic in TOPICS
    ]
    assert brokers.times == []


def test_the_past_is_asked_for_again_after_an_error(history):
    class Failing(Brokers):
        def first_since(self, partitions, time_ms):
            raise KohortError("no leader")

    topics = TopicsToSample.of(history)
    with pytest.raises(KohortError):
        take(Failing(), topics)
    assert "grid" in {method for _, method in methods(take(Brokers(), topics))}


def test_a_failure_is_logged_once_and_ends_nothing(caplog):
    outcomes = [KohortError("no broker"), OSError("no file"), [], KohortError("no broker again")]

    def sample(_):
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    sampler = Sampler(sample)
    with caplog.at_level(logging.WARNING, "kohort.history"):
        for _ in range(4):
            sampler.sample_once()
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "no broker",
        "no broker again",
    ]


def test_rows_wait_until_they_are_collected(history):
    topics = TopicsToSample.of(history)
    sampler = Sampler(lambda _: take(Brokers(), topics), interval_s=0.01)
    assert not sampler.is_due(0)
    with sampler:
        wait_until(lambda: sampler.is_due(0), "sampled")
    assert methods(sampler.collect())
    assert not sampler.is_due(0)


def test_no_sample_is_taken_while_too_many_rows_wait(history, monkeypatch):
    monkeypatch.setattr(sampling, "MAX_WAITING_ROWS", 3)
    brokers, topics = Brokers(), TopicsToSample.of(history)
    sampler = Sampler(lambda _: take(brokers, topics))
    sampler.sample_once()
    sampler.sample_once()
    assert len(brokers.asked) == 1
    sampler.collect()
    sampler.sample_once()
    assert len(brokers.asked) == 2
