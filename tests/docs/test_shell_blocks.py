"""Every command line of the pages that need one server is run; each ends well.

Servers start and stop. `make` shows what it would do, `kohort conformance` the scenarios that it
would play, and the options of `kohort spark`, `kohort history`, `kohort record` and `kohort replay`
are read: tests of their own run these. Scripts of `kohort completion` are not installed.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.blocks import ROOT, Block, run_by
from docs.shell import Shell, commands, words
from kohort.cli import app, history, record, replay, spark
from kohort.cli.spark_commands import kafka_options
from kohort.testing.server_process import ServerProcess
from kohort_conformance import command as kohort_conformance

RECORDINGS = {"record": record, "replay": replay}
TOPICS = ("orders", "booked", "audit")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell whose commands find a server, and the files that pages name."""
    directory = tmp_path_factory.mktemp("shell")
    (directory / "orders.txt").write_text("anna:12\nbert:7\n")
    (toml,) = (block for block in settings() if block.page == "docs/configuration.md")
    (directory / "kohort.toml").write_text(toml.code)
    with ServerProcess("--memory", "--dev", log=directory / "server.log") as server:
        made = Shell(
            directory,
            {"127.0.0.1:9100": "127.0.0.1:0", "localhost:9092": server.address},
            KOHORT_BOOTSTRAP=server.address,
        )
        for topic in TOPICS:
            made.checked(f"kohort topics create {topic}")
        yield made


def settings() -> list[Block]:
    return run_by(str(ROOT / "tests/server/config/test_config.py"))


@pytest.mark.parametrize("block", run_by(__file__), ids=str)
def test_every_command_ends_well(block: Block, shell: Shell, tmp_path: Path) -> None:
    lines = commands(block.code)
    started = [
        shell.serve(line, f"{tmp_path.name}-{number}")
        for number, line in enumerate(lines)
        if line.startswith("kohort serve")
    ]
    try:
        for line in lines:
            if not line.startswith("kohort serve"):
                run(shell, line)
        for server in started:
            server.line("listening")
            assert server.stop() == 0, server.log_tail()
    finally:
        for server in started:
            server.kill()


def run(shell: Shell, line: str) -> None:
    program, *arguments = words(line)
    if program == "make":
        shell.checked(f"make -n -C '{ROOT}' {' '.join(arguments)}")
    elif arguments[:2] == ["-m", "kohort_conformance"]:
        assert kohort_conformance.main([*arguments[2:], "--list"]) == 0
    elif arguments[0] == "conformance":
        assert app.run([*arguments, "--list"]) == 0
    elif arguments[0] == "completion":
        assert app.run(arguments[: arguments.index(">")]) == 0
    elif arguments[0] == "history":
        parser = argparse.ArgumentParser()
        history.add_arguments(parser)
        parser.parse_args(arguments[1:])
    elif arguments[0] in RECORDINGS:
        parser = argparse.ArgumentParser()
        RECORDINGS[arguments[0]].add_arguments(parser)
        parser.parse_args(arguments[1:])
    elif arguments[0] == "spark":
        parser = argparse.ArgumentParser()
        spark.add_arguments(parser)
        kafka_options(parser.parse_args(arguments[1:]))
    else:
        shell.checked(line)
