"""`kohort groups explain`: why a group is not stable, from the HTTP port of its coordinator."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import quote

import pytest

from cli.running import runner
from cli.served import Serve
from kohort.client.sync import ConsumerGroup, Producer
from peers.kafka import free_port


def test_a_group_is_explained_by_its_coordinator(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve("--memory", "--dev", "--http", f"127.0.0.1:{free_port()}")
    run = runner(capsys, "-b", server.address)
    run("topics", "create", "orders")
    with Producer(bootstrap=server.address) as producer:
        producer.send_and_wait("orders", b"paid")
    explain = ("groups", "explain", "billing")
    with ConsumerGroup("billing", topics=["orders"], bootstrap=server.address) as group:
        next(iter(group))
        stable = run(*explain)
        assert (stable.exit_code, stable.output) == (0, "")
        assert stable.stderr == "kohort: group billing is Stable\n"
        group.commit()
    empty = run(*explain, "--output", "json")
    assert empty.json["why"] == "it has no members"
    by_port = runner(capsys)(*explain, "--http", server.logged_address("http"))
    assert by_port.stderr == "kohort: group billing is Empty: it has no members\n"
    gone = run("groups", "explain", "bililng")
    assert (gone.exit_code, gone.output) == (1, "")
    assert gone.stderr == "kohort: group bililng does not exist; did you mean billing?\n"


def test_awaited_members_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with explaining(
        {
            "group_id": "a/b",
            "state": "PreparingRebalance",
            "why": "members have to rejoin",
            "awaited": [
                {"member_id": "a-1", "client_id": "a", "what": "JoinGroup", "until": 45_000},
                {"member_id": "b-1", "client_id": "b", "what": "JoinGroup", "until": None},
            ],
            "until": 300_000,
        }
    ) as port:
        done = runner(capsys)("groups", "explain", "a/b", "--http", f"127.0.0.1:{port}")
    assert done.exit_code == 0
    assert [line.split() for line in done.output.splitlines()] == [
        ["MEMBER-ID", "CLIENT-ID", "AWAITED", "UNTIL"],
        ["a-1", "a", "JoinGroup", "1970-01-01T00:00:45.000Z"],
        ["b-1", "b", "JoinGroup", "-"],
    ]
    assert "PreparingRebalance: members have to rejoin; this phase ends at 1970" in done.stderr


def test_a_server_without_an_http_port_is_told_to_have_one(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runner(capsys, "-b", serve("--memory", "--dev").address)
    run("topics", "create", "orders")
    reset = ("--topic", "orders", "--to-earliest", "--execute", "--no-plan")
    assert run("groups", "reset", "billing", *reset).exit_code == 0
    done = run("groups", "explain", "billing")
    assert (done.exit_code, done.output) == (1, "")
    assert "start a Kohort server with --http" in done.stderr


def test_a_port_has_a_scheme_of_http(capsys: pytest.CaptureFixture[str]) -> None:
    done = runner(capsys)("groups", "explain", "g", "--http", "127.0.0.1:1")
    assert (done.exit_code, "does not respond" in done.stderr) == (1, True)
    assert runner(capsys)("groups", "explain", "g", "--http", "file:///x").exit_code == 2


@contextmanager
def explaining(document: dict[str, object]) -> Iterator[int]:
    """A port that responds with a document to the path of its group."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = quote(str(document["group_id"]), safe="")
            self.send_response(200 if self.path == f"/groups/{name}/explain" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
