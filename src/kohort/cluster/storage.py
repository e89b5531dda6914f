"""What the nodes of a cluster share: one metadata log, and a row for each node.

The storage decides between nodes, and nothing else does. A node has a *session* there, by which it
writes; whoever takes its place ends the session, and waits for its writes that are under way. So a
node whose session is over writes nothing, whatever it believes. Leases only say when a node is
taken to be gone; they rest on the clock of the storage alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kohort.cluster.observed import Observed
from kohort.errors import KohortError

LEASE_MS: Final = 3_000
"""Below the least `group.min.session.timeout.ms` that serves: a node whose lease is over by its own
clock answers nobody.
"""


class FencedError(KohortError):
    """The session of this process is over: it writes nothing any more, until it has another."""

    def __init__(self, why: str = "another process has ended it") -> None:
        """`why`: what has ended the session."""
        super().__init__(f"the session of this node is over: {why}")


class DuplicateNodeIdError(KohortError):
    """Another process, which is alive, has the id of this node."""

    def __init__(self, node: int, where: str = "") -> None:
        """`where`: the address of that process, if it is known."""
        address = f" at {where}" if where else ""
        super().__init__(
            f"another process{address} serves as node {node} from this database: stop it, or "
            "give this one another node.id"
        )


class HistoryLostError(KohortError):
    """The storage has gone back: what this process has read of the metadata log is not there."""

    def __init__(self, end_offset: int) -> None:
        super().__init__(
            f"the database has lost what was logged of the cluster before offset {end_offset}, as "
            "after a failover to a standby that lagged behind"
        )


class UnknownOutcomeError(Exception):
    """Whether something was written is not known: the answer was lost.

    It may still be written later, until somebody writes what excludes it.
    """


class Logged(NamedTuple):
    """A part of the metadata log, in whole batches."""

    data: bytes
    snapshot_end: int = 0
    """If it is not 0: what was asked for is compacted away, and `data` gives the state here."""


class SharedStorage(Protocol):
    """The storage as one process sees it, which is one node.

    Each method raises OSError if certainly nothing was done, and UnknownOutcomeError if that is not
    known. Calls may be cancelled, with an unknown outcome. Several may be under way at a time.
    """

    @property
    def node_id(self) -> int: ...

    @property
    def session(self) -> int:
        """That of this process, -1 before the first `claim`. It grows with each session of the id.

        Sessions that the storage's own part of the process begins, to settle what is unknown, are
        not seen here.
        """
        ...

    async def claim(self) -> int:
        """Begin a session of this node, with a lease of `LEASE_MS` and the lock; returns it.

        Atomic: one of several processes gets it, and what others wrote as this node is written
        before, or never will be. To be called again after FencedError. Raises DuplicateNodeIdError
        if another process has the id: it holds the lock, and its lease is not over. That this
        process once had the id, or still has a lock of it, makes no difference. Raises
        HistoryLostError if this process has to begin anew. If the outcome is unknown, it may be
        called again.
        """
        ...

    async def renew(self) -> None:
        """Prolong the lease to `LEASE_MS` from now on, by the storage's clock.

        The caller counts its lease from before this call. It may be called again after any failure.
        Raises FencedError.
        """
        ...

    async def release(self) -> None:
        """End the session, the lease and the lock, when nothing is to be written any more.

        Others see at once that the node is gone. Harmless if the session is over.
        """
        ...

    async def observe(self) -> Observed:
        """All nodes and the storage's clock, as they are at one moment.

        May raise FencedError if the session of this process is over.
        """
        ...

    async def read(self, offset: int) -> Logged:
        """Whole batches of the metadata log from the one that holds or follows `offset`.

        About a megabyte or less; empty at the end. All that were appended before the call, by
        whichever node, are seen. If the log was compacted beyond `offset`, all up to where it was:
        the fold of that is the state there.
        """
        ...

    async def compact(self, end_offset: int, batches: Sequence[bytes]) -> None:
        """Have these batches in the place of all before `end_offset`, in one transaction.

        They give the same state, and end there. Nothing happens if the log was compacted up to
        there, or further. Raises FencedError.
        """
        ...

    async def append(self, end_offset: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        """Append one batch to the metadata log if it ends at `end_offset`: compare and append.

        Returns False, with nothing done, if the log is longer: the caller reads on and decides
        anew. `fences` are nodes with the sessions that end: of those nodes, what was written by
        that session is written before this, and nothing after it. One that has another session
        already is left alone. All of it is one transaction: batch and fences, or nothing.

        The base offset of `batch` is `end_offset`. Raises FencedError, and nothing was done, if the
        session of this process is over. If the outcome is unknown, the batch gets in at this offset
        or never: the caller reads on, and appends it again if the log does not have it. Read there,
        an equal batch is this one as far as its effect goes.
        """
        ...

    async def wait_beyond(self, offset: int) -> None:
        """Return when the metadata log is longer than `offset`, or at any time before: a hint."""
        ...
