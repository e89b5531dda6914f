"""A node of a cluster on PostgreSQL: the shared storage, and the logs that the node leads."""

from kohort.storage.postgres.cluster.shared_directory import SharedPostgresDirectory
from kohort.storage.postgres.cluster.shared_storage import PostgresStorage
from kohort.storage.postgres.fence import Fence
from kohort.types import TopicPartition


class PostgresCluster:
    """The storage and the logs of one node."""

    def __init__(
        self, url: str, node: int, metadata: TopicPartition, *, stray_retention_ms: int
    ) -> None:
        """`metadata` is the log of the cluster. Nothing is connected before `open`."""
        self.logs = SharedPostgresDirectory(
            url, node, metadata, stray_retention_ms=stray_retention_ms
        )
        self.storage = PostgresStorage(url, Fence(node), metadata, self.logs.session_begun)

    async def open(self) -> None:
        """Make the tables if there are none. Raises OSError, KohortError; may be repeated."""
        await self.logs.open_tables()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        self.logs.close()
        await self.storage.close()
