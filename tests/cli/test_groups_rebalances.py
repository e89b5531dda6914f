"""`kohort groups rebalances`: the journal of a server in words, or the generations in its log."""

import pytest

from cli.running import Run, runner
from cli.served import Serve
from kohort.client.resets import now_ms
from peers.kafka import free_port

NO_ACLS = (
    "--set=authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "--set=super.users=User:admin",
)


def have_a_member(run: Run, address: str) -> None:
    """Group billing gets a member, which consumes all of topic orders and leaves."""
    run("topics", "create", "orders", "-b", address)
    words = ("-G", "billing", "-X", "auto.offset.reset=earliest", "-e", "-q", "orders")
    assert run("consume", "-b", address, *words).exit_code == 0


def test_the_journal_in_words(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve("--memory", "--dev", "--http", "127.0.0.1:0")
    run = runner(capsys)
    have_a_member(run, server.address)
    rebalances = ("groups", "rebalances", "--http", server.logged_address("http"))
    told = run(*rebalances, "billing", "--output", "json").json
    assert [each["outcome"] for each in told] == ["stable", "empty"]
    shown = run(*rebalances, "billing")
    assert shown.exit_code == 0
    joined, left = shown.output.splitlines()[1:]
    assert joined.endswith("kohort joined")
    assert left.endswith("kohort left")
    last = run(*rebalances, "billing", "--last", "1")
    assert len(last.output.splitlines()) == 2
    assert "1 earlier ones are not shown" in last.stderr
    gone = run(*rebalances, "bililng")
    assert (gone.exit_code, gone.stderr.count("\n")) == (1, 1)


def test_a_port_that_does_not_respond(capsys: pytest.CaptureFixture[str]) -> None:
    done = runner(capsys)("groups", "rebalances", "g", "--http", "127.0.0.1:1")
    assert (done.exit_code, "start the server with --http" in done.stderr) == (1, True)
    refused = runner(capsys)("groups", "rebalances", "g", "--http", "file:///etc/passwd")
    assert refused.exit_code == 2


def test_the_configs_of_a_server_lead_to_its_journal(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve("--memory", "--dev", "--http", f"127.0.0.1:{free_port()}")
    run = runner(capsys, "-b", server.address)
    have_a_member(runner(capsys), server.address)
    found = run("groups", "rebalances", "billing", "--output", "json").json
    assert [each["causes"][0]["what"] for each in found] == ["joined", "left"]
    logged = run("groups", "rebalances", "billing", "--log", "--output", "json").json
    assert {each["source"] for each in logged} == {"log"}


def test_a_port_out_of_reach_leaves_the_log(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    http = ("--http", f"127.0.0.1:{free_port()}", "--set=http.token=secret")
    server = serve("--memory", "--dev", *http)
    have_a_member(runner(capsys), server.address)
    done = runner(capsys, "-b", server.address)("groups", "rebalances", "billing")
    assert (done.exit_code, "no journal, so the log is read" in done.stderr) == (0, True)
    assert "read from __consumer_offsets-" in done.stderr


def test_the_log_in_words(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    address = serve("--memory", "--dev").address
    run = runner(capsys, "-b", address)
    have_a_member(runner(capsys), address)
    before = now_ms()
    shown = run("groups", "rebalances", "billing")
    created, joined, empty = (line.split(maxsplit=6) for line in shown.output.splitlines()[1:])
    assert [created[1], joined[1], empty[1]] == ["created", "stable", "empty"]
    assert joined[6] == "kohort joined; protocol range; kohort got orders:0"
    assert empty[6] == "kohort is gone"
    assert "compaction removes older generations" in shown.stderr
    last = run("groups", "rebalances", "billing", "--last", "1")
    assert len(last.output.splitlines()) == 2
    assert "2 earlier ones are not shown" in last.stderr
    one = run("groups", "rebalances", "billing", "--output", "json").json[1]
    assert [each["client_id"] for each in one["members_joined"]] == ["kohort"]
    assert one["partitions_gained"][0]["partitions"] == [{"topic": "orders", "partitions": [0]}]
    assert one["ended"] <= before
    for since in ("1h", "PT1H", "2020-01-01T00:00:00Z"):
        shown = run("groups", "rebalances", "billing", "--since", since)
        assert len(shown.output.splitlines()) == 4
    none = run("groups", "rebalances", "billing", "--since", "2200-01-01T00:00:00Z")
    assert (none.exit_code, none.output) == (0, "")
    assert "3 earlier ones are not shown" in none.stderr


def test_options_that_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--since", "yesterday"), ("--last", "0"), ("--log", "--http", "127.0.0.1:1")):
        assert runner(capsys)("groups", "rebalances", "g", *words).exit_code == 2


def test_a_group_without_records_has_no_history(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    address = serve("--memory", "--dev").address
    run = runner(capsys, "-b", address)
    have_a_member(runner(capsys), address)
    gone = run("groups", "rebalances", "bililng")
    assert (gone.exit_code, gone.output) == (1, "")
    assert "has no record in __consumer_offsets-" in gone.stderr
    assert gone.stderr.endswith("; did you mean billing?\n")


def test_a_group_that_had_only_offsets(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    address = serve("--memory", "--dev").address
    run = runner(capsys, "-b", address)
    run("topics", "create", "orders")
    reset = ("--topic", "orders", "--to-earliest", "--execute", "--no-plan")
    assert run("groups", "reset", "other", *reset).exit_code == 0
    done = run("groups", "rebalances", "other")
    assert (done.exit_code, done.output) == (0, "")
    assert "only offsets were committed for it" in done.stderr
    assert run("groups", "rebalances", "other", "--output", "json").json == []


def test_a_user_without_read_is_refused(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    address = serve("--memory", "--dev", *NO_ACLS).address
    done = runner(capsys, "-b", address)("groups", "rebalances", "billing")
    assert (done.exit_code, done.output, done.stderr.count("\n")) == (1, "", 1)
    assert "needs READ" in done.stderr
