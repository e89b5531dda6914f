"""Kohort itself, held against the answers that Apache Kafka gave: every scenario, on a server of its own."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.conformance.reference import load
from kohort.conformance.report import judge
from kohort.conformance.runner import run_all
from kohort.conformance.scenario import all_scenarios

READY_SECONDS = 20.0


@pytest.fixture
def kohort(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A server in memory on a free port."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KOHORT_")}
    command = [sys.executable, "-m", "kohort", "serve", "--memory", "--dev", "--listen", "127.0.0.1:0"]
    log = tmp_path / "log"
    with log.open("wb") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process:
        try:
            yield listening(process, log)
        finally:
            process.kill()


def listening(process: subprocess.Popen[bytes], log: Path) -> tuple[str, int]:
    """The address that the server tells in its log."""
    deadline = time.monotonic() + READY_SECONDS
    while not (told := re.search(r"listening.* address=([\d.]+):(\d+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return told[1], int(told[2])


def test_every_answer_is_kafkas(kohort: tuple[str, int]) -> None:
    """Or is argued for in docs/differences.md."""
    runs = asyncio.run(run_all(*kohort, all_scenarios()))
    report = judge("Kohort", load(), runs)
    differing = [one for verdict in report.verdicts if verdict.outcome == "differs" for one in verdict.differences]
    told = [f"{one.scenario} {one.step} {one.field}: {one.expected!r}, got {one.got!r}" for one in differing]
    assert not told, "\n".join([report.score, *told])
