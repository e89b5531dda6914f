"""An OffsetCommit that a connection sends again, to the same partitions of one topic.

From one such commit to the next only the correlation id, the offsets and their leader epochs
change. The connection keeps the parsed request and compares the next frame with it; only the
offsets are read anew. Whether they may be committed, and whether the topic is still the same, is
checked every time.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kohort.coordinator.requests import Committer, OffsetColumns
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.apis import BY_NAME
from kohort.protocol.packing import pack_int32
from kohort.protocol.request_fast_path import OFFSET_BYTES, Columns, read_offsets
from kohort.server.net import AFTER_CORRELATION_ID, CORRELATION_ID, Exchange, RepeatedRequest
from kohort.server.services import Services

_TAGS: Final = b"\0\0"
"""Bytes behind the offsets: no tags of the topic, none of the request."""
_NO_HEADER_TAGS: Final = b"\0"
_ONLY_PARTITION: Final = slice(-20, -16)
"""The partition in a request that has one."""
_ONLY_POSITION: Final = slice(-16, -4)
"""Offset and leader epoch of the partition, before the metadata and the tags of each level."""
MAX_KEPT_BYTES: Final = 1_024
"""Most bytes of a frame before its offsets that a connection keeps."""


def is_repeatable(frame: bytes, topics: Sequence[Columns], end: int) -> bool:
    """Whether a commit of `topics` that ends at `end` may be left with its connection."""
    return (
        len(topics) == 1
        and end == len(frame)
        and end <= MAX_KEPT_BYTES + OFFSET_BYTES * len(topics[0][1])
    )


class RepeatedCommit(RepeatedRequest):
    """An OffsetCommit of one topic, as its connection keeps it."""

    __slots__ = (
        "_before_id",
        "_behind_id",
        "_columns",
        "_commit",
        "_committer",
        "_count",
        "_end",
        "_first",
        "_id",
        "_key",
        "_only",
        "_size",
        "_success",
        "_success_size",
        "_topic",
        "_topics",
        "_version",
    )

    api_key = BY_NAME["offset_commit"].key

    def __init__(
        self,
        services: Services,
        exchange: Exchange,
        frame: bytes,
        committer: Committer,
        read: Columns,
        columns: OffsetColumns,
    ) -> None:
        """`frame` ends with its only topic, which was `read` from it into `columns`."""
        self._version = exchange.version
        self._topics = services.topics
        self._topic = services.topics.get(columns[0])
        self._commit = services.groups.committing(committer.group)
        self._committer = committer
        self._columns = columns
        self._key = read[0]
        self._count = len(columns[2])
        self._size = len(frame)
        self._first = len(frame) - len(_TAGS) - OFFSET_BYTES * self._count
        self._before_id = frame[:CORRELATION_ID]
        self._id = frame[CORRELATION_ID:AFTER_CORRELATION_ID]
        self._behind_id = frame[AFTER_CORRELATION_ID : self._first]
        self._only = frame[_ONLY_PARTITION] if self._count == 1 else b""
        """The encoded partition, if there is one; several are compared as a column."""
        self._end = frame[_ONLY_POSITION.stop :] if self._count == 1 else _TAGS
        self._success = self._success_size = b""
        """The response without errors, but for its size and correlation id; empty: not made yet."""

    def __repr__(self) -> str:
        return f"<RepeatedCommit v{self._version} of {self._committer.group!r}>"

    def matches(self, frame: bytes) -> bool:
        if len(frame) != self._size or not (
            frame.startswith(self._behind_id, AFTER_CORRELATION_ID)
            and frame.startswith(self._before_id)
            and frame.endswith(self._end)
        ):
            return False
        name, topic_id, partitions, _ = self._columns
        topic = self._topic
        if topic is None or self._topics.get(name) is not topic:
            return False
        if frame[_ONLY_PARTITION] == self._only:
            positions: Sequence[bytes] = (frame[_ONLY_POSITION],)
        else:
            offsets = read_offsets(frame, self._first, self._count)
            if offsets is None:
                return False
            if offsets[0] != partitions:
                if max(offsets[0]) >= len(topic.partitions):
                    return False
                self._success = b""
            partitions, positions = offsets
            self._only = frame[_ONLY_PARTITION] if self._count == 1 else b""
        self._columns = name, topic_id, partitions, positions
        self._id = frame[CORRELATION_ID:AFTER_CORRELATION_ID]
        return True

    def submit(self, respond: Callable[[ErrorCode], None]) -> None:
        self._commit(respond, self._committer, self._version, (self._columns,))

    def response(self, error: ErrorCode) -> bytes:
        if error:
            body = self._body(error)
            return self._size_of(body) + self._id + body
        if not self._success:
            self._success = self._body(error)
            self._success_size = self._size_of(self._success)
        return self._success_size + self._id + self._success

    def _body(self, error: ErrorCode) -> bytes:
        columns = [(self._key, self._columns[2], ())]
        return _NO_HEADER_TAGS + response_fast_path.offset_commit_columns(
            self._version, columns, error
        )

    def _size_of(self, body: bytes) -> bytes:
        return pack_int32(len(self._id) + len(body))
