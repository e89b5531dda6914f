"""How long from the command until the server listens, and until it has answered its first request.

    python benchmarks/start.py [RUNS]

Each run starts `kohort serve` on a new data directory and again on the same one. "listening" is measured from
outside: from the start of the process until a connection is accepted.
"""

import contextlib
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(directory: str) -> tuple[float, float]:
    """Seconds until it accepts, and until it has answered ApiVersions."""
    port = free_port()
    began = time.perf_counter()
    command = [sys.executable, "-m", "kohort", "serve", "--listen", f"127.0.0.1:{port}", "--data", directory]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        connection = connect(port, began)
        listening = time.perf_counter() - began
        connection.sendall(API_VERSIONS)
        connection.recv(65536)
        answered = time.perf_counter() - began
        connection.close()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)
    return listening, answered


def connect(port: int, began: float) -> socket.socket:
    while time.perf_counter() - began < 30:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port))
        time.sleep(0.001)
    raise SystemExit("the server does not listen")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    figures: dict[str, list[tuple[float, float]]] = {"new directory": [], "again": []}
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as directory:
            for figure in figures.values():
                figure.append(start(directory))
    for name, taken in figures.items():
        listening, answered = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
        worst = max(listening for listening, _ in taken) * 1000
        print(f"{name:<14} listening {listening:4.0f} ms (worst {worst:.0f}), first answer {answered:4.0f} ms")


if __name__ == "__main__":
    main()
