"""What a server tells about itself: a line per rebalance, health, metrics, and groups as JSON."""

import asyncio
import importlib
import logging
import os
from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING

from kohort.coordinator.journal import Rebalance
from kohort.coordinator.rounds import MOST_CAUSES
from kohort.errors import KohortError
from kohort.runtime.host import HostState
from kohort.server.addresses import Address
from kohort.server.logs import fields
from kohort.server.monitoring import group_view
from kohort.server.monitoring.phases import Phases

if TYPE_CHECKING:
    from kohort.server.broker import Broker
    from kohort.server.monitoring.http_port import Answer, HttpPort

logger = logging.getLogger("kohort.groups")

_LAG_PROBE_S = 0.5


class Observer:
    """Watches a broker; serves what it sees on the HTTP port, if there is one."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._port: HttpPort | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.address: Address | None = None
        self.causes: Counter[tuple[str, str]] = Counter()
        """Rebalances by (first cause, outcome)."""
        self.phases = Phases()
        self.loop_lag_s = 0.0
        """How late the loop was with a timer, at worst since the last scrape."""

    async def start(self) -> None:
        """Open the HTTP port if the configuration names one. Raises KohortError."""
        wanted = self._broker.config.http_listen
        if wanted is None:
            return
        from kohort.server.broker import cannot_listen
        from kohort.server.monitoring.http_port import HttpPort

        self._port = HttpPort(
            {
                "/health": self.health,
                "/metrics": self.metrics,
                "/groups": self.groups,
                "/groups/": self.group,
            }
        )
        try:
            bound = await self._port.start(wanted.host, wanted.port)
        except OSError as error:
            raise KohortError(cannot_listen(wanted, error, "--http")) from error
        self.address = Address(wanted.host, bound[1])
        self._tasks = [
            asyncio.create_task(self._probe_loop_lag()),
            asyncio.create_task(_import_metrics()),
        ]

    async def close(self) -> None:
        """Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._port is not None:
            await self._port.close()

    # --- rebalances ---

    def on_rebalance(self, rebalance: Rebalance) -> None:
        """A round ended: log it, count it."""
        first = rebalance.causes[0].what if rebalance.causes else "unknown"
        self.causes[first, rebalance.outcome] += 1
        self.phases.observe(rebalance)
        logger.info("rebalance", extra=fields(**_told(rebalance)))

    # --- routes ---

    def health(self, _: str) -> "Answer":
        """Whether every shard serves and the directory takes writes."""
        from kohort.server.monitoring.http_port import json_answer

        reasons = self._reasons()
        if reasons:
            return json_answer(
                {"status": "unavailable", "reasons": reasons}, HTTPStatus.SERVICE_UNAVAILABLE
            )
        return json_answer({"status": "ok"})

    def metrics(self, _: str) -> "Answer":
        """Prometheus text format."""
        from kohort.server.monitoring.http_port import Answer
        from kohort.server.monitoring.metrics import CONTENT_TYPE, exposition

        return Answer(HTTPStatus.OK, exposition(self._broker, self), CONTENT_TYPE)

    def groups(self, _: str) -> "Answer":
        """Every group."""
        from kohort.server.monitoring.http_port import json_answer

        if not self._broker.groups.is_loaded:
            return self.health("")
        listed = sorted(self._broker.groups.groups(), key=lambda group: group.id)
        return json_answer({"groups": [group_view.summary(group) for group in listed]})

    def group(self, group_id: str) -> "Answer":
        """One group."""
        from kohort.server.monitoring.http_port import json_answer

        groups = self._broker.groups
        if not groups.is_loaded:
            return self.health("")
        group = groups.group(group_id)
        if group is None:
            return json_answer({"error": f"no group {group_id!r}"}, HTTPStatus.NOT_FOUND)
        return json_answer(group_view.details(group, self._broker.topics, groups.journal(group_id)))

    def _reasons(self) -> list[str]:
        shards = self._broker.groups.statistics()["shards"]
        reasons = [
            f"{count} of {sum(shards.values())} group partitions are {state}"
            for state, count in shards.items()
            if count and state != HostState.ACTIVE.value
        ]
        config = self._broker.config
        if config["storage"] == "local":
            reasons += _unwritable(config["log.dir"])
        return reasons

    async def _probe_loop_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_PROBE_S
            await asyncio.sleep(_LAG_PROBE_S)
            self.loop_lag_s = max(self.loop_lag_s, loop.time() - due)


async def _import_metrics() -> None:
    """In a thread: prometheus-client takes a tenth of a second, and the first scrape must not hold
    up the loop.
    """
    await asyncio.to_thread(importlib.import_module, "kohort.server.monitoring.metrics")


def _told(rebalance: Rebalance) -> dict[str, object]:
    causes = Counter(
        " ".join(
            word
            for word in (cause.what, cause.client_id or cause.member_id, f"({cause.reason})")
            if word != "()"
        )
        for cause in rebalance.causes
    )
    told: dict[str, object] = {
        "group": rebalance.group,
        "generation": rebalance.generation,
        "outcome": rebalance.outcome,
        "members": len(rebalance.members),
        "join_ms": rebalance.join_ms,
        "sync_ms": rebalance.sync_ms,
        "causes": [cause if count == 1 else f"{cause} ×{count}" for cause, count in causes.items()],
    }
    if rebalance.more_causes:
        told["more_causes"] = rebalance.more_causes
    if rebalance.awaited:
        told["awaited"] = list(rebalance.awaited[:MOST_CAUSES])
    return told


def _unwritable(directory: str) -> list[str]:
    """Why the data directory would not take a write; empty if it would."""
    try:
        if not os.access(directory, os.W_OK):
            return ["the data directory is not writable"]
        space = os.statvfs(directory)
    except OSError as error:
        return [f"the data directory cannot be used: {error.strerror}"]
    return [] if space.f_bavail else ["the file system of the data directory is full"]
