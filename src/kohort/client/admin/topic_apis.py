"""Describes, creates, grows and deletes topics.

Changes are sent to the controller. Every broker that forwards changes, as Kafka's since KRaft,
accepts them. After NOT_CONTROLLER the metadata is requested again.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from kohort.client.admin.changes import changing, may_be_made
from kohort.client.admin.coordinator_requests import refusal
from kohort.client.backoff import retrying
from kohort.client.cluster import Cluster, TopicMetadata
from kohort.client.net import Connection
from kohort.errors import ErrorCode, KafkaError, fresh

TOPIC_IDS_SINCE: Final = 6
"""First version of DeleteTopics with topics as structs."""
TopicErrors: TypeAlias = dict[str, KafkaError | None]
"""Error of each topic; None: success."""
_REMEDY: Final = "describe the topic"


async def describe_topics(
    cluster: Cluster, topics: Iterable[str] | None
) -> dict[str, TopicMetadata | KafkaError]:
    """These topics, all when None. Raises KohortError when no broker responds."""
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
    """Create a topic; -1 is the broker's default. Raises KohortError."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }

    async def send(connection: Connection) -> TopicErrors:
        response = await connection.send(
            "create_topics", topics=[topic], **_timeout_field(timeout_ms)
        )
        return _topic_errors(response.topics)

    await _change(cluster, name, send, timeout_ms)


async def create_partitions(cluster: Cluster, name: str, count: int, *, timeout_ms: int) -> None:
    """Grow a topic to `count` partitions. Raises KohortError."""
    topic = {"name": name, "count": count, "assignments": None}

    async def send(connection: Connection) -> TopicErrors:
        response = await connection.send(
            "create_partitions", topics=[topic], **_timeout_field(timeout_ms)
        )
        return _topic_errors(response.results)

    await _change(cluster, name, send, timeout_ms)


async def delete_topic(cluster: Cluster, name: str, *, timeout_ms: int) -> None:
    """Delete a topic. Raises KohortError."""

    async def send(connection: Connection) -> TopicErrors:
        version = connection.version("delete_topics")
        by_id = version is None or version >= TOPIC_IDS_SINCE
        fields = (
            {"topics": [{"name": name, "topic_id": None}]} if by_id else {"topic_names": [name]}
        )
        response = await connection.send("delete_topics", **fields, **_timeout_field(timeout_ms))
        return _topic_errors(response.responses)

    await _change(cluster, name, send, timeout_ms)


def _timeout_field(timeout_ms: int) -> dict[str, Any]:
    """The broker's time limit, under kio's name; `timeout_ms` is the client's."""
    return {"timeout": timeout_ms}


def _topic_errors(results: Iterable[Any]) -> TopicErrors:
    return {result.name: refusal(result.error_code, _message(result)) for result in results}


def _message(result: Any) -> str:
    """The broker's message, with the name of the topic."""
    message = getattr(result, "error_message", None) or ""
    return message if result.name in message else f"topic {result.name}: {message}".rstrip(": ")


async def _change(
    cluster: Cluster,
    topic: str,
    send: Callable[[Connection], Awaitable[TopicErrors]],
    timeout_ms: int,
) -> None:
    async def attempt() -> None:
        controller = (await cluster.metadata(())).controller_id
        connection = await (
            cluster.any_connection() if controller < 0 else cluster.connection(controller)
        )
        with changing(_REMEDY):
            errors = await send(connection)
        if refused := errors.get(topic):
            raise fresh(refused)

    await retrying(
        attempt,
        operation=f"topic {topic}",
        timeout_ms=timeout_ms,
        backoff=cluster.backoff(),
        retriable=_is_retriable,
        advice=may_be_made(_REMEDY),
    )
    cluster.stale(topic)


def _is_retriable(error: BaseException) -> bool:
    """Whether to retry; not after a broken connection, as the change may have been made."""
    return isinstance(error, KafkaError) and error.code in (
        ErrorCode.not_controller,
        ErrorCode.throttling_quota_exceeded,
    )
