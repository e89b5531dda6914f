"""`kohort groups rebalances`: the journal of a server in words."""

import pytest

from cli.running import runner
from cli.served import Serve


def test_the_journal_in_words(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve("--memory", "--dev", "--http", "127.0.0.1:0")
    run = runner(capsys)
    run("topics", "create", "orders", "-b", server.address)
    words = ("-G", "billing", "-X", "auto.offset.reset=earliest", "-e", "-q", "orders")
    assert run("consume", "-b", server.address, *words).exit_code == 0
    rebalances = ("groups", "rebalances", "--http", server.logged_address("http"))
    told = run(*rebalances, "billing", "--output", "json").json
    assert [each["outcome"] for each in told] == ["stable", "empty"]
    shown = run(*rebalances, "billing")
    assert shown.exit_code == 0
    joined, left = shown.output.splitlines()[1:]
    assert joined.endswith("kohort joined")
    assert left.endswith("kohort left")
    gone = run(*rebalances, "bililng")
    assert (gone.exit_code, gone.stderr.count("\n")) == (1, 1)


def test_a_port_that_does_not_respond(capsys: pytest.CaptureFixture[str]) -> None:
    done = runner(capsys)("groups", "rebalances", "g", "--http", "127.0.0.1:1")
    assert (done.exit_code, "start the server with --http" in done.stderr) == (1, True)
    refused = runner(capsys)("groups", "rebalances", "g", "--http", "file:///etc/passwd")
    assert refused.exit_code == 2
