"""Commands and options of Kafka's scripts and kcat: the error says what they are called here."""

import argparse
import importlib
import re

import pytest

from cli.running import Run, runner
from kohort.cli.app import COMMANDS
from kohort.cli.foreign_tool_hints import _COMMANDS, _OPTIONS


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("start", "unknown command start; did you mean serve?"),
        ("create orders", "unknown command create; did you mean topics create?"),
        ("delete", "unknown command delete; did you mean topics delete, or groups delete?"),
        ("reset billing", "unknown command reset; did you mean groups reset?"),
        ("-V", "unrecognized arguments: -V; did you mean --version?"),
        (
            "serve localhost:9092",
            "unrecognized arguments: localhost:9092; give an address by --listen HOST:PORT, a "
            "setting by --set NAME=VALUE",
        ),
        ("consumer-groups --list", "unknown command consumer-groups; did you mean groups?"),
        (
            "kafka-console-producer.sh --topic orders",
            "unknown command kafka-console-producer.sh; did you mean produce?",
        ),
        (
            "-b localhost -t orders -P",
            "unrecognized arguments: -b localhost -t orders -P; kcat's options are those of kohort "
            "produce",
        ),
        (
            "-b localhost -t orders",
            "unrecognized arguments: -b localhost -t orders; kcat's options are those of kohort "
            "consume",
        ),
        ("--hlep", "unrecognized arguments: --hlep; see kohort --help"),
        (
            "serve --port 9092",
            "unrecognized arguments: --port 9092; here --port is --listen HOST:PORT",
        ),
        (
            "consume --topic orders --from-beginning --max-messages=2",
            "unrecognized arguments: --from-beginning --max-messages=2; here --from-beginning is "
            "-o beginning (with -G: -X auto.offset.reset=earliest), --max-messages is -c",
        ),
        (
            "produce --broker-list localhost:9092 --topic orders",
            "unrecognized arguments: --broker-list; here --broker-list is -b",
        ),
        (
            "topics --list --zookeeper localhost:2181",
            "unrecognized arguments: --zookeeper localhost:2181; here --zookeeper is -b with a "
            "broker",
        ),
    ],
)
def test_the_error_names_what_it_is_here(run: Run, words: str, told: str) -> None:
    assert run(*words.split()) == (2, "", f"kohort: {told}\n")


@pytest.mark.parametrize("name", sorted(_OPTIONS))
def test_the_hints_name_options_that_there_are(name: str) -> None:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"kohort.cli.{name}").add_arguments(parser)
    there = set(parser._option_string_actions)
    assert not there & set(_OPTIONS[name])
    for hint in _OPTIONS[name].values():
        named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", hint))
        assert named <= there or hint == f"kohort consume {named.pop()}", hint


def test_the_hints_name_commands_that_there_are() -> None:
    assert {each.split()[0] for each in _COMMANDS.values()} <= set(COMMANDS)
    assert not set(_COMMANDS) & set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("help", "--help"),
        ("help groups", "groups --help"),
        ("groups help", "groups --help"),
        ("help groups reset", "groups reset --help"),
        ("version", "--version"),
    ],
)
def test_help_and_version_are_words_too(run: Run, words: str, same: str) -> None:
    shown = run(*words.split())
    assert shown == run(*same.split())
    assert shown.exit_code == 0
