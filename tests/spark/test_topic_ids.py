"""Topics that are deleted and created again between two triggers: noticed by their ids, which the
checkpoint has. No Spark is needed.
"""

import json
import logging
from itertools import count

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from client.fake_cluster import FakeCluster
from kohort.spark.batch import BatchReader
from kohort.spark.data_loss import DataLossError
from kohort.spark.member_stream import MemberStreamReader
from kohort.spark.offset_queries import OffsetQueries, ids_of
from kohort.spark.options import parse_read
from kohort.spark.positions import from_spark, topic_ids
from kohort.spark.stream import StreamReader
from kohort.types import TopicPartition
from spark.test_topic_errors import running

_numbers = count()
OLD, NEW = [b"old"] * 5, [b"new %d" % at for at in range(9)]
MODES = {
    "none": {},
    "reporting": {"groupMode": "reporting"},
    "member": {
        "groupMode": "member",
        "kafka.heartbeat.interval.ms": "200",
        "kafka.max.poll.interval.ms": "10000",
    },
}


@pytest.fixture
def orders(topics):
    name = f"ids-{next(_numbers)}"
    topics.create(name)
    topics.fill(name, {0: OLD})
    return name


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def query(topics, orders, mode):
    """A process of a query, as Spark starts one at each start of the query."""
    made = []

    def start(**options):
        given = {"kafka.bootstrap.servers": topics.address, "subscribe": orders}
        given |= {"startingOffsets": "earliest"} | MODES[mode]
        given |= {"group.id": orders} if mode != "none" else {}
        given = {name: value for name, value in (given | options).items() if value is not None}
        read = parse_read(given, streaming=True)
        made.append((MemberStreamReader if mode == "member" else StreamReader)(read))
        return Query(made[-1])

    yield start
    for reader in made:
        reader.stop()


class Query:
    """Calls a reader as Spark does, which keeps offsets as text."""

    def __init__(self, reader):
        self.reader = reader

    def begin(self):
        return kept(self.reader.initialOffset())

    def trigger(self, start, limit=None):
        limit = ReadAllAvailable() if limit is None else ReadMaxRows(limit)
        return kept(self.reader.latestOffset(start, limit))

    def read(self, start, end):
        return values(self.reader, self.reader.partitions(start, end))


def kept(offset):
    return json.loads(json.dumps(offset))


def values(reader, planned):
    return [
        value
        for each in planned
        for batch in reader.read(each)
        for value in batch["value"].to_pylist()
    ]


@pytest.fixture
def create_again(topics, orders):
    def create(records=NEW):
        topics.delete(orders)
        topics.create(orders)
        topics.fill(orders, {0: records})

    return create


def has_read_all(query):
    """The offset behind the old topic's records."""
    start = query.begin()
    end = query.trigger(start)
    assert query.read(start, end) == OLD
    return end


@pytest.mark.parametrize("restarted", [False, True])
class TestBetweenTwoTriggers:
    def test_a_topic_recreated_between_two_triggers_ends_the_query(
        self, query, orders, create_again, restarted
    ):
        first = query()
        end = has_read_all(first)
        create_again()
        with pytest.raises(
            DataLossError,
            match=f"{orders}-0 was deleted and created again, with what was behind offset 5; set",
        ):
            (query() if restarted else first).trigger(end)

    @pytest.mark.parametrize("records", [NEW[:2], NEW[:5], NEW, []])
    def test_a_topic_recreated_between_two_triggers_is_read_whole_without_fail_on_data_loss(
        self, query, orders, create_again, restarted, records, caplog
    ):
        first = query(failOnDataLoss="false", startingOffsets="earliest")
        start = has_read_all(first)
        create_again(records)
        again = query(failOnDataLoss="false", startingOffsets="latest") if restarted else first
        if restarted:
            first.reader.stop()
        end = again.trigger(start)
        assert again.read(start, end) == records
        assert [each.getMessage() for each in caplog.records if each.levelno > logging.INFO] == [
            f"data loss: {orders}-0 was deleted and created again, with what was behind offset 5"
        ]
        assert again.trigger(end) == end


class TestTheBatchThatARestartRepeats:
    def test_a_repeated_batch_of_a_recreated_topic_is_data_loss(self, query, orders, create_again):
        start = query().begin()
        end = query().trigger(start)
        create_again()
        with pytest.raises(
            DataLossError,
            match=(
                f"{orders}-0 was deleted and created again, with what was to be read of it: "
                "offsets from 0 to below 5; set"
            ),
        ):
            query().read(start, end)

    def test_a_repeated_batch_of_a_recreated_topic_is_empty_without_fail_on_data_loss(
        self, query, orders, create_again
    ):
        first = query()
        start = first.begin()
        end = first.trigger(start)
        first.reader.stop()
        create_again()
        again = query(failOnDataLoss="false")
        assert again.read(start, end) == []
        assert again.read(end, again.trigger(end)) == NEW

    def test_a_repeated_batch_begun_in_the_recreated_topic_is_the_same(self, query, create_again):
        first = query(failOnDataLoss="false", maxOffsetsPerTrigger="4")
        start = has_read_all(first)
        create_again()
        end = first.trigger(start, 4)
        first.reader.stop()
        again = query()
        assert again.read(start, end) == NEW[:4]
        assert again.read(end, again.trigger(end)) == NEW[4:]


@pytest.mark.parametrize("mode", ["member"], indirect=True)
def test_a_member_that_saw_the_deletion_begins_at_the_first_record(query, orders, topics):
    held = query(failOnDataLoss="false", subscribePattern=f"{orders}.*", subscribe=None)
    start = has_read_all(held)
    topics.delete(orders)
    gone = held.trigger(start)
    assert from_spark(gone) == {}
    topics.create(orders)
    topics.fill(orders, {0: NEW})
    assert held.read(gone, held.trigger(gone)) == NEW


@pytest.mark.parametrize("mode", ["reporting", "member"], indirect=True)
def test_the_group_gets_the_positions_in_the_new_topic(query, orders, topics, create_again):
    running = query(failOnDataLoss="false")
    start = has_read_all(running)
    create_again(NEW[:3])
    end = running.trigger(start)
    running.trigger(end)
    assert topics.committed(orders) == {orders: {0: 3}}


class TestWhatATaskFinds:
    """Created again after the plan: the task reads what was planned, or nothing."""

    @pytest.mark.parametrize("mode", ["none"], indirect=True)
    def test_a_topic_recreated_after_the_plan_is_not_read_by_a_stream(
        self, query, orders, create_again
    ):
        for fail in ("true", "false"):
            one = query(failOnDataLoss=fail)
            start = one.begin()
            planned = one.reader.partitions(start, one.trigger(start))
            create_again()
            if fail == "true":
                with pytest.raises(
                    DataLossError,
                    match=f"{orders}-0 was deleted and created again, .* from 0 to below 5",
                ):
                    values(one.reader, planned)
                create_again(OLD)
            else:
                assert values(one.reader, planned) == []

    def test_a_topic_recreated_after_the_plan_is_data_loss_for_a_batch(
        self, topics, orders, create_again
    ):
        given = {"kafka.bootstrap.servers": topics.address, "subscribe": orders}
        reader = BatchReader(parse_read(given, streaming=False))
        planned = reader.partitions()
        create_again()
        with pytest.raises(DataLossError, match=f"{orders}-0 was deleted and created again"):
            values(reader, planned)


class TestCheckpointsWithoutIds:
    def test_checkpoints_without_topic_ids_get_them_with_the_next_change(
        self, query, orders, topics, mode
    ):
        going = query()
        end = has_read_all(going)
        older = {orders: end[orders]}
        if mode != "member":
            assert going.trigger(older) == older
        topics.fill(orders, {0: NEW})
        later = going.trigger(older)
        assert going.read(older, later) == NEW
        assert topic_ids(later) == topic_ids(end) != {}

    @pytest.mark.parametrize("mode", ["none", "reporting"], indirect=True)
    def test_checkpoints_for_sparks_own_source_have_no_topic_ids(self, query, orders, create_again):
        end = has_read_all(query())
        plain = query(checkpointTopicIds="false")
        assert plain.begin() == {orders: {"0": 0}}
        without = plain.trigger({"@begin": {orders: {"0": 2}}} | end)
        assert without == {orders: {"0": 5}}
        assert plain.trigger(without) == without

    def test_checkpoints_of_brokers_without_topic_ids_have_none(self):
        fake = FakeCluster(topics={"orders": 1})
        fake.brokers[0].versions["metadata"] = (4, 9)
        with running(fake):
            given = {"kafka.bootstrap.servers": fake.brokers[0].address, "subscribe": "orders"}
            reader = StreamReader(parse_read(given, streaming=True))
            there = OffsetQueries(reader.options).partitions()
            assert dict(there) == {TopicPartition("orders", 0): None}
            assert ids_of(there) == {}
            assert not reader.recreated({"@ids": {"orders": "a"}, "orders": {"0": 5}}, there)
            before = {"orders": "a", "other": "b"}
            assert reader.ids_beside(dict.fromkeys(there, 5), there, before) == {"orders": "a"}
