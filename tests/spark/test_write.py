"""Writes through Spark, read back through Spark: columns, partitions, errors before anything is
sent, streams.
"""

from itertools import count

import pytest

from kohort.protocol.compression import Codec
from spark.streams import PATIENCE_S
from spark.topics import NOW

pytestmark = pytest.mark.clients

_numbers = count()


@pytest.fixture
def topic(topics):
    name = f"written-{next(_numbers)}"
    topics.create(name, 3)
    return name


@pytest.fixture
def save(topics):
    def write(frame, **options):
        given = {"kafka.bootstrap.servers": topics.address} | {
            name.replace("__", "."): value for name, value in options.items()
        }
        frame.write.format("kohort").options(**given).mode("append").save()

    return write


@pytest.fixture
def read(session, topics):
    def load(topic):
        given = {
            "kafka.bootstrap.servers": topics.address,
            "subscribe": topic,
            "includeHeaders": "true",
        }
        return session.read.format("kohort").options(**given).load()

    return load


def values(frame):
    """{partition: values in the order of their offsets}."""
    found = {}
    for row in frame.orderBy("partition", "offset").collect():
        found.setdefault(row.partition, []).append(bytes(row.value))
    return found


def test_a_write_stores_all_columns_of_each_row(session, save, read, topic):
    rows = [
        ("k", b"v", topic, 2, [("h", b"1"), ("h", None)], NOW),
        (None, None, topic, 2, None, NOW + 1),
        ("", b"", topic, 0, [], None),
    ]
    frame = session.createDataFrame(
        rows,
        "key string, value binary, topic string, partition int,"
        " headers array<struct<key: string, value: binary>>, ms long",
    ).selectExpr("*", "timestamp_millis(ms) as timestamp")
    save(frame.coalesce(1), includeTimestamp="true")
    found = (
        read(topic)
        .selectExpr("*", "unix_millis(timestamp) as ms")
        .orderBy("partition", "offset")
        .collect()
    )
    assert [(row.partition, row.key, row.value) for row in found] == [
        (0, b"", b""),
        (2, b"k", b"v"),
        (2, None, None),
    ]
    assert [row.headers and [(each.key, each.value) for each in row.headers] for row in found] == [
        None, [("h", b"1"), ("h", None)], None,
    ]  # fmt: skip
    assert found[0].ms > NOW
    assert [row.ms for row in found[1:]] == [NOW, NOW + 1]


def test_a_column_timestamp_is_ignored_unless_it_is_asked_for(session, save, read, topic):
    old = session.range(1).selectExpr("'v' value", f"timestamp_millis({NOW}) timestamp")
    save(old, topic=topic)
    (row,) = read(topic).selectExpr("unix_millis(timestamp) ms").collect()
    assert row.ms > NOW


class TestWhere:
    def test_keys_go_where_javas_producer_puts_them(self, session, save, read, topic):
        from kohort.client.produce.partitioner import murmur2_partitioner

        save(
            session.range(500).selectExpr("cast(id as string) key", "cast(id as string) value"),
            topic=topic,
        )
        found = read(topic).collect()
        assert len(found) == 500
        assert all(row.partition == murmur2_partitioner("", bytes(row.key), 3) for row in found)

    def test_the_option_counts_more_than_the_column(self, session, save, read, topic):
        save(session.sql("select 'v' value, 'nowhere' topic"), topic=topic)
        assert read(topic).count() == 1

    def test_each_row_to_its_own_topic(self, session, save, read, topic, topics):
        topics.create(f"{topic}-more")
        save(
            session.range(10).selectExpr(
                (f"if(id % 2 = 0, '{topic}', '{topic}-more') topic"), "cast(id as string) value"
            )
        )
        assert read(topic).count() == read(f"{topic}-more").count() == 5

    def test_headers_may_be_left_out(self, session, save, read, topic):
        frame = session.sql(
            "select 'v' value, array(struct('h' as key, cast('x' as binary) as value)) headers"
        )
        save(frame, topic=topic, includeHeaders="false")
        save(frame, topic=topic)
        found = [row.headers and row.headers[0].key for row in read(topic).collect()]
        assert sorted(found, key=str) == [None, "h"]


class TestPartitionsThatAreNotThere:
    def test_no_task_writes_few_rows_if_a_partition_does_not_exist(
        self, session, save, read, topic
    ):
        frame = (
            session.range(40)
            .repartition(4)
            .selectExpr("'v' value", "cast(if(id = 39, 7, id % 3) as int) partition")
        )
        with pytest.raises(
            Exception,
            match=(f"a row is for partition 7 of topic {topic}, which has the partitions 0 to 2"),
        ):
            save(frame, topic=topic)
        assert read(topic).count() == 0

    def test_no_task_writes_many_rows_if_a_partition_does_not_exist(
        self, session, save, read, topic
    ):
        frame = session.range(2_000).repartition(2)
        save(
            frame.selectExpr("rpad('v', 1000, 'x') value", "cast(id % 3 as int) partition"),
            topic=topic,
        )
        assert read(topic).groupBy("partition").count().count() == 3
        wrong = frame.selectExpr(
            "rpad('v', 1000, 'x') value", ("cast(if(id = 1999, -1, 0) as int) partition")
        )
        with pytest.raises(Exception, match=f"a row is for partition -1 of topic {topic}"):
            save(wrong, topic=topic)
        assert read(topic).count() == 2_000

    def test_a_micro_batch_is_not_written_either(self, session, topics, read, topic, tmp_path):
        source = f"{topic}-source"
        topics.create(source, 5)
        topics.fill(source, {partition: [b"v"] for partition in range(5)})
        servers = {"kafka.bootstrap.servers": topics.address}
        frame = session.readStream.format("kohort").options(
            **servers, subscribe=source, startingOffsets="earliest"
        )
        writer = (
            frame.load()
            .select("value", "partition")
            .writeStream.format("kohort")
            .options(**servers, topic=topic)
        )
        query = (
            writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )
        with pytest.raises(
            Exception,
            match=(f"a row is for partition [34] of topic {topic}, which has the partitions 0"),
        ):
            query.awaitTermination(PATIENCE_S)
        assert read(topic).count() == 0


@pytest.mark.parametrize(
    ("query", "options", "told"),
    [
        ("select 'k' key", {"topic": "t"}, "column value is missing"),
        ("select 'v' value", {}, "set the option topic, or add a column topic"),
        ("select 1 value", {"topic": "t"}, "column value is int; cast it to string or binary"),
        (
            "select 'v' value, 1L partition",
            {"topic": "t"},
            "column partition is bigint; cast it to int",
        ),
        (
            "select 'v' value",
            {"topic": "t", "includeHeaders": "true"},
            "there is no column headers",
        ),
        ("select 'v' value", {"topik": "t"}, "option topik is not known; is it topic?"),
        (
            "select 'v' value",
            {"topic": "t", "kafka.acks": "2"},
            "option kafka.acks is '2'; it is one of all",
        ),
        ("select 'v' value, cast(null as string) topic", {}, "a row has no topic"),
    ],
)
def test_rows_that_cannot_be_written_are_refused(session, save, query, options, told):
    with pytest.raises(Exception, match=told.replace("?", r"\?")):
        save(session.sql(query), **options)


def test_overwriting_is_refused(session, topics):
    writer = session.sql("select 'v' value").write.format("kohort")
    with pytest.raises(Exception, match="mode overwrite: a topic can only be appended to"):
        writer.options(**{"kafka.bootstrap.servers": topics.address, "topic": "t"}).mode(
            "overwrite"
        ).save()


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_rows_are_written_with_every_codec(session, save, read, topic, codec):
    save(
        session.sql("select rpad('v', 500, 'x') value"), topic=topic, kafka__compression__type=codec
    )
    assert [len(row.value) for row in read(topic).collect()] == [500]


def test_a_stream_goes_on_where_it_ended(session, topics, read, topic, tmp_path):
    """What is read is written once by a query that was stopped in between, without failures."""
    source = f"{topic}-source"
    topics.create(source, 2)
    servers = {"kafka.bootstrap.servers": topics.address}
    frame = (
        session.readStream.format("kohort")
        .options(**servers, subscribe=source, startingOffsets="earliest")
        .load()
    )
    for run in range(2):
        topics.fill(
            source,
            {
                partition: [b"%d-%d-%d" % (run, partition, at) for at in range(20)]
                for partition in (0, 1)
            },
        )
        writer = (
            frame.select("key", "value", "partition")
            .writeStream.format("kohort")
            .options(**servers, topic=topic)
        )
        query = (
            writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )
        assert query.awaitTermination(PATIENCE_S), query.lastProgress
    assert values(read(topic)) == {
        partition: [b"%d-%d-%d" % (run, partition, at) for run in (0, 1) for at in range(20)]
        for partition in (0, 1)
    }
