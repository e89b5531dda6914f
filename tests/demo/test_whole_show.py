"""`make run` without a terminal: from an empty directory to the summary, and a second time on the
same data, with a network that does not have Spark.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples/demo"

pytestmark = pytest.mark.interop


def run(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(DEMO),
        "--data",
        str(data),
        "--listen",
        "127.0.0.1:0",
        "--seconds",
        "8",
    ]
    return subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "JAVA_HOME": "/nowhere"},
    )


def test_the_show_from_an_empty_directory_and_again(tmp_path: Path) -> None:
    picture = tmp_path / "group.svg"
    first = run(tmp_path / "data", "--no-spark", "--picture", str(picture))
    assert first.returncode == 0, first.stderr
    assert "336,776 of 336,776 records were processed, counted and committed." in first.stdout
    told = " ".join(first.stdout.split())
    assert "member-2's session expired" in told
    assert "member-1 left" in told
    assert "none of its" in told
    assert told.count("librdkafka") == 1
    assert "They counted 336,776 flights of 16 carriers" in first.stdout
    assert "killed" in picture.read_text(encoding="utf-8")
    offline = 'echo "error: Failed to fetch pyspark"; exit 1'
    again = run(tmp_path / "data", "--install", "sh", "-c", offline)
    assert again.returncode == 0, again.stderr
    assert "336,776 records from an earlier run: not loaded again" in again.stdout
    assert "flight-counters-2" in again.stdout
    assert "Spark is installed meanwhile" in again.stdout
    assert "Spark could not be installed: Failed to fetch pyspark; see " in again.stdout
    assert again.stdout.rstrip().endswith("The server has stopped.")
