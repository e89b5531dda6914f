"""What is asked of partitions that go meanwhile, or end before they did. No Spark is needed."""

import json
from collections.abc import Iterable

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kohort.errors import KafkaError, KohortError
from kohort.protocol.batches import Codec
from kohort.spark import bootstrap_check, offset_queries
from kohort.spark.batch import BatchReader
from kohort.spark.data_loss import DataLossError
from kohort.spark.offset_queries import OffsetQueries
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange
from kohort.spark.stream import StreamReader
from kohort.types import TopicPartition
from peers.kafka import free_port

GONE = TopicPartition("asking-gone", 0)
HERE = TopicPartition("asking-here", 0)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(offset_queries, "EXISTENCE_CHECK_MS", 200)


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


def test_addresses_that_refuse_connections_end_a_query_soon(monkeypatch):
    monkeypatch.setattr(bootstrap_check, "REFUSED_S", 0.2)
    given = {"kafka.bootstrap.servers": f"localhost:{free_port()}", "subscribe": "orders"}
    given["fetchOffset.numRetries"] = "5"
    with pytest.raises(bootstrap_check.ConnectionsRefusedError, match="no broker listens at"):
        OffsetQueries(parse_read(given, streaming=True)).partitions()


def test_offset_queries_leave_out_missing_partitions(options):
    found = OffsetQueries(options())
    assert found.latest([HERE, GONE]) == {HERE: 2}
    assert found.earliest([GONE]) == {}


def test_unread_records_of_a_deleted_partition_are_data_loss(options):
    at = {HERE: 0, GONE: 5}
    with pytest.raises(DataLossError, match="asking-gone-0 is gone, with what was behind offset 5"):
        StreamReader(options()).ends(tuple(at), at)
    assert StreamReader(options(failOnDataLoss="false")).ends(tuple(at), at) == {HERE: 2}


def offsets(planned: Iterable[InputPartition]) -> list[tuple[int, int]]:
    """Start and end of each range."""
    return [(each.start, each.end) for each in planned if isinstance(each, OffsetRange)]


def test_a_plan_with_a_deleted_partition_is_data_loss(options):
    reader = StreamReader(options(failOnDataLoss="false"))
    assert offsets(reader.plan_ranges({HERE: 0, GONE: 5}, {HERE: 2, GONE: 9}, {})) == [(0, 2)]
    with pytest.raises(
        DataLossError,
        match="asking-gone-0 is gone, with what was to be read of it: offsets from 5 to below 9",
    ):
        StreamReader(options()).plan_ranges({HERE: 0, GONE: 5}, {HERE: 2, GONE: 9}, {})


@pytest.mark.parametrize("begin", [1, 5])
def test_a_batch_is_repeated_after_its_topic_was_made_anew(options, begin):
    """A restart has Spark plan it as it was. There are two records now: it is read on behind the
    first one, or, where it would begin behind both, from the beginning.
    """
    start, end = {HERE: begin}, {HERE: 9}
    with pytest.raises(
        DataLossError,
        match=("asking-here-0 ends at offset 2, before 9, up to where it was to be read"),
    ):
        StreamReader(options()).plan_ranges(start, end, {})
    reader = StreamReader(options(failOnDataLoss="false"))
    found = [batch for each in reader.plan_ranges(start, end, {}) for batch in reader.read(each)]
    values = [value for batch in found for value in batch["value"].to_pylist()]
    assert values == ([b"two"] if begin == 1 else [b"one", b"two"])


def test_a_log_is_cut_after_it_was_planned(options):
    planned = OffsetRange(HERE.topic, HERE.partition, 5, 9)
    with pytest.raises(
        DataLossError, match=("asking-here-0 was to be read from offset 5, it ends before that now")
    ):
        list(StreamReader(options()).read(planned))
    assert list(StreamReader(options(failOnDataLoss="false")).read(planned)) == []


def test_losses_that_are_accepted_are_told_with_their_offsets(options, topics, caplog):
    name = "trimmed"
    topics.create(name)
    topics.fill(name, {0: [b"v"] * 5})
    given = {"subscribePattern": name, "failOnDataLoss": "false"}
    reader = StreamReader(options(**given))
    (whole,) = reader.plan_ranges({}, {TopicPartition(name, 0): 5}, {})
    topics.trim(name, 0, 3)
    assert sum(batch.num_rows for batch in reader.read(whole)) == 2
    reader.plan_ranges({TopicPartition(name, 0): 1}, {TopicPartition(name, 0): 7}, {})
    beyond = given | {
        "kafka.bootstrap.servers": topics.address,
        "endingOffsets": json.dumps({name: {"0": 9}}),
    }
    BatchReader(parse_read(beyond, streaming=False)).partitions()
    taken = "its first record has offset 3 now: retention or a deletion took offsets"
    assert [each.getMessage() for each in caplog.records if each.name == "kohort.spark"] == [
        f"data loss: trimmed-0 was to be read from offset 0, {taken} from 0 to below 3",
        "data loss: trimmed-0 ends at offset 5, before 7, up to where it was to be read: offsets "
        "from 5 to below 7",
        f"data loss: trimmed-0 was to be read from offset 1, {taken} from 1 to below 3",
        "data loss: option endingOffsets: offset 9 of trimmed-0 is beyond its end, offset 5: "
        "lost are offsets from 5 to below 9",
    ]


def test_a_batch_that_inflates_to_too_much_names_the_option(options, topics):
    name = "inflating"
    topics.create(name)
    topics.fill(name, {0: [bytes(2000)]}, codec=Codec.ZSTD)

    def read(limit):
        reader = StreamReader(options(subscribePattern=name, maxInflatedBatchBytes=limit))
        (whole,) = reader.plan_ranges({}, {TopicPartition(name, 0): 1}, {})
        return sum(batch.num_rows for batch in reader.read(whole))

    assert read("3000") == 1
    with pytest.raises(KafkaError, match=r"than 1000 bytes; raise maxInflatedBatchBytes"):
        read("1000")


def test_a_query_that_fails_is_tried_again_as_often_as_is_said(caplog):
    options = parse_read(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": HERE.topic,
            "kafka.default.api.timeout.ms": "50",
            "fetchOffset.numRetries": "3", "fetchOffset.retryIntervalMs": "0",
        },
        streaming=True,
    )  # fmt: skip
    with pytest.raises(KohortError):
        OffsetQueries(options).partitions()
    assert sum("offset query failed, retrying" in told for told in caplog.messages) == 2


def test_a_trigger_waits_for_enough_records():
    """As in Spark's source: never the first one, and none after `maxTriggerDelay`."""
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": HERE.topic}
    given["minOffsetsPerTrigger"] = "3"
    reader = StreamReader(parse_read(given, streaming=True))
    available = [1, 2, 3, 1]
    found = [
        reader.is_too_little({HERE: 5, GONE: 1}, {HERE: 5 + each, GONE: 1}) for each in available
    ]
    assert found == [False, True, False, True]
    eager = StreamReader(parse_read(given | {"maxTriggerDelay": "0"}, streaming=True))
    assert [eager.is_too_little({HERE: 0}, {HERE: 1}) for _ in range(2)] == [False, False]


def test_the_first_micro_batch_is_repeated_as_it_was(options, topics):
    """Spark asks where a new query begins until that batch has succeeded, also after a restart.
    `latest` has moved by then.
    """
    topics.create("asking-first", 1)
    begun = StreamReader(options(subscribePattern="asking-first"))
    start = begun.initialOffset()
    topics.fill("asking-first", {0: [b"one"]})
    assert begun.initialOffset() == start
    end = begun.latestOffset(start, ReadAllAvailable())
    assert begun.latestOffset(end, ReadAllAvailable()) == end
    topics.fill("asking-first", {0: [b"two"]})
    again = StreamReader(options(subscribePattern="asking-first"))
    assert offsets(again.partitions(again.initialOffset(), end)) == [(0, 1)]
    latest = again.latestOffset(end, ReadAllAvailable())
    assert offsets(again.partitions(end, latest)) == [(1, 2)]
