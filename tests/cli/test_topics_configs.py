"""`kohort topics` and `kohort configs` against `kohort serve`."""

from collections.abc import Iterator
from pathlib import Path

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


def test_topics_from_create_to_delete(run: Run) -> None:
    created = ("topics", "create", "--topic", "orders", "--partitions", "2")
    assert run(*created, "--config", "cleanup.policy=compact") == (
        0,
        "",
        "kohort: created topic orders\n",
    )
    again = run(*created)
    assert (again.exit_code, again.stderr.count("\n")) == (1, 1)
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert run(*created, "--if-not-exists").exit_code == 0
    assert run("topics", "alter", "--topic", "orders", "--partitions", "3").exit_code == 0
    assert {"TOPIC": "orders"} in run("topics", "--list").rows
    described = run("topics", "--describe", "--topic", "orders")
    assert [row["PARTITION"] for row in described.rows] == ["0", "1", "2"]
    (as_json,) = run("topics", "describe", "--topic", "orders", "--output", "json").json
    assert (as_json["topic"], len(as_json["partitions"])) == ("orders", 3)
    assert run("topics", "delete", "--topic", "orders").exit_code == 0
    gone = run("topics", "delete", "--topic", "orders")
    assert (gone.exit_code, "UNKNOWN_TOPIC_OR_PARTITION" in gone.stderr) == (1, True)
    assert run("topics", "delete", "--topic", "orders", "--if-exists").exit_code == 0
    assert run("topics", "describe", "--topic", "orders").exit_code == 1


def test_values_that_the_protocol_cannot_hold_are_one_line(run: Run) -> None:
    told = run("topics", "create", "--topic", "large", "--partitions", "99999999999")
    assert (told.exit_code, told.stderr.count("\n")) == (1, 1)
    assert "create_topics: a value cannot be sent" in told.stderr


def test_topics_that_there_are_not_are_named_or_passed_over(run: Run) -> None:
    for words in (("alter", "--partitions", "3"), ("delete",), ("describe",)):
        told = run("topics", words[0], "--topic", "never", *words[1:])
        assert told.exit_code == 1
        assert "topic never" in told.stderr
        passed = run("topics", words[0], "--topic", "never", *words[1:], "--if-exists")
        assert (passed.exit_code, passed.stderr) == (0, "")


def test_configs_of_all_brokers(run: Run) -> None:
    brokers = ("--entity-type", "brokers", "--entity-default")
    run("configs", "alter", *brokers, "--add-config", "log.retention.ms=86400000")
    described = run("configs", "describe", *brokers)
    assert [(row["CONFIG"], row["VALUE"]) for row in described.rows] == [
        ("log.retention.ms", "86400000"),
        ("min.insync.replicas", "1"),
    ]
    run("configs", "alter", *brokers, "--delete-config", "log.retention.ms")


def test_configs_of_the_cluster_are_no_configs_of_a_topic(run: Run) -> None:
    run("topics", "create", "--topic", "plain")
    assert run("configs", "describe", "--topic", "plain").rows == []
    rows = run("configs", "describe", "--topic", "plain", "--all").rows
    (found,) = (row for row in rows if row["CONFIG"] == "min.insync.replicas")
    assert found["SOURCE"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    (described,) = run("topics", "describe", "--topic", "plain", "--output", "json").json
    assert "min.insync.replicas" not in str(described)


def test_configs_are_altered_and_described(run: Run) -> None:
    run("topics", "create", "--topic", "configured")
    alter = ("configs", "alter", "--topic", "configured")
    assert run(*alter, "--add-config", "retention.ms=5,cleanup.policy=[compact,delete]") == (
        0,
        "",
        "kohort: altered topic configured\n",
    )
    describe = ("configs", "--describe", "--entity-type", "topics", "--entity-name", "configured")
    assert [(row["CONFIG"], row["VALUE"]) for row in run(*describe).rows] == [
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "5"),
    ]
    assert run(*alter, "--delete-config", "retention.ms,cleanup.policy").exit_code == 0
    assert run(*describe, "--output", "json").json == []
    every = run(*describe, "--all", "--output", "json").json
    assert {"retention.ms": False} in [{each["name"]: each["read_only"]} for each in every]
    refused = run(*alter, "--add-config", "retention.ms=soon")
    assert (refused.exit_code, "INVALID_CONFIG" in refused.stderr) == (1, True)


def test_a_topic_is_described_with_its_id_configs_offsets_and_sizes(
    run: Run, bootstrap: str, tmp_path: Path
) -> None:
    run("topics", "create", "sized", "--partitions", "2", "--config", "retention.ms=9")
    (tmp_path / "lines").write_text("a\nb\n")
    lines = str(tmp_path / "lines")
    assert run("produce", "sized", "-p", "1", "-q", "-l", lines).exit_code == 0
    described = run("topics", "describe", "sized")
    first, second = described.rows
    assert (first["START-OFFSET"], first["END-OFFSET"], first["BYTES"]) == ("0", "0", "0")
    assert (second["START-OFFSET"], second["END-OFFSET"]) == ("0", "2")
    (as_json,) = run("topics", "describe", "sized", "--output", "json").json
    assert as_json["configs"] == {"retention.ms": "9"}
    assert as_json["partitions"][1]["end_offset"] == 2
    assert as_json["partitions"][1]["bytes"] == int(second["BYTES"]) > 0
    told = f"kohort: topic sized has the id {as_json['id']}; retention.ms=9\n"
    assert described.stderr == told
    run("topics", "delete", "sized")


def test_names_are_words_too(run: Run) -> None:
    created = run("topics", "create", "tea", "jam", "--partitions", "2")
    assert created == (0, "", "kohort: created topic tea\nkohort: created topic jam\n")
    grown = run("topics", "alter", "tea", "--partitions", "3")
    assert grown == (0, "", "kohort: topic tea has 3 partitions\n")
    described = run("topics", "describe", "tea", "--if-exists", "--output", "json")
    assert [each["topic"] for each in described.json] == ["tea"]
    config = ("--add-config", "retention.ms=7")
    assert run("configs", "alter", "topic", "tea", *config) == (
        0,
        "",
        "kohort: altered topic tea\n",
    )
    assert run("configs", "describe", "topic", "tea").rows[0]["VALUE"] == "7"
    deleted = run("topics", "--delete", "tea", "jam")
    assert deleted == (0, "", "kohort: deleted topic tea\nkohort: deleted topic jam\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("topics", "create"), "one of the arguments TOPIC --topic is required"),
        (("topics", "create", "--topic", "t", "--config", "a"), "--config a: is not NAME=VALUE"),
        (("configs", "describe"), "one resource is needed"),
        (
            ("configs", "describe", "--entity-type", "tenants"),
            "--entity-type tenants: is not one of",
        ),
        (("configs", "alter", "--topic", "t"), "--add-config or --delete-config is missing"),
        (("topics", "alter", "--topic", "t", "--topic", "u"), "--topic: is given twice"),
        (("topics", "alter", "t", "--topic", "u"), "not allowed with argument"),
        (("topics", "describe", "--all"), "--all; see kohort topics describe --help"),
        (("configs", "describe", "orders"), "orders: is not TYPE NAME, such as topic orders"),
        (("configs", "describe", "topic", "t", "--topic", "u"), "choose one of them"),
        (("configs", "describe", "--entity-default"), "--entity-type is missing"),
        (
            ("configs", "describe", "--entity-type", "topics", "--entity-default"),
            "--entity-default: needs --entity-type brokers",
        ),
    ],
)
def test_wrong_options_are_refused(run: Run, words: tuple[str, ...], told: str) -> None:
    outcome = run(*words)
    assert (outcome.exit_code, told in outcome.stderr) == (2, True), outcome
