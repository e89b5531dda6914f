"""What `kohort history build` refuses before Spark starts."""

import socket
import sys

import pytest

from kohort.cli.app import run
from kohort.cli.history_build import broker_configs, keep
from kohort.history.broker_configs import BROKER_CONFIGS, options_of_configs
from kohort.history.group_fold import GroupOptions


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["broker:9092"], "--out"),
        (["broker:9092", "--out", "OUT", "--keep", "90"], "--keep 90: is not an age as 90d"),
        (["broker:9092", "--out", "OUT", "--keep", "0d"], "--keep 0d: is not an age"),
        (["broker:9092", "--out", "OUT", "--keep", "0"], "--keep 0: is not an age"),
        (["broker:9092", "--out", "OUT", "--keep=-5d"], "--keep -5d: is not an age"),
        (["broker:9092", "--out", "OUT", "--keep", "1.5d"], "--keep 1.5d: is not an age"),
        (["broker:9092", "--out", "OUT", "--keep", f"{9:05000}d"], "is not an age"),
        (["broker:9092", "--out", "OUT", "--every", "1 second"], "interval of --follow"),
        (["broker:9092", "-b", "other:9092", "--out", "OUT"], "choose one"),
        (["LOG", "--out", "OUT", "--follow"], "files cannot be followed, only brokers"),
        (["broker:9092", "--out", "OUT", "--conf", "x"], "--conf x: is not NAME=VALUE"),
        (["broker:9092", "--out", "LOG"], "has files of something else (notes.txt)"),
        (["broker:9092", "--out", "nonsense://x/y"], "nonsense://x/y"),
        (["broker:9092", "--out", "OUT", "--folow"], "did you mean --follow?"),
        (
            ["broker:9092", "--out", "OUT", "--broker-config", "offsets.retention.minutes=5"],
            "brokers are asked for it; it is for segment files",
        ),
        (
            ["LOG", "--out", "OUT", "--broker-config", "offset.retention.minutes=5"],
            "is it offsets.retention.minutes?",
        ),
        (
            ["LOG", "--out", "OUT", "--broker-config", "offsets.retention.minutes=soon"],
            "'soon' is not a number",
        ),
    ],
)
def test_a_wrong_option_is_named(capsys, tmp_path, arguments, text):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "notes.txt").touch()
    names = {"OUT": str(tmp_path / "out"), "LOG": str(tmp_path / "log")}
    code = run(["history", "build", *(names.get(word, word) for word in arguments)])
    assert (code, text in (errors := capsys.readouterr().err)) == (2, True), errors


def test_without_a_broker_the_build_ends_at_once(capsys, tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = run(["history", "build", address, "--out", str(tmp_path / "out")])
    errors = capsys.readouterr().err
    assert (code, errors.count("\n")) == (1, 1)
    assert errors.startswith(f"kohort: no server listens at {address}: start one by")


def test_a_silent_broker_is_awaited_up_to_the_timeout(capsys, monkeypatch, tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    monkeypatch.setattr("kohort.cli.broker_check.SILENT_S", 0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        words = [address, "--out", str(tmp_path / "out"), "--timeout", "300"]
        code = run(["history", "build", *words])
    errors = capsys.readouterr().err
    assert code == 1
    assert f"kohort: waiting for a broker at {address}, for 0.3 s at most\n" in errors
    assert "within 0.3 s" in errors.splitlines()[-1]


def test_without_pyspark_the_extra_is_named(capsys, monkeypatch, tmp_path):
    for name in list(sys.modules):
        if name.partition(".")[0] == "pyspark" or name.startswith("kohort.spark"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    code = run(["history", "build", "broker:9092", "--out", str(tmp_path / "out")])
    assert code == 2
    expected = "kohort: kohort history needs pyspark: pip install 'kohort[spark]'\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("text", "hours"),
    [(None, None), ("12h", 12), ("90d", 90 * 24), ("1w", 168), ("99999999d", 99_999_999 * 24)],
)
def test_ages_are_hours_days_and_weeks(text, hours):
    assert keep(text) == (None if hours is None else hours * 3_600_000)


def test_configs_of_brokers_are_options_of_the_fold():
    numbers = {name: str(number) for number, name in enumerate(BROKER_CONFIGS, 1)}
    configs = broker_configs(f"{name}={value}" for name, value in numbers.items())
    assert options_of_configs(configs) == GroupOptions(
        retention_ms=60_000, consumer_session_timeout_ms=2, consumer_heartbeat_interval_ms=3
    )
