"""Replication of the controller's metadata log by Fetch."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol.apis import BY_NAME
from kohort.server.cluster.internode.connection import NodeConnection
from kohort.server.cluster.internode.link import NodeUnreachableError
from kohort.server.logging import fields
from kohort.server.metadata import METADATA, MetadataRecord, decode_batches

logger = logging.getLogger("kohort.topics")

WAIT_MS: Final = 500
_FETCH: Final = BY_NAME["fetch"].key
_VERSION: Final = 12
_MAX_BYTES: Final = 1 << 20
_RETRY_AFTER_S: Final = 0.05
_RETRY_AFTER_ERROR_S: Final = 1.0
_OUT_OF_RANGE: Final = ErrorCode.offset_out_of_range


class MetadataRecords(NamedTuple):
    """Records of one Fetch from the metadata log."""

    records: list[tuple[int, MetadataRecord]]
    """Offsets and records."""
    end_offset: int
    """High watermark of the log. Without `records`, there is none before it."""


class MetadataReplica(Protocol):
    """Local state that the fetched records are applied to."""

    @property
    def position(self) -> int:
        """Offset of the next record to fetch."""
        ...

    async def follow(self, records: Iterable[tuple[int, MetadataRecord]], /) -> None:
        """Apply these records."""
        ...

    def skip(self, offset: int, /) -> None:
        """Continue at this offset: the records before it were compacted away."""
        ...


class MetadataFollower:
    """Fetches the metadata log on a connection of its own, as a Fetch waits for new records."""

    def __init__(self, node_id: int, connection: NodeConnection) -> None:
        self._node_id = node_id
        self._connection = connection

    async def read(self, offset: int, wait_ms: int = WAIT_MS) -> MetadataRecords:
        """Fetch records from this offset; empty after `wait_ms` without new ones.

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
        fetched = [
            (record_offset, record) for record_offset, record in records if record_offset >= offset
        ]
        return MetadataRecords(fetched, partition.high_watermark)

    async def run(self, topics: MetadataReplica) -> None:
        """Apply fetched records to `topics` until cancelled.

        Raises KafkaError OFFSET_OUT_OF_RANGE if the controller has logged less than was followed.
        """
        failure: str | None = None
        while True:
            try:
                fetched = await self.read(topics.position)
                await topics.follow(fetched.records)
                if not fetched.records:
                    topics.skip(fetched.end_offset)
                failure = None
            except NodeUnreachableError:  # it is restarted; the replicated records stay
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
