"""Queries offsets by time: first, last, first since a timestamp (Kafka's ListOffsets, v1-v11)."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kohort.client.backoff import retrying
from kohort.client.cluster.cluster import Cluster, Leader
from kohort.client.errors import UNKNOWN_TOPIC, WRONG_LEADER, GaveUpError, is_retriable
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition

Isolation = Literal["read_uncommitted", "read_committed"]

LATEST: Final = -1
"""Behind the last record; under read_committed, the last stable offset."""
EARLIEST: Final = -2
"""The first record that is still in the log."""
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734, brokers since 3.0)."""
EARLIEST_LOCAL: Final = -4
"""The first record on the broker's own disk (KIP-405, brokers since 3.6)."""

_LEAST_VERSION: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}


@dataclass(frozen=True, slots=True)
class Offset:
    """The result of a query.

    `offset` is -1 if no record is that recent; `timestamp` (ms) is -1 unless queried by time.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    isolation: Isolation = "read_uncommitted",
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Offset | KohortError]:
    """The offset of each partition at EARLIEST, LATEST, MAX_TIMESTAMP or a timestamp in ms.

    A partition without a result has its error instead: KafkaError with the broker's code,
    GaveUpError after `timeout_ms` of attempts (default: `default_api_timeout_ms`),
    UnsupportedVersionError.
    """
    found: dict[TopicPartition, Offset | KohortError] = {}

    async def attempt() -> None:
        todo = {tp: when for tp, when in wanted.items() if not _is_settled(found.get(tp))}
        found.update(await _ask_leaders(cluster, todo, isolation))
        again = [
            error
            for tp in todo
            if isinstance(error := found[tp], KohortError) and is_retriable(error)
        ]
        if again:
            raise again[0]

    try:
        await retrying(
            attempt,
            what="list offsets",
            timeout_ms=cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            backoff=cluster.backoff(),
        )
    except GaveUpError as error:
        for tp in wanted:
            if not isinstance(found.get(tp), Offset | KafkaError):
                found[tp] = GaveUpError(f"{tp}: {error}", error.last)
    return found


def _is_settled(outcome: Offset | KohortError | None) -> bool:
    return outcome is not None and not (isinstance(outcome, KohortError) and is_retriable(outcome))


async def _ask_leaders(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, Offset | KohortError]:
    found: dict[TopicPartition, Offset | KohortError] = {}
    requests: defaultdict[tuple[int, int], dict[TopicPartition, tuple[int, Leader]]] = defaultdict(
        dict
    )

    async def locate(tp: TopicPartition, when: int) -> None:
        try:
            leader = await cluster.ask_leader(tp)
        except KohortError as error:
            found[tp] = error
        else:
            requests[leader.node_id, _LEAST_VERSION.get(when, 1)][tp] = when, leader

    async def ask(
        node_id: int, version: int, asked: Mapping[TopicPartition, tuple[int, Leader]]
    ) -> None:
        try:
            found.update(await _ask_one(cluster, node_id, version, asked, isolation))
        except KohortError as error:
            cluster.stale(*{tp.topic for tp in asked})
            found.update(dict.fromkeys(asked, error))

    await asyncio.gather(*(locate(tp, when) for tp, when in wanted.items()))
    await asyncio.gather(*(ask(*key, asked) for key, asked in requests.items()))
    return found


async def _ask_one(
    cluster: Cluster,
    node_id: int,
    min_version: int,
    asked: Mapping[TopicPartition, tuple[int, Leader]],
    isolation: Isolation,
) -> dict[TopicPartition, Offset | KohortError]:
    connection = await cluster.connection(node_id)
    topics: defaultdict[str, list[dict[str, int]]] = defaultdict(list)
    for tp, (when, leader) in asked.items():
        entry = {
            "partition_index": tp.partition,
            "timestamp": when,
            "current_leader_epoch": leader.epoch,
        }
        topics[tp.topic].append(entry)
    response = await connection.send(
        "list_offsets",
        min_version=min_version,
        replica_id=-1,
        isolation_level=1 if isolation == "read_committed" else 0,
        topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    )
    found = {
        TopicPartition(topic.name, each.partition_index): each
        for topic in response.topics
        for each in topic.partitions
    }
    return {tp: _outcome(cluster, tp, found.get(tp)) for tp in asked}


def _outcome(cluster: Cluster, tp: TopicPartition, told: Any) -> Offset | KohortError:
    if told is None:
        return KafkaError(
            ErrorCode.unknown_server_error, f"{tp} is missing in the broker's response"
        )
    if told.error_code in WRONG_LEADER or told.error_code in UNKNOWN_TOPIC:
        cluster.stale(tp.topic)
    if told.error_code is not ErrorCode.none:
        return KafkaError(told.error_code, str(tp))
    return Offset(told.offset, told.timestamp, getattr(told, "leader_epoch", -1))
