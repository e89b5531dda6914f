"""What the source can do with earlier PySparks. No Spark is needed."""

import pyspark
import pytest

from kohort.errors import ConfigError
from kohort.spark import KohortDataSource, bootstrap_check
from kohort.spark.read_schema import read_schema

SCHEMA = read_schema(include_headers=False)


@pytest.fixture
def source():
    servers = {"kafka.bootstrap.servers": "localhost:9092"}
    return KohortDataSource(servers | {"subscribe": "orders", "topic": "orders"})


def write(source):
    return source.streamWriter(SCHEMA, overwrite=False)


def read(source):
    return source.streamReader(SCHEMA)


@pytest.mark.parametrize(
    ("version", "able", "unable"),
    [("4.0.1", (), (write, read)), ("4.1.2", (write,), (read,)), ("4.2.0", (write, read), ())],
)
def test_streams_need_later_versions_than_batches(source, monkeypatch, version, able, unable):
    monkeypatch.setattr(pyspark, "__version__", version)
    monkeypatch.setattr(bootstrap_check, "validate_listening", lambda _: None)
    assert source.reader(SCHEMA)
    assert source.writer(SCHEMA, overwrite=False)
    for ask in able:
        assert ask(source)
    for ask in unable:
        with pytest.raises(ConfigError, match=f"needs PySpark 4.* later, and this is {version}"):
            ask(source)
