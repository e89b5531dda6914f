"""Follows the metadata log of the controller, by Fetch."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol.apis import BY_NAME
from kohort.server.cluster.internode.connection import NodeConnection
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.logging import fields
from kohort.server.topics import METADATA, MetadataRecord, decode_batches

logger = logging.getLogger("kohort.topics")

WAIT_MS: Final = 500
_FETCH: Final = BY_NAME["fetch"].key
_VERSION: Final = 12
_MAX_BYTES: Final = 1 << 20
_RETRY_AFTER_S: Final = 0.05
_RETRY_AFTER_ERROR_S: Final = 1.0
_OUT_OF_RANGE: Final = ErrorCode.offset_out_of_range


class News(NamedTuple):
    """What the controller has logged."""

    records: list[tuple[int, MetadataRecord]]
    """With their offsets."""
    end_offset: int
    """Of all that it has logged durably. Without records, none is before it."""


class Follows(Protocol):
    """What does as the controller says."""

    @property
    def position(self) -> int:
        """Offset of the record to be followed next."""
        ...

    async def follow(self, records: Iterable[tuple[int, MetadataRecord]], /) -> None:
        """Do as these records say."""
        ...

    def skip(self, offset: int, /) -> None:
        """Go on from that offset: the records before it were compacted away."""
        ...


class MetadataFollower:
    """Reads what the controller logs, on a connection of its own: it waits there for news."""

    def __init__(self, node_id: int, connection: NodeConnection) -> None:
        self._node_id = node_id
        self._connection = connection

    async def read(self, offset: int, wait_ms: int = WAIT_MS) -> News:
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
        news = [(at, record) for at, record in records if at >= offset]
        return News(news, partition.high_watermark)

    async def run(self, topics: Follows) -> None:
        """Have `topics` follow what is read, until this is cancelled.

        Raises KafkaError OFFSET_OUT_OF_RANGE if the controller has logged less than was followed.
        """
        failure: str | None = None
        while True:
            try:
                news = await self.read(topics.position)
                await topics.follow(news.records)
                if not news.records:
                    topics.skip(news.end_offset)
                failure = None
            except NodeUnreachableError:  # it is started again; what is known stays
                await asyncio.sleep(_RETRY_AFTER_S)
            except (KohortError, OSError, ValueError) as error:
                if isinstance(error, KafkaError) and error.code == _OUT_OF_RANGE:
                    raise
                if repr(error) != failure:
                    failure = repr(error)
                    logger.error("cannot follow the controller", extra=fields(why=error))
                await asyncio.sleep(_RETRY_AFTER_ERROR_S)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.close()
