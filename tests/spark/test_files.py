"""Batch reads of `path`: segment files, without a broker or beside one."""

import pytest

from kohort.spark import range_reader
from kohort.testing.server_process import ServerProcess
from segments.files import NOW, Partition, batch, log_of
from spark.servers import KohortServer
from spark.topics import Topics

pytestmark = pytest.mark.clients


@pytest.fixture
def read(session):
    def load(path, **options):
        return session.read.format("kohort").options(path=str(path), **options).load()

    return load


def offsets(frame):
    """{partition: its offsets}."""
    found = {}
    for row in frame.select("topic", "partition", "offset").collect():
        found.setdefault(f"{row.topic}-{row.partition}", []).append(row.offset)
    return {partition: sorted(some) for partition, some in found.items()}


@pytest.fixture
def data(tmp_path):
    """A data directory with two topics."""
    Partition(tmp_path, "orders-0").fill(0, 8, 20)
    Partition(tmp_path, "orders-1").fill(4, 10)
    Partition(tmp_path, "orders-2")
    Partition(tmp_path, "payments-0").fill(0, 6)
    return tmp_path


class TestSelection:
    def test_topics_are_chosen_by_the_options_of_a_topic(self, read, data):
        orders = {"orders-0": list(range(20)), "orders-1": list(range(4, 10))}
        assert offsets(read(data, subscribe="orders")) == orders
        assert offsets(read(data, subscribePattern="pay.*")) == {"payments-0": list(range(6))}
        assert offsets(read(data, assign='{"orders": [1, 2]}')) == {"orders-1": orders["orders-1"]}

    def test_a_directory_of_one_partition_needs_none(self, read, data):
        assert offsets(read(data / "orders-1")) == {"orders-1": list(range(4, 10))}
        assert offsets(read(data / "orders-0" / f"{8:020}.log")) == {"orders-0": list(range(8, 20))}

    def test_several_topics_without_a_choice_are_refused(self, read, data):
        with pytest.raises(
            Exception, match=r"option path has 2 topics \(orders, payments\); choose"
        ):
            read(data).count()

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"subscribe": "order"}, "option subscribe: topic order does not exist"),
            ({"assign": '{"orders": [3]}'}, "option assign: partition 3 of topic orders does not"),
            (
                {"subscribe": "payments", "startingOffsets": '{"payments": {"0": 7}}'},
                "offset 7 of payments-0 is beyond its end, offset 6",
            ),
        ],
    )
    def test_missing_topics_partitions_and_offsets_are_refused(self, read, data, options, says):
        with pytest.raises(Exception, match=says):
            read(data, **options).count()

    def test_offsets_bound_a_read(self, read, data):
        frame = read(
            data,
            assign='{"orders": [0, 1]}',
            startingOffsets='{"orders": {"0": 7, "1": -2}}',
            endingOffsets='{"orders": {"0": 9, "1": -1}}',
        )
        assert offsets(frame) == {"orders-0": [7, 8], "orders-1": list(range(4, 10))}

    def test_times_bound_a_read(self, read, data):
        """Those of a batch rise from `NOW` on."""
        frame = read(data, subscribe="payments", startingTimestamp=str(NOW + 1))
        assert offsets(frame) == {"payments-0": list(range(1, 6))}
        times = f'{{"payments": {{"0": {NOW + 1}}}}}'
        assert offsets(read(data, subscribe="payments", endingOffsetsByTimestamp=times)) == {
            "payments-0": [0]
        }
        late = {"subscribe": "payments", "startingTimestamp": str(NOW + 2)}
        with pytest.raises(Exception, match=f"payments-0 has no record at or after {NOW + 2}"):
            read(data, **late).count()
        later = read(data, **late, startingOffsetsByTimestampStrategy="latest")
        assert offsets(later) == {}

    def test_the_longest_replica_is_read(self, read, tmp_path):
        Partition(tmp_path / "a").fill(0, 8)
        Partition(tmp_path / "b").fill(2, 12)
        frame = read(f"{tmp_path}/a, {tmp_path}/b")
        assert offsets(frame) == {"orders-0": list(range(2, 12))}

    def test_large_ranges_are_divided_between_tasks(self, read, data):
        frame = read(data, subscribe="orders", maxRecordsPerPartition="5")
        assert frame.rdd.getNumPartitions() == 6
        assert offsets(frame)["orders-0"] == list(range(20))


class TestRows:
    def test_the_columns_are_those_of_a_topic(self, read, data):
        frame = read(data, subscribe="payments", includeHeaders="true", includeBatchFields="true")
        row = frame.orderBy("offset").first()
        assert (row.key, row.value, row.topic, row.partition, row.offset) == (
            b"k", b"v0", "payments", 0, 0,
        )  # fmt: skip
        assert (row.headers, row.batchOffset, row.transactional, row.control) == (
            None, 0, False, None,
        )  # fmt: skip

    @pytest.fixture
    def damaged(self, tmp_path):
        partition = Partition(tmp_path)
        broken = bytearray(batch(2))
        broken[70] ^= 1
        partition.segment(0, batch(0) + bytes(broken) + batch(4))
        partition.fill(6, 8)
        return tmp_path

    def test_damage_is_an_error_with_file_and_position(self, read, damaged):
        says = rf"{0:020}.log is damaged at position {len(batch(0))}.*set failOnDataLoss to false"
        with pytest.raises(Exception, match=says):
            read(damaged).count()

    def test_damage_is_left_out_without_fail_on_data_loss(self, read, damaged):
        assert offsets(read(damaged, failOnDataLoss="false")) == {"orders-0": [0, 1, 4, 5, 6, 7]}

    def test_damage_may_be_a_row(self, read, damaged):
        frame = read(damaged, includeBatchFields="true", damagedBatches="rows")
        rows = frame.where("control is not null").collect()
        assert [(row.control, row.key, row.offset) for row in rows] == [("damaged", None, 2)]
        assert frame.count() == 7


def test_files_of_a_running_server_have_the_records_that_it_serves(session, read, tmp_path):
    server = KohortServer(tmp_path)
    try:
        topics = Topics(server.address)
        topics.create("orders", 2)
        for number in range(3):
            topics.fill("orders", {0: [b"a%d" % number] * 5, 1: [b"b"] * 7})
        served = session.read.format("kohort").option("includeBatchFields", True)
        served = served.option("kafka.bootstrap.servers", server.address)
        rows = served.option("subscribe", "orders").load().collect()
        frame = read(tmp_path / "data", subscribe="orders", includeBatchFields="true")
        assert len(rows) == 36
        assert sorted(frame.collect()) == sorted(rows)
    finally:
        server.stop()


def test_files_of_workers_have_the_records_that_they_serve(session, read, tmp_path):
    log, data = tmp_path / "log", tmp_path / "data"
    with ServerProcess("--data", str(data), "--workers", "2", log=log) as server:
        topics = Topics(server.address)
        topics.create("orders", 4)
        topics.fill("orders", {number: [b"%d" % number] * 5 for number in range(4)})
        assert len(list(data.glob("**/orders-*"))) == 4
        assert list(data.glob("worker1/orders-*"))
        frame = read(data, subscribe="orders")
        assert offsets(frame) == {f"orders-{number}": list(range(5)) for number in range(4)}


class TestRanges:
    """`readRanges`, and the tasks that fetch them."""

    def test_a_batch_of_ranges_is_read_by_its_tasks(self, session, topics):
        topics.create("ranges", 2)
        topics.fill("ranges", {0: [b"a"] * 5, 1: [b"b"] * 7})
        options = {
            "kafka.bootstrap.servers": topics.address, "subscribe": "ranges",
            "includeBatchFields": True,
        }  # fmt: skip
        frame = session.read.format("kohort").options(**options, readRanges=True).load()
        assert frame.columns == ["topic", "partition", "start", "end", "topicId"]
        rows = sorted(frame.collect())
        assert [(row.topic, row.partition, row.start, row.end) for row in rows] == [
            ("ranges", 0, 0, 5),
            ("ranges", 1, 0, 7),
        ]
        assert all(len(row.topicId) == 22 for row in rows)
        fetch = range_reader.RangeReader(options)
        expected = session.read.format("kohort").options(**options).load()
        assert sorted(frame.mapInArrow(fetch, fetch.schema).collect()) == sorted(expected.collect())

    def test_a_stream_of_ranges_has_each_record_once(self, session, topics, tmp_path):
        topics.create("streamed", 2)
        options = {"kafka.bootstrap.servers": topics.address, "subscribe": "streamed"}
        stream = session.readStream.format("kohort").options(**options, readRanges=True)
        frame = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 5)
        fetch = range_reader.RangeReader(options)
        ranges, found = [], []

        def fetched(rows, _):
            ranges.extend(tuple(row)[:4] for row in rows.collect())
            records = rows.mapInArrow(fetch, fetch.schema).collect()
            found.extend((row.partition, row.offset) for row in records)

        def run():
            writer = frame.load().writeStream.foreachBatch(fetched)
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(120)

        topics.fill("streamed", {0: [b"a"] * 5, 1: [b"b"] * 7})
        run()
        topics.fill("streamed", {0: [b"c"] * 3})
        run()
        expected = [(0, at) for at in range(8)] + [(1, at) for at in range(7)]
        assert sorted(found) == expected
        assert len(ranges) > 3
        assert sum(end - start for _, _, start, end in ranges) == len(expected)

    def test_a_row_has_the_types_of_its_schema(self):
        from pyspark.sql.pandas.types import to_arrow_schema

        from kohort.spark.options import parse_read
        from kohort.spark.ranges import OffsetRange, range_row
        from kohort.spark.read_schema import columns_of

        options = parse_read(
            {"kafka.bootstrap.servers": "h:1", "subscribe": "a", "readRanges": "true"},
            streaming=True,
        )
        row = range_row(OffsetRange("a", 1, 2, 3))
        assert row.schema.equals(to_arrow_schema(columns_of(options)))
        assert row.to_pylist() == [
            {"topic": "a", "partition": 1, "start": 2, "end": 3, "topicId": None}
        ]


def test_one_partition_of_many_segments_is_read_in_pieces(read, tmp_path):
    partition = Partition(tmp_path)
    for base in range(0, 300, 100):
        partition.segment(base, log_of(base, base + 100))
    assert offsets(read(tmp_path, minPartitions="4")) == {"orders-0": list(range(300))}
