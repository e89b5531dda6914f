"""What the ready pipeline refuses when Spark looks at its columns."""

import pytest

from kohort.cli.spark_progress import Tally
from kohort.errors import ConfigError
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.spark.pipeline import Pipeline
from spark.servers import kohort_only
from spark.streams import PATIENCE_S
from spark.topics import NOW

pytestmark = pytest.mark.clients


def run(pipeline, session):
    """The query, once it has read what there is."""
    query = pipeline.start_query(pipeline.read(session))
    assert query.awaitTermination(PATIENCE_S)
    return query


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"partition_by": ("country",)}, "partition by country: there is no such column"),
        ({"values": "csv", "schema": "a nonsense"}, "schema 'a nonsense'"),
        ({"values": "csv", "schema": "topic string"}, "the table has a column topic of its own"),
    ],
)
def test_a_pipeline_with_wrong_columns_is_refused_once_spark_runs(session, given, told):
    pipeline = Pipeline(
        topics=("nowhere",), to="table", kafka={"bootstrap.servers": "localhost:9092"}, **given
    )
    with pytest.raises(ConfigError, match=told):
        pipeline.read(session)


@kohort_only
@pytest.mark.parametrize(
    ("values", "good", "bad"),
    [
        ("json", [b'{"id": 1, "total": 2.5}', b"{}"], [b"{", b'{"id": "one", "total": 1}']),
        ("csv", [b"1,2.5"], [b"1,two", b"1"]),
    ],
)
def test_values_that_do_not_fit_the_schema_are_kept_and_counted(
    session, topics, tmp_path, values, good, bad
):
    name = f"corrupt-{values}"
    topics.create(name)
    topics.fill(name, {0: [*good, *bad]})
    pipeline = Pipeline(
        topics=(name,), to=str(tmp_path / "table"), values=values, partition_by=(),
        kafka={"bootstrap.servers": topics.address}, schema="id long, total double",
    )  # fmt: skip
    query = run(pipeline, session)
    rows = session.read.parquet(pipeline.to).orderBy("offset").collect()
    assert [row._corrupt_record for row in rows] == [None] * len(good) + [
        value.decode() for value in bad
    ]
    assert (rows[0].id, rows[0].total) == (1, 2.5)
    tally = Tally(pipeline.unfit)
    tally.add(query.recentProgress)
    assert (tally.rows, tally.not_parsed) == (len(rows), len(bad))


@pytest.mark.parametrize("compact", [False, True])
def test_dead_letters_go_to_their_topic_as_from_kafka_connect(session, topics, tmp_path, compact):
    name = f"letters-{compact}"
    topics.create(name)
    topics.create(f"{name}.dead")
    records = [
        Record(b"a", b'{"id": 1}', (), NOW),
        Record(b"b", b"{", (("trace", b"7"),), NOW + 1),
        Record(None, b'{"id": "two"}', (), NOW + 2),
        Record(b"d", None, (), NOW + 3),
    ]
    topics.append(name, 0, batches.build(records))
    pipeline = Pipeline(
        topics=(name,), to=str(tmp_path / "table"), values="json", partition_by=(),
        kafka={"bootstrap.servers": topics.address, "isolation.level": "read_committed"},
        schema="id long", dead_letters=f"{name}.dead", compact=compact,
    )  # fmt: skip
    query = run(pipeline, session)
    kept = session.read.parquet(pipeline.to).orderBy("offset")
    assert kept.columns == ["id", "key", "topic", "partition", "offset", "timestamp"]
    assert [(row.id, row.key) for row in kept.collect()] == [(1, "a"), (None, "d")]
    tally = Tally(pipeline.unfit)
    tally.add(query.recentProgress)
    assert (tally.rows, tally.not_parsed) == (4, 2)
    dead = session.read.format("kohort").options(
        **{"kafka.bootstrap.servers": topics.address}, subscribe=f"{name}.dead", includeHeaders=True
    )
    letters = dead.load().orderBy("offset").selectExpr("*", "unix_millis(timestamp) ms").collect()
    assert [(row.key, row.value, row.ms - NOW) for row in letters] == [
        (b"b", b"{", 1), (None, b'{"id": "two"}', 2),
    ]  # fmt: skip
    told = [("trace", b"7"), *headers(name, offset=1)], headers(name, offset=2)
    assert [[tuple(each) for each in row.headers] for row in letters] == [*told]


def headers(topic, offset):
    told = {
        "topic": topic,
        "partition": "0",
        "offset": str(offset),
        "stage": "VALUE_CONVERTER",
        "exception.class.name": "kohort.client.errors.DeserializationError",
        "exception.message": "the value does not fit the schema id long",
    }
    return [(f"__connect.errors.{name}", value.encode()) for name, value in told.items()]


def test_a_micro_batch_fails_if_its_dead_letters_are_not_taken(session, topics, tmp_path):
    """Nothing of it is in the table then, and the next run repeats it."""
    topics.create("untaken")
    topics.create("untaken.dead")
    topics.fill("untaken", {0: [b"1", b"x"]})
    pipeline = Pipeline(
        topics=("untaken",), to=str(tmp_path / "table"), values="csv", partition_by=(),
        kafka={"bootstrap.servers": topics.address},
        schema="id long", dead_letters="untaken.dead",
    )  # fmt: skip
    topics.configure("untaken.dead", max_message_bytes="100")
    with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
        run(pipeline, session)
    topics.configure("untaken.dead", max_message_bytes="100000")
    run(pipeline, session)
    assert [row.id for row in session.read.parquet(pipeline.to).collect()] == [1]


@kohort_only
def test_the_tasks_of_a_micro_batch_write_one_small_file_together(session, topics, tmp_path):
    topics.create("compact", 4)
    topics.fill("compact", {partition: [b"v"] * 3 for partition in range(4)})
    pipeline = Pipeline(
        topics=("compact",), to=str(tmp_path / "table"), compact=True,
        kafka={"bootstrap.servers": topics.address},
    )  # fmt: skip
    run(pipeline, session)
    assert session.read.parquet(pipeline.to).count() == 12
    assert len(list((tmp_path / "table").glob("date=*/*.parquet"))) == 1
