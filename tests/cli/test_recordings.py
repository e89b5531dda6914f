"""`kohort record` and `kohort replay`, as processes and as commands."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.running import runner
from cli.served import Serve
from kohort.client.sync import Producer
from kohort.recording import RecordingReader
from kohort.testing import EmbeddedKafka


@contextmanager
def recording(path: Path, to: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of a proxy, and its bootstrap server."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "kohort", "record", str(path)),
            *("--listen", "127.0.0.1:0", "--to", to, *options),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "bootstrap server for clients: " in line, line
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def produce(bootstrap: str, value: bytes = b"paid") -> None:
    with Producer(bootstrap=bootstrap) as producer:
        producer.send("orders", value).result(timeout_s=60)


def test_a_recording_ends_with_a_signal_and_is_replayed(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders.jsonl"
    with (
        serve("--memory", "--dev") as server,
        recording(path, server.address) as (process, address),
    ):
        produce(address)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert f"connections to {path}" in process.stderr.read()
    run = runner(capsys)
    with serve("--memory", "--dev") as again:
        same = run("replay", str(path), "-b", again.address)
        assert (same.exit_code, same.stderr) == (0, "")
        assert "0 differences" in same.output
        other = run("replay", str(path), "-b", again.address, "--speed", "0")
        assert other.exit_code == 3  # the topic has a record now
        assert "Produce" in other.output
        assert "base_offset: recorded 0, replayed 1" in other.output


def test_a_file_of_a_killed_proxy_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders.jsonl"
    with EmbeddedKafka() as kafka, recording(path, kafka.bootstrap) as (process, address):
        produce(address)
        process.kill()
        process.wait()
    with RecordingReader(path) as reader:
        assert len(list(reader)) > 5
    with EmbeddedKafka() as other:
        outcome = runner(capsys)("replay", str(path), "-b", other.bootstrap)
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        assert [record.value for record in other.records("orders")] == [b"paid"]


def test_values_are_redacted_by_an_option(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    with EmbeddedKafka() as kafka:
        with recording(path, kafka.bootstrap, "--redact-values") as (_, address):
            produce(address, b"of Ann and Bert")
        assert kafka.records("orders")[0].value == b"of Ann and Bert"
    with RecordingReader(path) as reader:
        assert reader.redacts_values
        frames = [getattr(event, "frame", None) or b"" for event in reader]
    assert not any(b"Ann" in frame for frame in frames)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("record", "new", "--listen", "9093"), "--listen 9093: is not HOST:PORT"),
        (("record", "new", "--listen", "127.0.0.1:99999"), "is not HOST:PORT"),
        (("record", "taken", "--to", "127.0.0.1:9"), "taken exists: delete it"),
        (
            ("record", "new", "-F", "sasl.properties"),
            "clients authenticate themselves",
        ),
        (("replay", "new", "--speed", "-1"), "--speed -1: is not a factor"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    (tmp_path / "sasl.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.username=user\nsasl.password=password\n"
    )
    outcome = runner(capsys)(*options)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert not (tmp_path / "new").exists()


def test_an_address_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedKafka() as kafka:
        words = ("--listen", kafka.bootstrap, "--to", kafka.bootstrap)
        outcome = runner(capsys)("record", str(tmp_path / "new"), *words)
    assert outcome.exit_code == 2
    assert "cannot listen on 127.0.0.1:" in outcome.stderr
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_no_recording_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").write_text("mine\n")
    outcome = runner(capsys)("replay", str(tmp_path / "notes"), "-b", "127.0.0.1:9")
    assert outcome.exit_code == 1
    assert "notes is no recording" in outcome.stderr
