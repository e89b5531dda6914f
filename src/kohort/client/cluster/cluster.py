"""A client's connections and metadata of a cluster: brokers, leaders and coordinators.

    async with Cluster(bootstrap="localhost:9092") as cluster:
        metadata = await cluster.metadata(["orders"])
        leader = await cluster.leader(TopicPartition("orders", 0))
        connection = await cluster.connection(leader.node_id)

Leaders are cached for `metadata_max_age_ms`, or until a caller reports them as `stale`, and
coordinators until `coordinator_moved`. Requests to the cluster are retried for at most
`default_api_timeout_ms`, at all known brokers and then at the bootstrap servers (KIP-899). After
that GaveUpError lists the attempts.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self, Unpack
from uuid import UUID

from kohort.client.backoff import Backoff, retrying
from kohort.client.cluster.find_coordinator import GROUP, find_coordinators
from kohort.client.cluster.metadata import (
    MIN_VERSION,
    TOPIC_IDS_SINCE,
    BrokerNode,
    Leader,
    Metadata,
    PartitionMetadata,
    TopicMetadata,
    fields_of_request,
    from_response,
)
from kohort.client.cluster.metadata_cache import UNKNOWN_TOPIC_ERROR, MetadataCache
from kohort.client.concurrency import own_loop
from kohort.client.config import Address, ClientConfig, ClientOptions
from kohort.client.errors import (
    BrokerUnreachableError,
    ClientClosedError,
    RebootstrapRequiredError,
)
from kohort.client.metrics import ClusterMetrics
from kohort.client.net import Connection, Connections, Key, format_address
from kohort.client.properties import checks_arguments, shows_options
from kohort.errors import ConfigError, ErrorCode, KafkaError, fresh
from kohort.types import TopicPartition

__all__ = ["BrokerNode", "Cluster", "Leader", "Metadata", "PartitionMetadata", "TopicMetadata"]

_ADVICE: Final = (
    "check the bootstrap servers, and that the brokers' advertised listeners can be reached "
    "from here"
)


def open_cluster(
    config_or_cluster: "ClientConfig | Cluster | None",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> "Cluster":
    """A new cluster with that config, or with these options of one, or the given cluster.

    Raises ConfigError for any other value.
    """
    if not isinstance(config_or_cluster, Cluster):
        return Cluster(_config(config_or_cluster, options))
    if options:
        raise ConfigError(f"{', '.join(options)}: an open Cluster has its options already")
    return config_or_cluster


def _config(config: ClientConfig | None, options: Mapping[str, Any]) -> ClientConfig:
    if config is None:
        return ClientConfig(**options)
    if not isinstance(config, ClientConfig):
        raise ConfigError(
            f"a ClientConfig or a Cluster is needed, not {config!r}; options have names, such as "
            "bootstrap='localhost:9092'"
        )
    if options:
        raise ConfigError(
            f"{', '.join(options)}: set it in the ClientConfig, or pass no ClientConfig"
        )
    return config


@shows_options(ClientConfig)
@checks_arguments
class Cluster:
    """Owns all connections of one client. Used from one event loop."""

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        connections: Connections | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Configured by a ClientConfig, or by its options: `Cluster(bootstrap="localhost:9092")`.

        `connections` opens and keeps the connections (default: by `config`). Raises ConfigError,
        also for unusable TLS files.
        """
        self.config = config = _config(config, options)
        config.security.context()  # raises ConfigError now, not at the first connection
        self._connections = Connections(config) if connections is None else connections
        self._cache = MetadataCache(config.metadata_max_age_ms / 1000)
        self._coordinators: dict[tuple[int, str], int] = {}
        self._refreshing: _Refresh | None = None
        self._without_metadata_since: float | None = None
        """Time of the first failure since the last metadata, by the loop's clock."""
        self._own_loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._own_loop = own_loop(self._own_loop, "cluster")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Cluster of {len(self.brokers)} brokers, {len(self._cache)} topics known>"

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._connections.is_closed:
            return
        self._own_loop = own_loop(self._own_loop, "cluster")
        if self._refreshing is not None:
            self._refreshing.task.cancel()
        await self._connections.close()

    def backoff(self, initial_ms: int | None = None, max_ms: int | None = None) -> Backoff:
        """A new Backoff, by default as configured; its retries count in this client's metrics."""
        return self._connections.backoff(initial_ms, max_ms)

    def metrics(self) -> ClusterMetrics:
        """Counters and gauges of all connections."""
        return ClusterMetrics(
            client_id=self.config.client_id,
            is_closed=self._connections.is_closed,
            connections=self._connections.metrics(),
        )

    # Brokers, topics, leaders

    @property
    def brokers(self) -> Mapping[int, BrokerNode]:
        """The known brokers by node id."""
        return self._cache.brokers

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_create: bool = False
    ) -> Metadata:
        """Request the metadata of these topics, or of all; it includes errors of single topics.

        Raises GaveUpError, AuthenticationError.
        """
        requested = None if topics is None else tuple(dict.fromkeys(topics))
        return await retrying(
            lambda: self.request_metadata(requested, allow_auto_create=allow_auto_create),
            operation=f"metadata from {', '.join(map(format_address, self.config.servers))}",
            timeout_ms=self.config.default_api_timeout_ms,
            backoff=self.backoff(),
            advice=_ADVICE,
        )

    async def request_metadata(
        self, topics: tuple[str, ...] | None, *, allow_auto_create: bool = False
    ) -> Metadata:
        """`metadata` with one request, for callers that retry themselves.

        Raises BrokerUnreachableError, AuthenticationError.
        """
        try:
            metadata = await self._request_metadata(topics, allow_auto_create)
        except BrokerUnreachableError:
            self._rebootstrap_if_due()
            raise
        self._without_metadata_since = None
        self._connections.cluster_id = metadata.cluster_id
        self._cache.learn(metadata, self._now())
        return metadata

    async def _request_metadata(
        self, topics: tuple[str, ...] | None, allow_auto_create: bool
    ) -> Metadata:
        connection = await self.any_connection()
        fields = fields_of_request(topics, allow_auto_create)
        response = await connection.send("metadata", min_version=MIN_VERSION, **fields)
        if getattr(response, "error_code", ErrorCode.none) is ErrorCode.rebootstrap_required:
            self._rebootstrap()
            raise RebootstrapRequiredError(
                "the broker requires a new start from the bootstrap servers (KIP-1102)"
            )
        if not response.brokers:
            connection.fail(
                BrokerUnreachableError("its metadata has no brokers, as during its start")
            )
            connection.is_useless = True
            raise BrokerUnreachableError(connection.reason)
        return from_response(response)

    def _rebootstrap_if_due(self) -> None:
        """Rebootstrap if no metadata arrived for the trigger time (KIP-1102)."""
        now = self._now()
        if self._without_metadata_since is None:
            self._without_metadata_since = now
        trigger_s = self.config.metadata_recovery_rebootstrap_trigger_ms / 1000
        if self.brokers and now >= self._without_metadata_since + trigger_s:
            self._rebootstrap()

    async def topic_names(self, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """Request the names of topics by their ids, once; unknown ids are left out.

        Raises BrokerUnreachableError, AuthenticationError, UnsupportedVersionError.
        """
        topics = [{"name": None, "topic_id": topic_id} for topic_id in topic_ids]
        connection = await self.any_connection()
        response = await connection.send(
            "metadata", min_version=TOPIC_IDS_SINCE, topics=topics, allow_auto_topic_creation=False
        )
        # For an unknown id brokers send an empty name or none.
        return {topic.topic_id: str(topic.name) for topic in response.topics if topic.name}

    async def leader(self, tp: TopicPartition, *, timeout_ms: int | None = None) -> Leader:
        """The leader of a partition, requested until the leader is known.

        Raises GaveUpError after `timeout_ms` (default: `default_api_timeout_ms`),
        AuthenticationError, and KafkaError if it is not retriable (TOPIC_AUTHORIZATION_FAILED,
        INVALID_TOPIC_EXCEPTION).
        """
        cached = self.cached_leader(tp)
        if cached is not None:
            return cached
        return await retrying(
            lambda: self.request_leader(tp),
            operation=f"leader of {tp}",
            timeout_ms=self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            backoff=self.backoff(),
            advice="check that the topic exists and that its replicas are alive",
        )

    async def request_leader(self, tp: TopicPartition) -> Leader:
        """The leader of a partition, requested at most once.

        Raises KafkaError (retriable or not), BrokerUnreachableError.
        """
        leader = self.cached_leader(tp)
        if leader is None:
            await self._refresh(tp.topic)
            leader = self.cached_leader(tp)
        if leader is None:
            raise self._cache.no_leader(tp)
        return leader

    async def topic(self, name: str) -> TopicMetadata:
        """Metadata of a topic, or its error; requested if it is not cached or too old.

        Raises BrokerUnreachableError.
        """
        cached = self.cached_topic(name)
        if cached is not None:
            return cached
        await self._refresh(name)
        return self._cache.last_metadata(name) or TopicMetadata(
            name=name, error=UNKNOWN_TOPIC_ERROR
        )

    def cached_topic(self, name: str) -> TopicMetadata | None:
        """Cached metadata; None if it is missing, too old, or an error."""
        return self._cache.topic(name, self._now())

    def cached_leader(self, tp: TopicPartition) -> Leader | None:
        """The cached leader of a partition; None if it has to be requested."""
        return self._cache.leader(tp, self._now())

    def stale(self, *topics: str) -> None:
        """Mark the metadata of these topics as wrong: the next use requests it.

        Epochs are kept, so that older metadata does not replace newer leaders.
        """
        for name in topics:
            self._cache.stale(name)

    # Connections

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """The connection to that broker for that purpose.

        One attempt; two if the address of the broker changed, or another node was there.

        Raises BrokerUnreachableError, AuthenticationError.
        """
        self._own_loop = own_loop(self._own_loop, "cluster")
        if node_id not in self.brokers:
            await self.request_metadata(())
        broker = self.brokers.get(node_id)
        if broker is None:
            node_ids = ", ".join(map(str, sorted(self.brokers))) or "none"
            raise BrokerUnreachableError(
                f"broker {node_id} is not in the cluster; its brokers are {node_ids}"
            )
        try:
            return await self._connect(node_id, purpose, broker)
        except BrokerUnreachableError as error:
            await self.request_metadata(())
            current = self.brokers.get(node_id)
            was_wrong_node = isinstance(error, RebootstrapRequiredError)
            if current is None or (current.address == broker.address and not was_wrong_node):
                raise
            return await self._connect(node_id, purpose, current)

    async def _connect(self, node_id: int, purpose: str, broker: BrokerNode) -> Connection:
        try:
            return await self._connections.get((node_id, purpose), broker.address)
        except RebootstrapRequiredError:
            self._rebootstrap()
            raise

    @property
    def purposes(self) -> frozenset[str]:
        """Purposes with a connection, open or being opened."""
        return self._connections.purposes

    async def release(self, purpose: str) -> None:
        """Close the connections for that purpose."""
        await self._connections.release(purpose)

    async def any_connection(self) -> Connection:
        """A connection to any broker: an open one, else the first that opens.

        Raises BrokerUnreachableError, AuthenticationError.
        """
        self._own_loop = own_loop(self._own_loop, "cluster")
        if (idlest := self._connections.idlest("")) is not None:
            return idlest
        try:
            return await self._connections.first_of(self._candidates())
        except RebootstrapRequiredError:
            self._rebootstrap()
            raise

    def _candidates(self) -> list[tuple[Key, Address]]:
        brokers = random.sample(list(self.brokers.values()), len(self.brokers))
        candidates: list[tuple[Key, Address]] = [
            ((broker.node_id, ""), broker.address) for broker in brokers
        ]
        addresses = {address for _, address in candidates}
        if candidates and not self.config.rebootstraps:
            return candidates
        return candidates + [
            ((server, ""), server) for server in self.config.servers if server not in addresses
        ]

    # Coordinators

    async def coordinator(self, group: str, purpose: str = "") -> Connection:
        """The connection, for that purpose, to the coordinator of the group.

        Raises GaveUpError after `default_api_timeout_ms`, AuthenticationError, and KafkaError if it
        is not retriable (GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID).
        """
        return await retrying(
            lambda: self._connect_coordinator(group, purpose),
            operation=f"coordinator of group {group!r}",
            timeout_ms=self.config.default_api_timeout_ms,
            backoff=self.backoff(),
            advice="check that the brokers are up and that __consumer_offsets has leaders",
        )

    async def coordinators(
        self, keys: Iterable[str], key_type: int = GROUP
    ) -> dict[str, int | KafkaError]:
        """Request the coordinators of groups (`key_type` 1: of transactional ids), or their errors.

        Node ids by key. One request is sent if the broker supports it (KIP-699). Raises
        BrokerUnreachableError.
        """
        outcomes = await find_coordinators(await self.any_connection(), tuple(keys), key_type)
        for key, outcome in outcomes.items():
            if isinstance(outcome, BrokerNode):
                self._cache.learn_broker(outcome)
                self._coordinators[key_type, key] = outcome.node_id
        return {
            key: outcome.node_id if isinstance(outcome, BrokerNode) else outcome
            for key, outcome in outcomes.items()
        }

    async def coordinator_node(self, key: str, key_type: int = GROUP) -> int:
        """The node id of a coordinator, requested once if it is not cached. Raises KafkaError."""
        cached = self._coordinators.get((key_type, key))
        if cached is not None:
            return cached
        outcome = (await self.coordinators((key,), key_type))[key]
        if isinstance(outcome, KafkaError):
            raise fresh(outcome)
        return outcome

    def coordinator_moved(self, group: str, key_type: int = GROUP) -> None:
        """Drop the cached coordinator: the next use requests it."""
        self._coordinators.pop((key_type, group), None)

    async def _connect_coordinator(self, group: str, purpose: str) -> Connection:
        node_id = await self.coordinator_node(group)
        try:
            return await self.connection(node_id, purpose)
        except BrokerUnreachableError:
            self.coordinator_moved(group)
            raise

    # Requests

    def _rebootstrap(self) -> None:
        """Forget brokers, leaders and coordinators, and close all connections.

        No-op if `metadata_recovery_strategy` is "none".
        """
        if not self.config.rebootstraps:
            return
        self._connections.restart()
        self._without_metadata_since = None
        self._coordinators.clear()
        self._cache.forget_brokers()

    async def _refresh(self, topic: str) -> None:
        """Request a topic's metadata, in one request with all topics of this turn of the loop."""
        if self._refreshing is None:
            self._refreshing = _Refresh(self)
        self._refreshing.topics.add(topic)
        task = self._refreshing.task
        await asyncio.wait((task,))  # other callers may wait for the same request
        if task.cancelled():
            raise ClientClosedError
        if (error := task.exception()) is not None:
            raise fresh(error)

    async def _send_refresh(self, topics: set[str]) -> None:
        await asyncio.sleep(0)
        self._refreshing = None
        await self.request_metadata(tuple(sorted(topics)))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _Refresh:
    """A Metadata request for several callers; sent at the end of the turn of the loop."""

    def __init__(self, cluster: Cluster) -> None:
        self.topics: set[str] = set()
        # The task must not refer to this object: its error would, and the object to the task.
        self.task = asyncio.get_running_loop().create_task(cluster._send_refresh(self.topics))
        self.task.add_done_callback(_read_error)


def _read_error(task: "asyncio.Task[Any]") -> None:
    """Mark the error as read: no caller may be waiting."""
    if not task.cancelled():
        task.exception()


async def request_topics(
    connection: Connection, topics: tuple[str, ...]
) -> Mapping[str, TopicMetadata]:
    """The topics in the metadata of this broker. Raises BrokerUnreachableError."""
    fields = fields_of_request(topics, allow_auto_create=False)
    response = await connection.send("metadata", min_version=MIN_VERSION, **fields)
    return from_response(response).topics
