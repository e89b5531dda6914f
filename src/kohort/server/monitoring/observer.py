"""What a server shows of itself: a line per rebalance, health, metrics, and groups as JSON."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final

from kohort.cluster import NO_LEADER
from kohort.coordinator.journal import Rebalance
from kohort.errors import KohortError
from kohort.log.problems import Problems
from kohort.runtime.groups import Groups
from kohort.runtime.shard_host import HostState
from kohort.runtime.transactions import TransactionCoordinator
from kohort.server.addresses import Address, cannot_listen
from kohort.server.authorization import FindAccess
from kohort.server.cluster import ClusterRole, NodeStatus, SharedNode, check_group_availability
from kohort.server.config import Config
from kohort.server.metadata import OFFSETS_TOPIC
from kohort.server.monitoring import group_view
from kohort.server.monitoring.front_page import index_page
from kohort.server.monitoring.http_port import HttpPort, HttpResponse, Route, json_response
from kohort.server.monitoring.http_principal import HttpPrincipal
from kohort.server.monitoring.loop_lag import LoopLag
from kohort.server.monitoring.rebalance_reporter import RebalanceReporter
from kohort.server.net import ListenerStatistics, Tls
from kohort.server.replicas import Topic, Topics
from kohort.types import TopicPartition
from kohort.util.histogram import Histogram
from kohort.util.text import did_you_mean
from kohort.util.time_slice import TimeSlices

_HEALTHY_STATES: Final = (HostState.ACTIVE.value, HostState.ELSEWHERE.value)
DATABASE_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_MAX_NAMES_SEARCHED: Final = 1_000
"""Names among which the nearest to an unknown one is looked for."""
_MAX_PROBLEMS: Final = 100
"""Most problems of logs in one response."""


class Observer:
    """Watches the parts of a server; shows them on the HTTP port, if there is one."""

    def __init__(
        self,
        config: Config,
        cluster_id: str,
        topics: Topics,
        groups: Groups,
        transactions: TransactionCoordinator,
        problems: Problems,
        traffic: Callable[[], ListenerStatistics],
        find_access: FindAccess,
        cluster: ClusterRole,
        shared_node: SharedNode | None,
        tls: Tls | None = None,
    ) -> None:
        """`find_access` says what the HTTP port shows; with `tls`, it is one of HTTPS.

        With `http_socket` of `cluster`, the port is a Unix socket there, for whoever may open it.
        `shared_node` is `cluster`, if that shares a storage.
        """
        self._config = config
        self._cluster_id = cluster_id
        self._topics = topics
        self._groups = groups
        self._transactions = transactions
        self._problems = problems
        self._traffic = traffic
        self._find_log_offsets = cluster.routes.find_log_offsets
        self._cluster = cluster
        self._shared_node = shared_node
        self._tls = tls
        self._principal = HttpPrincipal(config["http.principal"], find_access)
        self._rebalances = RebalanceReporter()
        self._loop_lag = LoopLag()
        self.database_appends = Histogram(DATABASE_BOUNDS_S)
        """Durations of statements that append to logs in a database."""
        self._port: HttpPort | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Address | None:
        """Open the HTTP port; its address, None if it has none. Raises KohortError."""
        address, bound, path = self._config.http_listen, None, self._cluster.http_socket
        if address is None and path is None:
            return None
        routes: dict[str, Route] = {
            "/health": self.health,
            "/ready": self.ready,
            "/metrics": self.metrics,
            "/nodes": self.nodes,
            "/topics": self.topics,
            "/topics/": self.topic,
            "/groups": self.groups,
            "/groups/": self.group,
        }
        self._port = HttpPort(
            {"/": lambda _: index_page(routes), **routes},
            public={"/health": self.health_alone, "/ready": self.ready_alone},
            token=self._config["http.token"],
            tls=self._tls,
        )
        if path is not None:
            self._port.start_on_path(path)
        else:
            assert address is not None
            bound = await listening(self._port, address)
        self._tasks = [
            asyncio.create_task(self._loop_lag.probe()),
            asyncio.create_task(_import_metrics()),
        ]
        return bound

    async def close(self) -> None:
        """Close the HTTP port, and log what is left to log. Idempotent."""
        self._rebalances.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._port is not None:
            await self._port.close()

    def on_rebalance(self, rebalance: Rebalance) -> None:
        """Log and count a rebalance that ended."""
        self._rebalances.observe(rebalance)

    # --- routes ---

    def health(self, _: str) -> HttpResponse:
        """Whether every shard serves, no log has a problem, and the directory takes writes."""
        return self._of_reasons(self._reasons())

    def health_alone(self, _: str) -> HttpResponse:
        """The same without reasons, which name topics."""
        return _status_alone(self._reasons())

    def ready(self, _: str) -> HttpResponse:
        """Whether this node serves all that it is to lead."""
        return self._of_reasons(self._unready())

    def ready_alone(self, _: str) -> HttpResponse:
        """The same without reasons."""
        return _status_alone(self._unready())

    def _of_reasons(self, reasons: list[str]) -> HttpResponse:
        """Whether something is well, with the reasons for who may see them."""
        return _of_reasons(reasons) if self._principal.sees_cluster() else _status_alone(reasons)

    def _status(self) -> NodeStatus | None:
        """Status of this node on a shared storage; None: it shares none."""
        return None if self._shared_node is None else self._shared_node.status()

    def _unready(self) -> list[str]:
        reasons, status = self._loading(), self._status()
        if status is not None and not status.is_ready:
            reasons += status.reasons() or [
                f"{status.awaited} partitions are yet to be taken"
                if status.is_registered
                else "this node is about to register"
            ]
        return reasons

    async def metrics(self, _: str) -> HttpResponse:
        """Prometheus text format."""
        from kohort.server.monitoring.metrics import CONTENT_TYPE, MetricSources, exposition

        sources = MetricSources(
            cluster_id=self._cluster_id,
            groups=self._groups,
            transactions=self._transactions,
            problems=self._problems,
            traffic=self._traffic,
            find_log_offsets=self._find_log_offsets,
            rebalances=self._rebalances,
            loop_lag=self._loop_lag,
            access=self._principal.access(),
            node=self._status(),
            database_appends=self.database_appends,
        )
        return HttpResponse(HTTPStatus.OK, await exposition(sources), CONTENT_TYPE)

    async def groups(self, _: str) -> HttpResponse:
        """Every group of the cluster that may be shown; 503 if some cannot be known.

        They are looked at in slices, and written in another thread.
        """
        if reasons := self._unlisted():
            return self._of_reasons(reasons)
        slices, partitions = TimeSlices(), set[TopicPartition]()
        for group in tuple(self._groups.groups()):
            partitions.update(group.offsets)
            await slices.give_way()
        log_offsets = await self._find_log_offsets(partitions)
        shows = await self._principal.topics({partition.topic for partition in partitions})
        # The parent process merges the groups of workers.
        node = self._shared_node
        on_other_nodes = None if node is None else await node.routes.groups_elsewhere()
        if reasons := self._unlisted():  # others had time to respond
            return self._of_reasons(reasons)
        access, shown = self._principal.access(), {}
        for group in tuple(self._groups.groups()):
            if access.group(group.id):
                shown[group.id] = group_view.line(group, log_offsets, shows)
            await slices.give_way()
        for row in () if on_other_nodes is None else on_other_nodes.groups:
            if access.group(row.group_id):
                shown.setdefault(row.group_id, group_view.summary_elsewhere(row))
            await slices.give_way()
        silent_nodes = {} if on_other_nodes is None else {"silent_nodes": on_other_nodes.silent}
        return await asyncio.to_thread(_listed, [*shown.values()], silent_nodes)

    async def topics(self, _: str) -> HttpResponse:
        """Every topic that may be shown; read in slices, written in another thread."""
        access, slices, shown = self._principal.access(), TimeSlices(), []
        for topic in tuple(self._topics.all()):
            if access.topic(topic.name):
                shown.append(self._describe_topic(topic))
            await slices.give_way()
        return await asyncio.to_thread(
            lambda: json_response({"topics": sorted(shown, key=itemgetter("topic"))})
        )

    async def topic(self, name: str) -> HttpResponse:
        """One topic, as the list of all shows it."""
        access, topic = self._principal.access(), self._topics.get(name)
        if topic is not None and access.topic(name):
            return json_response(self._describe_topic(topic))
        names = [topic.name for topic in self._topics.all() if access.topic(topic.name)]
        return await _not_found("topic", name, names)

    def _describe_topic(self, topic: Topic) -> dict[str, Any]:
        return {
            "topic": topic.name,
            "topic_id": str(topic.id),
            "internal": topic.internal,
            "leaders": [leader.node for leader in self._cluster.nodes.leaders(topic)],
            "configs": dict(topic.configs),
        }

    async def nodes(self, _: str) -> HttpResponse:
        """Every node of the cluster, with the number of partitions that it leads."""
        if not self._principal.sees_cluster():
            return json_response(
                {"error": "http.principal may not describe the cluster"}, HTTPStatus.FORBIDDEN
            )
        slices, leaderships = TimeSlices(), Counter[int]()
        for topic in tuple(self._topics.all()):
            leaderships.update(leader.node for leader in self._cluster.nodes.leaders(topic))
            await slices.give_way()
        return json_response(
            {
                "cluster_id": self._cluster_id,
                "nodes": [
                    {"node_id": node_id, "leads": leaderships[node_id]}
                    for node_id in sorted(self._cluster.nodes.ids)
                ],
                "partitions_without_leader": leaderships[NO_LEADER],
            }
        )

    async def group(self, group_id: str) -> HttpResponse:
        """One group: looked at in slices, and written in another thread."""
        groups = self._groups
        if not groups.is_loaded:
            return self.health("")
        group = groups.group(group_id)
        if not self._principal.access().group(group_id):
            return await self._no_group(group_id)
        if group is None or not self._has_lease:
            return await self._elsewhere(group_id)
        shows = await self._principal.topics(
            chain(
                (topic.name for topic in self._topics.all()),
                (partition.topic for partition in group.offsets),
            )
        )
        journal = tuple(groups.journal(group_id))
        details = await group_view.details(
            group, self._topics, journal, self._find_log_offsets, shows
        )
        return await asyncio.to_thread(lambda: json_response(details()))

    async def _no_group(self, group_id: str) -> HttpResponse:
        access = self._principal.access()
        names = (group.id for group in self._groups.groups() if access.group(group.id))
        return await _not_found("group", group_id, list(islice(names, _MAX_NAMES_SEARCHED)))

    async def _elsewhere(self, group_id: str) -> HttpResponse:
        """The response for a group that this node does not have."""
        coordinator = self._cluster.nodes.coordinator(OFFSETS_TOPIC, group_id)
        is_here = coordinator == self._config["node.id"]
        if self._status() is None or (is_here and self._serves(group_id)):
            return await self._no_group(group_id)
        if is_here:
            coordinator = NO_LEADER
        coordinator_name = f"node {coordinator}" if coordinator != NO_LEADER else "no node now"
        return json_response(
            {
                "error": f"{coordinator_name} coordinates group {group_id!r}",
                "coordinator": coordinator,
            },
            HTTPStatus.MISDIRECTED_REQUEST,
        )

    @property
    def _has_lease(self) -> bool:
        """Whether no other node can have what this one leads."""
        status = self._status()
        return status is None or status.has_lease

    def _serves(self, group_id: str) -> bool:
        partition = self._groups.partition_of(group_id).partition
        return self._has_lease and not self._groups.is_elsewhere(partition)

    def _unlisted(self) -> list[str]:
        """Why groups would be missing from a list of all; empty if none would.

        A node that has not registered has not followed the cluster: it knows neither all nodes nor
        who leads what.
        """
        status = self._status()
        is_known = status is None or (status.has_lease and status.is_registered)
        if not (is_known and self._groups.is_loaded):
            return self._unready()
        node_id = self._config["node.id"]
        return [
            *check_group_availability(
                self._cluster.nodes, self._topics, self._groups, node_id
            ).reasons()
        ]

    def _reasons(self) -> list[str]:
        reasons = self._loading()
        status = self._status()
        if status is not None:
            reasons += status.reasons()
        reasons += self._problems.texts(_MAX_PROBLEMS)
        config = self._config
        if config["storage"] == "local":
            reasons += _unwritable(config["log.dir"])
        return reasons

    def _loading(self) -> list[str]:
        """Of shards that do not serve."""
        return [
            f"{count} of {sum(shards.values())} {kind} partitions are {state}"
            for kind, coordinator in (("group", self._groups), ("transaction", self._transactions))
            for shards in (coordinator.statistics()["shards"],)
            for state, count in shards.items()
            if count and state not in _HEALTHY_STATES
        ]


async def listening(port: HttpPort, address: Address) -> Address:
    """Have the port listen there; its address. Raises KohortError."""
    try:
        bound = await port.start(address.host, address.port)
    except OSError as error:
        raise KohortError(cannot_listen(address, error, "--http")) from error
    return Address(address.host, bound.port)


def _of_reasons(reasons: list[str]) -> HttpResponse:
    """Why something is not well; it is without reasons."""
    if reasons:
        return json_response(
            {"status": "unavailable", "reasons": reasons}, HTTPStatus.SERVICE_UNAVAILABLE
        )
    return json_response({"status": "ok"})


def _status_alone(reasons: list[str]) -> HttpResponse:
    if reasons:
        return json_response({"status": "unavailable"}, HTTPStatus.SERVICE_UNAVAILABLE)
    return json_response({"status": "ok"})


def _listed(summaries: list[dict[str, Any]], more: Mapping[str, Any]) -> HttpResponse:
    return json_response({"groups": sorted(summaries, key=itemgetter("group_id")), **more})


async def _not_found(kind: str, name: str, names: list[str]) -> HttpResponse:
    """404 with the nearest of the names that there are, which a thread looks for."""
    hint = await asyncio.to_thread(did_you_mean, name, names[:_MAX_NAMES_SEARCHED])
    error = f"no {kind} {name!r}; /{kind}s lists them{hint}"
    return json_response({"error": error}, HTTPStatus.NOT_FOUND)


async def _import_metrics() -> None:
    """Import in a thread, so that the first scrape does not hold up the loop."""
    await asyncio.to_thread(_load_metrics)


def _load_metrics() -> None:
    from kohort.server.monitoring import metrics  # noqa: F401


def _unwritable(directory: str) -> list[str]:
    """Why the data directory does not take writes; empty if it does."""
    try:
        if not os.access(directory, os.W_OK):
            return ["the data directory is not writable"]
        space = os.statvfs(directory)
    except OSError as error:
        return [f"the data directory cannot be used: {error.strerror}"]
    return [] if space.f_bavail else ["the file system of the data directory is full"]
