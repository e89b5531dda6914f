"""`kohort users` against `kohort serve`, and in a data directory without a server."""

import io
from pathlib import Path
from typing import Any

import pytest

from cli.running import Run, runner
from cli.served import Serve
from kohort.cli.offline_users import OfflineUsers
from kohort.cli.users import list_users
from kohort.errors import KohortError
from kohort.log.worker_directories import spread
from kohort.server.cluster.workers import worker_index_of

PASSWORD = "a secret word"


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    return str(path)


def rows(*users: str, mechanisms: tuple[str, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")) -> object:
    return [
        {"USER": user, "MECHANISM": mechanism, "ITERATIONS": "4096"}
        for user in users
        for mechanism in mechanisms
    ]


def change_users(run: Run, password_file: str) -> None:
    """Add, set and remove users, from none to one: alice."""
    of_file = ("--password-file", password_file)
    assert run("users", "list").rows == []
    for user in ("alice", "bob"):
        assert run("users", "add", user, *of_file) == (0, "", f"kohort: added user {user}\n")
    assert run("users", "list").rows == rows("alice", "bob")
    again = run("users", "add", "alice", *of_file)
    assert (again.exit_code, "user alice exists" in again.stderr) == (1, True)
    assert run("users", "set-password", "bob", *of_file, "--iterations", "5000") == (
        0,
        "",
        "kohort: set the password of user bob\n",
    )
    (first, *_) = run("users", "--list", "--output", "json").json[2:]
    assert first == {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 5000}
    assert run("users", "remove", "bob") == (0, "", "kohort: removed user bob\n")
    for words in (("remove", "bob"), ("set-password", "bob", *of_file)):
        gone = run("users", *words)
        assert (gone.exit_code, gone.stderr) == (1, "kohort: there is no user bob\n")
    for iterations in ("4095", "16385"):
        refused = run("users", "add", "bob", *of_file, "--iterations", iterations)
        assert refused.exit_code == 2
        assert "iterations" in refused.stderr
    assert run("users", "list").rows == rows("alice")


def test_users_of_a_data_directory_are_those_of_its_server(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str], password_file: str
) -> None:
    data = tmp_path / "data"
    offline = runner(capsys, "--data-dir", str(data))
    missing = offline("users", "list")
    assert (missing.exit_code, "does not exist" in missing.stderr) == (2, True)
    assert not data.exists()
    data.mkdir()
    change_users(offline, password_file)
    server = serve("--data", str(data))
    online = runner(capsys, "-b", server.address)
    assert online("users", "list").rows == rows("alice")
    in_use = offline("users", "list")
    assert in_use.exit_code == 2
    assert "--data-dir" in in_use.stderr
    online("users", "remove", "alice")
    change_users(online, password_file)
    server.stop()
    spread(data, 3, worker_index_of(3))
    before = sorted(data.rglob("*-*"))
    assert offline("users", "list").rows == rows("alice")
    assert sorted(data.rglob("*-*")) == before


@pytest.mark.parametrize(("name", "why"), [("", "must not be empty"), ("n" * 1025, "is too long")])
def test_names_are_checked_with_and_without_a_server(
    serve: Serve,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    password_file: str,
    name: str,
    why: str,
) -> None:
    places = (("--data-dir", str(tmp_path / "data")), ("-b", serve("--memory").address))
    for place in places:
        run = runner(capsys, *place)
        refused = run("users", "add", name, "--password-file", password_file)
        told = f"kohort: UNACCEPTABLE_CREDENTIAL: Username {why}\n"
        assert (refused.exit_code, refused.stderr) == (1, told)
        assert run("users", "list").rows == []


class OneFails(OfflineUsers):
    """Users of whom one cannot be described."""

    def __init__(self) -> None:
        pass

    async def describe_scram_users(self) -> dict[str, Any]:
        return {"bob": KohortError("damaged"), "ann": {"SCRAM-SHA-256": 4096}}


async def test_an_error_of_one_user_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert await list_users(OneFails(), "table") == 1
    told = capsys.readouterr()
    assert told.err == "kohort: user bob: damaged\n"
    assert "ann" in told.out


@pytest.mark.parametrize("content", [PASSWORD, f"{PASSWORD}\n", f"{PASSWORD}\r\nmore\n"])
def test_a_password_is_read_from_elsewhere(
    content: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = runner(capsys, "--data-dir", str(tmp_path / "data"), "--mechanism", "SCRAM-SHA-256")
    monkeypatch.setattr("sys.stdin", io.StringIO(content))
    monkeypatch.setenv("A_PASSWORD", PASSWORD)
    assert run("users", "add", "a", "--password-stdin").exit_code == 0
    assert run("users", "add", "b", "--password-env", "A_PASSWORD").exit_code == 0
    list_users = runner(capsys, "--data-dir", str(tmp_path / "data"))
    assert list_users("users", "list").rows == rows("a", "b", mechanisms=("SCRAM-SHA-256",))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--password-stdin",),
        ("--password-env", "NO_SUCH_VARIABLE"),
        ("--password-file", "no-such-file"),
        ("--password-env", "A", "--password-stdin"),
        ("--password", PASSWORD),
        ("--mechanism", "PLAIN"),
    ],
)
def test_without_a_password_nothing_is_done(
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    data = tmp_path / "data"
    refused = runner(capsys)("users", "add", "alice", "--data-dir", str(data), *words)
    assert refused.exit_code == 2

    assert not data.exists()
