"""A server whose standard error nobody reads."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from cli.served import ask
from live.server.server import SOON
from peers.kafka import free_port
from waiting import wait_until


def test_a_server_with_a_full_standard_error_goes_on_and_ends_on_sigterm(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "kohort", "serve", "--dev", "--memory"),
            *("--listen", address, "--set", "max.connections.per.ip=1", "--log-level", "debug"),
        ],
        stderr=writing,
        cwd=tmp_path,
    )
    os.close(writing)
    try:
        seen = b""
        while b"listening" not in seen:
            seen += os.read(reading, 65_536)
        # A long topic name in each line fills the pipe, and it is not read from here on.
        for n in range(400):
            name = f"{n}-" + "n" * 240
            body = b"\0\0\0\1" + len(name).to_bytes(2, "big") + name.encode()
            ask(address, 3, 0, body)
        assert ask(address)[:2] == b"\0\0"
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 0
    finally:
        process.kill()
        os.close(reading)


def test_connections_leave_file_descriptors_for_files(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    address = f"127.0.0.1:{free_port()}"
    command = f"ulimit -n 256; exec {sys.executable} -m kohort serve --dev --listen {address}"
    with log.open("wb") as stderr:
        process = subprocess.Popen(["sh", "-c", command], stderr=stderr, cwd=tmp_path)
    held: list[socket.socket] = []
    try:
        wait_until(lambda: "listening" in log.read_text())
        host, _, port = address.rpartition(":")
        client = socket.create_connection((host, int(port)), SOON)
        held = [socket.create_connection((host, int(port)), SOON) for _ in range(300)]
        wait_until(lambda: "refused a connection" in log.read_text())
        open_now = len(os.listdir(f"/proc/{process.pid}/fd"))
        assert open_now <= 256 - 64
        # Files can still be made: a new topic has some for each partition.
        name = "made"
        body = b"\0\0\0\1" + len(name).to_bytes(2, "big") + name.encode()
        request = b"\0\3\0\0\0\0\0\7\xff\xff" + body
        client.sendall(len(request).to_bytes(4, "big") + request)
        assert client.recv(65_536)
        assert (tmp_path / "data" / "made-0").is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == 0
    finally:
        for each in held:
            each.close()
        process.kill()
