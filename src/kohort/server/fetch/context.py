"""One Fetch, from request to response: the partitions to read, in one pass, or several if it waits.

A full fetch names all its partitions, and its response has all of them. An incremental one
(`sessions`) reads the partitions that are due in its session, and its response has those that the
client does not know yet.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from kohort.server.fetch.partitions import PartitionKey, Partitions
from kohort.server.fetch.reading import FetchPartitionData, PartitionRequest
from kohort.types import Instant

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1
MAX_PARTITIONS_OF_SESSION: Final = 20_000
"""A client that fetches more gets no session: one turn must be enough for all of them."""


class FetchSession:
    """The partitions that a client fetches, and the offsets that it got last."""

    __slots__ = ("_sent", "acls", "by_id", "created", "epoch", "id", "last_used", "partitions")

    def __init__(
        self, session_id: int, partitions: Partitions, by_id: bool, now: Instant, acls: int = 0
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.epoch = INITIAL_EPOCH + 1
        """Epoch of the next request."""
        self.by_id = by_id
        """Whether topics are named by id, from first to last request."""
        self.created = self.last_used = now
        self.acls = acls
        """Version of the ACLs by which its partitions were read last."""
        self._sent: dict[PartitionKey, tuple[int, int]] = {}

    def update(
        self, requested: Iterable[PartitionRequest], forgotten: Iterable[PartitionKey]
    ) -> None:
        """Apply one request of the client, and increment the epoch."""
        for request in requested:
            self.partitions.add(request)
        for key in forgotten:
            self.partitions.remove(key)
            self._sent.pop(key, None)
        self.epoch = self.epoch % MAX_EPOCH + 1

    def has_sent(self, fetched: FetchPartitionData) -> bool:
        """Whether the client has got these offsets."""
        offsets = (fetched.high_watermark, fetched.log_start_offset)
        return self._sent.get((fetched.request.topic, fetched.request.partition)) == offsets

    def pop_changed(
        self, fetched: Iterable[FetchPartitionData], *, mark_caught_up: bool = True
    ) -> list[FetchPartitionData]:
        """The partitions that changed for the client; from now on they count as sent.

        Without `mark_caught_up` the next request reads them again: the logs may have changed since
        they were read.
        """
        return [data for data in fetched if self._has_changed(data, mark_caught_up)]

    def _has_changed(self, fetched: FetchPartitionData, mark_caught_up: bool) -> bool:
        if not self.partitions.is_current(fetched.request):
            return True
        key = (fetched.request.topic, fetched.request.partition)
        if fetched.error or fetched.diverging:
            self._sent.pop(key, None)  # an error is sent until it is over
            return True
        has_sent = self.has_sent(fetched)
        self._sent[key] = (fetched.high_watermark, fetched.log_start_offset)
        if fetched.records:
            self.partitions.move_to_end(key)
            return True
        if mark_caught_up and fetched.is_all:
            self.partitions.watch(fetched, caught_up=True)
        return not has_sent

    def __repr__(self) -> str:
        return f"<FetchSession {self.id} epoch={self.epoch} partitions={len(self.partitions)}>"


_OpenSession: TypeAlias = Callable[[Partitions], FetchSession | None]


class FetchContext(ABC):
    """One request: the partitions to read, and the response to it.

    It is read in passes. The partitions in `due` are read and given to `record`. Right after that
    comes either `finish`, or `wait_for_bytes` and another pass.
    """

    _read: Sequence[FetchPartitionData] = ()
    """Results of the last pass."""

    @property
    @abstractmethod
    def due(self) -> Sequence[PartitionRequest]:
        """The partitions that the next pass has to read, in this order."""

    @property
    @abstractmethod
    def any_caught_up(self) -> bool:
        """Whether other partitions are caught up, and become due when their logs change."""

    def record(self, fetched: Sequence[FetchPartitionData]) -> None:
        """Take the results of a pass over `due`."""
        self._read = fetched

    @abstractmethod
    def watch(self) -> None:
        """Watch the logs of the last pass; nothing else may have run since they were read."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """Times that a watched partition changed."""

    @abstractmethod
    async def wait_for_bytes(self, missing: int, deadline: float) -> None:
        """Wait as `Partitions.wait_for_bytes` does."""

    @abstractmethod
    def finish(self, *, mark_caught_up: bool = True) -> tuple[int, Sequence[FetchPartitionData]]:
        """The session id and the partitions of the response.

        `mark_caught_up`: see `FetchSession.pop_changed`.
        """

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The session of a response without partitions, sent instead of `finish`."""

    @abstractmethod
    def close(self) -> None:
        """Release what only this request needs."""


class FullFetch(FetchContext):
    """A Fetch that names all its partitions; `open_session` may make a session of them."""

    def __init__(
        self,
        requested: Iterable[PartitionRequest],
        open_session: _OpenSession | None,
        *,
        distinct: bool = False,
    ) -> None:
        """`distinct`: `requested` has each partition once."""
        if not distinct:
            by_key = {(request.topic, request.partition): request for request in requested}
            requested = by_key.values()
        self._requested = list(requested)
        large = len(self._requested) > MAX_PARTITIONS_OF_SESSION
        self._open_session = None if large else open_session
        self._partitions: Partitions | None = None
        """Set when the request waits: most responses are sent after the first pass."""
        self._read_before: dict[PartitionRequest, FetchPartitionData] = {}

    @property
    def due(self) -> Sequence[PartitionRequest]:
        return self._requested if self._partitions is None else self._partitions.due

    @property
    def any_caught_up(self) -> bool:
        return self._partitions is not None and self._partitions.any_caught_up

    def watch(self) -> None:
        self._watch_read()

    def _watch_read(self) -> Partitions:
        if self._partitions is None:
            self._partitions = Partitions(self._requested)
        for partition in self._read:
            # Without an append, the response has the partition as it was read here.
            self._read_before[partition.request] = partition._replace(records=b"")
            self._partitions.watch(partition, caught_up=partition.is_all)
        self._read = ()
        return self._partitions

    @property
    def changes(self) -> int:
        return 0 if self._partitions is None else self._partitions.changes

    async def wait_for_bytes(self, missing: int, deadline: float) -> None:
        await self._watch_read().wait_for_bytes(missing, deadline)

    def finish(self, *, mark_caught_up: bool = True) -> tuple[int, Sequence[FetchPartitionData]]:
        partitions = self._read
        if self._read_before:
            last = {partition.request: partition for partition in self._read}
            partitions = list((self._read_before | last).values())
        if self._open_session is None:
            return NO_SESSION, partitions
        session = self._open_session(self._partitions or Partitions(self._requested))
        if session is None:
            return NO_SESSION, partitions
        self._partitions = None  # they are the session's from now on
        session.pop_changed(partitions, mark_caught_up=mark_caught_up)
        return session.id, partitions

    @property
    def session_id(self) -> int:
        return NO_SESSION

    def close(self) -> None:
        if self._partitions is not None:
            self._partitions.close()


class IncrementalFetch(FetchContext):
    """A request of a session."""

    def __init__(self, session: FetchSession) -> None:
        self._session = session

    @property
    def due(self) -> Sequence[PartitionRequest]:
        return self._session.partitions.due

    @property
    def any_caught_up(self) -> bool:
        return self._session.partitions.any_caught_up

    def watch(self) -> None:
        partitions = self._session.partitions
        for partition in self._read:
            partitions.watch(
                partition, caught_up=partition.is_all and self._session.has_sent(partition)
            )
        self._read = ()

    @property
    def changes(self) -> int:
        return self._session.partitions.changes

    async def wait_for_bytes(self, missing: int, deadline: float) -> None:
        self.watch()
        await self._session.partitions.wait_for_bytes(missing, deadline)

    def finish(self, *, mark_caught_up: bool = True) -> tuple[int, Sequence[FetchPartitionData]]:
        return self._session.id, self._session.pop_changed(
            self._read, mark_caught_up=mark_caught_up
        )

    @property
    def session_id(self) -> int:
        return self._session.id

    def close(self) -> None:
        pass  # the session continues
