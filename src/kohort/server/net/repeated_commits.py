"""An OffsetCommit that a connection sends again and again, to the same partitions of one topic.

From one to the next only the correlation id, the offsets and their leader epochs change. So what
was made of the first is kept with the connection: the next frame is compared with it, and goes to
the group's shard with nothing of it read but the offsets. Whether they may be committed is judged
anew every time, and so is whether the topic is still the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kohort.coordinator.requests import Committer, OffsetColumns
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.packing import pack_int32
from kohort.protocol.request_fast_path import OFFSET_BYTES, Columns, read_offsets
from kohort.server.net.exchange import Exchange
from kohort.server.topics import Topic

if TYPE_CHECKING:
    from kohort.server.broker import Broker

_ID: Final = 8
"""Where the correlation id stands: behind the frame's size, the API key and its version."""
_REST: Final = _ID + 4
_TAGS: Final = b"\0\0"
"""What follows the offsets: no tags of the topic, none of the request."""
_NO_TAGS: Final = b"\0"
"""Of the answer's header."""
_ONLY: Final = slice(-20, -16)
"""The partition, if there is but one."""
_POSITION: Final = slice(-16, -4)
"""Its offset and leader epoch: behind them are its metadata and its tags, and the tags of topic and
request.
"""
KEPT_BYTES: Final = 1_024
"""Of a frame, before its offsets: a connection keeps no more."""


class CommitAgain:
    """What a connection keeps of an OffsetCommit, should it come again; and then that request,
    until it is answered.
    """

    __slots__ = ("_columns", "_commit", "_committer", "_count", "_end", "_exchange", "_first", "_id", "_key", "_ok",
                 "_ok_size", "_only", "_rest", "_size", "_start", "_topic", "_topics", "api_key")  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        exchange: Exchange,
        data: bytes,
        committer: Committer,
        read: Columns,
        columns: OffsetColumns,
    ) -> None:
        """`data` is a frame that ends with its only topic, which was `read` and made into `columns`
        for the shard; `exchange` is that of its first time.
        """
        self.api_key = exchange.api_key
        self._exchange = exchange
        self._topics = broker.topics
        self._topic = broker.topics.get(columns[0])
        self._commit = broker.groups.committing(committer.group)
        self._committer = committer
        self._columns = columns
        self._key = read[0]
        self._count = len(columns[2])
        self._size = len(data)
        self._first = len(data) - len(_TAGS) - OFFSET_BYTES * self._count
        self._start = data[:_ID]
        self._id = data[_ID:_REST]
        self._rest = data[_REST : self._first]
        self._only = data[_ONLY] if self._count == 1 else b""
        """If there is but one partition: that, as bytes. More of them are looked at as a column."""
        self._end = data[_POSITION.stop :] if self._count == 1 else _TAGS
        self._ok = self._ok_size = b""
        """The answer if all goes well, but for its size and correlation id; empty: not made yet."""

    def __repr__(self) -> str:
        return f"<CommitAgain of {self._exchange!r}>"

    def answer(self, data: bytes) -> bytes | None:
        """None if `data` is anything but the same request; else nothing: the answer comes later."""
        if len(data) != self._size or not (
            data.startswith(self._rest, _REST)
            and data.startswith(self._start)
            and data.endswith(self._end)
        ):
            return None
        name, topic_id, partitions, _ = self._columns
        topic = self._topic
        if topic is None or self._topics.get(name) is not topic:
            return None
        if data[_ONLY] == self._only:
            positions: Sequence[bytes] = (data[_POSITION],)
        else:
            offsets = read_offsets(data, self._first, self._count)
            if offsets is None or not self._are_there(offsets[0], topic):
                return None
            partitions, positions = offsets
            self._only = data[_ONLY] if self._count == 1 else b""
        self._id = data[_ID:_REST]
        exchange = self._exchange
        exchange.connection.begin(self)
        self._commit(
            self._take_answer,
            self._committer,
            exchange.version,
            ((name, topic_id, partitions, positions),),
        )
        return b""

    def _are_there(self, partitions: Sequence[int], topic: Topic) -> bool:
        name, topic_id, known, positions = self._columns
        if partitions != known:
            if max(partitions) >= len(topic.partitions):
                return False
            self._columns = name, topic_id, partitions, positions
            self._ok = b""
        return True

    def _take_answer(self, error: ErrorCode) -> None:
        connection = self._exchange.connection
        if not connection.is_open:
            return
        try:
            if error:
                connection.count_error(self.api_key, error)
                body = self._body(error)
                connection.answered(self._size_of(body) + self._id + body)
            else:
                if not self._ok:
                    self._ok = self._body(error)
                    self._ok_size = self._size_of(self._ok)
                connection.answered(self._ok_size + self._id + self._ok)
        except Exception as failure:  # as in `Exchange.later`
            connection.failed(failure)

    def _body(self, error: ErrorCode) -> bytes:
        columns = [(self._key, self._columns[2], ())]
        return _NO_TAGS + response_fast_path.offset_commit_columns(
            self._exchange.version, columns, error
        )

    def _size_of(self, body: bytes) -> bytes:
        return pack_int32(len(self._id) + len(body))
