"""Reads a Fetch response without copying its records.

kio would copy every partition's records out of the frame; here they are views of it. Versions are 4
to 18. Fields that the client does not use (snapshots, endpoints) are skipped. A false count is
harmless: a read beyond the end of the frame raises MalformedError.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple
from uuid import UUID

from kohort.client.net import Frame
from kohort.errors import ErrorCode
from kohort.protocol.framing import MalformedError
from kohort.protocol.packing import read_varint

VERSIONS: Final = (4, 18)
SESSIONS_SINCE: Final = 7
REPLICAS_SINCE: Final = 11
NO_REPLICA: Final = -1
FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13

_session = Struct(">ihi").unpack_from
_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from
_epoch_and_offset = Struct(">iq").unpack_from
_aborted: Final = Struct(">qq")
_partition_v4: Final = Struct(">ihqq")
_partition_v5: Final = Struct(">ihqqq")
_DIVERGING_EPOCH: Final = 0


def error_code(number: int) -> ErrorCode:
    """The error code of that number; UNKNOWN_SERVER_ERROR for a number of newer brokers."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.unknown_server_error


class PartitionResponse(NamedTuple):
    """One partition of a Fetch response."""

    topic: str | UUID
    """The topic's name; its id from v13 on."""
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    """-1 below v5."""
    aborted: tuple[tuple[int, int], ...]
    """Aborted transactions as (producer id, first offset); only under read_committed."""
    preferred_replica: int
    """Node id of the follower to read from instead (KIP-392), -1: none.

    If there is one, the response has no records of the partition.
    """
    diverging: tuple[int, int] | None
    """(epoch, end offset) at which the log diverges from the one that was read (KIP-595)."""
    records: memoryview
    """Record batches; the last one may be incomplete."""


class FetchResponse(NamedTuple):
    """A Fetch response."""

    throttle_ms: int
    """Time for which the broker reads no requests from this connection (KIP-219)."""
    error: int
    session_id: int
    partitions: list[PartitionResponse]


def read_fetch_response(frame: Frame, version: int, position: int) -> FetchResponse:
    """Read the response whose body starts at `position`.

    Raises MalformedError, and no other error for any bytes.
    """
    try:
        reader = _Reader(frame, version, position)
        return FetchResponse(
            reader.throttle_ms, reader.error, reader.session_id, list(reader.partitions())
        )
    except (IndexError, error):
        raise MalformedError(f"a Fetch response of version {version} that ends early") from None
    except UnicodeDecodeError:
        raise MalformedError("a Fetch response with a topic name that is no text") from None


class _Reader:
    """A position in a frame, and reads from there."""

    def __init__(self, frame: Frame, version: int, position: int) -> None:
        self._data = memoryview(frame)
        self._version = version
        self._flexible = version >= FLEXIBLE_SINCE
        self._head = _partition_v5 if version >= 5 else _partition_v4
        self.error, self.session_id = 0, 0
        (self.throttle_ms,) = _int32(frame, position)
        if version >= SESSIONS_SINCE:
            _, self.error, self.session_id = _session(frame, position)
            self._position = position + 10
        else:
            self._position = position + 4

    def partitions(self) -> Iterator[PartitionResponse]:
        for _ in range(self._count()):
            topic = self._topic()
            for _ in range(self._count()):
                yield self._partition(topic)
            self._tags()

    def _partition(self, topic: str | UUID) -> PartitionResponse:
        fixed = self._head.unpack_from(self._data, self._position)
        self._position += self._head.size
        index, code, high_watermark, last_stable_offset = fixed[:4]
        log_start_offset = fixed[4] if len(fixed) > 4 else -1
        aborted = tuple([self._transaction() for _ in range(self._count())])
        preferred = self._preferred_replica() if self._version >= REPLICAS_SINCE else NO_REPLICA
        records = self._records()
        return PartitionResponse(
            topic,
            index,
            code,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted,
            preferred,
            self._tags(),
            records,
        )

    def _preferred_replica(self) -> int:
        node_id: int = _int32(self._data, self._position)[0]
        self._position += 4
        return node_id

    def _transaction(self) -> tuple[int, int]:
        producer_id, first_offset = _aborted.unpack_from(self._data, self._position)
        self._position += _aborted.size
        self._tags()
        return producer_id, first_offset

    def _topic(self) -> str | UUID:
        if self._version >= TOPIC_IDS_SINCE:
            return UUID(bytes=bytes(self._read(16)))
        if self._flexible:
            return str(self._read(max(self._varint() - 1, 0)), "utf-8")
        size = _int16(self._data, self._position)[0]
        self._position += 2
        return str(self._read(size), "utf-8")

    def _records(self) -> memoryview:
        return self._read(max(self._count(), 0))

    def _count(self) -> int:
        """Length of an array or of bytes; 0 for null."""
        if self._flexible:
            return max(self._varint() - 1, 0)
        count: int = _int32(self._data, self._position)[0]
        self._position += 4
        return max(count, 0)

    def _read(self, size: int) -> memoryview:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise IndexError
        content = self._data[self._position : end]
        self._position = end
        return content

    def _varint(self) -> int:
        byte = self._data[self._position]
        if byte < 128:
            self._position += 1
            return byte
        value, self._position = read_varint(self._data, self._position)
        return value

    def _tags(self) -> tuple[int, int] | None:
        """Skip tagged fields; returns the diverging epoch if it is one of them."""
        if not self._flexible:
            return None
        diverging = None
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            content = self._read(size)
            if tag == _DIVERGING_EPOCH and size >= 12:
                diverging = _epoch_and_offset(content, 0)
        return diverging
