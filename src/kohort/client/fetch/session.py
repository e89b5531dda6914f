"""Incremental fetch sessions (KIP-227): the broker remembers what we fetch, we only say what has
changed.

Pure: what to send, and what an answer means for the next request. A session begins with a full
request (epoch 0); if the broker has room for it, it answers with an id, and each further request
has the next epoch. Whatever goes wrong, the next request is full again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kohort.errors import ErrorCode
from kohort.types import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1

_LOST: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class RequestedPartition(NamedTuple):
    """What is asked of one partition."""

    topic_id: UUID | None
    offset: int
    leader_epoch: int
    max_bytes: int


class FetchRequest(NamedTuple):
    """What one request says about sessions and partitions."""

    session_id: int
    epoch: int
    ask: Mapping[TopicPartition, RequestedPartition]
    """New in the session, or changed."""
    forget: Mapping[TopicPartition, RequestedPartition]

    def fields(self, *, by_id: bool) -> dict[str, Any]:
        """As `protocol.building.request` takes them; topics by their ids (v13+) or names."""
        topics: defaultdict[tuple[str, UUID | None], list[dict[str, Any]]] = defaultdict(list)
        for tp, asked in self.ask.items():
            entry = {
                "partition": tp.partition,
                "current_leader_epoch": asked.leader_epoch,
                "fetch_offset": asked.offset,
                "partition_max_bytes": asked.max_bytes,
            }
            topics[tp.topic, asked.topic_id].append(entry)
        forgotten: defaultdict[tuple[str, UUID | None], list[int]] = defaultdict(list)
        for tp, asked in self.forget.items():
            forgotten[tp.topic, asked.topic_id].append(tp.partition)
        return {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [
                {**_named(key, by_id), "partitions": entries} for key, entries in topics.items()
            ],
            "forgotten_topics_data": [
                {**_named(key, by_id), "partitions": each} for key, each in forgotten.items()
            ],
        }


def _named(key: tuple[str, UUID | None], by_id: bool) -> dict[str, Any]:
    name, topic_id = key
    return {"topic_id": topic_id} if by_id else {"topic": name}


class FetchSession:
    """One session, with one broker, on one connection at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, RequestedPartition] = {}  # what the broker remembers

    def __repr__(self) -> str:
        return f"<FetchSession {self._id} epoch={self._epoch} partitions={len(self._known)}>"

    def request(self, wanted: Mapping[TopicPartition, RequestedPartition]) -> FetchRequest:
        """The next request, for these partitions. `handle_response` or `handle_error` has to be called before
        the one after.
        """
        if self._epoch == INITIAL_EPOCH:
            self._known = dict(wanted)
            return FetchRequest(self._id, INITIAL_EPOCH, self._known, {})
        forget = {tp: asked for tp, asked in self._known.items() if _is_gone(asked, wanted.get(tp))}
        ask = {tp: asked for tp, asked in wanted.items() if self._known.get(tp) != asked}
        self._known = dict(wanted)
        return FetchRequest(self._id, self._epoch, ask, forget)

    def handle_response(self, error: int, session_id: int) -> None:
        """The broker answered the request with that session id."""
        if error == ErrorCode.fetch_session_id_not_found:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif error:
            self.handle_error()
        elif session_id == NO_SESSION:
            # It has no room for a session, or ended this one: the next request is full, and asks
            # for one again.
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1

    def handle_error(self) -> None:
        """There was no answer, or it cannot be used: close the session, if there is one, with a new
        full request.
        """
        self._epoch = INITIAL_EPOCH

    def final(self) -> FetchRequest | None:
        """The request that frees the broker's memory of the session; None if there is none."""
        if self._id == NO_SESSION:
            return None
        return FetchRequest(self._id, FINAL_EPOCH, {}, {})


def is_session_lost(error: int) -> bool:
    """Whether a whole answer's error only means that the session has to begin anew."""
    return error in _LOST


def topics_of(partitions: Iterable[TopicPartition]) -> set[str]:
    """Their topics."""
    return {tp.topic for tp in partitions}


def _is_gone(known: RequestedPartition, wanted: RequestedPartition | None) -> bool:
    """A topic that was made anew is another one: the old id has to be forgotten."""
    return wanted is None or wanted.topic_id != known.topic_id
