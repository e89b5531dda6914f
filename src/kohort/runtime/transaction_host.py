"""Runs one shard of transactional ids: see `shard_host`.

After a failed append the shard is reloaded from its log. Kafka reverts to the state before the
request instead. In both cases no response shows a transition that is not in the log.

The end of a transaction outlives its shard: once it is in the log, the markers must be written, and
a reloaded shard does not write them twice.
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
    """An ending transaction, until its completion is in the log."""

    __slots__ = ("is_marked", "markers", "task")

    def __init__(self, markers: Markers) -> None:
        self.markers = markers
        self.task: asyncio.Future[None]
        """The task that writes the markers."""
        self.is_marked = False
        """Whether all markers are written."""


class TransactionHost(ShardHost[Request, Event, TransactionRecord, Markers, Result]):
    """Runs one partition of `__transaction_state`."""

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

        `write_markers` returns when all markers are written; its epoch is the coordinator's.
        """
        super().__init__(log, new_shard, context)
        self._write_markers = write_markers
        self._ending: dict[str, _Ending] = {}

    @property
    def ending(self) -> int:
        """Number of ending transactions."""
        return len(self._ending)

    async def markers_written(self, transactional_id: str, timeout_s: float) -> bool:
        """Wait until the markers of the ending transaction are written, at most `timeout_s`.

        Returns False at once if no markers are being written.
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
        """Stop writing markers of transactions that are not ending according to the log."""
        slices = TimeSlices()
        for transactional_id, ending in tuple(self._ending.items()):
            if not self.shard.is_ending(ending.markers):
                ending.task.cancel()
                del self._ending[transactional_id]
            await slices.give_way()

    async def _begin(self) -> None:
        # The ids at this time: later changes set their own timers.
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
        elif in_progress.is_marked:  # the shard was reloaded since
            self._complete(in_progress)

    async def _end(self, ending: _Ending) -> None:
        await self._write_markers(ending.markers, self.log.leader_epoch)
        ending.is_marked = True
        self._complete(ending)

    def _complete(self, ending: _Ending) -> None:
        transactional_id, producer_id, producer_epoch, *_ = ending.markers
        if self.post(MarkersWritten(transactional_id, producer_id, producer_epoch)) is not None:
            self.when_logged(partial(self._completed, ending))

    def _completed(self, ending: _Ending, failure: ErrorCode) -> None:
        transactional_id = ending.markers.transactional_id
        if not failure and self._ending.get(transactional_id) is ending:
            del self._ending[transactional_id]

    def _stop(self, state: HostState) -> None:
        """Stop the shard; the next leader of its partition writes the missing markers."""
        super()._stop(state)
        for ending in self._ending.values():
            ending.task.cancel()
        self._ending.clear()

    def _refuse(self, request: Request, error: ErrorCode) -> Response:
        return refuse(request, error)
