"""One Spark session and one server of each kind for all of these tests: each costs seconds to
start.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kohort_demo.spark_queries import NO_WORKER
from peers.spark import make_archive
from spark.servers import KAFKA, KOHORT, server
from spark.topics import Topics

pyspark = pytest.importorskip(
    "pyspark", reason=("PySpark is not installed: pip install 'kohort[spark]'")
)


HERE = Path(__file__).parent
WITHOUT_SPARK_TOO = (
    "test_batch.py",
    "test_changing_topics.py",
    "test_exactly_once.py",
    "test_lag.py",
    "test_member.py",
    "test_stateful.py",
    "test_stream.py",
    "test_transactions.py",
    "test_write.py",
)
"""Tests whose requests others make on Apache Kafka without Spark: those of `kohort.client`, and for
members and transactions `test_membership.py`, `test_exactly_once_writing.py` and
`test_transactional_sink.py`.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of each test one case runs on Apache Kafka, and of `WITHOUT_SPARK_TOO` one test of each file;
    the others do so in long runs. What Spark's own time limit has ended is run again.
    """
    seen = set()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=NO_WORKER))
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if parameters.get("topics") == "kafka" and not item.get_closest_marker("long"):
            name = "" if item.path.name in WITHOUT_SPARK_TOO else item.nodeid.partition("[")[0]
            if (item.path, name) in seen:
                item.add_marker(pytest.mark.long)
            seen.add((item.path, name))


@pytest.fixture(autouse=True)
def sigterm() -> Iterator[None]:
    """A member's source ignores SIGTERM once it ends, and so would all processes started later."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def java() -> None:
    """Makes Spark's drivers start quickly; skips where Spark finds no Java."""
    from kohort.errors import ConfigError
    from kohort.spark.java import java_environment

    try:
        os.environ.update(java_environment())
    except ConfigError as error:
        pytest.skip(str(error))
    make_archive()


@pytest.fixture(scope="session")
def session(java: None) -> Iterator[Any]:
    """A local Spark with the data source registered."""
    from pyspark.sql import SparkSession

    from kohort.spark import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("kohort")
    spark = builder.config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    yield spark
    spark.stop()


@pytest.fixture(scope="session", params=[KOHORT, KAFKA])
def topics(request: pytest.FixtureRequest) -> Iterator[Topics]:
    """A server, and what makes topics on it."""
    with server(request.param) as address:
        yield Topics(address)


@pytest.fixture
def member(topics: Topics) -> Callable[..., Any]:
    """A plain member of a group, by confluent-kafka; it joins, and keeps what it is given until it
    is left.
    """
    from confluent_kafka import Consumer

    @contextmanager
    def join(group: str, topic: str) -> Iterator[Any]:
        consumer = Consumer(
            {"bootstrap.servers": topics.address, "group.id": group, "enable.auto.commit": False,
             "session.timeout.ms": 6_000, "auto.offset.reset": "earliest"}
        )  # fmt: skip
        consumer.subscribe([topic])
        try:
            deadline = time.monotonic() + 20
            while not consumer.assignment():
                assert time.monotonic() < deadline, "no assignment"
                consumer.poll(0.1)
            yield consumer
        finally:
            consumer.close()

    return join
