"""The metadata log that all nodes append to: compare-and-append at the end that a node has read.

`change` is for changes that depend on more than their own subject, as a topic's name has one id.
They are decided on the whole log, and replayed once they are logged, as on other nodes.

`commit` is for all others. Such a change is replayed at once and appended afterwards. Records that
other nodes appended meanwhile go before it. If one of them has the same subject, the change is
rolled back, with all later ones, and its caller gets SupersededError, to decide again.

A long log is compacted: a snapshot of the state replaces its records. A node that has read less
than the snapshot replays the difference between its state and the snapshot.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from kohort.cluster import (
    FencedError,
    LeaderChanged,
    NodeFenced,
    ReassignmentPlanned,
    SharedStorage,
    UnknownOutcomeError,
)
from kohort.errors import fresh
from kohort.protocol.batches import NO_PRODUCER_ID
from kohort.server.logging import fields
from kohort.server.metadata import (
    AccessControlEntryRecord,
    MetadataImage,
    MetadataRecord,
    RemoveTopicRecord,
    SupersededError,
    TopicRecord,
    encode,
    encode_batch,
    in_batches,
    records_of,
)
from kohort.server.metadata_log.pending_changes import Change, PendingChanges
from kohort.server.metadata_log.shared_reading import LogRead, LogReader
from kohort.types import Timestamp
from kohort.util.time_slice import in_slices
from kohort.util.uncancelled import uncancelled

logger = logging.getLogger("kohort.topics")

COMPACTED_AFTER: Final = 10_000
"""Records behind the last snapshot from which on the log is compacted."""
_RETRY_AFTER_S: Final = 0.1
_BASE_OFFSET_BYTES: Final = 8
_LEADER_CHARS: Final = 120
"""Characters of the longest record of a leader or of a move."""

R = TypeVar("R")
Follow: TypeAlias = Callable[[Sequence[tuple[int, MetadataRecord]]], Awaitable[None]]


class OutcomeLostError(Exception):
    """Whether a change was logged cannot be found out any more: the log was compacted."""


class SharedMetadataLog:
    """`state` as all nodes agree on it, with the changes of this one."""

    def __init__(self, storage: SharedStorage, now: Callable[[], Timestamp]) -> None:
        self.state = MetadataImage()
        self.on_rollback: Callable[[Collection[UUID]], None] = _ignore
        self.end_offset = 0
        """Offset of the next record to be read."""
        self.follow: Follow = self._replay_all
        """Applies records of other nodes one by one, each by `replay`."""
        self.on_change: Callable[[], None] = _no_op
        """Called when this node has appended a change."""
        self._storage = storage
        self._now = now
        self._changes = PendingChanges(self.state)
        """Those that are not appended."""
        self._snapshot_end = 0
        """Where the log was compacted up to, as far as this node knows."""
        self._reader = LogReader(storage, self.state, self._roll_back_superseded)
        self._turn = asyncio.Lock()
        """Held while the end of the log is found out."""
        self._writing: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._own_author = NO_PRODUCER_ID - 1 - storage.node_id
        """The author of the batches of this node."""

    @property
    def last_change(self) -> int:
        return self._changes.last

    # Changes by this node

    def commit(self, *records: MetadataRecord) -> None:
        """Replay the records, which are appended together soon, or rolled back."""
        self._changes.apply(records)
        self._write_soon()

    def _write_soon(self) -> asyncio.Task[None]:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())
        return self._writing

    async def durable(self, change: int | None = None) -> None:
        """Return when that change, or every change made by now, is in the log.

        Raises OSError if it was rolled back.
        """
        await self._changes.await_durable(change, lambda: asyncio.shield(self._write_soon()))

    async def _write(self) -> None:
        try:
            async with self._turn:
                await self._append_pending()
        finally:
            self._writing = None

    async def _append_pending(self) -> None:
        while (change := self._changes.first) is not None:
            try:
                if await self._append(change.records, {}):
                    self._mark_durable(change)
                else:
                    await self._read_to_end()
            except (OSError, FencedError) as error:
                self._roll_back(error)
            except UnknownOutcomeError:
                await self._resolve_unknown_append(change)

    def _mark_durable(self, change: Change) -> None:
        """Note that a change was appended at `end_offset`."""
        self._changes.mark_durable(change.number)
        self.end_offset += len(change.records)
        self.on_change()

    async def _resolve_unknown_append(self, change: Change) -> None:
        """Read the log after an append of unknown outcome: it is there, or never will be."""
        while True:
            try:
                read = await self._read()
                break
            except (OSError, UnknownOutcomeError):
                await asyncio.sleep(_RETRY_AFTER_S)
        records = [] if read is None else read.records
        if self._begins_with(read, change.records) and change in self._changes:
            self._mark_durable(change)
            records = records[len(change.records) :]
        await self.follow(records)

    async def change(
        self, decide: Callable[[], Sequence[MetadataRecord]], result: Callable[[], R]
    ) -> R:
        """Append what `decide` returns on the whole log, replay it, and return `result()`.

        `result` is called before any later record is replayed. `decide` is called again if other
        nodes append first. A cancelled caller does not end the change: the outcome of an append is
        resolved before the next decision. Raises what `decide` raises, OSError, FencedError or
        UnknownOutcomeError if nothing was logged, and OutcomeLostError.
        """

        async def run() -> R:
            await self._append_pending()
            while True:
                await self._read_to_end()
                records = decide()
                if not records or await self._log(records):
                    return result()

        return await self._in_turn(run)

    async def _in_turn(self, work: Callable[[], Awaitable[R]]) -> R:
        """What `work` returns, as the only one that reads or appends; it is not cancelled.

        A record that is done by half would never be done.
        """

        async def run() -> R:
            async with self._turn:
                return await work()

        return await uncancelled(run(), self._running)

    async def _log(self, records: Sequence[MetadataRecord]) -> bool:
        """Append records and do them; False if other nodes have appended first.

        Raises OSError, FencedError, OutcomeLostError.
        """
        is_doubtful = False
        fenced: FencedError | None = None
        while True:
            try:
                if fenced is None and await self._append(records, {}):
                    return await self._replay_own([*enumerate(records, self.end_offset)])
                read = await self._read()
            except UnknownOutcomeError:
                is_doubtful = True
            except FencedError as error:
                if not is_doubtful:
                    raise
                fenced = fresh(error)
                continue  # earlier attempts are in the log, or never will be
            except OSError:
                if not is_doubtful:
                    raise
            else:
                if read is not None:
                    if is_doubtful and self._begins_with(read, records):
                        return await self._replay_own(read.records[: len(records)])
                    await self.follow(read.records)
                    if is_doubtful and read.snapshot_end:
                        return self._is_in_snapshot(records)
                if fenced is not None:
                    raise fresh(fenced)
                return False
            # An earlier attempt may yet be written; a repeated one is accepted at most once.
            await asyncio.sleep(_RETRY_AFTER_S)

    async def _replay_own(self, logged: Sequence[tuple[int, MetadataRecord]]) -> bool:
        """Replay records that this node has appended."""
        await self.follow(logged)
        self.on_change()
        return True

    def _is_in_snapshot(self, records: Sequence[MetadataRecord]) -> bool:
        """True if the state has the effect of records that may have been compacted away.

        Raises OutcomeLostError otherwise: they were not logged, or their effect was changed again.
        """
        topics = self.state.topics
        for record in records:
            match record:
                case TopicRecord(id=topic_id) if topics.get(topic_id) == record:
                    pass
                case RemoveTopicRecord(id=topic_id) if topic_id not in topics:
                    pass
                case _:
                    raise OutcomeLostError
        return True

    def _begins_with(self, read: LogRead | None, records: Sequence[MetadataRecord]) -> bool:
        """Whether the first batch of `read` has these records, sent by this node.

        Another one may have logged the same: the reservation of ids that it gives, say.
        """
        if read is None or read.author != self._own_author:
            return False
        return [record for _, record in read.records[: len(records)]] == [*records]

    async def _append(self, records: Sequence[MetadataRecord], fences: Mapping[int, int]) -> bool:
        batch = _batch(records, self.end_offset, self._now(), self._own_author)
        return await self._storage.append(self.end_offset, batch, fences)

    # Changes by others

    def replay(self, offset: int, record: MetadataRecord) -> None:
        """Replay a record that another node has logged."""
        if self._changes and self._changes.affects(_subjects(record), _subjects):
            self._roll_back(SupersededError(None, "another node has changed the same"))
        self.state.replay(record)
        self.end_offset = offset + 1

    async def _replay_all(self, records: Sequence[tuple[int, MetadataRecord]]) -> None:
        for offset, record in records:
            self.replay(offset, record)

    async def read_to_end(self) -> None:
        """Read and replay the log up to its current end. Raises OSError, UnknownOutcomeError."""
        await self._in_turn(self._read_to_end)

    async def read_next(self) -> None:
        """Read and replay what one read of the log returns. Raises as `read_to_end`."""

        async def read() -> None:
            if (read := await self._read()) is not None:
                await self.follow(read.records)

        await self._in_turn(read)

    async def _read_to_end(self) -> None:
        while (read := await self._read()) is not None:
            await self.follow(read.records)

    async def _read(self) -> LogRead | None:
        """What one read returns, from `end_offset` on; None at the end.

        Raises OSError, UnknownOutcomeError, and KohortError for records of a later version.
        """
        read = await self._reader.read(self.end_offset)
        if read is not None and read.snapshot_end:
            self._snapshot_end, self.end_offset = read.snapshot_end, read.start_offset
        return read

    def _roll_back_superseded(self) -> None:
        if self._changes:
            self._roll_back(SupersededError(None, "other nodes have changed much meanwhile"))

    async def compact(self, min_records: int = COMPACTED_AFTER) -> None:
        """Replace the log by a snapshot if more than `min_records` records follow the last one.

        Other nodes may append meanwhile. Raises OSError, FencedError, UnknownOutcomeError.
        """
        async with self._turn:  # else the state may be that in the midst of a batch
            end_offset = self.end_offset
            if self._changes or end_offset - self._snapshot_end <= min_records:
                return
            records = records_of(self.state)
        batches = await asyncio.to_thread(_snapshot, records, end_offset, self._now())
        await self._storage.compact(end_offset, batches)
        self._snapshot_end = end_offset

    async def decide(
        self, decide: Callable[[], Sequence[MetadataRecord]], *, reads: bool = True
    ) -> bool:
        """Append what `decide` returns on the whole log, and replay it; False if it is empty.

        Nothing is appended if other nodes append meanwhile: the caller decides again. Without
        `reads`, the log is not read before, which is faster, and the same holds if it has more than
        this node has read. Nodes that the records fence lose their sessions. Raises FencedError,
        OSError, and UnknownOutcomeError, after which the caller decides again, too.
        """

        def steps() -> Generator[None, None, Sequence[MetadataRecord]]:
            yield from ()
            return decide()

        return await self.decide_in_slices(steps, reads=reads)

    async def decide_in_slices(
        self,
        decide: Callable[[], Generator[None, None, Sequence[MetadataRecord]]],
        *,
        reads: bool = True,
    ) -> bool:
        """`decide` on very much, in steps: topics, nodes and leaders stay as they are meanwhile."""

        async def run() -> bool:
            await self._append_pending()
            if reads:
                await self._read_to_end()
            decided = await in_slices(decide())
            for records in in_batches(decided, _chars):
                nodes = self.state.cluster.nodes
                fences = {
                    record.id: nodes[record.id].session
                    for record in records
                    if isinstance(record, NodeFenced) and record.id != self._storage.node_id
                }
                if not await self._append(records, fences):
                    break
                await self.follow([*enumerate(records, self.end_offset)])
            return bool(decided)

        return await self._in_turn(run)

    # Rolling back

    def _roll_back(self, error: Exception) -> None:
        """Undo the changes in `state` that were not appended."""
        lost = len(self._changes)
        why = error if isinstance(error, OSError) else OSError(None, str(error))
        topics = self._changes.undo(why)
        logger.warning("metadata changes were rolled back", extra=fields(changes=lost, why=error))
        self.on_rollback(topics)

    def close(self) -> None:
        """Append nothing more. Idempotent."""
        if self._writing is not None:
            self._writing.cancel()
        for task in self._running:
            task.cancel()


def _batch(
    records: Sequence[MetadataRecord], base_offset: int, now: int, author: int = NO_PRODUCER_ID
) -> bytes:
    batch = encode_batch(records, now, author)
    return base_offset.to_bytes(_BASE_OFFSET_BYTES) + batch[_BASE_OFFSET_BYTES:]


def _snapshot(records: Iterable[MetadataRecord], end_offset: int, now: int) -> list[bytes]:
    """The records as batches that end at `end_offset`: there were more of them before."""
    parts = [*in_batches(records, _chars)]
    base_offset = end_offset - sum(map(len, parts))
    batches = []
    for part in parts:
        batches.append(_batch(part, base_offset, now))
        base_offset += len(part)
    return batches


def _subjects(record: MetadataRecord) -> set[object]:
    """The subjects of a record: its key, the name of a topic, the binding of an ACL."""
    key = encode(record)[0]
    match record:
        case TopicRecord(name=name):
            return {key, name}
        case AccessControlEntryRecord(binding=binding):
            return {key, binding}
        case _:
            return {key}


def _chars(record: MetadataRecord) -> int:
    if isinstance(record, LeaderChanged | ReassignmentPlanned):
        return _LEADER_CHARS  # there are thousands of them
    key, value = encode(record)
    return len(key) + len(value or b"")


def _ignore(_: Collection[UUID]) -> None:
    pass


def _no_op() -> None:
    pass
