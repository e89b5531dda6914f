"""Stateful queries of members, and other streams beside one whose sink commits its offsets, are
refused when they start. No server is needed.
"""

import pytest

from kohort.errors import ConfigError
from kohort.spark.stateful_queries import validate_plan

pytestmark = pytest.mark.clients


@pytest.fixture
def stream(session):
    """A read of a group's member, from nowhere."""

    def read(**options):
        given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", "group.id": "etl"}
        frame = session.readStream.format("kohort").options(**given | options).load()
        return frame.withWatermark("timestamp", "1 minute")

    return read


@pytest.fixture
def customers(session):
    """A table, aggregated."""
    return (
        session.range(3).selectExpr("cast(cast(id as string) as binary) key").groupBy("key").count()
    )


def plan(frame):
    return frame._jdf.queryExecution().analyzed()


def windows(frame):
    from pyspark.sql.functions import window

    return frame.groupBy(window("timestamp", "1 minute"), "key").count()


def join(frame):
    return frame.alias("a").join(frame.alias("b"), "key")


def apply_with_state(frame):
    return frame.groupBy("key").applyInPandasWithState(
        lambda *_: iter(()), "n int", "n int", "append", "NoTimeout"
    )


def common_table(frame):
    frame.createOrReplaceTempView("orders")
    return frame.sparkSession.sql(
        "with counts as (select key, count(*) from orders group by key) select * from counts"
    )


@pytest.mark.parametrize(
    ("query", "named"),
    [
        (windows, "an aggregation"),
        (lambda frame: frame.select("key").distinct(), "dropDuplicates"),
        (lambda frame: frame.dropDuplicatesWithinWatermark(["key"]), "dropDuplicatesWithin"),
        (join, "a join of two streams"),
        (apply_with_state, "applyInPandasWithState"),
        (common_table, "an aggregation"),
        (lambda frame: frame.limit(3), "a limit"),
    ],
)
def test_state_is_refused(stream, query, named):
    with pytest.raises(ConfigError, match=f"groupMode is member, and the query has {named}"):
        validate_plan(plan(query(stream())))


def test_transform_with_state_is_refused(stream):
    from pyspark.sql.streaming import StatefulProcessor

    class Nothing(StatefulProcessor):
        def init(self, handle): ...

        def handleInputRows(self, key, rows, timers):  # noqa: N802
            return iter(())

        def close(self): ...

    frame = stream().groupBy("key").transformWithState(Nothing(), "n int", "append", "None")
    with pytest.raises(ConfigError, match="has transformWithState"):
        validate_plan(plan(frame))


@pytest.mark.parametrize(
    "query",
    [
        lambda frame, _: frame.where("offset > 3").selectExpr("explode(array(1, 2))"),
        lambda frame, _: frame.union(frame),
        lambda frame, customers: frame.join(customers, "key"),
    ],
)
def test_other_queries_are_not(stream, customers, query):
    validate_plan(plan(query(stream(), customers)))


@pytest.mark.parametrize(
    "options", [{"groupMode": "reporting"}, {"groupMode": "none"}, {"statefulMember": "true"}]
)
def test_nor_is_state_elsewhere(stream, options):
    validate_plan(plan(windows(stream(**options))))


def test_a_stateful_query_of_a_member_is_refused_at_its_start(stream, tmp_path):
    writer = windows(stream()).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    for start in (
        writer.format("console").start,
        writer.foreachBatch(lambda *_: None).start,
        lambda: writer.toTable("counts"),
    ):
        with pytest.raises(ConfigError, match="set statefulMember to true"):
            start()
    assert not (tmp_path / "c").exists()


class TestATransactionalSink:
    def test_a_transactional_sink_beside_another_stream_is_refused(self, session, stream):
        member = stream(transactionalSink="totals").select("timestamp")
        other = session.readStream.format("rate").load().select("timestamp")
        says = "option transactionalSink totals: the query reads 2 streams"
        with pytest.raises(ConfigError, match=says):
            validate_plan(plan(member.union(other)))
        with pytest.raises(ConfigError, match=says):
            validate_plan(plan(other.union(member)))
        validate_plan(plan(stream().select("timestamp").union(other)))

    def test_a_transactional_sink_of_one_member_stream_is_accepted(self, stream, customers):
        member = stream(transactionalSink="totals")
        validate_plan(plan(member.union(member)))
        validate_plan(plan(member.join(customers, "key")))
