"""`make run` without a terminal: from an empty directory to the summary, and a second time on the
same data.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from kohort.demo.server import free_port

pytestmark = pytest.mark.interop


def run(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    listen = f"127.0.0.1:{free_port('127.0.0.1')}"
    command = [
        sys.executable,
        "-m",
        "kohort.demo",
        "--data",
        str(data),
        "--listen",
        listen,
        "--seconds",
        "8",
    ]
    command += ["--no-spark", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_show_from_an_empty_directory_and_again(tmp_path: Path) -> None:
    picture = tmp_path / "group.svg"
    first = run(tmp_path / "data", "--picture", str(picture))
    assert first.returncode == 0, first.stderr
    assert "336,776 of 336,776 records were processed, counted and committed." in first.stdout
    told = " ".join(first.stdout.split())
    assert "member-2's session expired" in told
    assert "member-1 left" in told
    assert "none of its" in told
    assert told.count("librdkafka") == 1
    assert "They counted 336,776 flights of 16 carriers" in first.stdout
    assert "killed" in picture.read_text(encoding="utf-8")
    again = run(tmp_path / "data")
    assert again.returncode == 0, again.stderr
    assert "336,776 records from an earlier run: not loaded again" in again.stdout
    assert "flight-counters-2" in again.stdout
