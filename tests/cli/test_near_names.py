"""Every command that takes the name of a topic or group names the nearest one for a typo."""

from collections.abc import Iterator
from typing import cast

import pytest

from cli.running import Run, runner
from cli.served import Serve
from kohort.cli.near_names import near_groups, why_not_described
from kohort.client.admin import Admin, GroupListing
from kohort.client.admin.values import Listing
from kohort.client.sync import Producer
from kohort.testing.server_process import ServerProcess
from kohort.types import GroupId

TOPIC, GROUP = "orders", "billing"
TYPED_TOPIC, TYPED_GROUP = "ordres", "bililng"

TOPICS = (
    ("topics", "describe", TYPED_TOPIC),
    ("topics", "alter", TYPED_TOPIC, "--partitions", "9"),
    ("topics", "delete", TYPED_TOPIC),
    ("configs", "describe", "topic", TYPED_TOPIC),
    ("configs", "describe", "--topic", TYPED_TOPIC),
    ("configs", "describe", "--entity-type", "topics", "--entity-name", TYPED_TOPIC),
    ("configs", "alter", "topic", TYPED_TOPIC, "--add-config", "retention.ms=1"),
    ("groups", "reset", GROUP, "--topic", TYPED_TOPIC, "--to-earliest"),
    ("groups", "reset", GROUP, "--topic", f"{TYPED_TOPIC}:0", "--to-earliest"),
    ("groups", "delete-offsets", GROUP, "--topic", TYPED_TOPIC),
    ("groups", "delete-offsets", GROUP, "--topic", f"{TYPED_TOPIC}:0"),
    ("groups", "plan", GROUP, "--join", "1", "--topic", TYPED_TOPIC),
    ("groups", "plan", GROUP, "--topic", TOPIC, "--join", "1", "--partitions", f"{TYPED_TOPIC}=9"),
    ("transactions", "describe-producers", "--topic", TYPED_TOPIC, "--partition", "0"),
    ("transactions", "find-hanging", "--topic", TYPED_TOPIC),
    ("transactions", "abort", "--topic", TYPED_TOPIC, "--partition", "0", "--start-offset", "0"),
    ("consume", TYPED_TOPIC, "-e"),
    ("consume", "-L", "-t", TYPED_TOPIC),
    ("consume", "-Q", "-t", f"{TYPED_TOPIC}:0:0"),
)
GROUPS = (
    ("groups", "describe", TYPED_GROUP),
    ("groups", "describe", TYPED_GROUP, "--members"),
    ("groups", "describe", TYPED_GROUP, "--state"),
    ("groups", "watch", TYPED_GROUP, "--count", "1"),
    ("groups", "rebalances", TYPED_GROUP),
    ("groups", "delete", TYPED_GROUP),
    ("groups", "delete-offsets", TYPED_GROUP, "--topic", TOPIC),
    ("groups", "reset", TYPED_GROUP, "--all-topics", "--to-earliest"),
    ("groups", "reset", TYPED_GROUP, "--topic", TOPIC, "--to-earliest"),
    ("groups", "reset", "new", "--all-topics", "--from-group", TYPED_GROUP),
    ("groups", "copy", TYPED_GROUP, "new"),
    ("groups", "plan", TYPED_GROUP, "--join", "1"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", "--dev", "--http", "127.0.0.1:0", log=log) as server:
        yield server


@pytest.fixture
def run(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    run = runner(capsys, "-b", server.address)
    run("topics", "create", TOPIC, "--if-not-exists")
    run("consume", "-G", GROUP, "-X", "auto.offset.reset=earliest", "-e", "-q", TOPIC)
    return run


@pytest.mark.parametrize("words", TOPICS, ids=" ".join)
def test_an_unknown_topic_gets_a_near_name(run: Run, words: tuple[str, ...]) -> None:
    told = run(*words)
    assert "did you mean orders?" in told.stderr + told.output, told
    assert ".;" not in told.stderr


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_an_unknown_group_gets_a_near_name(run: Run, words: tuple[str, ...]) -> None:
    told = run(*words)
    assert "did you mean billing?" in told.stderr + told.output, told


@pytest.mark.parametrize("verb", ["describe", "force-terminate"])
def test_an_unknown_transactional_id_gets_a_near_name(
    run: Run, server: ServerProcess, verb: str
) -> None:
    with Producer(bootstrap=server.address, transactional_id="load"):
        pass
    told = run("transactions", verb, "laod")
    assert told.stderr.endswith("TRANSACTIONAL_ID_NOT_FOUND: laod; did you mean load?\n")


def test_an_unknown_user_gets_a_near_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    run("users", "add", "alice", "--password-env", "PASSWORD")
    for words in (("remove", "alcie"), ("set-password", "alcie", "--password-env", "PASSWORD")):
        told = run("users", *words)
        assert told.stderr == "kohort: there is no user alcie; did you mean alice?\n"


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("configs", "alter", "topic", TOPIC, "--add-config", "retention.sm=1"), "retention.ms"),
        (("topics", "create", "new", "--config", "cleanup.polciy=delete"), "cleanup.policy"),
        (
            (
                "configs",
                "--alter",
                *("--entity-type", "groups", "--entity-name", "g"),
                *(
                    "--add-config",
                    "consumer.heartbeat.interval.ms=5000,consumer.sesion.timeout.ms=1",
                ),
            ),
            "consumer.session.timeout.ms",
        ),
    ],
)
def test_an_unknown_config_gets_a_near_name(run: Run, words: tuple[str, ...], near: str) -> None:
    assert run(*words).stderr.endswith(f"; did you mean {near}?\n")


def test_no_name_is_near_a_config_with_a_wrong_value(run: Run) -> None:
    told = run("configs", "alter", "topic", TOPIC, "--add-config", "retention.ms=long")
    assert told.stderr.endswith("Not a number of type LONG\n")


def test_an_unknown_group_in_the_journal_gets_a_near_name(
    run: Run, server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    told = runner(capsys)(
        "groups", "rebalances", TYPED_GROUP, "--http", server.logged_address("http")
    )
    assert told.exit_code == 1
    assert "did you mean billing?" in told.stderr


@pytest.mark.parametrize(("type_", "told"), [("Share", "is a share group"), ("Classic", "exist")])
async def test_a_group_of_another_type_is_told_as_one(type_: str, told: str) -> None:
    listed = GroupListing(
        group=GroupId("sharing"), protocol_type="", state="", type=type_, coordinator=0
    )

    class Groups:
        async def list_groups(self) -> Listing:
            return Listing(groups=(listed,))

    admin = cast("Admin", Groups())
    assert told in await why_not_described(admin, "sharing")
    assert ("is a share group" in await near_groups(admin, ["sharing"])) == (type_ == "Share")


def test_refusals_name_the_remedy(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    address = serve("--memory", f"--set=authorizer.class.name={authorizer}").address
    run = runner(capsys, "-b", address)
    for words in (
        ("topics", "describe", TOPIC),
        ("topics", "delete", TOPIC),
        ("topics", "create", TOPIC),
        ("groups", "describe", GROUP),
        ("groups", "watch", GROUP, "--count", "1"),
        ("groups", "copy", GROUP, "other"),
        ("groups", "reset", "other", "--from-group", GROUP, "--all-topics"),
        ("groups", "rebalances", GROUP),
    ):
        done = run(*words)
        assert (done.exit_code, done.output) == (1, ""), words
        assert "kohort acls add" in done.stderr, words
