"""Lists, describes, fences and aborts transactions (KIP-360, KIP-664)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from kohort.client.admin.broker_requests import from_all_brokers
from kohort.client.admin.changes import may_be_made
from kohort.client.admin.coordinator_requests import Coordinator, refusal, send_to_coordinators
from kohort.client.admin.transaction_values import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
)
from kohort.client.cluster import (
    TRANSACTION,
    Cluster,
    Leader,
    by_partition,
    partition_error,
    send_to_leaders,
)
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError, fresh
from kohort.types import GroupId, TopicPartition

_FENCING_TIMEOUT_MS: Final = 1
"""Transaction timeout of a fencing request, as in Java's FenceProducersHandler."""
_FILTERS_DURATION_SINCE: Final = 1
_FILTERS_PATTERN_SINCE: Final = 2
_ABORT_MARKERS_SINCE: Final = 1
_DESCRIBE_CHUNK: Final = 1_000
_MS: Final = timedelta(milliseconds=1)


async def list_transactions(
    cluster: Cluster,
    states: Collection[str],
    producer_ids: Collection[int],
    duration_ms: int,
    pattern: str,
    *,
    timeout_ms: int,
) -> TransactionListings:
    """The transactional ids that match all filters. Raises KohortError if no broker responds."""
    filters = {
        "state_filters": tuple(states),
        "producer_id_filters": tuple(producer_ids),
        **({} if duration_ms < 0 else {"duration_filter": duration_ms}),
        **({} if not pattern else {"transactional_id_pattern": pattern}),
    }
    min_version = (
        _FILTERS_PATTERN_SINCE if pattern else _FILTERS_DURATION_SINCE if duration_ms >= 0 else 0
    )
    transactions, failures = await from_all_brokers(
        cluster, lambda node: _listed(cluster, node, filters, min_version, timeout_ms)
    )
    return TransactionListings(
        transactions=tuple(
            sorted(transactions, key=lambda transaction: transaction.transactional_id)
        ),
        failures=failures,
    )


async def _listed(
    cluster: Cluster, node: int, filters: Mapping[str, Any], min_version: int, timeout_ms: int
) -> list[TransactionListing] | KohortError:
    try:
        connection = await cluster.connection(node)
        response = await connection.send(
            "list_transactions", min_version=min_version, timeout_ms=timeout_ms, **filters
        )
    except KohortError as error:
        return error.with_traceback(None)
    if unknown_states := response.unknown_state_filters:
        return ConfigError(f"no transaction is ever in state {', '.join(unknown_states)}")
    return refusal(response.error_code) or [
        TransactionListing(
            transactional_id=state.transactional_id,
            producer_id=state.producer_id,
            state=state.transaction_state,
            coordinator=node,
        )
        for state in response.transaction_states
    ]


async def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str], *, timeout_ms: int
) -> dict[str, TransactionDescription | KohortError]:
    """Each transactional id from its coordinator, or TRANSACTIONAL_ID_NOT_FOUND."""

    async def send(
        coordinator: Coordinator, ids: list[GroupId]
    ) -> dict[GroupId, TransactionDescription | KohortError]:
        outcomes: dict[GroupId, TransactionDescription | KohortError] = {}
        for start in range(0, len(ids), _DESCRIBE_CHUNK):
            requested = tuple(ids[start : start + _DESCRIBE_CHUNK])
            response = await coordinator.connection.send(
                "describe_transactions", transactional_ids=requested
            )
            for state in response.transaction_states:
                outcomes[GroupId(state.transactional_id)] = refusal(
                    state.error_code, state.transactional_id
                ) or _description(coordinator.node_id, state)
        return outcomes

    keys = map(GroupId, transactional_ids)
    outcomes = await send_to_coordinators(
        cluster, keys, send, timeout_ms=timeout_ms, key_type=TRANSACTION
    )
    return {str(key): outcome for key, outcome in outcomes.items()}


def _description(node_id: int, state: Any) -> TransactionDescription:
    start_ms = round(state.transaction_start_time.timestamp() * 1000)
    return TransactionDescription(
        coordinator=node_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout // _MS,
        start_ms=start_ms or None,
        partitions=tuple(
            TopicPartition(topic.topic, partition)
            for topic in state.topics
            for partition in topic.partitions
        ),
    )


async def fence_producers(
    cluster: Cluster, transactional_ids: Iterable[str], *, timeout_ms: int
) -> dict[str, KohortError | None]:
    """Fence the producers of these ids, and abort their transactions; None for each fenced id."""

    async def send(
        coordinator: Coordinator, ids: list[GroupId]
    ) -> dict[GroupId, KohortError | None]:
        return {
            transactional_id: await _fence(coordinator, transactional_id)
            for transactional_id in ids
        }

    keys = map(GroupId, transactional_ids)
    outcomes = await send_to_coordinators(
        cluster,
        keys,
        send,
        timeout_ms=timeout_ms,
        key_type=TRANSACTION,
        remedy="describe the transactions",
    )
    return {str(key): outcome for key, outcome in outcomes.items()}


async def _fence(coordinator: Coordinator, transactional_id: str) -> KohortError | None:
    response = await coordinator.connection.send(
        "init_producer_id",
        max_version=5,
        transactional_id=transactional_id,
        transaction_timeout_ms=_FENCING_TIMEOUT_MS,
    )
    return refusal(response.error_code, transactional_id)


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, timeout_ms: int
) -> dict[TopicPartition, tuple[ProducerState, ...] | KohortError]:
    """The producers in the state of each partition's leader."""

    async def send(
        node_id: int, _kind: None, leaders: Mapping[TopicPartition, Leader]
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | KohortError]:
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for tp in leaders:
            topics[tp.topic].append(tp.partition)
        connection = await cluster.connection(node_id)
        response = await connection.send(
            "describe_producers",
            topics=[
                {"name": name, "partition_indexes": partitions}
                for name, partitions in topics.items()
            ],
        )
        results = by_partition(response.topics)
        return {
            tp: partition_error(cluster, tp, results.get(tp))
            or tuple(map(_producer, results[tp].active_producers))
            for tp in leaders
        }

    return await send_to_leaders(
        cluster,
        dict.fromkeys(partitions),
        send,
        operation="describe producers",
        timeout_ms=timeout_ms,
    )


def _producer(producer: Any) -> ProducerState:
    start = producer.current_txn_start_offset
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        transaction_start_offset=start if start >= 0 else None,
    )


async def abort_transaction(
    cluster: Cluster,
    tp: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    timeout_ms: int,
) -> None:
    """Write an abort marker into one partition. Raises KohortError."""
    marker = {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "transaction_result": False,
        "topics": [{"name": tp.topic, "partition_indexes": [tp.partition]}],
        # A producer without a marker so far has -1, which is no valid coordinator epoch.
        "coordinator_epoch": max(0, coordinator_epoch),
    }

    async def send(
        node_id: int, _kind: None, _leaders: Mapping[TopicPartition, Leader]
    ) -> dict[TopicPartition, KohortError | None]:
        connection = await cluster.connection(node_id)
        response = await connection.send(
            "write_txn_markers", min_version=_ABORT_MARKERS_SINCE, markers=[marker]
        )
        (partition,) = response.markers[0].topics[0].partitions
        return {tp: partition_error(cluster, tp, partition)}

    outcomes = await send_to_leaders(
        cluster,
        {tp: None},
        send,
        operation=f"abort marker in {tp}",
        timeout_ms=timeout_ms,
        advice=may_be_made("describe the producers"),
    )
    if (error := outcomes[tp]) is not None:
        raise fresh(error)


async def find_hanging(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    now_ms: int,
    max_timeout_ms: int,
    *,
    timeout_ms: int,
) -> tuple[HangingTransaction, ...]:
    """The open transactions, idle for longer than any timeout, that no coordinator has open.

    Raises KohortError if a leader or coordinator gives no response.
    """
    described = await describe_producers(cluster, partitions, timeout_ms=timeout_ms)
    candidates = []
    for tp, producers in described.items():
        if isinstance(producers, KohortError):
            raise fresh(producers)
        candidates += [
            HangingTransaction(partition=tp, producer=producer)
            for producer in producers
            if producer.transaction_start_offset is not None
            and now_ms - producer.last_timestamp >= max_timeout_ms
        ]
    if not candidates:
        return ()
    covered = await _covered(
        cluster, {transaction.producer.producer_id for transaction in candidates}, timeout_ms
    )
    return tuple(
        transaction
        for transaction in candidates
        if (transaction.producer.producer_id, transaction.partition) not in covered
    )


async def _covered(
    cluster: Cluster, producer_ids: set[int], timeout_ms: int
) -> set[tuple[int, TopicPartition]]:
    """Producer ids and the partitions to which their coordinators will write markers."""
    listed = await list_transactions(cluster, (), producer_ids, -1, "", timeout_ms=timeout_ms)
    for failure in listed.failures.values():
        raise fresh(failure)
    ids = [transaction.transactional_id for transaction in listed.transactions]
    described = await describe_transactions(cluster, ids, timeout_ms=timeout_ms)
    covered = set()
    for description in described.values():
        if (
            isinstance(description, KafkaError)
            and description.code is ErrorCode.transactional_id_not_found
        ):
            continue
        if isinstance(description, KohortError):
            raise fresh(description)
        covered |= {(description.producer_id, tp) for tp in description.partitions}
    return covered
