"""`kohort history build` as a process: killed, ended by a signal, on a cluster of two workers."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from history.recorded import load
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.snapshot import Snapshot
from kohort.protocol.batch_format import iterate
from spark.streams import PROGRAM_S, wait_for

pytestmark = [pytest.mark.clients, pytest.mark.timeout(3 * PROGRAM_S)]


@pytest.fixture(scope="module")
def log():
    """A directory of segment files, which Apache Kafka wrote."""
    return load("classic").directory / "whole"


@pytest.fixture(scope="module")
def one_build(java, log, tmp_path_factory):
    """The tables of a build that nothing disturbs."""
    out = tmp_path_factory.mktemp("one") / "out"
    code, errors = finished(build(log, out))
    assert code == 0, errors
    return tables(out)


def build(log, out, *options):
    words = [str(log), "--out", str(out), "--master", "local[2]", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "kohort", "history", "build", *words],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip


def finished(process):
    errors = process.communicate(timeout=PROGRAM_S)[1]
    return process.returncode, errors


def snapshot(out):
    return HistoryDirectory(LocalFiles(out)).snapshot()


def tables(out):
    """All rows by table, in the order of the log, but findings: those are looked for afterwards."""
    found = {}
    for file in snapshot(out).files:
        if file.table == "findings":
            continue
        rows = pq.read_table(out / file.path).to_pylist()
        found.setdefault(file.table, []).extend(map(repr, rows))
    return {table: sorted(rows) for table, rows in found.items()}


@pytest.mark.parametrize("directory", ["_history.json", "commits", "state", "_batches"])
def test_a_killed_build_is_continued_by_the_next(log, one_build, tmp_path, directory):
    out = tmp_path / "out"
    process = build(log, out)
    seen = out / directory
    wait_for(
        lambda: seen.is_file() or (seen.is_dir() and any(seen.iterdir())),
        f"{directory} is written",
        within_s=PROGRAM_S,
    )
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=PROGRAM_S)
    assert snapshot(out) == Snapshot() or tables(out) == one_build
    code, errors = finished(build(log, out))
    assert code == 0, errors
    assert tables(out) == one_build


def test_a_signal_ends_a_build_with_its_code(java, log, tmp_path):
    process = build(log, tmp_path / "out")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_for(children.read_text, "in the midst of Spark's start")  # the JVM is its first child
    process.send_signal(signal.SIGTERM)
    code, errors = finished(process)
    assert code == 128 + signal.SIGTERM, errors
    assert "Traceback" not in errors


def test_two_workers_give_the_same_tables(log, one_build, tmp_path):
    from spark.cluster import standalone

    out = tmp_path / "out"
    with standalone(tmp_path) as master:
        code, errors = finished(build(log, out, "--master", master))
    assert code == 0, errors
    assert tables(out) == one_build
    assert not [line for line in errors.splitlines() if "Traceback" in line]


def test_a_second_build_beside_the_first_is_refused(java, log, tmp_path):
    from kohort.history_files.directory import opened_for_writing

    out = tmp_path / "out"
    with opened_for_writing(LocalFiles(out), 0):
        code, errors = finished(build(log, out))
    assert code == 3
    assert errors == f"kohort: {out}: another build writes into it\n"


def test_damaged_records_are_rows_and_fail_a_strict_build(java, log, tmp_path):
    damaged = tmp_path / "log"
    shutil.copytree(log, damaged)
    segment = max(damaged.glob("*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    batches = [position + header.size for position, header in iterate(bytes(data))]
    data[batches[len(batches) // 2] - 1] ^= 255
    segment.write_bytes(data)
    code, errors = finished(build(damaged, tmp_path / "out", "--strict"))
    assert code == 1, errors
    assert "--strict: 1 records could not be decoded" in errors
    rows = pq.read_table(tmp_path / "out" / "groups")
    assert [error for error in rows["error"].to_pylist() if error is not None] != []
