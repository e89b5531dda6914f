"""What the ready pipeline refuses before Spark is started, and what its progress tells."""

from types import SimpleNamespace

import pytest

from kohort.cli.app import run
from kohort.cli.spark_progress import Tally
from kohort.errors import ConfigError
from kohort.spark.pipeline import Pipeline


def pipeline(**given):
    return Pipeline(**{"topics": ("orders",), "to": "table", "kafka": {}} | given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"format": "orc"}, "format 'orc': it is one of parquet, delta"),
        ({"values": "xml"}, "values 'xml': it is one of text, binary, json, csv"),
        ({"values": "json"}, "values of json and csv need a schema"),
        ({"schema": "a int"}, "values of json and csv need a schema"),
        ({"mode": "member"}, "group mode member needs the name of a group"),
    ],
)
def test_contradictions(given, told):
    with pytest.raises(ConfigError, match=told):
        pipeline(**given)


def test_delta_needs_its_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="pip install delta-spark"):
        pipeline(format="delta")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["orders"], "the following arguments are required: --to"),
        (["orders", "--to", "t", "--conf", "x"], "--conf x: is not NAME=VALUE"),
        (["orders", "--to", "t", "--format", "orc"], "format 'orc'"),
        (["orders", "--to", "t", "-X", "sasl.mechnism=PLAIN"], "unknown property"),
    ],
)
def test_the_command_line(arguments, told, capsys):
    assert run(["spark", *arguments]) == 2
    assert told in capsys.readouterr().err


def batch(number, rows, ms=1500):
    return SimpleNamespace(batchId=number, numInputRows=rows, durationMs={"triggerExecution": ms})


def test_progress_tells_each_micro_batch_once():
    tally = Tally()
    assert tally.add([batch(0, 1200), batch(1, 0)]) == ["micro-batch 0: 1,200 records in 1.5 s"]
    assert tally.add([batch(0, 1200), batch(1, 0), batch(2, 5)]) == ["micro-batch 2: 5 records in 1.5 s"]
    assert tally.line == "1,205 records in 2 micro-batches"
