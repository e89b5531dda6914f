"""Quotas by `kohort configs` against `kohort serve`."""

from collections.abc import Iterator

import pytest

from cli.running import Run, runner
from kohort.testing.server_process import ServerProcess


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", "--dev", log=log) as server:
        yield server.address


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(capsys, "-b", bootstrap)


def test_quotas_are_set_described_and_deleted(run: Run) -> None:
    alter = ("configs", "alter", "--user", "alice", "--client", "etl")
    quotas = "producer_byte_rate=1000000,request_percentage=12.5"
    assert run(*alter, "--add-config", quotas) == (
        0,
        "",
        "kohort: altered quotas of user alice, client-id etl\n",
    )
    by_type = ("--entity-type", "clients", "--entity-default", "--add-config")
    assert run("configs", "--alter", *by_type, "consumer_byte_rate=5").exit_code == 0
    assert run("configs", "describe", "client", "etl", "--user", "alice").rows
    described = run("configs", "describe", "--user", "alice", "--client", "etl")
    assert [tuple(row.values()) for row in described.rows] == [
        ("alice", "etl", "-", "producer_byte_rate", "1000000"),
        ("alice", "etl", "-", "request_percentage", "12.5"),
    ]
    every = run("configs", "describe", "--entity-type", "users", "--output", "json").json
    assert {
        "entity": {"client-id": None},
        "quota": "consumer_byte_rate",
        "value": 5.0,
    } in every
    assert run(*alter, "--delete-config", "producer_byte_rate,request_percentage").exit_code == 0
    assert run("configs", "describe", "--user", "alice", "--client", "etl").rows == []
    deleted = ("--client-defaults", "--delete-config", "consumer_byte_rate")
    assert run("configs", "alter", *deleted).exit_code == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--user", "a", "--topic", "t", "--add-config", "x=1"), "choose either a topic"),
        (("--user", "a", "--user-defaults", "--add-config", "x=1"), "choose one of them"),
        (
            ("--entity-type", "users", "--add-config", "producer_byte_rate=1"),
            "a quota entity is missing",
        ),
        (("--user", "a", "--add-config", "producer_byte_rate=fast"), "is not a number"),
        (("--user", "a", "--add-config", "SCRAM-SHA-256=[password=x]"), "SCRAM-SHA-256: passwords"),
        (("--user", "a", "--add-config", "producer_byte_rate=0"), "must be greater than 0"),
        (("--ip", "localhost", "--add-config", "connection_creation_rate=1"), "IP address"),
        (("--user", "a"), "--add-config or --delete-config is missing"),
    ],
)
def test_invalid_quotas_are_refused(run: Run, words: tuple[str, ...], why: str) -> None:
    told = run("configs", "alter", *words)
    assert told.exit_code != 0
    assert why in told.stderr
