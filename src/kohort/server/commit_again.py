"""An OffsetCommit that a connection sends again and again, to the same partitions of one topic.

From one to the next only the correlation id, the offsets and their leader epochs change. So what was made of the first
is kept with the connection: the next frame is compared with it, and goes to the group's shard with nothing of it read
but the offsets. Whether they may be committed is judged anew every time, and so is whether the topic is still the same.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from kohort.coordinator.requests import Committer, OffsetColumns
from kohort.errors import ErrorCode
from kohort.protocol import packed
from kohort.protocol.hot import OFFSET_BYTES, Columns, read_offsets
from kohort.server.exchange import Exchange

if TYPE_CHECKING:
    from kohort.server.broker import Broker

_ID: Final = 8
"""Where the correlation id stands: behind the frame's size, the API key and its version."""
_REST: Final = _ID + 4
_unpack_id: Final = Struct(">i").unpack_from
_TAGS: Final = b"\0\0"
"""What follows the offsets: no tags of the topic, none of the request."""
KEPT_BYTES: Final = 1_024
"""Of a frame, before its offsets: a connection keeps no more."""


class CommitAgain:
    """What a connection keeps of an OffsetCommit, should it come again."""

    __slots__ = ("_broker", "_committer", "_count", "_exchange", "_first", "_key", "_name", "_ok", "_partitions",
                 "_rest", "_size", "_start", "_topic", "_topic_id", "api_key")  # fmt: skip

    def __init__(
        self,
        broker: "Broker",
        exchange: Exchange,
        data: bytes,
        committer: Committer,
        read: Columns,
        columns: OffsetColumns,
    ) -> None:
        """`data` is a frame that ends with its only topic, which was `read` and made into `columns` for the shard;
        `exchange` is that of its first time.
        """
        self.api_key = exchange.api_key
        self._exchange = exchange
        self._broker = broker
        self._committer = committer
        self._name, self._topic_id, self._partitions, positions = columns
        self._topic = broker.topics.get(self._name)
        self._key = read[0]
        self._count = len(positions)
        self._size = len(data)
        self._first = len(data) - len(_TAGS) - OFFSET_BYTES * self._count
        self._start = data[:_ID]
        self._rest = data[_REST : self._first]
        self._ok = b""
        """The body of the answer if all goes well; empty: not made yet."""

    def answer(self, data: bytes) -> bytes | None:
        """None if `data` is anything but the same request; else nothing: the answer comes through an exchange."""
        if len(data) != self._size or not (data.startswith(self._start) and data.startswith(self._rest, _REST)):
            return None
        offsets = read_offsets(data, self._first, self._count) if data.endswith(_TAGS) else None
        topic = self._broker.topics.get(self._name)
        if offsets is None or topic is None or topic is not self._topic:
            return None
        partitions, positions = offsets
        if partitions != self._partitions:
            if max(partitions) >= len(topic.partitions):
                return None
            self._partitions = partitions
            self._ok = b""
        self._begin(data)
        columns = ((self._name, self._topic_id, partitions, positions),)
        self._broker.groups.commit(self._take_answer, self._committer, self._exchange.version, columns)
        return b""

    def _begin(self, data: bytes) -> None:
        last = self._exchange
        (correlation_id,) = _unpack_id(data, _ID)
        self._exchange = Exchange(last.connection, last.api_key, last.version, correlation_id, last.client_id)
        last.connection.begin(self._exchange)

    def _take_answer(self, error: ErrorCode) -> None:
        exchange = self._exchange
        try:
            if error:
                exchange.answer_packed(self._body(error), (error,))
            else:
                self._ok = self._ok or self._body(error)
                exchange.answer_packed(self._ok)
        except Exception as failure:  # as in `Exchange.later`
            exchange.connection.failed(failure, exchange)

    def _body(self, error: ErrorCode) -> bytes:
        return packed.offset_commit_columns(self._exchange.version, [(self._key, self._partitions, ())], error)
