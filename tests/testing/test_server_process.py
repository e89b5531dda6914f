"""`kohort serve` as a child process: started, found, and always ended."""

import signal
from pathlib import Path

import pytest

from kohort.testing.server_process import ServerProcess, ServerProcessError


def test_the_process_ends_with_the_block(tmp_path: Path) -> None:
    with ServerProcess("--memory", log=tmp_path / "log") as server:
        assert server.address.startswith("127.0.0.1:")
        assert server.process.poll() is None
    assert server.process.returncode == 0


def test_the_process_ends_when_the_block_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with ServerProcess("--memory", log=tmp_path / "log") as server:
            ended.append(server)
            raise LookupError

    ended: list[ServerProcess] = []
    with pytest.raises(LookupError):
        fail()
    assert ended[0].process.returncode is not None


def test_a_server_that_does_not_start_is_an_error_with_its_log(tmp_path: Path) -> None:
    with (
        ServerProcess("--memory", log=tmp_path / "log", settings={"no.such": "1"}) as server,
        pytest.raises(ServerProcessError, match=r"no\.such: unknown name"),
    ):
        _ = server.address
    assert server.process.returncode == 2


def test_a_server_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    with ServerProcess("--memory", log=tmp_path / "log") as server:
        server.line("listening")
        server.process.send_signal(signal.SIGSTOP)
        assert server.stop(seconds=0.1) == -signal.SIGKILL
