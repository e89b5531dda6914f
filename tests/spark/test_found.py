"""The source in a session that nobody registered it in, and what `load()` refuses."""

import pytest
from pyspark.errors import AnalysisException

from spark.servers import kohort_only

pytestmark = pytest.mark.clients


@pytest.fixture
def other(session):
    """A new session of the same Spark: what is registered in another one is not in it."""
    return session.newSession()


@kohort_only
def test_a_session_finds_it_by_itself_and_sql_too(other, topics):
    topics.create("found", 1)
    topics.fill("found", {0: [b"one", b"two"]})
    servers = {"kafka.bootstrap.servers": topics.address}
    assert other.read.format("kohort").options(**servers, subscribe="found").load().count() == 2
    other.sql(
        "CREATE TEMPORARY VIEW found USING kohort OPTIONS ("
        f"'kafka.bootstrap.servers' = '{topics.address}', subscribe = 'found', topic = 'found')"
    )
    other.sql(
        "INSERT INTO found SELECT null, cast('three' AS BINARY), 'found', 0, 0, "
        "current_timestamp(), 0"
    )
    values = other.sql("SELECT cast(value AS STRING) FROM found ORDER BY offset").collect()
    assert [value for (value,) in values] == ["one", "two", "three"]


def test_all_refusals_are_in_the_error_of_load(other):
    reading = other.read.format("kohort").options(failOnDataLoss="yes", **{"kafka.acks.x": "1"})
    with pytest.raises(AnalysisException) as raised:
        reading.load()
    told = str(raised.value)
    assert "4 options are refused" in told
    for name in ("failOnDataLoss", "kafka.acks.x", "kafka.bootstrap.servers", "subscribe"):
        assert f" {name}" in told
