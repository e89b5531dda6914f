"""What commands say of servers that do not listen, and of names that do not exist."""

import socket
from collections.abc import Iterator

import pytest

from cli.running import Run, runner
from kohort.testing.server_process import ServerProcess


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", "--dev", "--set", "num.partitions=2", log=log) as server:
        yield server.address


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys, "-b", bootstrap)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    "words",
    [
        ("groups", "list"),
        ("topics", "create", "t"),
        ("consume", "t"),
        ("consume", "-G", "g", "t"),
        ("produce", "t"),
    ],
)
def test_a_port_of_this_machine_without_a_server_is_told_at_once(
    words: tuple[str, ...], closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("127.0.0.1", "localhost"):
        done = runner(capsys)(*words, "-b", f"{host}:{closed_port}")
        told = f"kohort: no server listens at {host}:{closed_port}: start one by `kohort serve`"
        assert (done.exit_code, done.output) == (1, "")
        assert done.stderr.startswith(told), done
        assert done.stderr.count("\n") == 1


def test_a_socket_that_does_not_exist_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    done = runner(capsys)("topics", "list", "-b", "unix:/nowhere/socket")
    assert (done.exit_code, "no server listens at unix:/nowhere/socket" in done.stderr) == (1, True)


def test_a_command_with_a_timeout_waits_for_the_server(
    closed_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("topics", "list", "-b", f"127.0.0.1:{closed_port}", "--timeout", "300")
    done = runner(capsys)(*words)
    assert (done.exit_code, "gave up after" in done.stderr) == (1, True), done


def test_near_names_of_topics(run: Run) -> None:
    run("topics", "create", "orders", "invoices")
    for words in (
        ("topics", "describe", "ordesr"),
        ("topics", "alter", "ordesr", "--partitions", "3"),
        ("topics", "delete", "ordesr"),
        ("configs", "describe", "topic", "ordesr"),
        ("configs", "alter", "topic", "ordesr", "--add-config", "retention.ms=1"),
        ("groups", "reset", "g", "--topic", "ordesr:0", "--to-earliest"),
        ("transactions", "find-hanging", "--topic", "ordesr"),
        ("consume", "ordesr"),
        ("consume", "-L", "ordesr"),
        ("consume", "-Q", "ordesr:0:1"),
    ):
        done = run(*words)
        assert done.exit_code == 1
        assert done.stderr.endswith("; did you mean orders?\n"), done
    assert "did you mean" not in run("topics", "describe", "zzz").stderr
    run("topics", "delete", "orders", "invoices")


def test_near_names_of_groups(run: Run) -> None:
    run("topics", "create", "orders")
    committed = ("-G", "billing", "-X", "auto.offset.reset=earliest", "-e", "-q", "orders")
    assert run("consume", *committed).exit_code == 0
    for words in (
        ("describe", "bililng"),
        ("delete", "bililng"),
        ("delete-offsets", "bililng", "--topic", "orders"),
        ("reset", "bililng", "--all-topics", "--to-earliest"),
        ("reset", "bililng", "--topic", "orders", "--to-earliest"),
    ):
        done = run("groups", *words)
        assert "; did you mean billing?" in done.stderr, done
    run("topics", "delete", "orders")
