"""What the HTTP port shows of all workers: what each says on a socket of its own, put together."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kohort.server.cluster import http_socket_of
from kohort.server.monitoring import HttpResponse, Route, index_page, json_response
from kohort.server.supervisor.merged_metrics import merged
from kohort.server.supervisor.worker_process import WorkerProcess

_OF_ANY: Final = (HTTPStatus.OK, HTTPStatus.NOT_FOUND)
"""Responses in which one worker speaks for all."""
_CONCLUSIVE_STATUSES: Final = (HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.MISDIRECTED_REQUEST)
"""Responses of workers that know whether the group exists."""
WORKER_TIMEOUT_S: Final = 5.0
"""Time that a worker has for its response."""


class MergedViews:
    """The routes of the HTTP port; paths and responses are those of one server."""

    def __init__(
        self, workers: Sequence[WorkerProcess], sockets: Path, *, share_storage: bool
    ) -> None:
        """`share_storage`: each worker lists the groups of the whole cluster."""
        self._workers = workers
        self._sockets = sockets
        routes: dict[str, Route] = {
            "/health": partial(self._status, "/health"),
            "/ready": partial(self._status, "/ready"),
            "/metrics": self._metrics,
            "/nodes": partial(self._first, "/nodes"),
            "/topics": partial(self._first, "/topics"),
            "/topics/": self._topic,
            "/groups": partial(self._first, "/groups") if share_storage else self._groups,
            "/groups/": self._group,
            "/groups/NAME/explain": partial(self._group, view="/explain"),
        }
        self.routes: Mapping[str, Route] = {"/": lambda _: index_page(routes), **routes}
        self.public: Mapping[str, Route] = {
            "/health": partial(self._status_alone, "/health"),
            "/ready": partial(self._status_alone, "/ready"),
        }

    async def _status(self, path: str, _: str) -> HttpResponse:
        """Whether all workers are there and well, or ready."""
        reasons = self._reasons(await self._ask(path))
        return _unavailable(reasons=reasons) if reasons else json_response({"status": "ok"})

    async def _status_alone(self, path: str, _: str) -> HttpResponse:
        """The same without reasons, which name topics."""
        status = await self._status(path, "")
        return status if status.status is HTTPStatus.OK else _unavailable()

    async def _metrics(self, _: str) -> HttpResponse:
        """The metrics of all workers, each with its node as a label."""
        expositions, content_type = {}, "text/plain"
        for worker, response in zip(self._workers, await self._ask("/metrics"), strict=True):
            if response is not None:
                expositions[worker.node_id] = response.body
                content_type = response.content_type
        up = {worker.node_id: int(worker.node_id in expositions) for worker in self._workers}
        restarts = {worker.node_id: worker.restarts for worker in self._workers}
        body = await asyncio.to_thread(merged, expositions, up, restarts)
        return HttpResponse(HTTPStatus.OK, body, content_type)

    async def _groups(self, _: str) -> HttpResponse:
        """The groups of all workers; 503 if a worker cannot list its own."""
        responses = await self._ask("/groups")
        if reasons := self._reasons(responses):
            return _unavailable(reasons=reasons)
        groups = [
            group
            for response in responses
            if response
            for group in json.loads(response.body)["groups"]
        ]
        return json_response({"groups": sorted(groups, key=lambda group: group["group_id"])})

    async def _first(self, path: str, _: str) -> HttpResponse:
        """The first valid response of a worker, as all have the same."""
        responses = []
        for worker in self._workers:
            responses.append(await _get(http_socket_of(self._sockets, worker.index), path))
            if responses[-1] is not None and responses[-1].status in _OF_ANY:
                return responses[-1]
        return _unavailable(reasons=self._reasons(responses))

    async def _topic(self, name: str) -> HttpResponse:
        return await self._first(f"/topics/{quote(name, safe='')}", "")

    async def _group(self, group_id: str, view: str = "") -> HttpResponse:
        """The group, as its coordinator shows it."""
        responses = await self._ask(f"/groups/{quote(group_id, safe='')}{view}")
        received = [response for response in responses if response is not None]
        for response in received:
            if response.status is HTTPStatus.OK:
                return response
        reasons = self._reasons(responses)
        return _unavailable(reasons=reasons) if reasons else self._nearest(received)

    def _nearest(self, responses: Sequence[HttpResponse]) -> HttpResponse:
        """The response for a group that no worker shows.

        It is that of its coordinator, if that is a worker; else that of a worker that names a
        coordinator elsewhere. A worker that others name, and that does not coordinate the group,
        has newer metadata than they.
        """
        if missing := [
            response for response in responses if response.status is HTTPStatus.NOT_FOUND
        ]:
            return max(
                missing, key=lambda response: len(response.body)
            )  # one may name a near group
        node_ids = {worker.node_id for worker in self._workers}
        named = [(json.loads(response.body)["coordinator"], response) for response in responses]
        elsewhere = [(node, response) for node, response in named if node not in node_ids] or named
        return max(elsewhere, key=itemgetter(0))[1]

    def _reasons(self, responses: Sequence[HttpResponse | None]) -> list[str]:
        """Reasons of workers that cannot tell whether they have the group."""
        reasons: list[str] = []
        for worker, response in zip(self._workers, responses, strict=True):
            if response is None:
                reasons.append(f"node {worker.node_id} does not respond")
            elif response.status not in _CONCLUSIVE_STATUSES:
                body = json.loads(response.body)
                why = body.get("reasons", [body.get("error")])
                reasons += (f"node {worker.node_id}: {reason}" for reason in why)
        return reasons

    async def _ask(self, target: str) -> list[HttpResponse | None]:
        """The response of each worker, None if there is none in time."""
        paths = (http_socket_of(self._sockets, worker.index) for worker in self._workers)
        return await asyncio.gather(*(_get(path, target) for path in paths))


def _unavailable(**more: Any) -> HttpResponse:
    return json_response({"status": "unavailable", **more}, HTTPStatus.SERVICE_UNAVAILABLE)


async def _get(path: str, target: str) -> HttpResponse | None:
    try:
        async with asyncio.timeout(WORKER_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(f"GET {target} HTTP/1.1\r\n\r\n".encode())
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    if len(body) != int(headers.get("Content-Length", -1)):
        return None  # it ended amid its response
    return HttpResponse(HTTPStatus(int(lines[0].split(" ")[1])), body, headers["Content-Type"])
