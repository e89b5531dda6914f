"""Batch reads through Spark: every option, against what lies in the topic."""

import json
from itertools import count

import pytest

from kohort.protocol import batches
from kohort.protocol.batches import Codec, Record
from spark.topics import NOW

pytestmark = pytest.mark.clients

_numbers = count()


@pytest.fixture
def orders(topics):
    """A topic of three partitions with 10, 20 and 0 records."""
    name = f"orders-{next(_numbers)}"
    topics.create(name, 3)
    topics.fill(name, {0: [b"a%d" % at for at in range(10)], 1: [b"b%d" % at for at in range(20)]})
    return name


@pytest.fixture
def read(session, topics):
    def load(**options):
        given = {"kafka.bootstrap.servers": topics.address} | {
            name.replace("__", "."): value if isinstance(value, str) else json.dumps(value)
            for name, value in options.items()
        }
        return session.read.format("kohort").options(**given).load()

    return load


def offsets(frame):
    """{partition: its offsets}."""
    found = {}
    for row in frame.select("partition", "offset").collect():
        found.setdefault(row.partition, []).append(row.offset)
    return {partition: sorted(some) for partition, some in found.items()}


def test_a_batch_read_has_all_columns_of_each_record(read, topics):
    topics.create("columns")
    topics.append(
        "columns",
        0,
        batches.build([Record(b"k", b"v", (), NOW), Record(None, None, (), NOW + 1)]),
        batches.build([Record(b"", b"", (("h", b"1"), ("h", None)), -1)], codec=Codec.ZSTD),
    )
    rows = read(subscribe="columns", includeHeaders="true").orderBy("offset").collect()
    assert [
        (row.key, row.value, row.topic, row.partition, row.offset, row.timestampType)
        for row in rows
    ] == [
        (b"k", b"v", "columns", 0, 0, 0),
        (None, None, "columns", 0, 1, 0),
        (b"", b"", "columns", 0, 2, 0),
    ]
    assert [row.headers for row in rows][:2] == [None, None]
    assert [(header.key, header.value) for header in rows[2].headers] == [("h", b"1"), ("h", None)]
    times = read(subscribe="columns").selectExpr("unix_millis(timestamp) as ms").collect()
    assert [row.ms for row in times] == [NOW, NOW + 1, -1]


def test_without_headers_the_columns_are_seven(read, orders):
    assert read(subscribe=orders).columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip


class TestWhatIsRead:
    def test_several_topics_are_read_by_name(self, read, orders, topics):
        topics.create(f"{orders}-more")
        topics.fill(f"{orders}-more", {0: [b"x"]})
        found = read(subscribe=f"{orders},{orders}-more").groupBy("topic").count().collect()
        assert {row.topic: row["count"] for row in found} == {orders: 30, f"{orders}-more": 1}

    def test_a_pattern_matches_whole_names(self, read, orders, topics):
        topics.create(f"{orders}-more")
        topics.fill(f"{orders}-more", {0: [b"x"]})
        assert read(subscribePattern=f"{orders}").count() == 30
        assert read(subscribePattern=f"{orders}.*").count() == 31
        assert read(subscribePattern="nothing-like-it").count() == 0

    def test_assigned_partitions_are_read_alone(self, read, orders):
        assert offsets(read(assign={orders: [1, 2]})) == {1: list(range(20))}

    def test_an_empty_topic(self, read, topics):
        topics.create("empty", 2)
        assert read(subscribe="empty").count() == 0

    def test_records_of_every_codec_are_read(self, read, topics):
        topics.create("codecs")
        for codec in Codec:
            topics.fill("codecs", {0: [b"v" * 100] * 50}, codec=codec)
        found = read(subscribe="codecs").selectExpr("count(*)", "sum(length(value))").collect()
        assert tuple(found[0]) == (250, 25_000)

    def test_a_topic_without_transactions_is_read_whole_under_read_committed(self, read, orders):
        assert read(subscribe=orders, kafka__isolation__level="read_committed").count() == 30


class TestBounds:
    def test_a_batch_is_bounded_by_offsets(self, read, orders):
        starting = {orders: {"0": 3, "1": -2, "2": -2}}
        ending = {orders: {"0": 5, "1": 2, "2": -1}}
        found = read(subscribe=orders, startingOffsets=starting, endingOffsets=ending)
        assert offsets(found) == {0: [3, 4], 1: [0, 1]}

    def test_a_batch_is_bounded_by_timestamps(self, read, orders):
        found = read(
            subscribe=orders,
            startingTimestamp=str(NOW + 8),
            startingOffsetsByTimestampStrategy="latest",
        )
        assert offsets(found) == {0: [8, 9], 1: list(range(8, 20))}
        found = read(
            subscribe=orders,
            endingOffsetsByTimestamp={orders: {"0": NOW + 2, "1": NOW + 15, "2": NOW}},
        )
        assert offsets(found) == {0: [0, 1], 1: list(range(15))}
        found = read(
            subscribe=orders,
            startingOffsetsByTimestamp={orders: {"0": NOW + 7, "1": NOW + 3, "2": NOW}},
            startingOffsetsByTimestampStrategy="latest",
            endingTimestamp=str(NOW + 8),
        )
        assert offsets(found) == {0: [7], 1: [3, 4, 5, 6, 7]}

    def test_a_time_that_no_record_has(self, read, orders):
        with pytest.raises(
            Exception, match=(f"option startingTimestamp: {orders}-0 has no record at or after")
        ):
            read(subscribe=orders, startingTimestamp=str(NOW + 10**9)).count()

    def test_a_partition_without_an_offset(self, read, orders):
        with pytest.raises(
            Exception, match=(f"option startingOffsets has no offset for {orders}-1, {orders}-2")
        ):
            read(subscribe=orders, startingOffsets={orders: {"0": 1}}).count()


class TestTasks:
    def test_one_for_each_partition_that_has_something(self, read, orders):
        assert read(subscribe=orders).rdd.getNumPartitions() == 2

    def test_min_partitions_and_max_records_give_the_number_of_tasks(self, read, orders):
        frame = read(subscribe=orders, minPartitions="6")
        assert frame.rdd.getNumPartitions() == 6
        assert offsets(frame) == {0: list(range(10)), 1: list(range(20))}
        assert read(subscribe=orders, maxRecordsPerPartition="4").rdd.getNumPartitions() == 8


class TestWhatIsGone:
    def test_deleted_records_within_the_bounds_are_an_error(self, read, orders, topics):
        topics.trim(orders, 0, 6)
        with pytest.raises(
            Exception,
            match=(f"{orders}-0 was to be read from offset 2, its first record has offset 6"),
        ):
            read(subscribe=orders, startingOffsets={orders: {"0": 2, "1": -2, "2": -2}}).count()

    def test_deleted_records_are_skipped_without_fail_on_data_loss(self, read, orders, topics):
        topics.trim(orders, 0, 6)
        starting = {orders: {"0": 2, "1": -2, "2": -2}}
        found = read(subscribe=orders, startingOffsets=starting, failOnDataLoss="false")
        assert offsets(found) == {0: [6, 7, 8, 9], 1: list(range(20))}

    def test_a_topic_that_does_not_exist(self, read):
        with pytest.raises(Exception, match="option subscribe: topic nowhere does not exist"):
            read(subscribe="nowhere").count()

    def test_a_partition_that_does_not_exist(self, read, orders):
        with pytest.raises(
            Exception, match=(f"option assign: partition 7 of topic {orders} does not exist")
        ):
            read(assign={orders: [0, 7]}).count()

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (
                {"endingOffsets": {"0": 11, "1": -1, "2": -1}},
                "option endingOffsets: offset 11 of .*-0 is beyond its end, offset 10",
            ),
            (
                {"startingOffsets": {"0": 0, "1": 99, "2": 0}},
                "option startingOffsets: offset 99 of .*-1 is beyond its end",
            ),
        ],
    )
    def test_offsets_behind_the_end_are_refused_or_cut(self, read, orders, options, says):
        options = {name: {orders: some} for name, some in options.items()}
        with pytest.raises(Exception, match=says):
            read(subscribe=orders, **options).count()
        found = offsets(read(subscribe=orders, **options, failOnDataLoss="false"))
        assert found[0] == list(range(10))

    def test_an_end_before_the_start(self, read, orders):
        ending = {orders: {"0": 3, "1": -1, "2": -1}}
        starting = {orders: {"0": 5, "1": -2, "2": -2}}
        with pytest.raises(
            Exception,
            match=(r"options startingOffsets and endingOffsets: .*-0 would be read from offset 5"),
        ):
            read(subscribe=orders, startingOffsets=starting, endingOffsets=ending).count()


class TestErrors:
    def test_options_are_told_by_name(self, read):
        with pytest.raises(
            Exception, match=("option minpartition is not known; is it minPartitions")
        ):
            read(subscribe="orders", minPartition="1").count()

    def test_other_columns_are_refused(self, session, topics):
        reader = session.read.format("kohort").option("kafka.bootstrap.servers", topics.address)
        with pytest.raises(Exception, match=r"leave \.schema\(…\) out"):
            reader.option("subscribe", "orders").schema("value STRING").load().count()
