"""A cluster as a client sees it: its brokers, partition leaders and group coordinators.

    async with Cluster(bootstrap="localhost:9092") as cluster:
        metadata = await cluster.metadata(["orders"])
        leader = await cluster.leader(TopicPartition("orders", 0))
        connection = await cluster.connection(leader.node_id)

Leaders are remembered for `metadata_max_age_ms`, or until a caller reports them as `stale`, and
coordinators until they `moved`. Requests to the cluster are retried for at most
`default_api_timeout_ms`, at all known brokers and then at the bootstrap servers again (KIP-899).
After that GaveUpError lists the attempts.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self, Unpack
from uuid import UUID

from kohort.client.backoff import Backoff, retrying
from kohort.client.cluster.find_coordinator import GROUP, find_coordinators
from kohort.client.cluster.known_cluster import UNKNOWN, KnownCluster
from kohort.client.cluster.metadata import (
    BY_ID_SINCE,
    MIN_VERSION,
    BrokerNode,
    Leader,
    Metadata,
    PartitionMetadata,
    TopicMetadata,
    fields_of_request,
    from_response,
)
from kohort.client.concurrency import own_loop
from kohort.client.config import Address, ClientConfig, ClientOptions
from kohort.client.errors import BrokerUnreachableError, ClientClosedError
from kohort.client.metrics import ClusterMetrics
from kohort.client.net import Connection, Connections, Key, named
from kohort.client.properties import checks_arguments
from kohort.errors import ConfigError, ErrorCode, KafkaError, fresh
from kohort.types import TopicPartition

__all__ = ["BrokerNode", "Cluster", "Leader", "Metadata", "PartitionMetadata", "TopicMetadata"]

_ADVICE: Final = (
    "check the bootstrap servers, and that the brokers' advertised listeners can be reached "
    "from here"
)


def open_cluster(
    given: "ClientConfig | Cluster | None", options: Mapping[str, Any] = MappingProxyType({})
) -> "Cluster":
    """A new cluster by that config or by these options of one, or the cluster given.

    Raises ConfigError for anything else.
    """
    if not isinstance(given, Cluster):
        return Cluster(_config(given, options))
    if options:
        raise ConfigError(f"{', '.join(options)}: an open Cluster has its options already")
    return given


def _config(given: ClientConfig | None, options: Mapping[str, Any]) -> ClientConfig:
    if given is None:
        return ClientConfig(**options)
    if not isinstance(given, ClientConfig):
        raise ConfigError(
            f"a ClientConfig or a Cluster is needed, not {given!r}; options have names, such as "
            "bootstrap='localhost:9092'"
        )
    if options:
        raise ConfigError(f"{', '.join(options)}: give it to the ClientConfig, or no ClientConfig")
    return given


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
        """By a ClientConfig, or by its options: `Cluster(bootstrap="localhost:9092")`.

        `connections` opens and keeps the connections (default: as `config` says). Raises
        ConfigError, also for TLS files that cannot be used.
        """
        self.config = config = _config(config, options)
        config.security.context()  # told now, not by the first connection
        self._connections = Connections(config) if connections is None else connections
        self._known = KnownCluster(config.metadata_max_age_ms / 1000)
        self._coordinators: dict[tuple[int, str], int] = {}
        self._refreshing: _Refresh | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._own_loop = own_loop(self._own_loop, "cluster")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Cluster of {len(self.brokers)} brokers, {len(self._known)} topics known>"

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        if self._connections.is_closed:
            return
        self._own_loop = own_loop(self._own_loop, "cluster")
        if self._refreshing is not None:
            self._refreshing.task.cancel()
        await self._connections.close()

    def backoff(self, initial_ms: int | None = None, max_ms: int | None = None) -> Backoff:
        """A new Backoff, by default as configured; its retries are counted as of this client."""
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
        return self._known.brokers

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_create: bool = False
    ) -> Metadata:
        """Request the metadata of these topics, or of all; errors of single topics are inside.

        Raises GaveUpError, AuthenticationError.
        """
        asked = None if topics is None else tuple(dict.fromkeys(topics))
        return await retrying(
            lambda: self.ask_metadata(asked, allow_auto_create=allow_auto_create),
            what=f"metadata from {', '.join(map(named, self.config.servers))}",
            timeout_ms=self.config.default_api_timeout_ms,
            backoff=self.backoff(),
            advice=_ADVICE,
        )

    async def ask_metadata(
        self, topics: tuple[str, ...] | None, *, allow_auto_create: bool = False
    ) -> Metadata:
        """`metadata` by one request, for callers that try again themselves.

        Raises BrokerUnreachableError, AuthenticationError.
        """
        connection = await self.any_connection()
        fields = fields_of_request(topics, allow_auto_create)
        response = await connection.send("metadata", min_version=MIN_VERSION, **fields)
        if getattr(response, "error_code", ErrorCode.none) is ErrorCode.rebootstrap_required:
            self._forget_brokers()
            raise BrokerUnreachableError(
                "the broker asks for a new start from the bootstrap servers (KIP-1102)"
            )
        if not response.brokers:
            connection.fail(
                BrokerUnreachableError("it knows no brokers, as one that is just starting")
            )
            connection.is_useless = True
            raise BrokerUnreachableError(connection.reason)
        told = from_response(response)
        self._known.learn(told, self._now())
        return told

    async def topic_names(self, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
        """Request the names of topics by their ids, once; ids that no topic has are left out.

        Raises BrokerUnreachableError, AuthenticationError, UnsupportedVersionError.
        """
        asked = [{"name": None, "topic_id": each} for each in topic_ids]
        connection = await self.any_connection()
        response = await connection.send(
            "metadata", min_version=BY_ID_SINCE, topics=asked, allow_auto_topic_creation=False
        )
        # Brokers that do not know an id send an empty name or none.
        return {each.topic_id: str(each.name) for each in response.topics if each.name}

    async def leader(self, tp: TopicPartition, *, timeout_ms: int | None = None) -> Leader:
        """The leader of a partition, requested while the leader or the topic is unknown.

        Raises GaveUpError after `timeout_ms` (default: `default_api_timeout_ms`),
        AuthenticationError, and KafkaError if it is not retriable (TOPIC_AUTHORIZATION_FAILED,
        INVALID_TOPIC_EXCEPTION).
        """
        known = self.known_leader(tp)
        if known is not None:
            return known
        return await retrying(
            lambda: self.ask_leader(tp),
            what=f"leader of {tp}",
            timeout_ms=self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            backoff=self.backoff(),
            advice="check that the topic exists and that its replicas are alive",
        )

    async def ask_leader(self, tp: TopicPartition) -> Leader:
        """The leader of a partition, requested at most once.

        Raises KafkaError (retriable or not), BrokerUnreachableError.
        """
        known = self.known_leader(tp)
        if known is None:
            await self._refresh(tp.topic)
            known = self.known_leader(tp)
        if known is None:
            raise self._known.no_leader(tp)
        return known

    async def topic(self, name: str) -> TopicMetadata:
        """Metadata of a topic, errors inside; requested if it is unknown or too old.

        Raises BrokerUnreachableError.
        """
        known = self.known_topic(name)
        if known is not None:
            return known
        await self._refresh(name)
        return self._known.told(name) or TopicMetadata(name=name, error=UNKNOWN)

    def known_topic(self, name: str) -> TopicMetadata | None:
        """Metadata that is known and not too old; None if there is none, or an error."""
        return self._known.topic(name, self._now())

    def known_leader(self, tp: TopicPartition) -> Leader | None:
        """The leader of a partition as known without a request."""
        return self._known.leader(tp, self._now())

    def stale(self, *topics: str) -> None:
        """Request the metadata of these topics when next needed: it proved wrong.

        Epochs are remembered, so that older metadata is not believed.
        """
        for name in topics:
            self._known.stale(name)

    # Connections

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """The connection to that broker for that purpose: one attempt, two if its address changed.

        Raises BrokerUnreachableError, AuthenticationError.
        """
        self._own_loop = own_loop(self._own_loop, "cluster")
        if node_id not in self.brokers:
            await self.ask_metadata(())
        broker = self.brokers.get(node_id)
        if broker is None:
            known = ", ".join(map(str, sorted(self.brokers))) or "none"
            raise BrokerUnreachableError(
                f"broker {node_id} is not in the cluster; its brokers are {known}"
            )
        try:
            return await self._connections.get((node_id, purpose), broker.address)
        except BrokerUnreachableError:
            await self.ask_metadata(())
            moved = self.brokers.get(node_id)
            if moved is None or moved.address == broker.address:
                raise
            return await self._connections.get((node_id, purpose), moved.address)

    @property
    def purposes(self) -> frozenset[str]:
        """Purposes that have a connection, open or being opened."""
        return self._connections.purposes

    async def release(self, purpose: str) -> None:
        """Close the connections for that purpose."""
        await self._connections.release(purpose)

    async def any_connection(self) -> Connection:
        """A connection to any broker: an open one, else the first that opens.

        Raises BrokerUnreachableError, AuthenticationError.
        """
        self._own_loop = own_loop(self._own_loop, "cluster")
        return self._connections.idlest("") or await self._connections.first_of(self._candidates())

    def _candidates(self) -> list[tuple[Key, Address]]:
        brokers = random.sample(list(self.brokers.values()), len(self.brokers))
        found: list[tuple[Key, Address]] = [((each.node_id, ""), each.address) for each in brokers]
        addresses = {address for _, address in found}
        return found + [((each, ""), each) for each in self.config.servers if each not in addresses]

    # Coordinators

    async def coordinator(self, group: str, purpose: str = "") -> Connection:
        """The connection, for that purpose, to the coordinator of the group.

        Raises GaveUpError after `default_api_timeout_ms`, AuthenticationError, and KafkaError if it
        is not retriable (GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID).
        """
        return await retrying(
            lambda: self._connect_coordinator(group, purpose),
            what=f"coordinator of group {group!r}",
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
        found = await find_coordinators(await self.any_connection(), tuple(keys), key_type)
        for key, outcome in found.items():
            if isinstance(outcome, BrokerNode):
                self._known.learn_broker(outcome)
                self._coordinators[key_type, key] = outcome.node_id
        return {
            key: each.node_id if isinstance(each, BrokerNode) else each
            for key, each in found.items()
        }

    async def coordinator_node(self, key: str, key_type: int = GROUP) -> int:
        """The node id of a coordinator, requested once if it is unknown. Raises KafkaError."""
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        found = (await self.coordinators((key,), key_type))[key]
        if isinstance(found, KafkaError):
            raise fresh(found)
        return found

    def coordinator_moved(self, group: str, key_type: int = GROUP) -> None:
        """Forget the group's coordinator: request it when next needed."""
        self._coordinators.pop((key_type, group), None)

    async def _connect_coordinator(self, group: str, purpose: str) -> Connection:
        node_id = await self.coordinator_node(group)
        try:
            return await self.connection(node_id, purpose)
        except BrokerUnreachableError:
            self.coordinator_moved(group)
            raise

    # Asking

    def _forget_brokers(self) -> None:
        self._connections.drop_all(
            BrokerUnreachableError("the client starts again from the bootstrap servers")
        )
        self._known.forget_brokers()

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

    async def _ask_for(self, topics: set[str]) -> None:
        await asyncio.sleep(0)
        self._refreshing = None
        await self.ask_metadata(tuple(sorted(topics)))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class _Refresh:
    """A Metadata request for several callers; sent at the end of the turn of the loop."""

    def __init__(self, cluster: Cluster) -> None:
        self.topics: set[str] = set()
        # The task must not refer to this object: its error would, and the object to the task.
        self.task = asyncio.get_running_loop().create_task(cluster._ask_for(self.topics))
        self.task.add_done_callback(_read_error)


def _read_error(task: "asyncio.Task[Any]") -> None:
    """Mark the error as read: no caller may be waiting."""
    if not task.cancelled():
        task.exception()


async def ask_topics(
    connection: Connection, topics: tuple[str, ...]
) -> Mapping[str, TopicMetadata]:
    """The topics as this one broker knows them. Raises BrokerUnreachableError."""
    fields = fields_of_request(topics, allow_auto_create=False)
    response = await connection.send("metadata", min_version=MIN_VERSION, **fields)
    return from_response(response).topics
