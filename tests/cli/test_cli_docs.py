"""Every command in docs/cli.md is run, in order, and prints what the page says."""

import re
from pathlib import Path

import pytest

from cli.running import runner
from cli.served import Serve
from docs.blocks import run_by
from docs.shell import Shell, aligned, examples, pattern
from kohort.cli import acls, configs, topics, transactions, users
from kohort.cli.groups import KAFKA_FLAGS, SUBCOMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
AUTHORIZER = (
    "--set=authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "--set=super.users=User:ANONYMOUS",
)


def test_every_example_prints_what_the_page_says(serve: Serve, tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"localhost:9092": serve("--memory", "--dev", *AUTHORIZER).address})
    for block in run_by(__file__):
        for example in examples(block.code):
            output = shell.run(example.command)
            told = aligned(pattern(example.output))
            assert re.fullmatch(told, aligned(output)), (str(block), example, output)


def test_every_option_that_the_page_names_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    commands = (
        *("consume", "produce", "record", "replay"),
        *(f"groups {name}" for name in SUBCOMMANDS),
        *(f"topics {name}" for name in topics.SUBCOMMANDS),
        *(f"configs {name}" for name in configs.SUBCOMMANDS),
        *(f"transactions {name}" for name in transactions.SUBCOMMANDS),
        *(f"users {name}" for name in users.SUBCOMMANDS),
        *(f"acls {name}" for name in acls.SUBCOMMANDS),
    )
    known = {
        flag
        for command in commands
        for flag in _flags(runner(capsys)(*command.split(), "--help").output)
    }
    assert _flags(PAGE.read_text(encoding="utf-8")) - set(KAFKA_FLAGS) - {"--create"} <= known


def _flags(text: str) -> set[str]:
    return set(re.findall(r"--[a-z]+(?:-[a-z]+)*", text))
