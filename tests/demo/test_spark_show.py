"""The part of `make run` in which Spark reads the topic: two queries, one group, a table and a
picture.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from kohort_demo import flights, loading
from kohort_demo.server import Server
from kohort_demo.spark import continued

DEMO = Path(__file__).parents[2] / "examples/demo"

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True)
def _spark() -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'kohort[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or later on the PATH")


def test_two_queries_share_the_topic_and_count_every_flight(tmp_path: Path) -> None:
    console = Console(width=120, record=True)
    with Server(("127.0.0.1", 0), tmp_path) as server:
        ends = loading.load(server.address, flights.read(flights.archive()), lambda _done: None)
        continued(server, ends, tmp_path, console)
        members = server.group("flight-delays-1")["members"]
    told = console.export_text()
    assert "spark-1" in told
    assert "left out" not in told
    assert "records of __consumer_offsets as tables" in told
    assert re.search(r"generation 1 +spark-\d", told)
    assert "EV" in told  # ExpressJet was among the most delayed
    assert members == []
    assert "open file://" in " ".join(told.split())
    assert "flight-delays-1" in (tmp_path / "report.html").read_text()
    # hours with flights
    assert (tmp_path / "spark" / "delays.svg").read_text().count("<title>") == 19


def test_ctrl_c_ends_it_with_one_word(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(DEMO), "--data", str(tmp_path)]
    demo = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--seconds", "6"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with demo:
        assert demo.stdout is not None
        told = ""
        while not re.search("^Spark:", told, re.MULTILINE):
            line = demo.stdout.readline()
            assert line, told
            told += line
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
        told += demo.stdout.read()
    assert demo.returncode == 130
    assert told.rstrip().endswith("Stopped.")
    assert not {"Traceback", "ERROR", "FutureWarning"} & set(re.findall(r"\w+", told)), told
