"""`kohort config`, `--version`, help: what a person sees."""

import argparse
import csv
import importlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import kohort
from kohort.cli import app
from kohort.cli.app import COMMANDS
from kohort.server.config.table import TABLE


class Outcome(NamedTuple):
    exit_code: int
    output: str
    stderr: str


Run = Callable[..., Outcome]
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command line in this process."""

    def run_here(*arguments: str) -> Outcome:
        code = app.run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_here


def test_the_table_has_each_name_on_one_line_with_value_and_source(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOHORT_GROUP_MAX_SIZE", "7")
    result = run("config", "--set", "num.partitions=6")
    rows = {line.split()[0]: line.split()[1:3] for line in result.output.splitlines()}
    assert set(TABLE) <= set(rows)
    assert rows["num.partitions"] == ["6", "--set"]
    assert rows["group.max.size"] == ["7", "KOHORT_GROUP_MAX_SIZE"]
    assert rows["log.cleanup.policy"] == ["delete", "default"]


@pytest.mark.parametrize("width", [80, 160])
def test_a_terminal_gets_a_line_of_its_width_for_each_setting(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    result = run("config", "--set", "num.partitions=6")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", result.output).splitlines()
    assert [line.split()[0] for line in lines] == list(TABLE)
    assert max(map(len, lines)) <= width
    (changed,) = (line.split() for line in lines if line.startswith("num.partitions "))
    assert changed[1:3] == ["6", "(--set)"]
    assert (len(changed) > 3) == (width == 160)
    assert "kohort config NAME explains a setting" in result.stderr


def test_lines_for_other_programs_are_not_padded(run: Run) -> None:
    assert all(line == line.rstrip() for line in run("config").output.splitlines())


def test_json_and_csv_hold_the_same(run: Run) -> None:
    options = ("config", "--dev", "--output")
    as_json = {row["name"]: row for row in json.loads(run(*options, "json").output)}
    as_csv = {row["name"]: row for row in csv.DictReader(io.StringIO(run(*options, "csv").output))}
    assert set(as_json) == set(as_csv) == set(TABLE)
    assert as_json["group.initial.rebalance.delay.ms"]["value"] == 0
    assert as_csv["group.initial.rebalance.delay.ms"]["source"] == "--dev"
    assert as_json["auto.create.topics.enable"]["value"] is True
    assert as_csv["auto.create.topics.enable"]["value"] == "true"


def test_one_name_is_explained(run: Run) -> None:
    lines = run("config", "offsets.retention.minutes").output
    assert lines.startswith("offsets.retention.minutes = 10080\n")
    assert "valid: at least 1" in lines
    assert "KOHORT_OFFSETS_RETENTION_MINUTES" in lines
    assert TABLE["offsets.retention.minutes"].doc in lines


def test_all_shows_more_columns(run: Run) -> None:
    head = run("config", "--all").output.splitlines()[0].split()
    assert head == [
        "name",
        "value",
        "source",
        "default",
        "type",
        "valid",
        "environment",
        "documentation",
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("config", "num.partition"),
            "kohort: num.partition: unknown name; did you mean num.partitions?",
        ),
        (("config", "--set", "num.partitions=0"), "the nearest is 1"),
        (("config", "--output", "yaml"), "is not one of table | json | csv"),
        (("config", "--config", "/nowhere.toml"), "cannot be read"),
        (("serve", "--listen", "0.0.0.0:0"), "can be reached by other machines"),
        (("serve", "--set", "group.max.sise=1"), "did you mean group.max.size?"),
        (("serve", "--memory", "--data", "x"), "choose one"),
    ],
)
def test_wrong_arguments_are_refused_on_stderr_with_exit_code_2(
    run: Run, arguments: tuple[str, ...], told: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.output == ""
    assert "Traceback" not in result.stderr


def every_command() -> Iterator[tuple[str, ...]]:
    """The words of each command, and of each subcommand."""
    for command in COMMANDS:
        yield (command,)
        parser = argparse.ArgumentParser()
        importlib.import_module(f"kohort.cli.{command}").add_arguments(parser)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from ((command, verb) for verb in action.choices)


def test_version_and_help(run: Run) -> None:
    assert run("--version").output == f"kohort {kohort.__version__}\n"
    top = run("--help").output
    assert all(command in top for command in COMMANDS)
    assert "exit codes" in top
    assert run().output == top
    for command in every_command():
        codes = run(*command, "--help").output.partition("\nexit codes: ")[2]
        assert codes.startswith("0 ")
        assert "\n\n" not in codes  # they are the end
    assert "3 damage was found" in run("repair", "--help").output
    assert "lag above --max-lag" in run("groups", "list", "--help").output


@pytest.mark.parametrize("words", ["config", "--help", "groups --help"])
@pytest.mark.parametrize(
    ("output", "told"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")]
)
def test_output_that_cannot_be_written_is_told_in_a_line(
    words: str, output: str, told: str
) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" -m kohort {words} >{output}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, f"kohort: standard output: {told}\n")


def test_an_unknown_command_is_refused(run: Run) -> None:
    assert run("gruops", "list").stderr == "kohort: unknown command gruops; did you mean groups?\n"
    assert run("serv") == (2, "", "kohort: unknown command serv; did you mean serve?\n")
    assert run("serve", "--listn", "x").stderr == (
        "kohort: unrecognized arguments: --listn x; did you mean --listen?\n"
    )
    assert "see kohort serve --help" in run("serve", "--listen").stderr


def test_the_documentation_holds_the_table(run: Run) -> None:
    documented = (
        DOCS.read_text(encoding="utf-8")
        .split("<!-- settings -->\n")[1]
        .split("<!-- /settings -->")[0]
    )
    assert documented == run("config", "--output", "markdown").output


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = f"{sys.executable} -m kohort config --output json | head -1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert result.stdout == "[\n"
    assert result.stderr == ""
    assert result.returncode in (0, 141)
