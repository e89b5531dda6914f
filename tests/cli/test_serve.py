"""`kohort serve` as a process: how it starts, what it refuses, how it ends."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import pytest

from cli.served import METADATA, Serve, ask, endpoint
from kohort.cli import app
from kohort.cli.serve import run_until_stopped
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.segment import Segment
from kohort.protocol.batches import pack
from kohort.server.broker import Broker
from kohort.server.config import Config
from kohort.types import Timestamp, TopicPartition

CLUSTER_METADATA = TopicPartition("__cluster_metadata", 0)
TOPIC = b"\x00\x00\x00\x01\x00\x01t"
"""Metadata v0 for the topic "t"."""


def get(address: str, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_serve_listens_and_says_so_in_one_line(serve: Serve) -> None:
    server = serve("--memory", "--dev")
    line = server.line("listening")
    assert " data=memory " in line
    assert " cluster=" in line
    assert " after_ms=" in line
    assert ask(server.address)[:2] == b"\0\0"
    assert server.lines[-1] == line


def test_too_few_file_descriptors_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert app.run(["serve", "--memory"]) == 2
    assert "needs 128: raise the limit (ulimit -n" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--workers", "2")])
def test_a_data_directory_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    file = tmp_path / "file"
    file.touch()
    code = app.run(["serve", "--listen", "127.0.0.1:0", "--data", str(file), *more])
    told = capsys.readouterr().err
    assert code == 2
    assert f"{file} is no directory; remove it, or name another directory" in told
    assert "Errno" not in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(serve: Serve, number: int) -> None:
    server = serve("--data", "d")
    with socket.create_connection(endpoint(server.address)):
        assert server.stop(number) == 0
    assert "stopped" in server.lines[-1]


@pytest.mark.parametrize("more", [(), ("--workers", "2")])
def test_a_terminal_that_is_closed_ends_it_cleanly_unless_nohup_keeps_it(
    serve: Serve, more: tuple[str, ...]
) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, too
    try:
        server = serve("--data", "d", *more)
        server.line("listening")
        assert server.stop(signal.SIGHUP) == 0
        assert "stopped" in server.lines[-1]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        kept = serve("--data", "d", *more)
    finally:
        signal.signal(signal.SIGHUP, former)
    kept.line("listening")
    kept.process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        kept.wait(2)
    assert ask(kept.address)[:2] == b"\0\0"
    assert kept.stop() == 0


def test_a_hangup_while_it_starts_has_files_read_again_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a log rotation sends it, at any time."""
    audit = tmp_path / "audit"
    started = Broker.start

    async def start(broker: Broker) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)  # the event loop hears it
        await started(broker)

    monkeypatch.setattr(Broker, "start", start)
    former = signal.signal(signal.SIGHUP, lambda *_: pytest.fail("nothing has obeyed SIGHUP"))
    settings = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "audit.log.file": str(audit),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    config = Config(settings)

    async def serve() -> int:
        serving = asyncio.ensure_future(run_until_stopped(config))
        async with asyncio.timeout(60):
            while not audit.exists():  # noqa: ASYNC110 - the broker makes it
                await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        return await serving

    try:
        assert asyncio.run(serve()) == 0
    finally:
        signal.signal(signal.SIGHUP, former)


def test_a_signal_while_it_starts_ends_it_too(serve: Serve) -> None:
    server = serve("--memory")
    server.line("listening")
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() in (0, 128 + signal.SIGTERM)


def test_a_signal_during_the_check_ends_it_and_the_next_start_checks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check runs beside the event loop, which hears signals."""
    began = threading.Event()

    def endless(_: Segment, *, progress: Callable[[int], None], **__: bool) -> NoReturn:
        began.set()
        while True:  # until the signal ends it
            progress(0)
            time.sleep(0.01)

    directory = LocalDirectory(tmp_path / "data")
    directory.directories.make({CLUSTER_METADATA: UUID(int=1)})
    directory.open(CLUSTER_METADATA, LogConfig()).append(pack([(b"{}", b"{}")], 1), Timestamp(1))
    directory.close()
    (tmp_path / "data" / ".clean-shutdown").unlink()
    (tmp_path / "data" / ".lock").write_text("1\nan earlier boot\n")
    monkeypatch.setattr(Segment, "recover", endless)
    config = Config({"listeners": "127.0.0.1:0", "log.dir": str(tmp_path / "data")})

    async def stopped() -> int:
        serving = asyncio.ensure_future(run_until_stopped(config))
        assert await asyncio.to_thread(began.wait, 60)
        os.kill(os.getpid(), signal.SIGTERM)
        return await serving

    assert asyncio.run(stopped()) == 0
    assert not (tmp_path / "data" / ".clean-shutdown").exists()
    assert "an earlier boot" in (tmp_path / "data" / ".lock").read_text()


def test_the_cluster_id_and_topics_survive_a_restart(serve: Serve) -> None:
    first = serve("--data", "d")
    cluster = first.line("listening").split("cluster=")[1].split()[0]
    assert b"\x00\x01t" in ask(first.address, METADATA, 0, TOPIC)
    assert first.stop() == 0
    second = serve("--data", "d", "--set", "auto.create.topics.enable=false")
    assert f"cluster={cluster} " in second.line("listening")
    topic = ask(second.address, METADATA, 0, TOPIC)
    assert struct.pack(">hh", 0, 1) + b"t" in topic


def test_a_killed_server_starts_again(serve: Serve) -> None:
    first = serve("--data", "d")
    ask(first.address, METADATA, 0, TOPIC)
    first.kill()
    assert struct.pack(">hh", 0, 1) + b"t" in ask(serve("--data", "d").address, METADATA, 0, TOPIC)


def test_a_second_server_on_the_same_directory_is_refused(serve: Serve, tmp_path: Path) -> None:
    serve("--data", "d").line("listening")
    second = serve("--data", "d")
    assert second.wait() == 2
    (line,) = second.lines
    assert line.startswith("kohort: ")
    assert str(tmp_path / "d") in line or " d" in line
    third = serve("--data", "other")
    assert "listening" in third.line("listening")


def test_a_used_port_is_refused(serve: Serve) -> None:
    host, port = endpoint(serve("--memory").address)
    second = serve("--memory", "--listen", f"{host}:{port}")
    assert second.wait() == 2
    assert second.lines[-1] == (
        f"kohort: {host}:{port} is in use by another process; "
        f"choose another address with --listen, or {host}:0 for a free port"
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_listener_is_told(serve: Serve, workers: str) -> None:
    settings = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    server = serve(
        *("--memory", "--workers", workers),
        *("--listen", "A://127.0.0.1:0,B://127.0.0.1:0", "--set", settings),
    )
    assert "B://127.0.0.1:" in server.line("listening")


def test_an_address_for_everyone_is_refused(serve: Serve) -> None:
    server = serve("--memory", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1:0")
    assert server.wait() == 2
    assert "--insecure" in server.lines[0]
    allowed = serve("--memory", "--listen", "0.0.0.0:0", "--advertise", "127.0.0.1:0", "--insecure")
    assert allowed.logged_address("advertised").startswith("127.0.0.1:")


def test_a_directory_that_cannot_be_used_is_refused(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = serve("--data", "file")
    assert server.wait() == 2
    assert len(server.lines) == 1
    assert server.lines[0].startswith("kohort: ")


def test_the_http_port_tells_health_metrics_and_groups(serve: Serve) -> None:
    server = serve("--memory", "--http", "127.0.0.1:0")
    http = server.logged_address("http")
    ask(server.address)
    while get(http, "/health")[0] != 200:
        time.sleep(0.05)
    assert get(http, "/health") == (200, b'{"status": "ok"}\n')
    assert json.loads(get(http, "/groups")[1]) == {"groups": []}
    assert get(http, "/groups/none")[0] == 404
    status, page = get(http, "/")
    linked = re.findall(r'<a href="(.+?)">', page.decode())
    assert (status, linked) == (
        200,
        ["/health", "/ready", "/metrics", "/nodes", "/topics", "/groups"],
    )
    assert [get(http, path)[0] for path in linked] == [200] * 6
    status, metrics = get(http, "/metrics")
    assert status == 200
    assert b'kohort_requests_total{api="api_versions"} 1.0' in metrics
    assert b'kohort_group_partitions{state="active"} 50.0' in metrics


def test_garbage_is_one_line_and_no_traceback(serve: Serve) -> None:
    server = serve("--memory")
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, struct.pack(">i", 4) + b"\x7f\xff\0\0"):
        with socket.create_connection(endpoint(server.address), 10) as connection:
            connection.sendall(data)
            assert connection.recv(100) == b""
    assert ask(server.address)[:2] == b"\0\0"
    assert server.stop() == 0
    assert not any("Traceback" in line or line.startswith(" ") for line in server.lines)


def test_json_log_format_writes_one_object_a_line(serve: Serve) -> None:
    server = serve("--memory", "--log-format", "json")
    line = json.loads(server.line("listening"))
    assert line["event"] == "listening"
    assert line["level"] == "info"
    assert server.stop() == 0
    assert all(json.loads(line) for line in server.lines)
