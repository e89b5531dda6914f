"""Errors in Spark's messages: the cause is in the first line, without a traceback."""

import io

import pytest
from pyspark.errors import PySparkException
from pyspark.util import handle_worker_exception

from kohort.errors import ConfigError
from kohort.spark import bootstrap_check
from kohort.spark.error_messages import HIDE_TRACEBACK, IN_SPARK, cause_first
from peers.kafka import free_port
from spark.servers import kohort_only

CAUSE = "kohort.errors.ConfigError: set it\n"


@cause_first
class Source:
    def plan(self):
        raise ConfigError("set it")

    def read(self):
        yield 1
        raise ConfigError("set it")

    def fail(self):
        raise AssertionError


def shown(call):
    """What Spark gets, behind two lengths."""
    out = io.BytesIO()
    try:
        call()
    except Exception as error:
        handle_worker_exception(error, out)
    return out.getvalue()[8:].decode()


@pytest.fixture
def in_spark(monkeypatch):
    monkeypatch.setenv(IN_SPARK, "65536")
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    monkeypatch.delenv(HIDE_TRACEBACK)  # it is put back as it was


def test_spark_gets_the_cause_of_an_error_alone(in_spark):
    assert shown(Source().plan) == CAUSE


def test_the_cause_comes_first_for_a_task_that_has_begun(in_spark):
    assert shown(lambda: list(Source().read())) == CAUSE


def test_a_bug_keeps_its_traceback(in_spark):
    assert "Traceback" in shown(Source().fail)


def test_an_error_in_the_driver_itself_keeps_its_traceback(monkeypatch):
    monkeypatch.delenv(IN_SPARK, raising=False)
    monkeypatch.delenv(HIDE_TRACEBACK, raising=False)
    assert "Traceback" in shown(Source().plan)


def test_addresses_that_refuse_connections_are_tried_for_a_while(monkeypatch):
    monkeypatch.setattr(bootstrap_check, "REFUSED_S", 0.0)
    port = free_port()
    with pytest.raises(
        bootstrap_check.ConnectionsRefusedError, match=rf"no broker listens at .*:{port}"
    ):
        bootstrap_check.validate_listening((("127.0.0.1", port),))
    bootstrap_check.validate_listening((("nowhere.invalid", 9092), ("127.0.0.1", port)))
    bootstrap_check.validate_listening((("unix:/nowhere", 0),))


@kohort_only
@pytest.mark.clients
def test_messages_of_spark(session, topics):
    def read(**options):
        given = {"kafka.bootstrap.servers": topics.address, "subscribe": "nowhere"}
        return session.read.format("kohort").options(**given | options).load()

    with pytest.raises(PySparkException) as planned:
        read().count()
    with pytest.raises(PySparkException) as refused:
        read(startingOfsets="earliest")
    rows = session.range(1).selectExpr("cast(id as string) value")
    given = {"kafka.bootstrap.servers": f"127.0.0.1:{free_port()}", "topic": "nowhere"}
    with pytest.raises(PySparkException) as unreachable:
        rows.write.format("kohort").options(**given).mode("append").save()
    for raised, cause in (
        (planned, "topic nowhere does not exist"),
        (refused, "is it startingOffsets?"),
        (unreachable, "no broker listens at"),
    ):
        assert cause in str(raised.value).splitlines()[0]
        assert "Traceback" not in str(raised.value)
