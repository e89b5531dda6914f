"""The HTTP port of several workers, some of which do not respond or are not well."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kohort.server.cluster.workers import Worker, http_socket_of
from kohort.server.config import Config
from kohort.server.supervisor import merged_views
from kohort.server.supervisor.merged_views import MergedViews
from kohort.server.supervisor.worker_messages import WorkerSetup
from kohort.server.supervisor.worker_process import WorkerProcess

COUNT = 2
NO_GROUP: Any = (404, {"error": "no group 'g'"})
NO_LEASE: Any = (503, {"status": "unavailable", "reasons": ["this node has no lease"]})
LOADING: Any = (503, {"status": "unavailable", "reasons": ["1 of 3 partitions are loading"]})


class Shown:
    """Workers by what they respond; one that responds nothing hangs."""

    def __init__(self, sockets: Path, *, share_storage: bool = False) -> None:
        self.asked: Counter[int] = Counter()
        """Requests by worker."""
        self.targets: list[str] = []
        self.responses: dict[int, tuple[int, Any]] = {}
        self._sockets = sockets
        assignments = [
            WorkerSetup(
                Worker(index=index, count=COUNT, sockets=sockets), Config({"node.id": index})
            )
            for index in range(COUNT)
        ]
        workers = [WorkerProcess(each) for each in assignments]
        self._views = MergedViews(workers, sockets, share_storage=share_storage)

    async def worker(self, index: int) -> asyncio.Server:
        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head_line = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.targets.append(head_line.split(" ")[1])
            self.asked[index] += 1
            if index in self.responses:
                status, told = self.responses[index]
                body = json.dumps(told).encode()
                head = f"HTTP/1.1 {status} Any\r\nContent-Type: json\r\nContent-Length: {len(body)}"
                writer.write(f"{head}\r\n\r\n".encode() + body)
            else:
                await reader.read()
            writer.close()

        return await asyncio.start_unix_server(respond, http_socket_of(self._sockets, index))

    async def get(self, path: str, rest: str = "") -> tuple[int, Any]:
        shown = await self._views.routes[path](rest)  # type: ignore[misc]
        return shown.status, json.loads(shown.body)


@pytest.fixture
async def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shown]:
    monkeypatch.setattr(merged_views, "WORKER_TIMEOUT_S", 2.0)
    shown = Shown(tmp_path)
    async with AsyncExitStack() as stack:
        for index in range(COUNT):
            await stack.enter_async_context(await shown.worker(index))
        yield shown


@pytest.mark.parametrize("path", ["/groups", "/groups/"])
async def test_a_worker_that_hangs_is_waited_for_once(shown: Shown, path: str) -> None:
    shown.responses[0] = NO_GROUP if path == "/groups/" else (200, {"groups": []})
    status, told = await shown.get(path, "g")
    assert status == HTTPStatus.SERVICE_UNAVAILABLE
    assert told["reasons"] == ["node 1 does not respond"]
    assert shown.asked == {0: 1, 1: 1}


@pytest.mark.parametrize("path", ["/health", "/groups", "/groups/"])
async def test_a_worker_that_loads_says_so(shown: Shown, path: str) -> None:
    shown.responses = {0: NO_GROUP if path == "/groups/" else (200, {"groups": []}), 1: LOADING}
    status, told = await shown.get(path, "g")
    assert status == HTTPStatus.SERVICE_UNAVAILABLE
    assert told["reasons"] == ["node 1: 1 of 3 partitions are loading"]


async def test_a_group_is_shown_while_another_worker_hangs(shown: Shown) -> None:
    shown.responses[0] = (200, {"group_id": "g"})
    assert await shown.get("/groups/", "g") == (200, {"group_id": "g"})


async def test_a_group_is_explained_by_its_coordinator(shown: Shown) -> None:
    shown.responses = {0: NO_GROUP, 1: (200, {"why": ""})}
    assert await shown.get("/groups/NAME/explain", "g") == (200, {"why": ""})
    assert set(shown.targets) == {"/groups/g/explain"}


async def test_a_group_that_nobody_has_is_not_found(shown: Shown) -> None:
    shown.responses = dict.fromkeys(range(COUNT), NO_GROUP)
    assert await shown.get("/groups/", "g") == NO_GROUP


async def test_the_list_of_workers_without_a_lease_is_not_empty(tmp_path: Path) -> None:
    shown = Shown(tmp_path, share_storage=True)
    shown.responses = dict.fromkeys(range(COUNT), NO_LEASE)
    async with await shown.worker(0), await shown.worker(1):
        status, told = await shown.get("/groups")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert told["reasons"] == [f"node {node}: this node has no lease" for node in range(COUNT)]
        shown.responses[1] = (200, {"groups": [], "silent_nodes": []})
        assert await shown.get("/groups") == shown.responses[1]


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ((1, -1), -1),  # worker 1 does not lead what worker 0 believes it to
        ((-1, 0), -1),
        ((7, -1), 7),
        ((1, 7), 7),
        ((1, 0), 1),
    ],
)
async def test_the_coordinator_of_a_group_is_that_named_by_its_worker(
    shown: Shown, named: tuple[int, int], told: int
) -> None:
    shown.responses = {node: (421, {"coordinator": each}) for node, each in enumerate(named)}
    assert await shown.get("/groups/", "g") == (421, {"coordinator": told})
