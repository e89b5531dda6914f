"""Incremental fetch sessions (KIP-227): requests carry only the partitions that changed.

Pure: decides on the partitions of each request. A session begins with a full request (epoch 0). If
the broker has room for a session, its response has a session id, and each further request has the
next epoch. After any error the next request is full again.
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
MAX_EPOCH: Final = 2**31 - 1

_LOST: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


class RequestedPartition(NamedTuple):
    """One partition of a Fetch request."""

    topic_id: UUID | None
    offset: int
    leader_epoch: int
    max_bytes: int


class FetchRequest(NamedTuple):
    """The session and the partitions of one Fetch request."""

    session_id: int
    epoch: int
    changed: Mapping[TopicPartition, RequestedPartition]
    """Partitions that are new or changed in the session."""
    removed: Mapping[TopicPartition, RequestedPartition]

    def fields(self, *, by_id: bool) -> dict[str, Any]:
        """The fields as `protocol.building.request` takes them; topics by id (v13+) or by name."""
        topics: defaultdict[tuple[str, UUID | None], list[dict[str, Any]]] = defaultdict(list)
        for tp, requested in self.changed.items():
            entry = {
                "partition": tp.partition,
                "current_leader_epoch": requested.leader_epoch,
                "fetch_offset": requested.offset,
                "partition_max_bytes": requested.max_bytes,
            }
            topics[tp.topic, requested.topic_id].append(entry)
        forgotten: defaultdict[tuple[str, UUID | None], list[int]] = defaultdict(list)
        for tp, requested in self.removed.items():
            forgotten[tp.topic, requested.topic_id].append(tp.partition)
        return {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [
                {**_named(key, by_id), "partitions": entries} for key, entries in topics.items()
            ],
            "forgotten_topics_data": [
                {**_named(key, by_id), "partitions": partitions}
                for key, partitions in forgotten.items()
            ],
        }


def _named(key: tuple[str, UUID | None], by_id: bool) -> dict[str, Any]:
    name, topic_id = key
    return {"topic_id": topic_id} if by_id else {"topic": name}


class FetchSessionHandler:
    """One session, with one broker, on one connection at a time."""

    def __init__(self, *, max_epoch: int = MAX_EPOCH) -> None:
        """Epoch 1 follows `max_epoch`."""
        self._max_epoch = max_epoch
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._sent: dict[TopicPartition, RequestedPartition] = {}  # of the session

    def __repr__(self) -> str:
        return f"<FetchSessionHandler {self._id} epoch={self._epoch} partitions={len(self._sent)}>"

    def request(self, requested: Mapping[TopicPartition, RequestedPartition]) -> FetchRequest:
        """The next request, for these partitions.

        `handle_response` or `handle_error` has to be called before the next one.
        """
        if self._epoch == INITIAL_EPOCH:
            self._sent = dict(requested)
            return FetchRequest(self._id, INITIAL_EPOCH, self._sent, {})
        removed = {
            tp: entry for tp, entry in self._sent.items() if _is_removed(entry, requested.get(tp))
        }
        changed = {tp: entry for tp, entry in requested.items() if self._sent.get(tp) != entry}
        self._sent = dict(requested)
        return FetchRequest(self._id, self._epoch, changed, removed)

    def handle_response(self, error: int, session_id: int) -> None:
        """A response with that error code and session id arrived."""
        if error == ErrorCode.fetch_session_id_not_found:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        elif error:
            self.handle_error()
        elif session_id == NO_SESSION:
            # The broker has no room for a session, or ended this one: the next request is full, and
            # asks for a session again.
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == self._max_epoch else self._epoch + 1

    def handle_error(self) -> None:
        """Make the next request full, as there is no usable response."""
        self._epoch = INITIAL_EPOCH

    def final(self) -> FetchRequest | None:
        """The request that closes the session; None if there is none."""
        if self._id == NO_SESSION:
            return None
        return FetchRequest(self._id, FINAL_EPOCH, {}, {})


def is_session_lost(error: int) -> bool:
    """Whether a top-level error code only requires a new session."""
    return error in _LOST


def topics_of(partitions: Iterable[TopicPartition]) -> set[str]:
    """The topics of these partitions."""
    return {tp.topic for tp in partitions}


def _is_removed(sent: RequestedPartition, requested: RequestedPartition | None) -> bool:
    """Whether to remove the partition from the session; a recreated topic has another id."""
    return requested is None or requested.topic_id != sent.topic_id
