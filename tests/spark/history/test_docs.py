"""The commands and programs of docs/history.md, one after the other, on a server with a group."""

import os
import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from docs.blocks import run_by
from docs.shell import commands
from spark.history.test_sources import commit
from spark.servers import KohortServer
from spark.streams import PROGRAM_S
from spark.topics import Topics

pytestmark = [pytest.mark.clients, pytest.mark.timeout(3 * PROGRAM_S)]


@pytest.fixture
def server(java, tmp_path):
    server = KohortServer(tmp_path)
    topics = Topics(server.address)
    topics.create("orders", 3)
    commit(topics, "billing", 7)
    commit(topics, "billing", 3)
    yield server
    server.stop()


def run(line, directory, replaced):
    for name, value in replaced.items():
        line = line.replace(name, value)
    command = [sys.executable, "-m", "kohort", *shlex.split(line)[1:]]
    process = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    if "--follow" in line:
        assert " records in " in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PROGRAM_S)
    may_find = "history check" in line  # offset 3 after 7 is a reset, which it finds
    assert process.returncode in ((0, 3) if may_find else (0,)), (line, errors[-3000:])
    return output


def test_the_page_runs_from_top_to_bottom(server, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    replaced = {
        "localhost:9092": server.address,
        "new:9092": server.address,
        "2026-01-31T10:42Z": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "/var/lib/kafka": str(tmp_path / "data"),
    }
    shown = []
    for block in run_by(__file__):
        if block.language == "sh":
            shown += [run(line, work, replaced) for line in commands(block.code)]
            continue
        code = block.code
        for name, value in replaced.items():
            code = code.replace(name, value)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=work, capture_output=True, text=True, check=False,
            timeout=PROGRAM_S, env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        shown.append(done.stdout)
    assert "classic" in "".join(shown)
    assert "committed=3, certainty='exact'" in "".join(shown)
