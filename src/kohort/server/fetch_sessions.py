"""Incremental fetch sessions (KIP-227): a consumer of many partitions says only what changed since its last Fetch.

A request names a session and its epoch:

    epoch -1   a full fetch without a session; ends the one it names
    epoch 0    a full fetch that asks for a new session in place of the one it names
    epoch n    the n-th fetch of a session: the partitions named are added or moved, the forgotten ones dropped, and the
               answer has only partitions with records, an error, or offsets that moved

The epoch counts the requests, so one that is lost or repeated is noticed and the client starts again. A session is
known by its id alone, on any connection. Their number is bounded: when all slots are taken, the one that was idle
longest gives way if it was so for `EVICTION_MS`; else the client gets session id 0, which means full fetches.

Partitions that gave records go to the end of the order, so that one busy partition does not starve the others.
"""

import secrets
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from kohort.errors import ErrorCode, KafkaError
from kohort.server.fetching import Fetched, TopicKey, Wanted
from kohort.types import Instant

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
_MAX_INT: Final = 2**31 - 1

PartitionKey: TypeAlias = tuple[TopicKey, int]


class FetchSession:
    """What a client fetches, and what it was told of it last."""

    __slots__ = ("_told", "_wanted", "by_id", "epoch", "id", "last_used")

    def __init__(self, session_id: int, by_id: bool, now: Instant) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH
        """That of the next request, once `update` has taken in the first."""
        self.by_id = by_id
        """Whether topics are named by id, from first to last request."""
        self.last_used = now
        self._wanted: dict[PartitionKey, Wanted] = {}
        self._told: dict[PartitionKey, tuple[int, int]] = {}

    @property
    def wanted(self) -> list[Wanted]:
        """All partitions, in the order in which they are read."""
        return list(self._wanted.values())

    def update(self, wanted: Iterable[Wanted], forgotten: Iterable[PartitionKey]) -> None:
        """One request: the epoch moves on."""
        for each in wanted:
            self._wanted[each.topic, each.partition] = each
        for key in forgotten:
            self._wanted.pop(key, None)
            self._told.pop(key, None)
        self.epoch = self.epoch % _MAX_INT + 1

    def news(self, fetched: Iterable[Fetched]) -> list[Fetched]:
        """What of it the client does not know yet."""
        return [each for each in fetched if self._is_news(each)]

    def _is_news(self, fetched: Fetched) -> bool:
        key = (fetched.wanted.topic, fetched.wanted.partition)
        offsets = (fetched.high_watermark, fetched.log_start_offset)
        if fetched.records and key in self._wanted:
            self._wanted[key] = self._wanted.pop(key)
        if fetched.error:
            self._told.pop(key, None)  # it is told until it is over
            return True
        moved = self._told.get(key) != offsets
        self._told[key] = offsets
        return moved or bool(fetched.records)

    def __repr__(self) -> str:
        return f"<FetchSession {self.id} epoch={self.epoch} partitions={len(self._wanted)}>"


class FetchContext(NamedTuple):
    """One request: what to read, and what becomes of it."""

    wanted: list[Wanted]
    finish: Callable[[list[Fetched]], tuple[int, list[Fetched]]]
    """What was read -> (session id, what of it to answer)."""


class FetchSessions:
    """All sessions of a server."""

    def __init__(self, slots: int) -> None:
        """At most `slots` sessions at a time."""
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}  # in the order of their last use

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[Wanted],
        forgotten: Iterable[PartitionKey],
        *,
        by_id: bool,
        now: Instant,
    ) -> FetchContext:
        """Take one request in. Raises KafkaError FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR: the client then begins a new session.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            unique = list({(each.topic, each.partition): each for each in wanted}.values())
            if epoch == FINAL_EPOCH:
                return FetchContext(unique, lambda fetched: (NO_SESSION, fetched))
            return FetchContext(unique, lambda fetched: (self._open(unique, fetched, by_id, now), fetched))
        session = self._resume(session_id, epoch, by_id)
        session.last_used = now
        session.update(wanted, forgotten)
        return FetchContext(session.wanted, lambda fetched: (session.id, session.news(fetched)))

    def _resume(self, session_id: int, epoch: int, by_id: bool) -> FetchSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.fetch_session_topic_id_error)
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def _open(self, wanted: list[Wanted], fetched: list[Fetched], by_id: bool, now: Instant) -> int:
        """The id of a new session, 0 if there is no room for one."""
        if not self._make_room(now):
            return NO_SESSION
        session_id = secrets.randbelow(_MAX_INT) + 1
        while session_id in self._sessions:
            session_id = secrets.randbelow(_MAX_INT) + 1
        session = self._sessions[session_id] = FetchSession(session_id, by_id, now)
        session.update(wanted, ())
        session.news(fetched)
        return session_id

    def _make_room(self, now: Instant) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used <= EVICTION_MS:
            return False
        del self._sessions[oldest.id]
        return True
