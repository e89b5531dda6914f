"""What is asked of partitions that go meanwhile. No Spark is needed."""

import pytest

from kohort.spark import asking
from kohort.spark.asking import Asking
from kohort.spark.options import parse_read
from kohort.spark.stream import DataLossError, StreamReader
from kohort.types import TopicPartition

GONE = TopicPartition("asking-gone", 0)
HERE = TopicPartition("asking-here", 0)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(asking, "SOON_MS", 200)


@pytest.fixture(scope="module")
def filled(topics):
    topics.create(HERE.topic, 1)
    topics.fill(HERE.topic, {0: [b"one", b"two"]})


@pytest.fixture
def options(topics, filled):
    def make(**more):
        given = {"kafka.bootstrap.servers": topics.address, "subscribePattern": "asking-.*"}
        return parse_read(given | more, streaming=True)

    return make


def test_those_that_are_there_are_told(options):
    found = Asking(options())
    assert found.latest([HERE, GONE]) == {HERE: 2}
    assert found.earliest([GONE]) == {}


def test_what_was_to_be_read_of_one_that_goes_is_lost(options):
    at = {HERE: 0, GONE: 5}
    with pytest.raises(DataLossError, match="asking-gone-0 is gone, with what was behind offset 5"):
        StreamReader(options()).ends(tuple(at), at)
    assert StreamReader(options(failOnDataLoss="false")).ends(tuple(at), at) == {HERE: 2}


def test_it_is_not_planned_either(options):
    reader = StreamReader(options(failOnDataLoss="false"))
    assert [each.end for each in reader.planned({HERE: 0, GONE: 5}, {HERE: 2, GONE: 9})] == [2]
    with pytest.raises(DataLossError, match="asking-gone-0 is gone, with what was to be read of it"):
        StreamReader(options()).planned({HERE: 0, GONE: 5}, {HERE: 2, GONE: 9})
