"""The start of a node whose storage does not serve it at once."""

import logging
import tempfile
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from kohort.errors import KohortError
from kohort.log.memory_cluster import MemoryCluster
from kohort.protocol.batches import Record, build
from kohort.server.broker import Broker
from kohort.server.cluster import shared_node
from kohort.server.config import Config
from server.cluster.nodes_bench import MemoryNode, MovableClock


async def test_a_start_that_has_to_wait_tells_why_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kohort.cluster")
    clock = MovableClock()
    node = MemoryNode(MemoryCluster(clock.timestamp), 1)
    claim, refusals = node.storage.claim, [OSError("too many connections")] * 2

    async def claim_at_last() -> int:
        if refusals:
            raise refusals.pop()
        return await claim()

    monkeypatch.setattr(node.storage, "claim", claim_at_last)
    config = Config({"listeners": "127.0.0.1:0", "storage": "memory", "node.id": 1})
    with tempfile.TemporaryDirectory() as sockets:
        async with Broker(config, clock=clock, shared=node, sockets=Path(sockets)):
            assert not refusals
    (line,) = caplog.records
    assert line.getMessage() == "cannot join the cluster yet, retrying"
    assert line.__dict__["kohort_fields"] == {"why": "too many connections"}


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ("open", "postgresql://db/d cannot be used: it failed"),
        ("claim", "postgresql://db/d does not respond: it failed"),
    ],
)
async def test_a_start_without_the_storage_names_it(
    monkeypatch: pytest.MonkeyPatch, fails: str, told: str
) -> None:
    monkeypatch.setattr(shared_node, "STARTUP_TIMEOUT_S", 0.05)
    clock = MovableClock()
    node = MemoryNode(MemoryCluster(clock.timestamp), 1)
    failing = node if fails == "open" else node.storage
    monkeypatch.setattr(failing, fails, AsyncMock(side_effect=OSError("it failed")))
    storage = "postgresql://kohort:secret@db/d?sslpassword=secret"
    config = Config({"listeners": "127.0.0.1:0", "storage": storage})
    with pytest.raises(KohortError) as refused:
        await Broker(config, clock=clock, shared=node).start()
    assert str(refused.value) == told


async def test_a_log_of_a_later_version_is_refused() -> None:
    clock = MovableClock()
    shared = MemoryCluster(clock.timestamp)
    shared.append(build([Record(b'{"zone":"x"}', b"{}")]))
    config = Config({"listeners": "127.0.0.1:0", "storage": "memory", "node.id": 1})
    with tempfile.TemporaryDirectory() as sockets:
        node = MemoryNode(shared, 1)
        broker = Broker(config, clock=clock, shared=node, sockets=Path(sockets))
        with pytest.raises(KohortError, match="the record at offset 0 is of the unknown kind"):
            await broker.start()
