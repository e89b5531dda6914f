"""What the tables say beside the logs: of which cluster they are, and who wrote them."""

from collections.abc import Iterator, Mapping
from typing import NoReturn
from uuid import UUID

from kohort.storage.postgres.control import Control
from kohort.storage.postgres.link import Connection
from kohort.types import TopicPartition


class LogRegistry:
    """The `PartitionDirectories` of a node, which makes a log when it is to lead it."""

    is_case_insensitive = False

    def __init__(
        self, control: Control, cluster_id: str | None, written_by: str, version: str
    ) -> None:
        """`version` is that of this Kohort."""
        self.cluster_id = cluster_id
        self.written_by = written_by
        self._version = version
        self._control = control

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(())

    def marks(self) -> Mapping[TopicPartition, UUID | None]:
        return {}

    def is_taken(self, partition: TopicPartition) -> bool:  # noqa: ARG002
        return False

    def make(self, partitions: Mapping[TopicPartition, UUID]) -> NoReturn:
        raise NotImplementedError

    mark = make

    def set_aside(self, partition: TopicPartition) -> NoReturn:
        raise NotImplementedError

    def remove(self, partition: TopicPartition, topic_id: UUID) -> NoReturn:
        raise NotImplementedError

    def settle(self, cluster_id: str) -> None:
        async def update(connection: Connection) -> None:
            await connection.execute(
                "update meta set cluster_id = $1, written_by = $2", cluster_id, self._version
            )

        self._control.query(update)
        self.cluster_id = cluster_id
