"""`kohort nodes`: the nodes of a cluster on PostgreSQL."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from cli.running import Run, runner
from kohort.client import ClientConfig
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.server.cluster_admin import ClusterAdmin
from kohort.storage.postgres.cluster.shared_storage import PostgresStorage
from kohort.testing.server_process import ServerProcess
from peers.postgres import Postgres, make_tables

PARTITIONS = 4


@pytest.fixture
def nodes(capsys: pytest.CaptureFixture[str], database: str) -> Run:
    """Runs `kohort nodes` on the database."""
    run = runner(capsys)
    return lambda *words: run("nodes", *words, "--storage", database)


@pytest.fixture
def servers(database: str, tmp_path: Path) -> Iterator[dict[int, ServerProcess]]:
    """Nodes 1 and 2, with a topic."""
    settings = {
        "storage": database,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with ExitStack() as stack:
        servers = {
            node: stack.enter_context(
                ServerProcess(
                    log=tmp_path / f"{node}.log", settings={**settings, "node.id": str(node)}
                )
            )
            for node in (1, 2)
        }
        asyncio.run(create(",".join(each.address for each in servers.values())))
        yield servers


async def create(bootstrap: str) -> None:
    async with Cluster(ClientConfig(bootstrap=bootstrap)) as cluster:
        await Admin(cluster).create_topic("orders", partitions=PARTITIONS)


def led(nodes: Run) -> dict[int, int]:
    """How many partitions each node leads."""
    listed = nodes("list", "--output", "json").json
    return {each["node"]: each["partitions"] for each in listed}


def test_list_drain_and_move(
    nodes: Run, servers: dict[int, ServerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("kohort.cli.nodes.show", Mock(side_effect=BrokenPipeError))
        with pytest.raises(BrokenPipeError):  # which is not of the database
            nodes("list")
    assert sum(led(nodes).values()) == PARTITIONS + 2
    assert f"PLAINTEXT://{servers[1].address}" in nodes("list").output
    assert nodes("drain", "1").exit_code == 0
    assert led(nodes) == {1: 0, 2: PARTITIONS + 2}
    states = {each["node"]: each["state"] for each in nodes("list", "--output", "json").json}
    assert states == {1: "drained", 2: "serving"}
    assert nodes("drain", "2").exit_code == 2
    refused = nodes("move", "orders", "0", "1")
    assert refused.exit_code == 2
    assert "node 1 is drained, and leads nothing until it is started again" in refused.stderr
    assert nodes("move", "orders", "9", "2").exit_code == 2
    assert nodes("move", "orders", "0", "2").exit_code == 0


def test_an_interrupted_drain_says_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drain(admin: ClusterAdmin, _: int) -> None:
        admin.has_changed = True
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    monkeypatch.setattr(PostgresStorage, "ensure_made", AsyncMock())
    monkeypatch.setattr(ClusterAdmin, "drain", drain)
    with pytest.raises(KeyboardInterrupt):
        runner(capsys)("nodes", "drain", "1", "--storage", "postgresql://h/d")
    assert "not done yet; it continues" in capsys.readouterr().err


class TestRefused:
    def test_a_schema_without_tables_is_refused(self, nodes: Run) -> None:
        done = nodes("drain", "1")
        assert done.exit_code == 2
        assert "the schema has no tables of Kohort: name that of the cluster" in done.stderr

    def test_tables_without_a_node_are_refused(self, nodes: Run, database: str) -> None:
        make_tables(database)
        done = nodes("list")
        assert done.exit_code == 2
        assert "no node of a cluster serves from this database: start one" in done.stderr

    def test_tables_of_a_later_version_are_refused(
        self, nodes: Run, postgres: Postgres, database: str
    ) -> None:
        make_tables(database)
        postgres.execute(f"update {database.rpartition('=')[2]}.meta set version = 1000")
        done = nodes("list")
        assert done.exit_code == 2
        assert "start a later one" in done.stderr

    def test_tables_of_an_incomplete_copy_are_refused(
        self, nodes: Run, postgres: Postgres, database: str
    ) -> None:
        make_tables(database)
        postgres.execute(f"update {database.rpartition('=')[2]}.meta set version = -1")
        done = nodes("list")
        assert done.exit_code == 2
        assert "run the same kohort storage copy again" in done.stderr

    def test_a_database_that_is_away(self, capsys: pytest.CaptureFixture[str]) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = taken.getsockname()[1]
        done = runner(capsys)("nodes", "list", "--storage", f"postgresql://me@127.0.0.1:{port}/db")
        assert done.exit_code == 2
        assert f"postgresql://127.0.0.1:{port}/db: PostgreSQL cannot be used: " in done.stderr

    def test_a_database_that_says_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as silent:
            url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/db"
            done = runner(capsys)("nodes", "drain", "1", "--timeout", "0.2", "--storage", url)
        assert done.exit_code == 1
        assert "not done within 0.2 s: PostgreSQL has not responded" in done.stderr

    @pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
    def test_a_time_that_is_none(self, capsys: pytest.CaptureFixture[str], seconds: str) -> None:
        words = ("drain", "1", "--timeout", seconds, "--storage", "postgresql://h/d")
        done = runner(capsys)("nodes", *words)
        assert done.exit_code == 2
        assert f"--timeout {seconds}: is not a number of seconds" in done.stderr

    def test_a_place_that_is_no_database(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert runner(capsys)("nodes", "list", "--storage", "/tmp").exit_code == 2


def test_the_database_is_that_of_the_environment(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KOHORT_STORAGE", raising=False)
    assert "the nodes share, or set KOHORT_STORAGE" in runner(capsys)("nodes", "list").stderr
    monkeypatch.setenv("KOHORT_STORAGE", database)
    assert "the schema has no tables of Kohort" in runner(capsys)("nodes", "list").stderr


def test_the_command_loads_no_server() -> None:
    """Modules of a server take as much CPU time as all others of this command."""
    code = "import sys, kohort.cli.nodes; sys.exit('kohort.server.cluster' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
