"""`kohort nodes`: the nodes of a cluster on PostgreSQL."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.running import Run, runner
from kohort.client import ClientConfig
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.testing.server_process import ServerProcess

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
        "cluster.enabled": "true",
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


def test_list_drain_and_move(nodes: Run, servers: dict[int, ServerProcess]) -> None:
    assert sum(led(nodes).values()) == PARTITIONS + 2
    assert f"PLAINTEXT://{servers[1].address}" in nodes("list").output
    assert nodes("drain", "1").exit_code == 0
    assert led(nodes) == {1: 0, 2: PARTITIONS + 2}
    assert "draining" in nodes("list").output
    assert nodes("drain", "2").exit_code == 2
    assert nodes("move", "orders", "9", "2").exit_code == 2
    assert nodes("move", "orders", "0", "2").exit_code == 0


def test_a_database_without_a_cluster_is_refused(nodes: Run) -> None:
    assert nodes("drain", "1").exit_code == 2


def test_a_place_that_is_no_database_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner(capsys)("nodes", "list", "--storage", "/tmp").exit_code == 2
