"""`kohort conformance`, `python -m kohort_conformance`: choices, reports, exit codes."""

import argparse
import ast
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kohort_conformance
from kohort.cli import conformance
from kohort.cli.options import RefusedError
from kohort.testing import ServerProcess
from kohort_conformance import __main__ as program
from kohort_conformance import command
from kohort_conformance.reference import load
from kohort_conformance.runner import Run
from kohort_conformance.scenario import Scenario


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    conformance.add_arguments(parser)
    return conformance.run(parser.parse_args(arguments))


@pytest.fixture
def as_kafka(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every scenario goes as on Kafka, but for those in this dict, whose steps it gives."""
    otherwise: dict[str, Any] = {}
    reference = load()

    async def run_all(
        host: str, port: int, scenarios: Sequence[Scenario], **_: object
    ) -> list[Run]:
        assert (host, port) == ("127.0.0.1", 9092)
        return [
            Run(one, otherwise.get(one.name, reference.steps[one.name]), 0.0) for one in scenarios
        ]

    async def differing_settings(_host: str, _port: int) -> dict[str, str | None]:
        return {"group.initial.rebalance.delay.ms": "3000"}

    monkeypatch.setattr(command, "run_all", run_all)
    monkeypatch.setattr(command, "differing_settings", differing_settings)
    return otherwise


@pytest.mark.usefixtures("as_kafka")
def test_a_server_like_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("127.0.0.1:9092") == 0
    told = capsys.readouterr()
    assert f"scenarios as {load().server} (100.0 %)" in told.out
    assert not told.err


def test_a_server_that_differs(
    as_kafka: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    as_kafka["heartbeats.pending_member"] = []
    assert run("127.0.0.1:9092", "--only", "heartbeats") == 1
    told = capsys.readouterr()
    assert "heartbeats.pending_member" in told.out
    assert told.err == (
        "kohort: the server has group.initial.rebalance.delay.ms=3000; Kafka's responses were "
        "recorded with group.initial.rebalance.delay.ms=0, as by kohort serve --dev\n"
    )


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        (("--dev", "--memory", "--set", "memory.restart.visible=false"), {}),
        (
            ("--memory",),
            {
                "group.initial.rebalance.delay.ms": "3000",
                "group.consumer.assignment.interval.ms": "1000",
                "memory.restart.visible": "true",
            },
        ),
    ],
)
async def test_settings_that_make_responses_differ(
    options: tuple[str, ...], differing: dict[str, str], tmp_path: Path
) -> None:
    with ServerProcess(*options, log=tmp_path / "log") as server:
        host, _, port = server.address.rpartition(":")
        assert await command.differing_settings(host, int(port)) == differing


async def test_a_server_that_tells_no_settings(unused_tcp_port: int) -> None:
    assert await command.differing_settings("127.0.0.1", unused_tcp_port) == {}


def test_json_output_has_the_differences(
    as_kafka: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    as_kafka["heartbeats.pending_member"] = []
    assert run("127.0.0.1:9092", "--only", "heartbeats.p*", "--output", "json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["scenarios"], told["differs"], told["reference"]) == (1, 1, load().server)


def test_list_prints_the_chosen_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list", "--only", "votes.majority_wins") == 0
    assert capsys.readouterr().out.split()[0] == "votes.majority_wins"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "needs the HOST:PORT"),
        (("localhost",), "localhost: is not HOST:PORT"),
        (("localhost:kafka",), "is not HOST:PORT"),
        (("127.0.0.1:9092", "--output", "xml"), "is not one of table | json"),
        (("127.0.0.1:9092", "--only", "nonsense"), "no scenario matches nonsense"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(RefusedError, match=complaint.replace("|", r"\|")):
        run(*arguments)


def test_an_address_without_a_listener_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(RefusedError, match=f"nothing listens at 127.0.0.1:{port}.*kohort serve"):
        run(f"127.0.0.1:{port}", "--only", "votes.majority_wins")


def alone(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kohort-conformance", *arguments])
    return program.main()


def test_alone_it_compares_and_tells_settings(
    as_kafka: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alone(monkeypatch, "127.0.0.1:9092", "--only", "heartbeats") == 0
    as_kafka["heartbeats.pending_member"] = []
    assert alone(monkeypatch, "127.0.0.1:9092", "--only", "heartbeats") == 1
    told = capsys.readouterr().err
    assert told.startswith("kohort_conformance: the server has group.initial.rebalance.delay.ms=3")


def test_alone_it_refuses_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alone(monkeypatch, "localhost") == 2
    assert capsys.readouterr().err == "kohort_conformance: localhost: is not HOST:PORT\n"


def test_both_commands_have_the_same_options() -> None:
    parsers = [argparse.ArgumentParser(prog="same") for _ in range(2)]
    conformance.add_arguments(parsers[0])
    command.add_arguments(parsers[1])
    assert parsers[0].format_help() == parsers[1].format_help()
    assert vars(parsers[0].parse_args([])) == vars(parsers[1].parse_args([]))


def test_the_conformance_package_imports_no_module_of_kohort() -> None:
    """Nor do the scenarios: what judges must not share mistakes with what is judged."""
    modules = list(Path(kohort_conformance.__file__).parent.rglob("*.py"))
    assert len(modules) > 80
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert "kohort" not in {each.partition(".")[0] for each in names}, module
