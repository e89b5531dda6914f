"""The log that `ClusterState` is the fold of: written by one `commit` per change, read once at
start.
"""

from collections.abc import Callable, Iterator
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogConfig
from kohort.protocol import batches
from kohort.server.topics.cluster_metadata import (
    ClusterState,
    MetadataRecord,
    decode_batches,
    encode_batch,
)
from kohort.types import Instant

METADATA_LOG: Final = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1 << 20)
"""Small segments: only those that are full are compacted."""

_READ_SIZE: Final = 1 << 20


class MetadataLog:
    """`state`, and the one way to change it."""

    def __init__(self, log: Log, now: Callable[[], Instant]) -> None:
        """Replays what is in `log`. Raises OSError if it cannot be read."""
        self.state = ClusterState()
        self._log = log
        self._now = now
        for record in self._records():
            self.state.replay(record)

    def commit(self, record: MetadataRecord) -> None:
        """Append and replay. Raises KafkaError KAFKA_STORAGE_ERROR, and then nothing has happened."""
        now = self._now()
        try:
            self._log.append(encode_batch([record], now), now)
        except OSError as error:
            raise storage_error(error) from error
        self.state.replay(record)

    async def durable(self) -> None:
        """Return when every change made by now is as durable as the policy asks."""
        await self._log.durable()

    def _records(self) -> Iterator[MetadataRecord]:
        offset = self._log.start_offset
        while offset < self._log.end_offset:
            data = self._log.read(offset, _READ_SIZE)
            yield from decode_batches(data)
            *_, (_, last) = batches.iterate(data)
            offset = last.last_offset + 1


def storage_error(error: OSError) -> KafkaError:
    """What a client is answered when the storage failed."""
    return KafkaError(
        ErrorCode.kafka_storage_error, (f"The storage failed: {error.strerror or error}")
    )
