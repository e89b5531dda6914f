"""Sends requests about many partitions: one to each leader, with retries while leaders move.

All leaders are located at the same time, and then requested at the same time. Partitions with a
retriable error are retried; any other error is the partition's result. The error of one partition
does not affect another.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from kohort.client.backoff import CHECK_BROKERS, retrying
from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import Leader
from kohort.client.errors import UNKNOWN_TOPIC, WRONG_LEADER, GaveUpError, is_retriable
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.types import TopicPartition

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
LeaderRequest: TypeAlias = Callable[
    [int, K, Mapping[TopicPartition, Leader]], Awaitable[Mapping[TopicPartition, T | KohortError]]
]
"""One request to the node of that id, for partitions of one kind that it leads."""


async def send_to_leaders(
    cluster: Cluster,
    kinds: Mapping[TopicPartition, K],
    send: LeaderRequest[K, T],
    *,
    operation: str,
    timeout_ms: int,
    advice: str = CHECK_BROKERS,
) -> dict[TopicPartition, T | KohortError]:
    """The result of every partition, or its error; partitions of one kind share requests.

    The error is KafkaError with the broker's code, GaveUpError after `timeout_ms` of attempts at
    `operation`, whose text ends with `advice`, or another KohortError that `send` raised.
    """
    outcomes: dict[TopicPartition, T | KohortError] = {}

    async def attempt() -> None:
        pending = {
            tp: kind
            for tp, kind in kinds.items()
            if tp not in outcomes or _is_retriable(outcomes[tp])
        }
        await _send_once(cluster, pending, send, outcomes)
        for tp in pending:
            if isinstance(error := outcomes[tp], KohortError) and is_retriable(error):
                raise fresh(error)

    try:
        await retrying(
            attempt,
            operation=operation,
            timeout_ms=timeout_ms,
            backoff=cluster.backoff(),
            advice=advice,
        )
    except GaveUpError as error:
        for tp in kinds:
            if tp not in outcomes or (
                _is_retriable(outcomes[tp]) and not isinstance(outcomes[tp], KafkaError)
            ):
                outcomes[tp] = GaveUpError(f"{tp}: {error}", error.last)
    return outcomes


def _is_retriable(outcome: object) -> bool:
    return isinstance(outcome, KohortError) and is_retriable(outcome)


async def _send_once(
    cluster: Cluster,
    kinds: Mapping[TopicPartition, K],
    send: LeaderRequest[K, T],
    outcomes: dict[TopicPartition, T | KohortError],
) -> None:
    """Update `outcomes` as each leader responds: a time limit drops no result of the others."""
    requests: defaultdict[tuple[int, K], dict[TopicPartition, Leader]] = defaultdict(dict)

    async def locate(tp: TopicPartition, kind: K) -> None:
        try:
            leader = await cluster.request_leader(tp)
        except KohortError as error:
            outcomes[tp] = error.with_traceback(None)  # which refers to `outcomes`
        else:
            requests[leader.node_id, kind][tp] = leader

    async def send_request(node_id: int, kind: K, leaders: Mapping[TopicPartition, Leader]) -> None:
        try:
            outcomes.update(await send(node_id, kind, leaders))
        except KohortError as error:
            cluster.stale(*{tp.topic for tp in leaders})
            outcomes.update(dict.fromkeys(leaders, error))

    await asyncio.gather(*(locate(*tp_and_kind) for tp_and_kind in kinds.items()))
    await asyncio.gather(*(send_request(*key, leaders) for key, leaders in requests.items()))


def by_partition(topics: Iterable[Any]) -> dict[TopicPartition, Any]:
    """The partitions of a broker's response, which has them by topic."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition
        for topic in topics
        for partition in topic.partitions
    }


def partition_error(cluster: Cluster, tp: TopicPartition, response: Any) -> KafkaError | None:
    """The error in a broker's response for a partition, also for a missing response; else None.

    After an error of wrong metadata, the metadata is requested again before the next attempt.
    """
    if response is None:
        return KafkaError(
            ErrorCode.unknown_server_error, f"{tp} is missing in the broker's response"
        )
    if response.error_code in WRONG_LEADER or response.error_code in UNKNOWN_TOPIC:
        cluster.stale(tp.topic)
    return (
        None if response.error_code is ErrorCode.none else KafkaError(response.error_code, str(tp))
    )
