"""The part of `make run` in which Spark reads the topic: two queries, one group, a table and a
picture.
"""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from kohort.demo import flights, loading
from kohort.demo.server import Server, free_port
from kohort.demo.spark import continued

pytestmark = [pytest.mark.clients, pytest.mark.timeout(280)]


def test_two_queries_share_the_topic_and_count_every_flight(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'kohort[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java 17 or later on the PATH")
    console = Console(width=120, record=True)
    with Server(("127.0.0.1", free_port("127.0.0.1")), tmp_path) as server:
        ends = loading.load(server.address, flights.read(flights.archive()), lambda _done: None)
        continued(server, ends, tmp_path, console)
        members = server.group("flight-delays-1")["members"]
    told = console.export_text()
    assert "spark-1" in told
    assert "left out" not in told
    assert "EV" in told  # ExpressJet was among the most delayed
    assert members == []
    # hours with flights
    assert (tmp_path / "spark" / "delays.svg").read_text().count("<title>") == 19
