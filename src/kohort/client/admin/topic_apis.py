"""Topics: list, describe, create, grow, delete.

What changes topics is asked of the controller. A server that forwards, as Kafka's brokers do since
KRaft, takes it anywhere; one that answers NOT_CONTROLLER is asked again once its metadata was read
anew.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from kohort.client.admin.coordinator_requests import refusal
from kohort.client.backoff import retrying
from kohort.client.cluster import Cluster, TopicMetadata
from kohort.client.net import Connection
from kohort.errors import ErrorCode, KafkaError

BY_ID: Final = 6
"""Version of DeleteTopics from which on a topic is named in a struct."""
TopicErrors: TypeAlias = dict[str, KafkaError | None]
"""Topic → None: done."""


async def describe_topics(
    cluster: Cluster, topics: Iterable[str] | None
) -> dict[str, TopicMetadata | KafkaError]:
    """These topics, all when None. Raises KohortError when no broker answers."""
    metadata = await cluster.metadata(topics)
    return {
        name: topic if topic.error is ErrorCode.none else KafkaError(topic.error, f"topic {name}")
        for name, topic in metadata.topics.items()
    }


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    timeout_ms: int,
) -> None:
    """-1: the broker's default. Raises KohortError."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }

    async def ask(connection: Connection) -> TopicErrors:
        response = await connection.send("create_topics", topics=[topic], **_within(timeout_ms))
        return _topic_errors(response.topics)

    await _change(cluster, name, ask, timeout_ms)


async def create_partitions(cluster: Cluster, name: str, count: int, *, timeout_ms: int) -> None:
    """Grow a topic to `count` partitions in all. Raises KohortError."""
    topic = {"name": name, "count": count, "assignments": None}

    async def ask(connection: Connection) -> TopicErrors:
        response = await connection.send("create_partitions", topics=[topic], **_within(timeout_ms))
        return _topic_errors(response.results)

    await _change(cluster, name, ask, timeout_ms)


async def delete_topic(cluster: Cluster, name: str, *, timeout_ms: int) -> None:
    """Raises KohortError."""

    async def ask(connection: Connection) -> TopicErrors:
        version = connection.version("delete_topics")
        by_id = version is None or version >= BY_ID
        named = {"topics": [{"name": name, "topic_id": None}]} if by_id else {"topic_names": [name]}
        response = await connection.send("delete_topics", **named, **_within(timeout_ms))
        return _topic_errors(response.responses)

    await _change(cluster, name, ask, timeout_ms)


def _within(timeout_ms: int) -> dict[str, Any]:
    """How long the broker may take; called as kio calls it, for `timeout_ms` is how long the client
    waits.
    """
    return {"timeout": timeout_ms}


def _topic_errors(results: Iterable[Any]) -> TopicErrors:
    return {
        each.name: refusal(each.error_code, getattr(each, "error_message", None))
        for each in results
    }


async def _change(
    cluster: Cluster,
    topic: str,
    ask: Callable[[Connection], Awaitable[TopicErrors]],
    timeout_ms: int,
) -> None:
    async def attempt() -> None:
        controller = (await cluster.metadata(())).controller_id
        connection = await (
            cluster.any_connection() if controller < 0 else cluster.connection(controller)
        )
        if error := (await ask(connection)).get(topic):
            raise error

    await retrying(
        attempt,
        what=f"topic {topic}",
        timeout_ms=timeout_ms,
        backoff=cluster.backoff(),
        retriable=_passes,
    )
    cluster.stale(topic)


def _passes(error: BaseException) -> bool:
    """Not a broken connection: whether the change was made is not known then, and the caller has to
    look.
    """
    return isinstance(error, KafkaError) and error.code in (
        ErrorCode.not_controller,
        ErrorCode.throttling_quota_exceeded,
    )
