"""The cluster that the tables belong to, and the version that served from them."""

from kohort.storage.postgres.blocking_connection import BlockingConnection
from kohort.storage.postgres.link import Connection


class LogRegistry:
    """The `StorageIdentity` in the table `meta`. Directories there are none."""

    def __init__(
        self, control: BlockingConnection, cluster_id: str | None, written_by: str, version: str
    ) -> None:
        """`version` is that of this Kohort."""
        self.cluster_id = cluster_id
        self.written_by = written_by
        self._version = version
        self._control = control

    def settle(self, cluster_id: str) -> None:
        async def update(connection: Connection) -> None:
            await connection.execute(
                "update meta set cluster_id = $1, written_by = $2", cluster_id, self._version
            )

        self._control.query(update)
        self.cluster_id = cluster_id
