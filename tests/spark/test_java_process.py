"""No Java stays behind when Spark's start is interrupted; here it is a script that waits."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kohort.spark.java_process import interrupts_deferred, java_ends_if_not_connected


@pytest.fixture
def pid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the process writes its id that Spark starts as its Java."""
    file = tmp_path / "pid"
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\necho $$ > {file}.new\nmv {file}.new {file}\nexec sleep 600\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return file


def read(pid_file: Path) -> int:
    """The id, once it is there."""
    deadline = time.monotonic() + 60
    while not pid_file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(pid_file.read_text())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def interrupt(number: int = signal.SIGINT) -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, number)


def test_an_interrupt_while_java_starts_ends_it(pid_file: Path) -> None:
    from pyspark.java_gateway import launch_gateway

    def interrupt_it() -> None:
        read(pid_file)
        interrupt()

    thread = threading.Thread(target=interrupt_it)
    thread.start()
    with pytest.raises(KeyboardInterrupt), java_ends_if_not_connected():
        launch_gateway()
    thread.join()
    assert not is_running(read(pid_file))


def test_an_interrupt_while_the_process_is_made_ends_it(
    pid_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import java_gateway

    popen: Any = java_gateway.Popen

    def interrupted(*arguments: Any, **options: Any) -> Any:
        process = popen(*arguments, **options)
        interrupt()
        return process

    monkeypatch.setattr(java_gateway, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), java_ends_if_not_connected():
        java_gateway.launch_gateway()
    assert java_gateway.Popen is interrupted  # type: ignore[comparison-overlap]
    time.sleep(0.1)
    assert not pid_file.exists() or not is_running(read(pid_file))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_deferred_signal_is_handled_after_the_block(number: signal.Signals) -> None:
    handled = []
    before = signal.signal(number, lambda *_: handled.append("handled"))
    try:
        with interrupts_deferred():
            interrupt(number)
            handled.append("in the block")
        assert handled == ["in the block", "handled"]
    finally:
        signal.signal(number, before)
