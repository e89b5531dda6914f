"""`--watch` of the commands that show groups and topics."""

import sys
from collections.abc import Iterator

import pytest

from cli.running import Run, runner
from kohort.testing.server_process import ServerProcess

COMMANDS = (
    ("groups", "list", "--state"),
    ("groups", "describe", "billing"),
    ("topics", "list"),
    ("topics", "describe", "orders"),
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", "--dev", log=log) as server:
        yield server.address


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    run = runner(capsys, "-b", bootstrap)
    run("topics", "create", "orders", "--if-not-exists")
    run("consume", "-G", "billing", "-X", "auto.offset.reset=earliest", "-e", "-q", "orders")
    return run


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_blocks_in_a_pipe(run: Run, words: tuple[str, ...]) -> None:
    once = run(*words)
    twice = run(*words, "--watch", "--interval", "0.01", "--count", "2")
    assert (twice.exit_code, twice.output) == (0, f"{once.output}\n" * 2)
    assert twice.stderr == once.stderr * 2


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_redrawn_on_a_terminal(
    run: Run, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    seen = run(*words, "--watch", "--interval", "0.01", "--count", "2")
    before, *drawn = seen.output.split("\x1b[H\x1b[2J")
    assert (seen.exit_code, before, len(drawn), seen.stderr) == (0, "", 2, "")
    assert all(each.strip() for each in drawn)


def test_invalid_watch_options_are_refused(run: Run) -> None:
    for option in (("--interval", "0"), ("--interval", "nan"), ("--count", "0")):
        assert run("groups", "list", "--watch", *option).exit_code == 2
