"""Runs one shard of transactional ids: see `shard_host`.

After a failed append the shard is loaded from its log. Kafka goes back to the state before the
request instead; in both, nobody is told of a transition that is not in the log.

The end of a transaction outlives its shard: once it is in the log it has to be carried out, and a
shard that is loaded again does not write the markers twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from kohort.errors import ErrorCode
from kohort.log.base import Log
from kohort.runtime.log_reading import Batches
from kohort.runtime.shard_host import HostContext, HostState, ShardHost
from kohort.runtime.transaction_log import append_records, read_records
from kohort.transactions.records import TransactionRecord
from kohort.transactions.requests import MarkersWritten, Request, Response, refuse
from kohort.transactions.result import Markers, Result, TransactionTimesOut
from kohort.transactions.shard import Event, Shard
from kohort.util.time_slice import TimeSlices

_RESUME_CHUNK: Final = 1_000


class _Ending:
    """A transaction that ends, until that is in the log."""

    __slots__ = ("is_marked", "markers", "task")

    def __init__(self, markers: Markers) -> None:
        self.markers = markers
        self.task: asyncio.Future[None]
        """Writes the markers."""
        self.is_marked = False
        """Whether all markers are written."""


class TransactionHost(ShardHost[Request, Event, TransactionRecord, Markers, Result]):
    """One partition of `__transaction_state` at work."""

    logger = logging.getLogger("kohort.transactions")
    content = "transactional ids"
    shard: Shard

    def __init__(
        self,
        log: Log,
        new_shard: Callable[[], Shard],
        context: HostContext["TransactionHost", TransactionTimesOut],
        *,
        write_markers: Callable[[Markers, int], Awaitable[None]],
    ) -> None:
        """Host the shard of `log`, as `ShardHost` does.

        `write_markers` returns when all of them are written; the epoch is that of the coordinator.
        """
        super().__init__(log, new_shard, context)
        self._write_markers = write_markers
        self._ending: dict[str, _Ending] = {}

    @property
    def ending(self) -> int:
        """The number of transactions that end."""
        return len(self._ending)

    async def markers_written(self, transactional_id: str, timeout_s: float) -> bool:
        """Return when the transaction that ends has its markers, or after that time.

        False, at once, if no markers are being written.
        """
        ending = self._ending.get(transactional_id)
        if ending is None or ending.task.done():
            return False
        await asyncio.wait((ending.task,), timeout=timeout_s)
        return True

    def _records_in(self, reads: Iterable[Batches]) -> Iterator[Sequence[TransactionRecord]]:
        return read_records(reads)

    async def _replayed(self) -> None:
        await self._forget_lost_ends()

    async def _forget_lost_ends(self) -> None:
        """Write no more markers of transactions that do not end according to the log."""
        slices = TimeSlices()
        for transactional_id, ending in tuple(self._ending.items()):
            if not self.shard.is_ending(ending.markers):
                ending.task.cancel()
                del self._ending[transactional_id]
            await slices.give_way()

    async def _begin(self) -> None:
        # The ids that are there now: whatever changes later sets its own timers.
        loaded, shard = tuple(self.shard.transactions.items()), self.shard
        for start in range(0, len(loaded), _RESUME_CHUNK):
            some = loaded[start : start + _RESUME_CHUNK]
            self._apply(shard.resume(some, self._clock.now(), self._clock.timestamp()))
            await asyncio.sleep(0)
            if self.shard is not shard:
                return

    def _apply(self, result: Result) -> None:
        self._set_timers(result.timers)
        self._accept(result.records, (*result.replies, *result.markers))

    def _append(self, decided: Sequence[Sequence[TransactionRecord]]) -> None:
        append_records(self.log, chain.from_iterable(decided), self._clock.timestamp())

    def _carry_out(self, markers: Markers) -> None:
        in_progress = self._ending.get(markers.transactional_id)
        if in_progress is None:
            ending = self._ending[markers.transactional_id] = _Ending(markers)
            ending.task = asyncio.ensure_future(self._end(ending))
        elif in_progress.is_marked:  # the shard was loaded again since
            self._complete(in_progress)

    async def _end(self, ending: _Ending) -> None:
        await self._write_markers(ending.markers, self.log.leader_epoch)
        ending.is_marked = True
        self._complete(ending)

    def _complete(self, ending: _Ending) -> None:
        transactional_id, producer_id, producer_epoch, *_ = ending.markers
        if self.post(MarkersWritten(transactional_id, producer_id, producer_epoch)) is not None:
            self._when_logged(partial(self._completed, ending))

    def _completed(self, ending: _Ending, failure: ErrorCode) -> None:
        transactional_id = ending.markers.transactional_id
        if not failure and self._ending.get(transactional_id) is ending:
            del self._ending[transactional_id]

    def _stop(self, state: HostState) -> None:
        """As of every shard; who has the log next writes the markers that are missing."""
        super()._stop(state)
        for ending in self._ending.values():
            ending.task.cancel()
        self._ending.clear()

    def _refuse(self, request: Request, error: ErrorCode) -> Response:
        return refuse(request, error)
