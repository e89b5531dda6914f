"""The server of the demo, and the port that it gets."""

import socket
from pathlib import Path

import pytest

from kohort_demo import server
from kohort_demo.errors import DemoError


@pytest.fixture
def taken() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_taken_port_is_replaced_by_a_free_one(taken: socket.socket, tmp_path: Path) -> None:
    with taken, server.Server(taken.getsockname(), tmp_path) as started:
        assert started.moved_from == taken.getsockname()[1]
        assert started.group("none") is None


def test_a_port_taken_while_the_server_starts_is_replaced(
    taken: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = iter([True])
    really_free = server.is_free
    monkeypatch.setattr(server, "is_free", lambda *place: next(look, None) or really_free(*place))
    with taken, server.Server(taken.getsockname(), tmp_path) as started:
        assert started.moved_from == taken.getsockname()[1]
        assert started.group("none") is None


def test_a_server_that_cannot_start_on_a_free_port_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broker").write_text("a file where the server wants a directory")
    with (
        pytest.raises(DemoError, match="the server did not start"),
        server.Server(("127.0.0.1", 0), tmp_path),
    ):
        pass
