"""`kohort acls` against `kohort serve`, by options and by kafka-acls' words."""

import io
from collections.abc import Iterator

import pytest

from cli.running import Run, runner
from cli.served import Serve
from kohort.client.admin.admin import EVERY_ACL, Admin
from kohort.testing.server_process import ServerProcess

SECURED = (
    "--set=authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "--set=super.users=User:ANONYMOUS",
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", *SECURED, log=log) as server:
        yield server.address


@pytest.fixture
async def run(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command at a server without entries, whose super user is whoever connects."""
    async with Admin(bootstrap=bootstrap) as admin:
        await admin.delete_acls([EVERY_ACL])
    return runner(capsys, "-b", bootstrap)


def shown(run: Run, *words: str) -> list[tuple[str, ...]]:
    done = run("acls", *words, "--output", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    return [tuple(row.values()) for row in done.json]


def entry(principal: str, operation: str, resource: str, name: str) -> tuple[str, ...]:
    return (f"User:{principal}", "Allow", operation, "*", resource, name, "literal")


def test_entries_are_added_listed_and_removed(run: Run) -> None:
    assert shown(run, "list") == []
    of_topic = ("--topic", "orders")
    added = shown(run, "add", "--allow-principal", "User:bob", "--consumer", *of_topic,
                  "--group", "billing")  # fmt: skip
    assert set(added) == {
        entry("bob", "Read", "topic", "orders"),
        entry("bob", "Describe", "topic", "orders"),
        entry("bob", "Read", "group", "billing"),
    }
    shown(run, "--add", "--allow-principal", "User:alice", "--producer", *of_topic, "--idempotent")
    listed = set(shown(run, "list", *of_topic))
    assert listed == {
        *added[:2],
        entry("alice", "Write", "topic", "orders"),
        entry("alice", "Describe", "topic", "orders"),
        entry("alice", "Create", "topic", "orders"),
    }
    assert shown(run, "list", "--cluster") == [
        entry("alice", "IdempotentWrite", "cluster", "kafka-cluster")
    ]
    of_bob = (*of_topic, "--principal", "User:bob")
    assert set(shown(run, "remove", *of_bob, "--force")) == set(added[:2])
    assert set(shown(run, "list", "--principal", "User:bob")) == {added[2]}


def test_denials_prefixes_and_matches(run: Run) -> None:
    shown(run, "add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--topic", "ord",
          "--resource-pattern-type", "prefixed", "--operation", "describeconfigs")  # fmt: skip
    expected = [
        ("User:*", "Deny", "DescribeConfigs", "10.0.0.1", "topic", "ord", "prefixed"),
    ]
    assert shown(run, "list", "--topic", "orders") == []
    matching = ("--topic", "orders", "--resource-pattern-type", "match")
    assert shown(run, "list", *matching) == expected
    assert shown(run, "remove", *matching, "--force") == expected


@pytest.fixture
def entries(run: Run) -> dict[str, tuple[str, ...]]:
    """Entries of Bob on the topic orders, by what is particular to each."""
    of_bob = ("add", "--topic", "orders", "--allow-principal", "User:bob")
    (every,) = shown(run, *of_bob)
    (read,) = shown(run, *of_bob, "--operation", "Read")
    (at_host,) = shown(run, *of_bob, "--operation", "Read", "--allow-host", "10.0.0.1")
    denied = shown(run, "add", "--topic", "orders", "--deny-principal", "User:bob",
                   "--operation", "Write")  # fmt: skip
    return {"all": every, "read": read, "at host": at_host, "denied": denied[0]}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--operation read", {"read", "at host"}),
        ("--operation read --operation write --topic orders", {"read", "at host", "denied"}),
        ("--principal User:bob --operation read", {"read", "at host"}),
        ("--allow-principal User:bob --topic orders", {"all"}),
        ("--allow-principal User:bob --operation Read", {"read"}),
        ("--allow-principal User:bob --operation Read --allow-host 10.0.0.1", {"at host"}),
        ("--deny-principal User:bob --operation Write", {"denied"}),
        ("--deny-principal User:bob", set()),
        ("--producer --topic orders", {"denied"}),
        ("--consumer --topic orders --group billing --allow-principal User:bob", {"read"}),
    ],
)
def test_entries_are_chosen_by_the_words_of_add(
    run: Run, entries: dict[str, tuple[str, ...]], words: str, names: set[str]
) -> None:
    chosen = {entries[name] for name in names}
    assert set(shown(run, "list", *words.split())) == chosen
    assert set(shown(run, "remove", *words.split(), "--force")) == chosen
    assert set(shown(run, "list")) == set(entries.values()) - chosen


@pytest.mark.parametrize(("answer", "is_removed"), [("Y\n", True), ("n\n", False), ("", False)])
def test_a_question_comes_before_entries_are_removed(
    run: Run,
    entries: dict[str, tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    is_removed: bool,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    asked = run("acls", "remove", "--principal", "User:bob", "--operation", "write")
    assert "kohort: User:bob  Deny  Write  *  topic  orders  literal\n" in asked.stderr
    assert "remove these ACLs? (y/n)" in asked.stderr
    assert asked.exit_code == (0 if is_removed else 1)
    assert ("nothing was removed" in asked.stderr) is not is_removed
    assert (entries["denied"] in shown(run, "list")) is not is_removed
    assert shown(run, "remove", "--group", "none") == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("add", "--topic", "orders"), "--allow-principal"),
        (("add", "--allow-principal", "User:a"), "a resource is missing"),
        (("add", "--allow-principal", "User:a", "--producer", "--group", "g"), "need a --topic"),
        (("add", "--allow-principal", "User:a", "--consumer", "--topic", "t"), "--group"),
        (("add", "--allow-principal", "User:a", "--topic", "t", "--operation", "x"), "'x'"),
        (("remove",), "a filter is missing"),
        (("list", "--principal", "User:a", "--deny-principal", "User:a"), "choose --principal"),
        (("list", "--allow-host", "10.0.0.1"), "--allow-host needs a --allow-principal"),
        (
            ("remove", "--producer", "--topic", "t", "--group", "g"),
            "--group has no effect with --producer: leave it out",
        ),
        (
            ("add", "--allow-principal", "User:a", "--producer", "--topic", "t", "--cluster"),
            "--cluster has no effect with --producer",
        ),
        (
            (
                "add",
                "--allow-principal",
                "User:a",
                "--consumer",
                "--topic",
                "t",
                "--group",
                "g",
                "--transactional-id",
                "x",
            ),
            "--transactional-id has no effect with --consumer",
        ),
    ],
)
def test_incomplete_options_are_refused_before_a_request(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    refused = runner(capsys, "-b", "127.0.0.1:1")("acls", *words)
    assert refused.exit_code == 2
    assert why in refused.stderr


def test_a_server_without_an_authorizer_says_so(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    told = runner(capsys, "-b", serve("--memory").address)("acls", "list")
    assert told.exit_code == 1
    assert "SECURITY_DISABLED" in told.stderr
    assert "authorizer.class.name" in told.stderr
