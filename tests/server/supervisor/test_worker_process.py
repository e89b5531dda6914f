"""A process of a worker: started, started again, and given up."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

import pytest

from kohort.server.cluster.workers import Worker
from kohort.server.config import Config
from kohort.server.supervisor import worker_process
from kohort.server.supervisor.worker_messages import (
    ALIVE,
    END_UNSTARTED,
    ENDING,
    WorkerReport,
    WorkerSetup,
)
from kohort.server.supervisor.worker_process import WorkerProcess

SERVES_AND_ENDS = f"""
import socket
parent = socket.socket(fileno=0)
parent.sendall({WorkerReport(cluster_id="c").encode()!r})
raise SystemExit(3)
"""
REFUSES = SERVES_AND_ENDS.replace('"refused": null', '"refused": "no"')


def process(monkeypatch: pytest.MonkeyPatch, *command: str) -> WorkerProcess:
    monkeypatch.setattr(worker_process, "COMMAND", command)
    worker = Worker(index=1, count=2, sockets=Path("/tmp/none"))
    return WorkerProcess(WorkerSetup(worker, Config({"node.id": 6, "ssl.key.password": "secret"})))


def test_an_assignment_arrives_as_it_was_sent() -> None:
    worker = Worker(index=1, count=2, sockets=Path("/tmp/none"), is_observed=True)
    config = Config({"node.id": 6, "ssl.key.password": "secret", "log.cleanup.policy": ["delete"]})
    sent = WorkerSetup(worker, config)
    arrived = WorkerSetup.decode(sent.encode())
    assert arrived.worker == worker
    assert dict(arrived.config) == dict(config)


async def test_a_process_that_ends_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = process(monkeypatch, sys.executable, "-c", SERVES_AND_ENDS)
    running = asyncio.create_task(worker.run())
    assert (await worker.started).cluster_id == "c"
    while worker.restarts < 2:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.01)
    worker.stop()
    assert await running in (0, 3)  # the third one may not have begun


@pytest.mark.parametrize(("code", "level"), [(0, logging.WARNING), (3, logging.ERROR)])
async def test_the_end_of_a_process_that_was_asked_to_end_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int, level: int
) -> None:
    ends = SERVES_AND_ENDS.replace("SystemExit(3)", f"SystemExit({code})")
    worker = process(monkeypatch, sys.executable, "-c", ends)
    running = asyncio.create_task(worker.run())
    while worker.restarts < 1:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.01)
    worker.stop()
    await running
    told = caplog.records[0]
    assert (told.getMessage(), told.levelno) == ("worker exited, restarting it", level)


async def test_a_process_that_is_refused_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = process(monkeypatch, sys.executable, "-c", REFUSES)
    assert await worker.run() == 3
    assert worker.started.result().refused == "no"
    assert worker.restarts == 0


@pytest.mark.parametrize("command", [("/does/not/exist",), (sys.executable, "-c", "exit(1)")])
async def test_a_process_that_does_not_serve_is_given_up(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    worker = process(monkeypatch, *command)
    assert await worker.run() == 1
    assert "ended before it served" in str(worker.started.result().refused)


IMPORTS = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
time.sleep(3600)
"""
STARTS = f"""
import pathlib, signal, socket, sys
signal.signal({int(END_UNSTARTED)}, signal.SIG_IGN)
parent = socket.socket(fileno=0)
assert parent.recv(1 << 20).endswith(b"\\n")
pathlib.Path(sys.argv[1]).touch()
assert parent.recv(1) == b""
pathlib.Path(sys.argv[1]).write_text("ended cleanly")
"""


async def stopped_at(
    monkeypatch: pytest.MonkeyPatch, place: Path, program: str
) -> tuple[int, WorkerReport]:
    """The exit code of a process that was asked to end once it made the file `place`."""
    worker = process(monkeypatch, sys.executable, "-c", program, str(place))
    running = asyncio.create_task(worker.run())
    while not place.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.01)
    worker.stop()
    return await running, worker.started.result()


async def test_a_process_that_imports_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, report = await stopped_at(monkeypatch, tmp_path / "there", IMPORTS)
    assert code == 0
    assert report.refused is not None


async def test_a_process_that_starts_ends_cleanly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, _ = await stopped_at(monkeypatch, tmp_path / "there", STARTS)
    assert code == 0
    assert (tmp_path / "there").read_text() == "ended cleanly"


async def test_no_process_is_started_after_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = process(monkeypatch, "/does/not/exist")
    running = asyncio.create_task(worker.run())
    worker.stop()
    assert await running == 0


async def test_a_process_that_appears_during_the_stop_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker = process(monkeypatch, sys.executable, "-c", IMPORTS, str(tmp_path / "there"))
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0)  # the process is being made
    worker.stop()
    assert await running == 0


SERVES = f"""
import pathlib, socket, sys, time
parent = socket.socket(fileno=0)
parent.sendall({WorkerReport(cluster_id="c").encode()!r})
pathlib.Path(sys.argv[1]).touch()
"""
HANGS = SERVES + "time.sleep(3600)"
SHOWS_LIFE = f"""{SERVES}
for _ in range(60):
    parent.sendall({ALIVE!r})
    time.sleep(0.05)
"""
CLOSES_FOR_LONG = f"""
import socket, time
parent = socket.socket(fileno=0)
parent.sendall({WorkerReport(cluster_id="c").encode() + ENDING!r})
time.sleep(1)
"""


def few_signs(monkeypatch: pytest.MonkeyPatch, interval_s: float, missed: int) -> None:
    monkeypatch.setattr(worker_process, "ALIVE_INTERVAL_S", interval_s)
    monkeypatch.setattr(worker_process, "MAX_MISSED_SIGNS", missed)


async def test_a_process_that_hangs_is_killed_and_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few_signs(monkeypatch, 0.01, 5)
    worker = process(monkeypatch, sys.executable, "-c", HANGS, str(tmp_path / "there"))
    running = asyncio.create_task(worker.run())
    while worker.restarts < 1:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.01)
    worker.stop()
    await running
    assert caplog.messages[:2] == ["worker hangs, killing it", "worker exited, restarting it"]
    assert caplog.records[0].levelno == logging.ERROR


async def test_a_process_that_hangs_is_killed_during_the_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few_signs(monkeypatch, 0.01, 5)
    worker = process(monkeypatch, sys.executable, "-c", HANGS, str(tmp_path / "there"))
    running = asyncio.create_task(worker.run())
    await worker.started
    worker.stop()
    assert await running == -signal.SIGKILL


@pytest.mark.parametrize(
    ("program", "interval_s", "missed"), [(SHOWS_LIFE, 0.02, 100), (CLOSES_FOR_LONG, 0.01, 5)]
)
async def test_a_process_that_shows_life_or_closes_is_not_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, interval_s: float, missed: int
) -> None:
    """It lives longer than one that hangs has."""
    few_signs(monkeypatch, interval_s, missed)
    worker = process(monkeypatch, sys.executable, "-c", program, str(tmp_path / "there"))
    running = asyncio.create_task(worker.run())
    await worker.started
    worker.stop()
    assert await running == 0


async def test_a_process_that_imports_for_long_is_not_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few_signs(monkeypatch, 0.01, 5)
    imports = "import time; time.sleep(1)\n" + SERVES
    worker = process(monkeypatch, sys.executable, "-c", imports, str(tmp_path / "there"))
    running = asyncio.create_task(worker.run())
    assert (await worker.started).cluster_id == "c"
    worker.stop()
    await running
