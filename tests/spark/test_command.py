"""`kohort spark` on this machine: values of JSON by columns, a query that goes on until a signal,
what goes wrong.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pyarrow.dataset
import pytest

from peers.kafka import free_port
from spark.servers import kohort_only
from spark.streams import PROGRAM_S, wait_for

pytestmark = [kohort_only, pytest.mark.clients, pytest.mark.timeout(2 * PROGRAM_S)]


@pytest.fixture
def command(java, topics, tmp_path):
    def start(*arguments):
        words = [
            "-b",
            topics.address,
            "--to",
            tmp_path / "table",
            "--master",
            "local[2]",
            *arguments,
        ]
        return subprocess.Popen(
            [sys.executable, "-m", "kohort", "spark", *map(str, words)],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    return start


def signal_process(process):
    process.send_signal(signal.SIGTERM)


def interrupt_terminal(process):
    """Ctrl-C reaches Spark's processes too."""
    os.killpg(process.pid, signal.SIGINT)


def terminate_service(process):
    """As service managers do, with all processes at once."""
    os.killpg(process.pid, signal.SIGTERM)


def scraped(port):
    with urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        return response.read().decode()


@pytest.mark.parametrize(
    "end",
    [
        signal_process,
        interrupt_terminal,
        pytest.param(terminate_service, marks=pytest.mark.long),
    ],
)
def test_json_by_columns_until_a_signal(command, topics, tmp_path, end):
    topic, group = f"sales-{end.__name__}", f"etl-{end.__name__}"
    topics.create(topic)
    lines = [
        json.dumps({"id": at, "country": "at" if at % 2 else "de"}).encode() for at in range(50)
    ]
    topics.fill(topic, {0: lines})
    port = free_port()
    process = command(
        topic, "--group", group, "--values", "json", "--schema", "id long, country string",
        "--partition-by", "country", "--every", "1 second", "--http", f"127.0.0.1:{port}",
    )  # fmt: skip
    try:
        wait_for(lambda: topics.committed(group) == {topic: {0: 50}}, "committed", within_s=150)
        series = f'kohort_spark_records_total{{query="{topic}"}} 50.0'
        wait_for(lambda: series in scraped(port), "exposed")
        # Spark, where it gets the signal too, takes along what we have not asked it for
        time.sleep(2)
        end(process)
        told = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 0, told
    assert "50 records in 1 micro-batches" in told
    assert topics.members(group) == []
    table = pyarrow.dataset.dataset(tmp_path / "table", partitioning="hive").to_table()
    assert sorted(table["id"].to_pylist()) == list(range(50))
    assert set(table["country"].to_pylist()) == {"at", "de"}


def test_a_signal_before_the_query_runs(command):
    process = command("sales")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(children.read_text, "in the midst of Spark's start")  # the JVM is its first child
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PROGRAM_S)[1]
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "kohort/cli" not in said, "no traceback of ours; a process of Spark may print its own"


def test_a_run_that_was_killed_while_it_wrote_its_first_offsets_is_no_obstacle(
    command, topics, tmp_path
):
    topics.create("begun")
    topics.fill("begun", {0: [b"v"] * 3})
    offsets = tmp_path / "table" / "_checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.6b2d3a5c-1111-4222-8333-444455556666.tmp").write_text("v1")
    process = command("begun")
    said = process.communicate(timeout=PROGRAM_S)[1]
    assert process.returncode == 0, said
    assert "3 records in 1 micro-batches" in said
    assert {line.partition(":")[0] for line in said.splitlines()} == {"begun"}, "lines of others"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["nowhere"], 1, "topic nowhere does not exist"),
        # Each is a Spark of its own; `test_pipeline_reading.py` has such errors in a session.
        pytest.param(
            ["nowhere", "--values", "csv", "--schema", "a nonsense"],
            2,
            "schema 'a nonsense'",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ["nowhere", "--values", "csv", "--schema", "a int", "--dead-letters", "a/b"],
            1,
            "topic a/b",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_error_of_the_command_is_one_line(command, arguments, code, told):
    process = command(*arguments)
    said = process.communicate(timeout=PROGRAM_S)[1]
    assert process.returncode == code, said
    (line,) = [each for each in said.splitlines() if each.startswith("kohort: ")]
    assert told in line


def test_a_task_that_fails_is_logged(command, topics, tmp_path):
    topics.create("unwritable")
    topics.fill("unwritable", {0: [b"v"]})
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "date=2023-11-14").write_text("in the way of the directory")
    process = command("unwritable")
    said = process.communicate(timeout=PROGRAM_S)[1]
    assert process.returncode == 1, said
    assert " TaskSetManager: " in said
