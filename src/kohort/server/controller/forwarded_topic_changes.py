"""Changes of topics on a node that has another one make them."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from kohort.errors import ErrorCode, KafkaError
from kohort.server.controller.metadata_writer import MetadataWriter
from kohort.server.controller.new_topics import NewTopic
from kohort.server.controller.replication_control import ReplicationControl
from kohort.server.controller.topic_changes import TopicChanges
from kohort.server.replicas import ReplicaManager, Topic

CREATION_TIMEOUT_S: Final = 1.0
"""Time that a client waits for a topic that is created because it asked for it."""


class ActiveController(Protocol):
    """The node that changes topics."""

    async def create_topics(self, new_topics: Sequence[NewTopic]) -> list[KafkaError | None]:
        """Create topics, each by itself; in the same order, why one was not. Raises KafkaError."""
        ...

    async def allocate_producer_ids(self) -> range:
        """A block of unused ids. Raises KafkaError."""
        ...


class ForwardedTopicChanges(TopicChanges):
    """`TopicChanges` of a node whose changes another one makes."""

    def __init__(
        self,
        writer: MetadataWriter,
        replicas: ReplicaManager,
        control: ReplicationControl,
        controller: ActiveController,
    ) -> None:
        super().__init__(writer, replicas, control)
        self._controller = controller
        self._creating: dict[str, asyncio.Task[dict[str, KafkaError]]] = {}
        """Requests for topics that the controller is creating, by topic."""

    async def create_topics(
        self,
        new_topics: Sequence[NewTopic],
        deadline: float | None = None,  # noqa: ARG002
    ) -> list[Topic | KafkaError]:
        """Ask the controller to create topics; in the same order the topic, or the error.

        A topic that does not arrive here in time is UNKNOWN_TOPIC_OR_PARTITION: clients retry, and
        their other requests must not wait for a controller that does not respond.
        """
        to_request = [topic for topic in new_topics if topic.name not in self._creating]
        if to_request:
            self._creating |= dict.fromkeys(
                (topic.name for topic in to_request),
                asyncio.create_task(self._request_creation(to_request)),
            )
        creating = {topic.name: self._creating[topic.name] for topic in new_topics}
        if creating:
            await asyncio.wait(set(creating.values()), timeout=CREATION_TIMEOUT_S)
        unknown = KafkaError(ErrorCode.unknown_topic_or_partition)
        return [
            (task.result().get(name) if task.done() else None) or self._topics.get(name) or unknown
            for name, task in creating.items()
        ]

    async def _request_creation(self, new_topics: Sequence[NewTopic]) -> dict[str, KafkaError]:
        """By name, why the controller did not make a topic."""
        try:
            errors = await self._controller.create_topics(new_topics)
        except KafkaError:
            return {}
        finally:
            for topic in new_topics:
                del self._creating[topic.name]
        return {topic.name: error for topic, error in zip(new_topics, errors, strict=True) if error}

    def close(self) -> None:
        for task in self._creating.values():
            task.cancel()
