"""Streams with state, which goes on from the checkpoint in the next run: windows, joins of two
streams, duplicates, and a state of the program's own.
"""

from itertools import count

import pytest
from pyspark.sql import Row
from pyspark.sql.functions import expr, window
from pyspark.sql.streaming import StatefulProcessor

from kohort.protocol import batches
from kohort.protocol.batches import Record
from spark.streams import PATIENCE_S, Stream
from spark.topics import NOW

pytestmark = pytest.mark.clients

_numbers = count()
MINUTE = 60_000
START = NOW - NOW % MINUTE
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def orders(topics):
    name = f"stateful-{next(_numbers)}"
    topics.create(name, 2)
    return name


@pytest.fixture
def produce(topics):
    """Records of a topic: (partition, key, value, minute)."""

    def write(topic, *records):
        for partition, key, value, minute in records:
            record = Record(key, value, (), START + minute * MINUTE)
            topics.append(topic, partition, batches.build([record]))

    return write


@pytest.fixture
def stream(session, topics, tmp_path):
    """A read whose group gets its progress, with a watermark of a minute."""

    def make(topic):
        reading = Stream(
            session, topics.address, tmp_path, subscribe=topic, group__id=topic,
            groupMode="reporting", startingOffsets="earliest",
        )  # fmt: skip
        return reading.frame().withWatermark("timestamp", "1 minute")

    return make


@pytest.fixture
def run(session, tmp_path):
    """Runs a query on what there is; all rows that its runs have written."""

    def once(frame, mode="append"):
        rows = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        writer = writer.outputMode(mode).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S), query.lastProgress
        return rows

    return once


def test_windows_are_counted_from_the_checkpoint_in_the_next_run(
    stream, run, orders, produce, topics
):
    frame = stream(orders).groupBy(window("timestamp", "1 minute")).count()
    counts = frame.selectExpr(f"(unix_millis(window.start) - {START}) / {MINUTE} minute", "count")
    produce(orders, *((part, None, b"v", 0) for part in (0, 1, 1)), (0, None, b"v", 3))
    assert [tuple(row) for row in run(counts)] == [(0, 3)]
    produce(orders, (1, None, b"v", 3), (0, None, b"late", 0), (1, None, b"v", 9))
    assert [tuple(row) for row in run(counts)] == [(3, 2)]
    assert sum(topics.committed(orders)[orders].values()) == 7


def test_a_join_of_two_streams(stream, run, orders, produce, topics):
    paid = f"{orders}-paid"
    topics.create(paid)
    left = stream(orders).selectExpr("key", "value item", "timestamp ordered")
    right = stream(paid).selectExpr("key id", "value sum", "timestamp paid")
    soon = expr("key = id and paid between ordered and ordered + interval 5 minutes")
    joined = left.join(right, soon).select("item", "sum")
    produce(orders, (0, b"1", b"pen", 0), (1, b"2", b"ink", 1))
    produce(paid, (0, b"1", b"7", 1))
    assert run(joined) == [Row(item=b"pen", sum=b"7")]
    produce(paid, (0, b"2", b"8", 2), (0, b"1", b"9", 6))
    assert run(joined) == [Row(item=b"ink", sum=b"8")]


def test_duplicates_within_a_watermark(stream, run, orders, produce):
    distinct = stream(orders).dropDuplicatesWithinWatermark(["key"]).select("value")
    produce(orders, (0, b"k", b"first", 0), (0, b"k", b"again", 0))
    assert run(distinct) == [Row(value=b"first")]
    produce(orders, (0, b"k", b"again", 0), (1, b"l", b"other", 0))
    assert run(distinct) == [Row(value=b"other")]


def counting():
    """A processor whose class goes to Spark's processes by value, because no module has it."""

    class Total(StatefulProcessor):
        """The number of records of each key."""

        def init(self, handle):
            self.total = handle.getValueState("total", "n long")

        def handleInputRows(self, key, rows, timers):  # noqa: N802
            before = self.total.get()
            total = sum(1 for _ in rows) + (before[0] if before else 0)
            self.total.update((total,))
            yield Row(key=key[0], n=total)

        def close(self): ...

    return Total()


def test_transform_with_state(session, stream, run, orders, produce):
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)
    try:
        keyed = stream(orders).selectExpr("cast(key as string) key").groupBy("key")
        totals = keyed.transformWithState(counting(), "key string, n long", "update", "None")
        produce(orders, (0, b"a", b"v", 0), (1, b"a", b"v", 0), (1, b"b", b"v", 0))
        assert sorted(run(totals, "update")) == [("a", 2), ("b", 1)]
        produce(orders, (0, b"a", b"v", 0))
        assert run(totals, "update") == [("a", 3)]
    finally:
        session.conf.unset("spark.sql.streaming.stateStore.providerClass")
