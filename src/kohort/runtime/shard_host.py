"""Runs one shard: connects the pure core with its log and with waiting clients.

    result = shard.handle(event, now, timestamp)
    replay result.records;  append them to the log;  send result.replies

All requests that arrive in one turn of the event loop share one append, so their replies are sent
after the turn. Every other reply of that turn waits too, because it may depend on records that are
not in the log yet.

A failed append is crash-only. The shard is dropped, and a new one is loaded from the log, on the
same path as at start. Requests whose records were refused get the error that Kafka returns for the
log's (see `append_errors`), all others NOT_COORDINATOR.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar, cast

from kohort.coordinator_common import Cancel, Timer
from kohort.errors import ErrorCode, KohortError
from kohort.log.base import Log, LogReader
from kohort.log.remote_log import RemoteLog
from kohort.log.standby import StandbyLog
from kohort.runtime.append_errors import SHARD_FAILED, append_error
from kohort.runtime.clock import Clock
from kohort.runtime.loading_order import LoadingOrder
from kohort.runtime.log_reading import Batches, read_batches
from kohort.runtime.standby import Standby
from kohort.types import Instant, OnResponse, Reply, Timestamp

_MAX_RELOAD_DELAY_S: Final = 60.0
"""Maximum delay between attempts to load an unreadable log; the delay doubles up to it."""
_MAX_REFUSAL_S: Final = 10.0
"""The same for a log that refuses appends: the longest wait after the disk has room again."""


class HostState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log failed; it is reloaded after a delay."""
    ELSEWHERE = "elsewhere"
    """Another node leads its partition."""
    CLOSED = "closed"


# The lookup of an enum's member takes as long as a call, and every request needs these.
_ACTIVE: Final = HostState.ACTIVE
_NONE: Final = ErrorCode.none
_WHY_NOT: Final = {
    HostState.LOADING: ErrorCode.coordinator_load_in_progress,
    HostState.FAILED: SHARD_FAILED,
    HostState.ELSEWHERE: ErrorCode.not_coordinator,
    HostState.CLOSED: ErrorCode.not_coordinator,
}


class _Request(Protocol):
    @property
    def on_response(self) -> OnResponse: ...


RequestT = TypeVar("RequestT", bound=_Request)
EventT = TypeVar("EventT")
RecordT = TypeVar("RecordT")
EffectT = TypeVar("EffectT")
ResultT = TypeVar("ResultT")
HostT = TypeVar("HostT")
KeyT = TypeVar("KeyT")
_T = TypeVar("_T")
_EventT_contra = TypeVar("_EventT_contra", contravariant=True)
_RecordT_contra = TypeVar("_RecordT_contra", contravariant=True)
_ResultT_co = TypeVar("_ResultT_co", covariant=True)


class Shard(Protocol[_EventT_contra, _RecordT_contra, _ResultT_co]):
    """The pure core: it decides, and only `replay` changes its state."""

    config: Any
    """The settings for its decisions."""

    def handle(
        self, event: _EventT_contra, now: Instant, timestamp: Timestamp, /
    ) -> _ResultT_co: ...

    def replay(self, record: _RecordT_contra, /) -> None: ...


AfterAppendCallback: TypeAlias = Callable[[ErrorCode], None]
"""Called with `none` once all earlier decisions are in the log, or an error if they are lost."""
AfterAppend: TypeAlias = Reply[object] | AfterAppendCallback | EffectT
"""Actions after an append: responses, callbacks, and effects specific to the kind of shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContext(Generic[HostT, KeyT]):
    """Settings and services that all shards of one topic share."""

    clock: Clock
    waits_for_disk: bool
    """Whether a response waits until the records are durable."""
    reload_after_s: float
    """Delay before a failed shard is reloaded; doubled with every failure."""
    at_end_of_turn: Callable[[Callable[[], None]], None]
    """Calls a function at the end of this turn of the loop."""
    loading_order: LoadingOrder
    """Loading order of all shards whose partitions move to this node."""
    move_timer: Callable[[HostT, KeyT, Instant | None], None]
    """Sets or moves a timer of a host; cancels it if the deadline is None."""


class ShardHost(ABC, Generic[RequestT, EventT, RecordT, EffectT, ResultT]):
    """Runs one partition of a coordinator's topic.

    A request is an event whose id is the function that receives the response.
    """

    logger: ClassVar[logging.Logger]
    content: ClassVar[str]
    """Plural noun for the content of a shard, for log lines."""

    def __init__(
        self,
        log: Log,
        new_shard: "Callable[[], Shard[RequestT | EventT, RecordT, ResultT]]",
        context: HostContext[Any, Any],
    ) -> None:
        """Host the shard of `log`."""
        self.log = log
        self.state = HostState.LOADING
        self.shard = new_shard()
        self._new_shard = new_shard
        self._clock = context.clock
        self._waits_for_disk = context.waits_for_disk
        self._at_end_of_turn = context.at_end_of_turn
        self._loading_order = context.loading_order
        self._move_timer = context.move_timer
        self._first_reload_after_s = self._reload_after_s = context.reload_after_s
        self._failure: str | None = None
        """Last failure since the last successful append."""
        self._waiting: dict[OnResponse, RequestT] = {}
        self._unlogged: list[Sequence[RecordT]] = []
        self._after_append: list[AfterAppend[EffectT]] = []
        """Actions once all records decided so far are in the log."""
        self._appended: list[AfterAppend[EffectT]] = []
        """Actions once the current append is durable."""
        self._flushing = False
        self._task: asyncio.Task[None] | None = None
        self._standby: Standby[Shard[RequestT | EventT, RecordT, ResultT], RecordT] | None = None
        """Replays the log while another node serves the shard."""

    def _set_timers(self, timers: Iterable[Timer[Any] | Cancel[Any]]) -> None:
        for timer in timers:
            deadline = None if isinstance(timer, Cancel) else timer.deadline
            self._move_timer(self, timer.key, deadline)

    # --- what differs between shards ---

    @abstractmethod
    def _records_in(self, reads: Iterable[Batches]) -> Iterator[Sequence[RecordT]]:
        """The records of batches, in chunks that are replayed in some milliseconds each."""

    @abstractmethod
    async def _replayed(self) -> None:
        """Finish loading after the replay of the log; an error keeps the shard from serving."""

    @abstractmethod
    async def _begin(self) -> None:
        """Resume pending work of the log, and start to serve."""

    @abstractmethod
    def _apply(self, result: ResultT) -> None:
        """Set the timers of a decision and `_accept` the rest."""

    @abstractmethod
    def _append(self, decided: Sequence[Sequence[RecordT]]) -> None:
        """Append the records of several events in order. Raises as the log."""

    @abstractmethod
    def _carry_out(self, effect: EffectT) -> None:
        """Carry out an effect after its records are in the log."""

    @abstractmethod
    def _refuse(self, request: RequestT, error: ErrorCode) -> object:
        """The response with `error`, in the shape that this kind of request has."""

    # --- deciding ---

    def submit(self, request: RequestT) -> None:
        """Let the shard decide; the response is passed to the request's `on_response`."""
        if self.state is _ACTIVE:
            self._waiting[request.on_response] = request
            self.post(request)
        else:
            _respond(request.on_response, self._refusal(request))

    def post(self, event: RequestT | EventT) -> ResultT | None:
        """Let the shard decide on an event. Events for an inactive shard are dropped.

        Returns the decision, or None.
        """
        if self.state is not _ACTIVE:
            return None
        try:
            result = self._decide(event)
        # a bug: the shard may be half-way through a decision, and must not continue
        except Exception as e:
            self._fail(e)
            return None
        self._apply(result)
        return result

    def _decide(self, event: RequestT | EventT) -> ResultT:
        return self.shard.handle(event, self._clock.now(), self._clock.timestamp())

    def _accept(
        self, records: Sequence[RecordT], callbacks: Sequence[AfterAppend[EffectT]]
    ) -> None:
        """Replay a decision; its other effects follow once it is in the log."""
        for record in records:
            self.shard.replay(record)
        if records:
            self._unlogged.append(records)
            if not self._flushing:
                self._flush_soon()
        if self._flushing:
            self._after_append += callbacks
        else:
            self._run_callbacks(callbacks)

    def _run_callbacks(self, callbacks: Iterable[AfterAppend[EffectT]]) -> None:
        for item in callbacks:
            if isinstance(item, Reply):
                # If an earlier response caused a request that failed the shard, all requests have
                # a response already.
                if self._waiting.pop(item.on_response, None) is not None:
                    _respond(item.on_response, item.response)
            elif callable(item):
                item(_NONE)
            else:
                self._carry_out(item)

    def _refusal(self, request: RequestT) -> object:
        """The response of a shard that is not active."""
        return self._refuse(request, self._why_not())

    def _why_not(self) -> ErrorCode:
        if self.state is HostState.LOADING:
            self._loading_order.ask(self)
        return _WHY_NOT[self.state]

    # --- load and close ---

    async def load(self) -> None:
        """Replay the log, yielding to other tasks in between, then start to serve."""
        if isinstance(self.log, RemoteLog):
            self.state = HostState.ELSEWHERE
            return
        log = self.log
        try:
            await self._replay_log()
            await self._replayed()
        # a disk error, or records that violate the schema: the other shards continue
        except Exception as e:
            if self.log is log:
                self._fail(e)
        else:
            if self.log is log:  # else the partition has moved
                self.state = HostState.ACTIVE
                await self._begin()

    async def _replay_log(self) -> None:
        """Replay the log, or the part that the standby has not replayed."""
        log, standby = self.log, self._standby
        self._standby = None
        if standby is not None and standby.continues_in(log):
            self.shard = standby.shard
            chunks = standby.rest(log)
        else:
            chunks = self._records_in(read_batches(log))
        await replay_all(log, chunks, self.shard.replay)

    async def _load_in_order(self) -> None:
        async with self._loading_order.turn(self):
            await self.load()

    async def reload(self) -> None:
        """Drop the shard once its decisions are logged, and load it again.

        Requests in progress get NOT_COORDINATOR. No-op if it does not serve.
        """
        await self._logged()
        if self.state is HostState.ACTIVE:
            self.state = HostState.LOADING
            self._drop(ErrorCode.not_coordinator, ErrorCode.not_coordinator)
            await self.load()

    def log_reopened(self, log: Log) -> None:
        """Replace the log, and load the shard from the new one.

        With a remote log, another node leads the partition: the shard decides no more, and waiting
        requests get NOT_COORDINATOR. A `StandbyLog` is followed; the log that replaces it is read
        from the reached offset on.
        """
        self.log = log
        if isinstance(log, RemoteLog):
            self._stop(HostState.ELSEWHERE)
            if isinstance(log, StandbyLog):
                self._stand_by(log)
        elif self.state is HostState.ACTIVE:
            self._fail(KohortError("its log was opened again"))
        elif self.state in (HostState.FAILED, HostState.ELSEWHERE):
            if self._task is not None:
                self._task.cancel()
            self.state = HostState.LOADING
            self._task = asyncio.ensure_future(self._load_in_order())

    def _stand_by(self, log: StandbyLog) -> None:
        shard = self._new_shard()
        self._standby = Standby(log, shard, self._records_in)
        following = self._standby.follow(shard.replay, partial(self._loading_order.turn, self))
        self._task = asyncio.ensure_future(following)

    def configure(self, config: Any) -> None:
        """Use other settings from now on."""
        self.shard.config = config
        if self._standby is not None:
            self._standby.shard.config = config

    async def close(self) -> None:
        """Log the decisions made so far and send their responses.

        Refuse parked requests (NOT_COORDINATOR).
        """
        for _ in range(2):  # the current append, then decisions made during it
            if self._task is not None and self.state is HostState.ACTIVE:
                await self._task
            if self._unlogged or self._after_append:
                self.flush()
        self._stop(HostState.CLOSED)

    def _stop(self, state: HostState) -> None:
        self.state, self._standby = state, None
        if self._task is not None:
            self._task.cancel()
        self._drop(ErrorCode.not_coordinator, ErrorCode.not_coordinator)

    # --- appending ---

    def _flush_soon(self) -> None:
        self._flushing = True
        self._at_end_of_turn(self.flush)

    def flush(self) -> None:
        """Append the decided records, then send the responses, at the end of a turn.

        Raises nothing; a failure drops the shard.
        """
        if self.state is not _ACTIVE:
            return
        decided, self._unlogged = self._unlogged, []
        self._appended, self._after_append = self._after_append, []
        try:
            self._append(decided)
            if self._waits_for_disk:
                self._task = asyncio.ensure_future(self._flushed_when_durable())
            else:
                self._flushed()
        # Either the disk failed or a record cannot be encoded; loading shows what is in the log.
        except Exception as e:
            self._fail(e)

    async def _flushed_when_durable(self) -> None:
        shard = self.shard
        try:
            await self.log.durable()
        except (OSError, KohortError) as e:
            if self.shard is shard:
                self._fail(e)
        else:
            if self.shard is shard:  # else it was dropped, and every waiting request has a response
                self._flushed()

    def _flushed(self) -> None:
        self._flushing = False
        # Only here, not after loading: a full disk can be read, and then refuses the next append.
        self._reload_after_s, self._failure = self._first_reload_after_s, None
        callbacks, self._appended = self._appended, []
        self._run_callbacks(callbacks)
        # A response that caused another request has started the next append already.
        if (self._unlogged or self._after_append) and not self._flushing:
            self._flush_soon()

    async def appended(self) -> None:
        """Wait until earlier decisions are logged or the shard is dropped, and one more turn."""
        await self._logged()
        await asyncio.sleep(0)

    async def _logged(self) -> ErrorCode:
        """Wait until all earlier decisions are logged. Returns an error if the shard is dropped."""
        logged: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.when_logged(partial(_finish, logged))
        return await logged

    def when_logged(self, function: AfterAppendCallback) -> None:
        """Call `function` after all effects of earlier decisions; at once if none is left."""
        if self._flushing:
            self._after_append.append(function)
        else:
            function(_NONE)

    # --- failing ---

    def _fail(self, error: Exception) -> None:
        # A damaged log is retried forever, but logged once.
        if repr(error) != self._failure:
            self._failure = repr(error)
            self.logger.error(
                "%s failed, reloading its %s: %r",
                self.log.topic_partition,
                self.content,
                error,
            )
        was_loaded = self.state is HostState.ACTIVE
        at_most_s = _MAX_REFUSAL_S if was_loaded else _MAX_RELOAD_DELAY_S
        self.state = HostState.FAILED
        self._drop(append_error(error), SHARD_FAILED)
        self._task = asyncio.ensure_future(self._reload(at_most_s))

    def _drop(self, refused: ErrorCode, dropped: ErrorCode) -> None:
        """Discard decisions that are not logged, and send every waiting request an error.

        That is `refused` if the log refused the request's records, else `dropped`.
        """
        self._flushing = False
        failed, lost = self._appended, self._after_append
        self._unlogged, self._appended, self._after_append = [], [], []
        self.shard = self._new_shard()
        waiting, self._waiting = self._waiting, {}
        for callbacks, error in ((failed, refused), (lost, dropped)):
            for item in callbacks:
                if callable(item):
                    item(error)
        of_failed = {item.on_response for item in failed if isinstance(item, Reply)}
        for on_response, request in waiting.items():
            error = refused if on_response in of_failed else dropped
            _respond(on_response, self._refuse(request, error))

    async def _reload(self, at_most_s: float) -> None:
        await asyncio.sleep(min(self._reload_after_s, at_most_s))
        self._reload_after_s = min(2 * self._reload_after_s, _MAX_RELOAD_DELAY_S)
        self.state = HostState.LOADING
        await self.load()


async def replay_all(
    log: LogReader, chunks: Iterable[Sequence[_T]], replay: Callable[[_T], None]
) -> None:
    """Replay the records of `log`, yielding to other tasks after each chunk.

    An empty chunk means that the next records may have to be loaded.
    """
    for records in chunks:
        for record in records:
            replay(record)
        if not records:
            await log.loaded()
        await asyncio.sleep(0)


def _respond(on_response: OnResponse, response: object) -> None:
    # The core accepts any value; the runtime passes the function that receives the response.
    cast("Callable[[object], None]", on_response)(response)


def _finish(logged: "asyncio.Future[ErrorCode]", failure: ErrorCode) -> None:
    if not logged.done():  # the waiting task may have been cancelled
        logged.set_result(failure)
