"""Follows the metadata log of the controller, by Fetch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from kohort.errors import KafkaError, KohortError
from kohort.protocol.apis import BY_NAME
from kohort.server.internode.connection import NodeConnection, NodeUnreachableError
from kohort.server.logs import fields
from kohort.server.topics import METADATA, MetadataRecord, decode_batches

logger = logging.getLogger("kohort.topics")

WAIT_MS: Final = 500
_FETCH: Final = BY_NAME["fetch"].key
_VERSION: Final = 12
_MAX_BYTES: Final = 1 << 20
_RETRY_AFTER_S: Final = 0.05
_RETRY_AFTER_ERROR_S: Final = 1.0

Follow: TypeAlias = Callable[[Iterable[tuple[int, MetadataRecord]]], Awaitable[None]]


class MetadataFollower:
    """Reads what the controller logs, on a connection of its own: it waits there for news."""

    def __init__(self, node_id: int, connection: NodeConnection) -> None:
        self._node_id = node_id
        self._connection = connection

    async def read(self, offset: int, wait_ms: int = WAIT_MS) -> list[tuple[int, MetadataRecord]]:
        """Records from that offset on; none if there are none for so long.

        Raises NodeUnreachableError, KafkaError, UndecodableError.
        """
        response = await self._connection.ask(
            _FETCH,
            _VERSION,
            replica_id=self._node_id,
            max_wait=wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            topics=[
                {
                    "topic": METADATA.topic,
                    "partitions": [
                        {
                            "partition": METADATA.partition,
                            "fetch_offset": offset,
                            "partition_max_bytes": _MAX_BYTES,
                        }
                    ],
                }
            ],
        )
        ((partition,),) = ([*topic.partitions] for topic in response.responses)
        if partition.error_code:
            raise KafkaError(partition.error_code)
        records = decode_batches(partition.records or b"")
        return [(at, record) for at, record in records if at >= offset]

    async def run(self, position: Callable[[], int], follow: Follow) -> None:
        """Have `follow` do what is read, from `position` on, until this is cancelled."""
        failure: str | None = None
        while True:
            try:
                await follow(await self.read(position()))
                failure = None
            except NodeUnreachableError:  # it is started again; what is known stays
                await asyncio.sleep(_RETRY_AFTER_S)
            except (KohortError, OSError, ValueError) as error:
                if repr(error) != failure:
                    failure = repr(error)
                    logger.error("cannot follow the controller", extra=fields(why=error))
                await asyncio.sleep(_RETRY_AFTER_ERROR_S)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.close()
