"""Incremental fetch sessions (KIP-227): a Fetch names only the partitions that changed.

A request names a session and its epoch:

    epoch -1   a full fetch without a session; ends the one it names
    epoch 0    a full fetch that asks for a new session in place of the one it names
    epoch n    the n-th fetch of a session: the partitions named are added or moved, the forgotten
               ones dropped, and the response has only partitions with records, an error, or
               offsets that moved

The epoch counts the requests, so one that is lost or repeated is noticed and the client starts
again. A session is known by its id alone, on any connection.

The number of sessions is bounded, and so is that of their partitions. A session gives way to a new
one for which there is no room

- if it was idle for `EVICTION_MS`; the one that was idle longest is the first
- if all slots are taken: the one with the fewest partitions, if it has fewer than the new one and
  is older than `EVICTION_MS`.

If there is no room then, the client gets session id 0, which means full fetches. Source:
FetchSessionCacheShard.tryEvict of Kafka, which bounds the number of sessions alone.

Only partitions that are due are read (`partitions`). A partition with records is moved to the end,
so that one busy partition does not starve the others.
"""

import secrets
from collections.abc import Iterable
from typing import Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.fetch.context import (
    INITIAL_EPOCH,
    MAX_PARTITIONS_OF_SESSION,
    FetchContext,
    FetchSession,
    FullFetch,
    IncrementalFetch,
)
from kohort.server.fetch.partitions import PartitionKey, Partitions
from kohort.server.fetch.reading import PartitionRequest
from kohort.types import Instant

FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
MAX_PARTITIONS: Final = 200_000
"""Partitions of all sessions; they exist or not, and outlive the connection that named them."""
_MAX_INT: Final = 2**31 - 1


class FetchSessions:
    """All sessions of a server."""

    def __init__(self, slots: int) -> None:
        """At most `slots` sessions at a time."""
        self._slots = slots
        self._partitions = 0  # of all sessions
        self._sessions: dict[int, FetchSession] = {}  # in the order of their last use

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        requested: Iterable[PartitionRequest],
        forgotten: Iterable[PartitionKey],
        *,
        by_id: bool,
        now: Instant,
        distinct: int = 0,
        acls: int = 0,
    ) -> FetchContext:
        """Begin one request.

        `distinct` is the number of partitions of a large request, which names each once; else 0.

        `acls` is the version of the ACLs: when it has changed, all partitions are read again, so
        that a client learns which ones it may not read any more, or may read now.

        Raises KafkaError FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR: the client then begins a new session.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._end(session_id)
            if epoch == FINAL_EPOCH:
                return FullFetch(requested, None, distinct=distinct > 0)
            return FullFetch(
                requested,
                lambda partitions: self._open(partitions, by_id, now, acls),
                distinct=distinct > 0,
            )
        session = self._resume(session_id, epoch, by_id)
        if distinct > MAX_PARTITIONS_OF_SESSION:
            self._end(session_id)
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        session.last_used = now
        if session.acls != acls:
            session.acls = acls
            session.partitions.mark_all_due()
        former_count = len(session.partitions)
        session.update(requested, forgotten)
        self._partitions += len(session.partitions) - former_count
        too_many = len(session.partitions) > MAX_PARTITIONS_OF_SESSION
        if too_many or not self._has_partitions_left(0, now):
            self._end(session_id)
            raise KafkaError(ErrorCode.fetch_session_id_not_found)
        return IncrementalFetch(session)

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

    def _open(
        self, partitions: Partitions, by_id: bool, now: Instant, acls: int
    ) -> FetchSession | None:
        """A new session, None if there is no room for one."""
        count = len(partitions)
        if not self._has_partitions_left(count, now) or not self._has_slot_left(count, now):
            return None
        self._partitions += len(partitions)
        session_id = secrets.randbelow(_MAX_INT) + 1
        while session_id in self._sessions:
            session_id = secrets.randbelow(_MAX_INT) + 1
        session = self._sessions[session_id] = FetchSession(
            session_id, partitions, by_id, now, acls
        )
        return session

    def _has_partitions_left(self, count: int, now: Instant) -> bool:
        """Evict until there is room for `count` more partitions; False if there is none."""
        while self._partitions + count > MAX_PARTITIONS:
            if not self._evict_idle(now):
                return False
        return True

    def _has_slot_left(self, count: int, now: Instant) -> bool:
        """Evict until a session of `count` partitions has a slot; False if there is none."""
        if len(self._sessions) < self._slots or self._evict_idle(now):
            return True
        evictable = (
            session
            for session in self._sessions.values()
            if now - session.created > EVICTION_MS and len(session.partitions) < count
        )
        smallest = min(evictable, key=lambda session: len(session.partitions), default=None)
        if smallest is None:
            return False
        self._end(smallest.id)
        return True

    def _evict_idle(self, now: Instant) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used <= EVICTION_MS:
            return False
        self._end(oldest.id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            session.partitions.close()
