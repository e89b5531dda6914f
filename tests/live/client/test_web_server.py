"""The lifespan in docs/client.md in a process of uvicorn: SIGTERM hands the partitions over."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from docs.blocks import blocks
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.server.broker import Broker
from kohort.types import GroupId, TopicPartition
from live.client.app import App, produce
from waiting import until

pytestmark = pytest.mark.clients

WEB = GroupId("web")
APPLICATIONS = {
    "starlette": "from starlette.applications import Starlette as Application",
    "fastapi": "from fastapi import FastAPI as Application",
}


def recipe(address: str) -> str:
    """The part of the page's program that an application uses."""
    (code,) = [each.code for each in blocks() if "async def lifespan(app)" in each.code]
    return code.partition("async def main()")[0].replace("localhost:9092", address)


@pytest.fixture(params=APPLICATIONS)
async def server(
    request: pytest.FixtureRequest, broker: Broker, tmp_path: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """uvicorn with the lifespan, on a free port."""
    for package in ("uvicorn", request.param):
        pytest.importorskip(package)
    broker.controller.topics.create("orders", 4)
    program = f"{recipe(str(broker.address))}\n{APPLICATIONS[request.param]}\n"
    (tmp_path / "web.py").write_text(f"{program}\napp = Application(lifespan=lifespan)\n")
    command = [sys.executable, "-m", "uvicorn", "web:app", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path)
    yield process
    if process.returncode is None:
        process.kill()
        await process.wait()


async def members(cluster: Cluster) -> int:
    described = (await Admin(cluster).describe_groups([WEB]))[WEB]
    assert not isinstance(described, Exception)
    return len(described.members)


async def test_sigterm_hands_the_partitions_over(
    server: asyncio.subprocess.Process, broker: Broker, cluster: Cluster
) -> None:
    await produce(str(broker.address), 40)
    other = App(str(broker.address), group="web")
    await until(lambda: len(other.assignment) == 2)
    await produce(str(broker.address), 40)
    server.send_signal(signal.SIGTERM)
    assert await server.wait() in (0, -signal.SIGTERM)  # uvicorn raises it again at its end
    assert await members(cluster) == 1  # it has left: its session would last for 30 s
    await until(lambda: len(other.assignment) == 4)
    await other.stop()
    committed = (await Admin(cluster).committed([WEB]))[WEB]
    assert not isinstance(committed, Exception)
    ends = {each: end for each, (_, end) in (await Admin(cluster).ends(committed)).items()}
    assert {each: offset.offset for each, offset in committed.items()} == ends
    assert sum(ends.values()) == 80
    assert set(ends) == {TopicPartition("orders", number) for number in range(4)}
