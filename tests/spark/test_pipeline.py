"""What the ready pipeline refuses before Spark is started, and what its progress tells."""

import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from kohort.cli.app import run
from kohort.cli.spark_progress import Tally
from kohort.errors import ConfigError
from kohort.spark.pipeline import Pipeline

SERVERS = {"bootstrap.servers": "localhost:9092"}


def pipeline(**given):
    return Pipeline(**{"topics": ("orders",), "to": "table", "kafka": SERVERS} | given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"format": "orc"}, "format 'orc': it is one of parquet, delta"),
        ({"values": "xml"}, "values 'xml': it is one of text, binary, json, csv"),
        ({"values": "json"}, "values of json and csv need a schema"),
        ({"schema": "a int"}, "values of json and csv need a schema"),
        ({"mode": "member"}, "option groupMode is member: it needs the group's name in group.id"),
        (
            {"mode": "leader", "group": "etl"},
            "option groupMode is 'leader'; it is one of none, reporting, member",
        ),
        ({"dead_letters": "dead"}, "dead letters are values of json and csv"),
        (
            {"values": "csv", "schema": "a int", "dead_letters": "orders"},
            "dead letters cannot go to topic orders, which is read",
        ),
        ({"start": "first"}, "option startingOffsets is not JSON"),
        ({"max_records": 0}, "option maxOffsetsPerTrigger is '0'"),
        ({"every": "10"}, "every '10': it is a number and a unit"),
        ({"every": "10 s"}, "every '10 s'"),
        ({"every": "1 month"}, "every '1 month'"),
        (
            {"group": "etl", "kafka": SERVERS | {"heartbeat.interval.ms": "60000"}},
            "60000 must be less than kafka.sess",
        ),
    ],
)
def test_contradicting_options_of_a_pipeline_are_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        pipeline(**given)


def test_delta_needs_its_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="pip install delta-spark"):
        pipeline(format="delta")


def test_delta_configures_the_session_itself(monkeypatch):
    builder = MagicMock()
    function = MagicMock(return_value=builder)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: SimpleNamespace())
    monkeypatch.setitem(
        sys.modules, "delta", SimpleNamespace(configure_spark_with_delta_pip=function)
    )
    assert pipeline(format="delta").configured(builder) is builder.config.return_value
    function.assert_called_once_with(builder)
    assert pipeline().configured(builder) is builder


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["orders"], "the following arguments are required: --to"),
        (["orders", "--to", "t", "--conf", "x"], "--conf x: is not NAME=VALUE"),
        (["orders", "--to", "t", "--format", "orc"], "format 'orc'"),
        (["orders", "--to", "t", "-X", "sasl.mechnism=PLAIN"], "unknown property"),
        (
            ["orders", "--to", "t", "-X", "isolation.level=none"],
            "option kafka.isolation.level is 'none'",
        ),
        (["orders", "--to", "t", "--start", "soon"], "option startingOffsets is not JSON"),
    ],
)
def test_the_command_line(arguments, told, capsys):
    assert run(["spark", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_options_of_the_data_source():
    given = pipeline(
        topics=("a", "b"), group="etl", mode="reporting", start="latest", max_records=5
    ).source()
    assert given == {
        "kafka.bootstrap.servers": "localhost:9092", "subscribe": "a,b",
        "startingOffsets": "latest", "group.id": "etl",
        "groupMode": "reporting", "maxOffsetsPerTrigger": "5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("every", "rebalance_timeout_ms"),
    [
        ("10 seconds", 300_000),
        ("2 minutes", 360_000),
        ("INTERVAL 1 minute 40.5 seconds", 301_500),
        ("30 days", 2**31 - 1),
    ],
)
def test_a_member_holds_its_partitions_for_longer_than_its_interval(every, rebalance_timeout_ms):
    given = pipeline(group="etl", every=every).source()
    assert given["kafka.max.poll.interval.ms"] == str(rebalance_timeout_ms)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"group": "etl", "mode": "reporting"},
        {"group": "etl", "kafka": SERVERS | {"max.poll.interval.ms": "9000"}},
    ],
)
def test_an_interval_changes_no_timeout_that_is_given_or_has_no_member(given):
    found = pipeline(every="1 hour", **given).source().get("kafka.max.poll.interval.ms")
    assert found == given.get("kafka", {}).get("max.poll.interval.ms")


def batch(number, rows, **observed):
    return SimpleNamespace(
        batchId=number,
        numInputRows=rows,
        durationMs={"triggerExecution": 1500},
        observedMetrics=observed,
    )


def test_progress_tells_each_micro_batch_once():
    tally = Tally(pipeline().unfit)
    assert tally.add([batch(0, 1200), batch(1, 0)]) == ["micro-batch 0: 1,200 records in 1.5 s"]
    assert tally.add([batch(0, 1200), batch(1, 0), batch(2, 5)]) == [
        "micro-batch 2: 5 records in 1.5 s"
    ]
    assert tally.line == "1,205 records in 2 micro-batches"


@pytest.mark.parametrize(
    ("given", "place"),
    [({}, "column _corrupt_record"), ({"dead_letters": "dead"}, "topic dead")],
)
def test_progress_tells_in_the_end_how_many_values_did_not_fit(given, place):
    tally = Tally(pipeline(values="csv", schema="a int", **given).unfit)
    tally.add([batch(at, 10, not_parsed={"not_parsed": at}) for at in range(3)])
    assert tally.line == (
        f"30 records in 3 micro-batches; 3 do not fit the schema: {place} has them"
    )
