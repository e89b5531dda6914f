"""The commands of docs/operations.md: nodes on a PostgreSQL, copies and repairs."""

from pathlib import Path

import pytest

from docs.blocks import Block, run_by
from docs.shell import Shell, commands
from kohort.server.config.config import Config
from kohort.testing.server_process import ServerProcess
from peers.postgres import Postgres

DATABASE = "postgresql://kohort@db/kohort"


def of(start: str) -> list[str]:
    """The commands of the block that begins so."""
    (block,) = [each for each in run_by(__file__) if each.code.startswith(start)]
    return commands(block.code)


@pytest.fixture
def shell(database: str, tmp_path: Path) -> Shell:
    replaced = {DATABASE: f"'{database}'", "URL": f"'{database}'", "10.0.0.1:9092": "127.0.0.1:0"}
    return Shell(tmp_path, replaced)


def test_nodes_are_listed_drained_and_given_partitions(shell: Shell) -> None:
    (serve,) = of(f"kohort serve --storage {DATABASE} --set")
    second = serve.replace("node.id=1", "node.id=2")
    with shell.serve(serve, "1") as one, shell.serve(second, "2") as two:
        two.line("listening")
        shell.checked(f"kohort topics create orders -b {one.address}")
        for command in of("kohort nodes"):
            shell.checked(command)


@pytest.mark.parametrize("command", of("kohort serve --workers"))
def test_the_options_of_workers_are_valid(shell: Shell, command: str) -> None:
    shell.checked(command.replace("serve", "config", 1))


def test_a_directory_is_repaired_and_copied(
    shell: Shell, postgres: Postgres, tmp_path: Path
) -> None:
    with ServerProcess("--dev", log=tmp_path / "server.log", directory=tmp_path) as server:
        shell.checked(f"kohort topics create orders --partitions 2 -b {server.address}")
    for command in [*of("kohort repair"), *of("kohort storage copy")]:
        shell.checked(command)


def test_a_url_with_the_certificate_of_its_authority_is_valid() -> None:
    (url,) = [each.code.strip() for each in run_by(__file__) if each.language == "url"]
    assert Config({"storage": url})["storage"]


def test_every_command_of_the_page_is_one_of_these() -> None:
    begins = ("kohort serve --", "kohort nodes", "kohort repair", "kohort storage copy")
    rest: list[Block] = [
        each
        for each in run_by(__file__)
        if each.language == "sh" and not each.code.startswith(begins)
    ]
    assert not rest
