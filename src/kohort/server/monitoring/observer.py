"""The HTTP port of a server, with health, metrics and groups as JSON; log lines of rebalances."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final

from kohort.cluster import NO_LEADER
from kohort.coordinator.explanation import explain
from kohort.coordinator.journal import Rebalance
from kohort.errors import KohortError
from kohort.runtime.clock import Clock, SystemClock
from kohort.server.addresses import Address, cannot_listen
from kohort.server.metadata import OFFSETS_TOPIC
from kohort.server.monitoring import group_view
from kohort.server.monitoring.end_samples import EndSamples
from kohort.server.monitoring.front_page import index_page
from kohort.server.monitoring.group_lags import GroupLags
from kohort.server.monitoring.health import Health
from kohort.server.monitoring.http_port import HttpPort, HttpResponse, Route, json_response
from kohort.server.monitoring.http_principal import HttpPrincipal
from kohort.server.monitoring.loop_lag import LoopLag
from kohort.server.monitoring.observed_server import ObservedServer
from kohort.server.monitoring.rebalance_reporter import RebalanceReporter
from kohort.server.net import Tls
from kohort.server.replicas import Topic
from kohort.types import TopicPartition
from kohort.util.histogram import Histogram
from kohort.util.text import did_you_mean
from kohort.util.time_slice import TimeSlices

DATABASE_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_MAX_NAMES_SEARCHED: Final = 1_000
"""Names among which the nearest to an unknown one is looked for."""


class Observer:
    """Routes of the HTTP port, and reports of rebalances."""

    def __init__(
        self, server: ObservedServer, tls: Tls | None = None, clock: Clock | None = None
    ) -> None:
        """`tls`: the port is one of HTTPS.

        With `http_socket` of `server.cluster`, the port is a Unix socket at that path, whose file
        permissions say who may use it.
        """
        self._server = server
        self._health = Health(server)
        self._topics = server.topics
        self._groups = server.groups
        self._nodes = server.cluster.nodes
        self._find_log_offsets = server.cluster.routes.find_log_offsets
        self._tls = tls
        self._principal = HttpPrincipal(server.config["http.principal"], server.find_access)
        self._clock = SystemClock() if clock is None else clock
        self._rebalances = RebalanceReporter()
        self._loop_lag = LoopLag()
        self.end_samples = EndSamples(
            self._groups,
            self._topics,
            self._find_log_offsets,
            self._clock.timestamp,
        )
        """Sampled while there is an HTTP port."""
        self.database_appends = Histogram(DATABASE_BOUNDS_S)
        """Durations of statements that append to logs in a database."""
        self._port: HttpPort | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Address | None:
        """Open the HTTP port; its address, None if it has none. Raises KohortError."""
        config, bound = self._server.config, None
        address, path = config.http_listen, self._server.cluster.http_socket
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
            "/groups/NAME/explain": self.explain_group,
        }
        self._port = HttpPort(
            {"/": lambda _: index_page(routes), **routes},
            public={"/health": self.health_alone, "/ready": self.ready_alone},
            token=config["http.token"],
            tls=self._tls,
        )
        if path is not None:
            self._port.start_on_path(path)
        else:
            assert address is not None
            bound = await open_http_port(self._port, address)
        self._tasks = [
            asyncio.create_task(self._loop_lag.probe()),
            asyncio.create_task(self.end_samples.run()),
            asyncio.create_task(_import_metrics()),
        ]
        return bound

    async def close(self) -> None:
        """Close the HTTP port, and log rebalances that have no line yet. Idempotent."""
        self._rebalances.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._port is not None:
            await self._port.close()

    def on_rebalance(self, rebalance: Rebalance) -> None:
        """Log and count a rebalance that ended."""
        self._rebalances.observe(rebalance)

    def _lags(self) -> GroupLags:
        return GroupLags(self.end_samples, self._topics)

    # --- routes ---

    def health(self, _: str) -> HttpResponse:
        """Whether every shard serves, no log has a problem, and the directory takes writes."""
        return self._with_reasons(self._health.unhealthy_reasons())

    def health_alone(self, _: str) -> HttpResponse:
        """The same without reasons, which name topics."""
        return _status(self._health.unhealthy_reasons(), shows_reasons=False)

    def ready(self, _: str) -> HttpResponse:
        """Whether this node serves all that it is to lead."""
        return self._with_reasons(self._health.unready_reasons())

    def ready_alone(self, _: str) -> HttpResponse:
        """The same without reasons."""
        return _status(self._health.unready_reasons(), shows_reasons=False)

    def _with_reasons(self, reasons: list[str]) -> HttpResponse:
        """The status, with its reasons if the client may see the cluster."""
        return _status(reasons, shows_reasons=self._principal.sees_cluster())

    async def metrics(self, _: str) -> HttpResponse:
        """Prometheus text format."""
        from kohort.server.monitoring.metrics import CONTENT_TYPE, MetricSources, exposition

        sources = MetricSources(
            cluster_id=self._server.cluster_id,
            groups=self._groups,
            transactions=self._server.transactions,
            problems=self._server.problems,
            traffic=self._server.traffic,
            find_log_offsets=self._find_log_offsets,
            lag_of=self._lags().lag,
            rebalances=self._rebalances,
            loop_lag=self._loop_lag,
            access=self._principal.access(),
            node=self._server.status,
            database_appends=self.database_appends,
        )
        return HttpResponse(HTTPStatus.OK, await exposition(sources), CONTENT_TYPE)

    async def groups(self, _: str) -> HttpResponse:
        """Every group of the cluster that may be shown; 503 if some are missing.

        They are read in slices, and encoded in another thread.
        """
        if reasons := self._health.unlisted_reasons():
            return self._with_reasons(reasons)
        slices, partitions = TimeSlices(), set[TopicPartition]()
        for group in tuple(self._groups.groups()):
            partitions.update(group.offsets)
            await slices.give_way()
        log_offsets = await self._find_log_offsets(partitions)
        shows = await self._principal.topics({partition.topic for partition in partitions})
        # The parent process merges the groups of workers.
        node = self._server.shared_node
        on_other_nodes = None if node is None else await node.routes.groups_elsewhere()
        if reasons := self._health.unlisted_reasons():  # others had time to respond
            return self._with_reasons(reasons)
        access, shown, lags = self._principal.access(), {}, self._lags()
        for group in tuple(self._groups.groups()):
            if access.group(group.id):
                shown[group.id] = group_view.line(group, log_offsets, shows, lags.lag)
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
            "leaders": [leader.node for leader in self._nodes.leaders(topic)],
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
            leaderships.update(leader.node for leader in self._nodes.leaders(topic))
            await slices.give_way()
        return json_response(
            {
                "cluster_id": self._server.cluster_id,
                "nodes": [
                    {"node_id": node_id, "leads": leaderships[node_id]}
                    for node_id in sorted(self._nodes.ids)
                ],
                "partitions_without_leader": leaderships[NO_LEADER],
            }
        )

    async def group(self, group_id: str) -> HttpResponse:
        """One group, read in slices and encoded in another thread."""
        if (refusal := await self._refusal(group_id)) is not None:
            return refusal
        groups = self._groups
        group = groups.group(group_id)
        if group is None:  # deleted meanwhile
            return await self._misdirected(group_id)
        shows = await self._principal.topics(
            chain(
                (topic.name for topic in self._topics.all()),
                (partition.topic for partition in group.offsets),
            )
        )
        journal = tuple(groups.journal(group_id))
        details = await group_view.details(
            group, self._topics, journal, self._find_log_offsets, shows, self._lags().lag
        )
        return await asyncio.to_thread(lambda: json_response(details()))

    async def explain_group(self, group_id: str) -> HttpResponse:
        """Why a group is not stable: the members that are awaited, for what, and until when."""
        if (refusal := await self._refusal(group_id)) is not None:
            return refusal
        explanation = explain(self._groups.group(group_id))
        ahead = self._clock.timestamp() - self._clock.now()
        return json_response(group_view.explained(group_id, explanation, ahead))

    async def _refusal(self, group_id: str) -> HttpResponse | None:
        """The response for a group that may not be shown, or that this node does not have."""
        if not self._groups.is_loaded:
            return self.health("")
        if not self._principal.access().group(group_id):
            return await self._group_not_found(group_id)
        if self._groups.group(group_id) is None or not self._health.has_lease:
            return await self._misdirected(group_id)
        return None

    async def _group_not_found(self, group_id: str) -> HttpResponse:
        access = self._principal.access()
        names = (group.id for group in self._groups.groups() if access.group(group.id))
        return await _not_found("group", group_id, list(islice(names, _MAX_NAMES_SEARCHED)))

    async def _misdirected(self, group_id: str) -> HttpResponse:
        """The response for a group that this node does not have."""
        coordinator = self._nodes.coordinator(OFFSETS_TOPIC, group_id)
        is_here = coordinator == self._server.node_id
        if self._server.status is None or (is_here and self._health.serves_group(group_id)):
            return await self._group_not_found(group_id)
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


async def open_http_port(port: HttpPort, address: Address) -> Address:
    """Start the port at `address`; returns the bound address. Raises KohortError."""
    try:
        bound = await port.start(address.host, address.port)
    except OSError as error:
        raise KohortError(cannot_listen(address, error, "--http")) from error
    return Address(address.host, bound.port)


def _status(reasons: list[str], *, shows_reasons: bool) -> HttpResponse:
    """503 with these reasons; 200 if there are none."""
    if not reasons:
        return json_response({"status": "ok"})
    shown = {"reasons": reasons} if shows_reasons else {}
    return json_response({"status": "unavailable", **shown}, HTTPStatus.SERVICE_UNAVAILABLE)


def _listed(summaries: list[dict[str, Any]], more: Mapping[str, Any]) -> HttpResponse:
    return json_response({"groups": sorted(summaries, key=itemgetter("group_id")), **more})


async def _not_found(kind: str, name: str, names: list[str]) -> HttpResponse:
    """404 with the nearest of `names`, which is searched in a thread."""
    hint = await asyncio.to_thread(did_you_mean, name, names[:_MAX_NAMES_SEARCHED])
    error = f"no {kind} {name!r}; /{kind}s lists them{hint}"
    return json_response({"error": error}, HTTPStatus.NOT_FOUND)


async def _import_metrics() -> None:
    """Import in a thread, so that the first scrape does not hold up the loop."""
    await asyncio.to_thread(_load_metrics)


def _load_metrics() -> None:
    from kohort.server.monitoring import metrics  # noqa: F401
