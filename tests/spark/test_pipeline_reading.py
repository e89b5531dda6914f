"""What the ready pipeline refuses when Spark looks at its columns."""

import pytest

from kohort.cli.spark_progress import Tally
from kohort.errors import ConfigError
from kohort.spark.pipeline import Pipeline
from spark.servers import kohort_only
from spark.streams import PATIENCE_S

pytestmark = pytest.mark.clients


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"partition_by": ("country",)}, "partition by country: there is no such column"),
        ({"values": "csv", "schema": "a nonsense"}, "schema 'a nonsense'"),
        ({"values": "csv", "schema": "topic string"}, "the table has a column topic of its own"),
    ],
)
def test_what_the_pipeline_refuses_once_spark_runs(session, given, told):
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
    query = pipeline.start_query(pipeline.read(session))
    assert query.awaitTermination(PATIENCE_S)
    rows = session.read.parquet(pipeline.to).orderBy("offset").collect()
    assert [row._corrupt_record for row in rows] == [None] * len(good) + [
        value.decode() for value in bad
    ]
    assert (rows[0].id, rows[0].total) == (1, 2.5)
    tally = Tally()
    tally.add(query.recentProgress)
    assert (tally.rows, tally.not_parsed) == (len(rows), len(bad))


@kohort_only
def test_the_tasks_of_a_micro_batch_write_one_small_file_together(session, topics, tmp_path):
    topics.create("compact", 4)
    topics.fill("compact", {partition: [b"v"] * 3 for partition in range(4)})
    pipeline = Pipeline(
        topics=("compact",), to=str(tmp_path / "table"), compact=True,
        kafka={"bootstrap.servers": topics.address},
    )  # fmt: skip
    query = pipeline.start_query(pipeline.read(session))
    assert query.awaitTermination(PATIENCE_S)
    assert session.read.parquet(pipeline.to).count() == 12
    assert len(list((tmp_path / "table").glob("date=*/*.parquet"))) == 1
