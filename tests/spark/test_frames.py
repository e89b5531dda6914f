"""Batch frames that are used again: the offsets of the first action, and `refreshed`."""

from itertools import count

import pytest

from kohort.spark import refreshed
from kohort.spark.frames import warn_of_reuse
from spark.servers import kohort_only

pytestmark = pytest.mark.clients

_numbers = count()


@pytest.fixture
def topic(topics):
    name = f"frames-{next(_numbers)}"
    topics.create(name, 2)
    return name


@pytest.fixture
def frame(session, topics, topic):
    options = {"kafka.bootstrap.servers": topics.address, "subscribe": topic}
    return session.read.format("kohort").options(**options).load()


def counted(session, view):
    return session.sql(f"select count(*) as found from `{view}`").collect()[0].found


def test_a_process_warns_once_of_a_plan_that_is_read_again(monkeypatch, caplog):
    class Context:
        execution = "1"

        def getLocalProperty(self, name):  # noqa: N802
            return self.execution

    context = Context()
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: context)
    warn_of_reuse("plan")
    warn_of_reuse("plan")
    assert not caplog.records
    context.execution = "2"
    warn_of_reuse("plan")
    warn_of_reuse("plan")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@kohort_only
def test_a_frame_keeps_its_offsets_until_it_is_refreshed(topics, topic, frame):
    topics.fill(topic, {0: [b"a"] * 5})
    assert frame.count() == 5
    topics.fill(topic, {0: [b"b"] * 2, 1: [b"c"] * 3})
    assert frame.count() == 5
    assert refreshed(frame).count() == 10
    assert frame.filter("value = 'c'").count() == 3, "frames of the same load() are planned, too"


@kohort_only
def test_rows_of_the_same_frame(topics, topic, frame):
    assert frame.collect() == []
    topics.fill(topic, {0: [b"a"]})
    assert [row.value for row in refreshed(frame).collect()] == [b"a"]


@kohort_only
def test_views_over_a_topic_that_was_empty(session, topics, topic, frame):
    frame.createOrReplaceTempView("of_frame")
    session.sql(
        "create or replace temporary view of_sql using kohort options ("
        f"`kafka.bootstrap.servers` '{topics.address}', subscribe '{topic}')"
    )
    assert [counted(session, view) for view in ("of_frame", "of_sql")] == [0, 0]
    topics.fill(topic, {1: [b"a"] * 3})
    for view in ("of_frame", "of_sql"):
        refreshed(session.table(view))
        assert counted(session, view) == 3


@kohort_only
def test_a_view_after_its_records_were_deleted(session, topics, topic, frame):
    topics.fill(topic, {0: [b"a"] * 5})
    frame.createOrReplaceTempView("deleted")
    assert counted(session, "deleted") == 5
    topics.trim(topic, 0, 4)
    with pytest.raises(Exception, match=r"if the frame was used before: kohort\.spark\.refreshed"):
        counted(session, "deleted")
    refreshed(session.table("deleted"))
    assert counted(session, "deleted") == 1


@kohort_only
def test_the_static_side_of_a_stream(session, topics, topic, frame, tmp_path):
    stream_of = f"{topic}-stream"
    topics.create(stream_of)
    topics.fill(stream_of, {0: [b"a", b"b"]})
    topics.fill(topic, {0: [b"a"]})
    stream = (
        session.readStream.format("kohort")
        .option("kafka.bootstrap.servers", topics.address)
        .option("subscribe", stream_of)
        .option("startingOffsets", "earliest")
        .load()
    )
    joined = stream.select("value").join(frame.select("value"), "value")
    writer = joined.writeStream.format("memory").queryName("joined")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        assert [row.value for row in session.table("joined").collect()] == [b"a"]
        topics.fill(topic, {1: [b"b"]})
        refreshed(frame)
        topics.fill(stream_of, {0: [b"b"]})
        query.processAllAvailable()
        assert [row.value for row in session.table("joined").collect()] == [b"a", b"b"]
    finally:
        query.stop()
