"""Lists, describes, fences and aborts transactions (KIP-360, KIP-664)."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from kohort.client.admin.changes import may_be_made
from kohort.client.admin.coordinator_requests import Coordinator, refusal, send_to_coordinators
from kohort.client.admin.transaction_values import (
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
)
from kohort.client.cluster import TRANSACTION, Cluster, Leader, partition_error, send_to_leaders
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError, fresh
from kohort.types import GroupId, TopicPartition

_FENCING_TIMEOUT_MS: Final = 1
"""Transaction timeout of a producer that only fences others, as of Java's FenceProducersHandler."""
_FILTERS_DURATION_SINCE: Final = 1
_FILTERS_PATTERN_SINCE: Final = 2
_ABORT_MARKERS_SINCE: Final = 1
_DESCRIBED_AT_ONCE: Final = 1_000
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
    """The transactional ids that pass all filters. Raises KohortError if no broker responds."""
    brokers = sorted((await cluster.metadata(())).brokers)
    filters = {
        "state_filters": tuple(states),
        "producer_id_filters": tuple(producer_ids),
        **({} if duration_ms < 0 else {"duration_filter": duration_ms}),
        **({} if not pattern else {"transactional_id_pattern": pattern}),
    }
    least = (
        _FILTERS_PATTERN_SINCE if pattern else _FILTERS_DURATION_SINCE if duration_ms >= 0 else 0
    )
    said = await asyncio.gather(
        *(_listed(cluster, node, filters, least, timeout_ms) for node in brokers)
    )
    failures = {
        node: each
        for node, each in zip(brokers, said, strict=True)
        if isinstance(each, KohortError)
    }
    if failures and len(failures) == len(brokers):
        raise fresh(next(iter(failures.values())))
    found = (each for of_node in said if not isinstance(of_node, KohortError) for each in of_node)
    return TransactionListings(
        transactions=tuple(sorted(found, key=lambda each: each.transactional_id)),
        failures=failures,
    )


async def _listed(
    cluster: Cluster, node: int, filters: Mapping[str, Any], least: int, timeout_ms: int
) -> list[TransactionListing] | KohortError:
    try:
        connection = await cluster.connection(node)
        response = await connection.send(
            "list_transactions", min_version=least, timeout_ms=timeout_ms, **filters
        )
    except KohortError as error:
        return error.with_traceback(None)
    if unknown := response.unknown_state_filters:
        return ConfigError(f"no transaction is ever in state {', '.join(unknown)}")
    return refusal(response.error_code) or [
        TransactionListing(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            state=each.transaction_state,
            coordinator=node,
        )
        for each in response.transaction_states
    ]


async def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str], *, timeout_ms: int
) -> dict[str, TransactionDescription | KohortError]:
    """Each transactional id as its coordinator knows it; TRANSACTIONAL_ID_NOT_FOUND if not."""

    async def ask(
        coordinator: Coordinator, ids: list[GroupId]
    ) -> dict[GroupId, TransactionDescription | KohortError]:
        found: dict[GroupId, TransactionDescription | KohortError] = {}
        for start in range(0, len(ids), _DESCRIBED_AT_ONCE):
            asked = tuple(ids[start : start + _DESCRIBED_AT_ONCE])
            response = await coordinator.connection.send(
                "describe_transactions", transactional_ids=asked
            )
            for each in response.transaction_states:
                found[GroupId(each.transactional_id)] = refusal(
                    each.error_code, each.transactional_id
                ) or _description(coordinator.node_id, each)
        return found

    keys = map(GroupId, transactional_ids)
    found = await send_to_coordinators(
        cluster, keys, ask, timeout_ms=timeout_ms, key_type=TRANSACTION
    )
    return {str(key): outcome for key, outcome in found.items()}


def _description(node_id: int, told: Any) -> TransactionDescription:
    start_ms = round(told.transaction_start_time.timestamp() * 1000)
    return TransactionDescription(
        coordinator=node_id,
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        state=told.transaction_state,
        timeout_ms=told.transaction_timeout // _MS,
        start_ms=start_ms or None,
        partitions=tuple(
            TopicPartition(topic.topic, each) for topic in told.topics for each in topic.partitions
        ),
    )


async def fence_producers(
    cluster: Cluster, transactional_ids: Iterable[str], *, timeout_ms: int
) -> dict[str, KohortError | None]:
    """Fence the producers of these ids, which aborts their transactions; None for each fenced."""

    async def ask(
        coordinator: Coordinator, ids: list[GroupId]
    ) -> dict[GroupId, KohortError | None]:
        return {each: await _fence(coordinator, each) for each in ids}

    keys = map(GroupId, transactional_ids)
    found = await send_to_coordinators(
        cluster,
        keys,
        ask,
        timeout_ms=timeout_ms,
        key_type=TRANSACTION,
        remedy="describe the transactions",
    )
    return {str(key): outcome for key, outcome in found.items()}


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
    """The producers that each partition's leader remembers."""

    async def ask(
        node_id: int, _kind: None, leaders: Mapping[TopicPartition, Leader]
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | KohortError]:
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for tp in leaders:
            topics[tp.topic].append(tp.partition)
        connection = await cluster.connection(node_id)
        response = await connection.send(
            "describe_producers",
            topics=[{"name": name, "partition_indexes": each} for name, each in topics.items()],
        )
        found = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.topics
            for each in topic.partitions
        }
        return {
            tp: partition_error(cluster, tp, found.get(tp))
            or tuple(map(_producer, found[tp].active_producers))
            for tp in leaders
        }

    return await send_to_leaders(
        cluster,
        dict.fromkeys(partitions),
        ask,
        what="describe producers",
        timeout_ms=timeout_ms,
    )


def _producer(told: Any) -> ProducerState:
    start = told.current_txn_start_offset
    return ProducerState(
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        last_sequence=told.last_sequence,
        last_timestamp=told.last_timestamp,
        coordinator_epoch=told.coordinator_epoch,
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
        # A producer without a marker so far has -1, which no coordinator can have.
        "coordinator_epoch": max(0, coordinator_epoch),
    }

    async def ask(
        node_id: int, _kind: None, _leaders: Mapping[TopicPartition, Leader]
    ) -> dict[TopicPartition, KohortError | None]:
        connection = await cluster.connection(node_id)
        response = await connection.send(
            "write_txn_markers", min_version=_ABORT_MARKERS_SINCE, markers=[marker]
        )
        (told,) = response.markers[0].topics[0].partitions
        return {tp: partition_error(cluster, tp, told)}

    outcomes = await send_to_leaders(
        cluster,
        {tp: None},
        ask,
        what=f"abort marker in {tp}",
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
    """The open transactions, idle for longer than any may be, that no coordinator has open.

    Raises KohortError if a leader or coordinator gives no response.
    """
    described = await describe_producers(cluster, partitions, timeout_ms=timeout_ms)
    old = []
    for tp, producers in described.items():
        if isinstance(producers, KohortError):
            raise fresh(producers)
        old += [
            HangingTransaction(partition=tp, producer=each)
            for each in producers
            if each.transaction_start_offset is not None
            and now_ms - each.last_timestamp >= max_timeout_ms
        ]
    if not old:
        return ()
    covered = await _covered(cluster, {each.producer.producer_id for each in old}, timeout_ms)
    return tuple(each for each in old if (each.producer.producer_id, each.partition) not in covered)


async def _covered(
    cluster: Cluster, producer_ids: set[int], timeout_ms: int
) -> set[tuple[int, TopicPartition]]:
    """Producer ids and the partitions that their coordinators will write markers to."""
    listed = await list_transactions(cluster, (), producer_ids, -1, "", timeout_ms=timeout_ms)
    for failure in listed.failures.values():
        raise fresh(failure)
    ids = [each.transactional_id for each in listed.transactions]
    described = await describe_transactions(cluster, ids, timeout_ms=timeout_ms)
    covered = set()
    for each in described.values():
        if isinstance(each, KafkaError) and each.code is ErrorCode.transactional_id_not_found:
            continue
        if isinstance(each, KohortError):
            raise fresh(each)
        covered |= {(each.producer_id, tp) for tp in each.partitions}
    return covered
