"""Sends requests about many partitions: one to each leader, with retries while leaders move.

Leaders are located at the same time, and asked at the same time. Retriable errors are retried for
the partitions that have them; any other error is the partition's result. The error of one partition
does not affect another.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Mapping
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
"""One request to the node of that id, about some of the partitions of one kind that it leads."""


async def send_to_leaders(
    cluster: Cluster,
    kinds: Mapping[TopicPartition, K],
    send: LeaderRequest[K, T],
    *,
    what: str,
    timeout_ms: int,
    advice: str = CHECK_BROKERS,
) -> dict[TopicPartition, T | KohortError]:
    """The result of every partition, or its error; partitions of one kind share requests.

    The error is KafkaError with the broker's code, GaveUpError after `timeout_ms` of attempts at
    `what`, which ends with `advice`, or another KohortError that `send` raised.
    """
    found: dict[TopicPartition, T | KohortError] = {}

    async def attempt() -> None:
        todo = {tp: kind for tp, kind in kinds.items() if tp not in found or _passes(found[tp])}
        found.update(await _ask_leaders(cluster, todo, send))
        for tp in todo:
            if isinstance(error := found[tp], KohortError) and is_retriable(error):
                raise fresh(error)

    try:
        await retrying(
            attempt, what=what, timeout_ms=timeout_ms, backoff=cluster.backoff(), advice=advice
        )
    except GaveUpError as error:
        for tp in kinds:
            if tp not in found or (_passes(found[tp]) and not isinstance(found[tp], KafkaError)):
                found[tp] = GaveUpError(f"{tp}: {error}", error.last)
    return found


def _passes(outcome: object) -> bool:
    return isinstance(outcome, KohortError) and is_retriable(outcome)


async def _ask_leaders(
    cluster: Cluster, kinds: Mapping[TopicPartition, K], send: LeaderRequest[K, T]
) -> dict[TopicPartition, T | KohortError]:
    found: dict[TopicPartition, T | KohortError] = {}
    requests: defaultdict[tuple[int, K], dict[TopicPartition, Leader]] = defaultdict(dict)

    async def locate(tp: TopicPartition, kind: K) -> None:
        try:
            leader = await cluster.ask_leader(tp)
        except KohortError as error:
            found[tp] = error.with_traceback(None)  # which refers to what was found
        else:
            requests[leader.node_id, kind][tp] = leader

    async def ask(node_id: int, kind: K, asked: Mapping[TopicPartition, Leader]) -> None:
        try:
            found.update(await send(node_id, kind, asked))
        except KohortError as error:
            cluster.stale(*{tp.topic for tp in asked})
            found.update(dict.fromkeys(asked, error))

    await asyncio.gather(*(locate(*each) for each in kinds.items()))
    await asyncio.gather(*(ask(*key, asked) for key, asked in requests.items()))
    return found


def partition_error(cluster: Cluster, tp: TopicPartition, told: Any) -> KafkaError | None:
    """The error in a broker's response for a partition, None in place of a missing response.

    Metadata that proved wrong is requested again before the next attempt.
    """
    if told is None:
        return KafkaError(
            ErrorCode.unknown_server_error, f"{tp} is missing in the broker's response"
        )
    if told.error_code in WRONG_LEADER or told.error_code in UNKNOWN_TOPIC:
        cluster.stale(tp.topic)
    return None if told.error_code is ErrorCode.none else KafkaError(told.error_code, str(tp))
