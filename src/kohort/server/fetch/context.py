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
"""A client that fetches more gets no session: looking at all of them must take one turn only."""


class FetchSession:
    """The partitions that a client fetches, and the offsets that it was sent last."""

    __slots__ = ("_sent", "acls", "by_id", "created", "epoch", "id", "last_used", "partitions")

    def __init__(
        self, session_id: int, partitions: Partitions, by_id: bool, now: Instant, acls: int = 0
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.epoch = INITIAL_EPOCH + 1
        """That of the next request."""
        self.by_id = by_id
        """Whether topics are named by id, from first to last request."""
        self.created = self.last_used = now
        self.acls = acls
        """Version of the ACLs by which its partitions were read last."""
        self._sent: dict[PartitionKey, tuple[int, int]] = {}

    def update(self, wanted: Iterable[PartitionRequest], forgotten: Iterable[PartitionKey]) -> None:
        """One request: the epoch moves on."""
        for each in wanted:
            self.partitions.want(each)
        for key in forgotten:
            self.partitions.forget(key)
            self._sent.pop(key, None)
        self.epoch = self.epoch % MAX_EPOCH + 1

    def knows(self, fetched: FetchPartitionData) -> bool:
        """Whether the client was sent these offsets."""
        offsets = (fetched.high_watermark, fetched.log_start_offset)
        return self._sent.get((fetched.request.topic, fetched.request.partition)) == offsets

    def news(
        self, fetched: Iterable[FetchPartitionData], *, settle: bool = True
    ) -> list[FetchPartitionData]:
        """The partitions that are news to the client; they count as sent from now on.

        Without `settle` they are read again by the next request: others ran since they were read.
        """
        return [each for each in fetched if self._is_news(each, settle)]

    def _is_news(self, fetched: FetchPartitionData, settle: bool) -> bool:
        if not self.partitions.wants(fetched.request):
            return True
        key = (fetched.request.topic, fetched.request.partition)
        if fetched.error or fetched.diverging:
            self._sent.pop(key, None)  # an error is sent until it is over
            return True
        known = self.knows(fetched)
        self._sent[key] = (fetched.high_watermark, fetched.log_start_offset)
        if fetched.records:
            self.partitions.put_last(key)
            return True
        if settle and fetched.is_all:
            self.partitions.watch(fetched, settled=True)
        return not known

    def __repr__(self) -> str:
        return f"<FetchSession {self.id} epoch={self.epoch} partitions={len(self.partitions)}>"


_OpenSession: TypeAlias = Callable[[Partitions], FetchSession | None]


class FetchContext(ABC):
    """One request: what to read, and what becomes of it.

    It is read in passes: what is `due` is read and given to `took`; right after that comes either
    `finish`, or `more` and another pass.
    """

    _read: Sequence[FetchPartitionData] = ()
    """What the last pass gave."""

    @property
    @abstractmethod
    def due(self) -> Sequence[PartitionRequest]:
        """What the next pass has to read, in this order."""

    @property
    @abstractmethod
    def any_settled(self) -> bool:
        """Whether there are partitions besides, of which only their logs can tell news."""

    def took(self, fetched: Sequence[FetchPartitionData]) -> None:
        """What was due was read."""
        self._read = fetched

    @abstractmethod
    def watch(self) -> None:
        """Notice when what was taken last changes; nothing else may have run since it was read."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """Times that a watched partition changed."""

    @abstractmethod
    async def more(self, missing: int, deadline: float) -> None:
        """Wait as `Partitions.more`."""

    @abstractmethod
    def finish(self, *, settle: bool = True) -> tuple[int, Sequence[FetchPartitionData]]:
        """The session id and the partitions of the response; `settle`: see `FetchSession.news`."""

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The session of a response without partitions, sent instead of `finish`."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind that this request alone needs."""


class FullFetch(FetchContext):
    """A Fetch that names all its partitions; `open_session` may make a session of them."""

    def __init__(
        self,
        wanted: Iterable[PartitionRequest],
        open_session: _OpenSession | None,
        *,
        distinct: bool = False,
    ) -> None:
        """`distinct`: `wanted` has each partition once."""
        self._wanted = (
            list(wanted)
            if distinct
            else list({(each.topic, each.partition): each for each in wanted}.values())
        )
        large = len(self._wanted) > MAX_PARTITIONS_OF_SESSION
        self._open_session = None if large else open_session
        self._partitions: Partitions | None = None
        """None until it waits: most responses are sent after the first pass."""
        self._found: dict[PartitionRequest, FetchPartitionData] = {}

    @property
    def due(self) -> Sequence[PartitionRequest]:
        return self._wanted if self._partitions is None else self._partitions.due

    @property
    def any_settled(self) -> bool:
        return self._partitions is not None and self._partitions.any_settled

    def watch(self) -> None:
        self._watched()

    def _watched(self) -> Partitions:
        if self._partitions is None:
            self._partitions = Partitions(self._wanted)
        for each in self._read:
            self._found[each.request] = each._replace(records=b"")
            # without an append, the response has the partition as it was found
            self._partitions.watch(each, settled=each.is_all)
        self._read = ()
        return self._partitions

    @property
    def changes(self) -> int:
        return 0 if self._partitions is None else self._partitions.changes

    async def more(self, missing: int, deadline: float) -> None:
        await self._watched().more(missing, deadline)

    def finish(self, *, settle: bool = True) -> tuple[int, Sequence[FetchPartitionData]]:
        found = self._read
        if self._found:
            found = list((self._found | {each.request: each for each in self._read}).values())
        if self._open_session is None:
            return NO_SESSION, found
        session = self._open_session(self._partitions or Partitions(self._wanted))
        if session is None:
            return NO_SESSION, found
        self._partitions = None  # they are the session's from now on
        session.news(found, settle=settle)
        return session.id, found

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
    def any_settled(self) -> bool:
        return self._session.partitions.any_settled

    def watch(self) -> None:
        partitions = self._session.partitions
        for each in self._read:
            partitions.watch(each, settled=each.is_all and self._session.knows(each))
        self._read = ()

    @property
    def changes(self) -> int:
        return self._session.partitions.changes

    async def more(self, missing: int, deadline: float) -> None:
        self.watch()
        await self._session.partitions.more(missing, deadline)

    def finish(self, *, settle: bool = True) -> tuple[int, Sequence[FetchPartitionData]]:
        return self._session.id, self._session.news(self._read, settle=settle)

    @property
    def session_id(self) -> int:
        return self._session.id

    def close(self) -> None:
        pass  # the session goes on
