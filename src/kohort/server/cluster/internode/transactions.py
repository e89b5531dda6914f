"""Transactions with a coordinator or partitions on other nodes."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from kohort.cluster import NO_LEADER
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.apis import BY_NAME
from kohort.runtime.markers import Marker, MarkerWriter
from kohort.runtime.transactions import TransactionVerifier
from kohort.server.cluster.internode.connection import TIMEOUT_S, Connect, NodeConnection
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.cluster.nodes import Nodes
from kohort.server.logging import fields
from kohort.server.metadata import TRANSACTIONS_TOPIC
from kohort.server.replicas import Topics
from kohort.transactions.records import Partitions
from kohort.transactions.requests import TransactionalProducer, VerifyPartitionsResponse
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.transactions")

_ADD_PARTITIONS: Final = BY_NAME["add_partitions_to_txn"].key
_ADD_PARTITIONS_VERSION: Final = 5
_WRITE_MARKERS: Final = BY_NAME["write_txn_markers"].key
_WRITE_MARKERS_VERSION: Final = 2
_NOT_ABORTABLE: Final = frozenset({ErrorCode.none, ErrorCode.transaction_abortable})


class NodeConnections:
    """One connection per node, opened on demand."""

    def __init__(self, connect: Callable[[int], Connect], timeout_s: float = TIMEOUT_S) -> None:
        """`connect` returns the function that connects to a node; `timeout_s` is per response."""
        self._connect = connect
        self._timeout_s = timeout_s
        self._open: dict[int, NodeConnection] = {}
        self._refused_by: set[int] = set()

    def to(self, node_id: int) -> NodeConnection:
        """The connection to a node."""
        connection = self._open.get(node_id)
        if connection is None:
            connection = NodeConnection(self._connect(node_id), self._timeout_s)
            self._open[node_id] = connection
        return connection

    def note(self, node_id: int, error: ErrorCode) -> None:
        """Note the error of a response. A refusal is logged once per node."""
        if error != ErrorCode.cluster_authorization_failed:
            self._refused_by.discard(node_id)
        elif node_id not in self._refused_by:
            self._refused_by.add(node_id)
            logger.error(
                "another node denied a request: the principal of this node needs "
                "CLUSTER_ACTION on the cluster",
                extra=fields(other=node_id),
            )

    def close(self) -> None:
        """Close all. Idempotent."""
        for connection in self._open.values():
            connection.close()


class RoutedVerifier(TransactionVerifier):
    """Verifies with the coordinator, on any node, that a partition is in a transaction."""

    def __init__(
        self, node_id: int, nodes: Nodes, local: TransactionVerifier, connections: NodeConnections
    ) -> None:
        """`local` is the coordinator of this node, `node_id`."""
        self._node_id = node_id
        self._nodes = nodes
        self._local = local
        self._connections = connections

    async def add_partitions(
        self, producer: TransactionalProducer, partitions: Partitions, client_version: int
    ) -> ErrorCode:
        node = self._coordinator(producer.transactional_id)
        if node == self._node_id:
            return await self._local.add_partitions(producer, partitions, client_version)
        errors = await self._ask(node, producer, partitions, verify_only=False)
        return next((error for error in errors.values() if error), ErrorCode.none)

    async def verify_partitions(
        self, producer: TransactionalProducer, partitions: Partitions
    ) -> VerifyPartitionsResponse:
        node = self._coordinator(producer.transactional_id)
        if node == self._node_id:
            return await self._local.verify_partitions(producer, partitions)
        errors = await self._ask(node, producer, partitions, verify_only=True)
        failed = next((error for error in errors.values() if error not in _NOT_ABORTABLE), None)
        if failed is not None:
            return VerifyPartitionsResponse(failed, {})
        missing: dict[str, set[int]] = {}
        for (topic, partition), error in errors.items():
            if error:
                missing.setdefault(topic, set()).add(partition)
        frozen = {topic: frozenset(numbers) for topic, numbers in missing.items()}
        return VerifyPartitionsResponse(ErrorCode.none, frozen)

    async def markers_written(self, transactional_id: str, timeout_s: float) -> None:
        if self._coordinator(transactional_id) == self._node_id:
            await self._local.markers_written(transactional_id, timeout_s)
        else:
            await asyncio.sleep(timeout_s)

    def _coordinator(self, transactional_id: str) -> int:
        return self._nodes.coordinator(TRANSACTIONS_TOPIC, transactional_id)

    async def _ask(
        self,
        node: int,
        producer: TransactionalProducer,
        partitions: Partitions,
        *,
        verify_only: bool,
    ) -> dict[tuple[str, int], ErrorCode]:
        """(topic, partition) → its error."""
        if node == NO_LEADER:
            return _all(partitions, ErrorCode.coordinator_not_available)
        try:
            response = await self._connections.to(node).ask(
                _ADD_PARTITIONS,
                _ADD_PARTITIONS_VERSION,
                transactions=[
                    {
                        **producer._asdict(),
                        "verify_only": verify_only,
                        "topics": [
                            {"name": topic, "partitions": sorted(numbers)}
                            for topic, numbers in partitions.items()
                        ],
                    }
                ],
            )
        except NodeUnreachableError:
            return _all(partitions, ErrorCode.coordinator_not_available)
        self._connections.note(node, response.error_code)
        if response.error_code == ErrorCode.cluster_authorization_failed:
            # As in Kafka, clients do not learn of it.
            return _all(partitions, ErrorCode.invalid_txn_state)
        if response.error_code:
            return _all(partitions, response.error_code)
        return {
            (topic.name, partition_result.partition_index): partition_result.partition_error_code
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for partition_result in topic.results_by_partition
        }


def _all(partitions: Partitions, error: ErrorCode) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic, partition): error for topic, numbers in partitions.items() for partition in numbers
    }


class RoutedMarkers:
    """Writes markers to partitions of all nodes.

    Markers of one transaction that are written in one turn are one request per node.
    """

    def __init__(
        self,
        node_id: int,
        nodes: Nodes,
        topics: Topics,
        local: MarkerWriter,
        connections: NodeConnections,
    ) -> None:
        """`local` writes to partitions that this node, `node_id`, leads."""
        self._node_id = node_id
        self._nodes = nodes
        self._topics = topics
        self._local = local
        self._connections = connections
        self._waiting: dict[
            tuple[int, Marker], dict[TopicPartition, asyncio.Future[ErrorCode]]
        ] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def write(self, partition: TopicPartition, marker: Marker) -> None:
        """Append the marker; return when it is as durable as configured.

        Raises KafkaError as Kafka responds to WriteTxnMarkers, OSError.
        """
        topic = self._topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        node = self._nodes.leader(topic, partition.partition).node
        if node == self._node_id:
            await self._local.write(partition, marker)
            return
        error = ErrorCode.leader_not_available
        if node != NO_LEADER:
            error = await self._send_batched(node, partition, marker)
        if error:
            raise KafkaError(error)

    async def _send_batched(
        self, node: int, partition: TopicPartition, marker: Marker
    ) -> ErrorCode:
        waiting = self._waiting.setdefault((node, marker), {})
        if not waiting:
            task = asyncio.create_task(self._send(node, marker))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        outcome = waiting.get(partition)
        if outcome is None:
            outcome = waiting[partition] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(outcome)

    async def _send(self, node: int, marker: Marker) -> None:
        waiting = self._waiting.pop((node, marker))
        errors: dict[TopicPartition, ErrorCode] = {}
        try:
            errors = await self._ask(node, marker, waiting)
        except NodeUnreachableError:
            pass
        finally:
            for partition, outcome in waiting.items():
                error = errors.get(partition, ErrorCode.leader_not_available)
                outcome.set_result(error)

    async def _ask(
        self, node: int, marker: Marker, partitions: Any
    ) -> dict[TopicPartition, ErrorCode]:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        response = await self._connections.to(node).ask(
            _WRITE_MARKERS,
            _WRITE_MARKERS_VERSION,
            markers=[
                {
                    "producer_id": marker.producer_id,
                    "producer_epoch": marker.producer_epoch,
                    "transaction_result": marker.commit,
                    "topics": [
                        {"name": topic, "partition_indexes": sorted(indexes)}
                        for topic, indexes in by_topic.items()
                    ],
                    "coordinator_epoch": marker.coordinator_epoch,
                    "transaction_version": marker.transaction_version,
                }
            ],
        )
        errors = {
            TopicPartition(
                topic.name, partition_result.partition_index
            ): partition_result.error_code
            for result in response.markers
            for topic in result.topics
            for partition_result in topic.partitions
        }
        for error in set(errors.values()):
            self._connections.note(node, error)
        return errors
