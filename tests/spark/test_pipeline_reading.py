"""What the ready pipeline refuses when Spark looks at its columns."""

import pytest

from kohort.errors import ConfigError
from kohort.spark.pipeline import Pipeline

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
