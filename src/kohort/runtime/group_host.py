"""Runs one shard of groups: see `shard_host`.

Records of a transaction, and its marker, are batches of their own. They are appended at once, after
the earlier decisions, and replayed only then, because the log validates the producer epoch.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Final, TypeAlias, cast

from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.error_responses import refuse, refuse_while_loading
from kohort.coordinator.jobs import Job
from kohort.coordinator.journal import Rebalance
from kohort.coordinator.records import Record, TransactionMarker
from kohort.coordinator.requests import (
    TOMBSTONE_CHUNK,
    Committer,
    Heartbeat,
    OffsetColumns,
    Request,
    TopicsDeleted,
    TxnOffsetCommit,
)
from kohort.coordinator.responses import HeartbeatResponse, Response
from kohort.coordinator.result import Result, TimerKey
from kohort.coordinator.shard import Event, Shard
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.log.producer_states import VerificationStateEntry
from kohort.runtime.group_log import append_records, append_transactional, read_records
from kohort.runtime.log_reading import Batches
from kohort.runtime.shard_host import AfterAppendCallback, HostContext, HostState, ShardHost
from kohort.types import Reply

_GROUP_CHUNK: Final = 1_000
"""Groups that are searched for offsets of deleted topics in one turn."""
_AT_END: Final = object()
# The lookup of an enum's member takes as long as a call, and every request needs these.
_ACTIVE: Final = HostState.ACTIVE
_NONE: Final = ErrorCode.none
_PRODUCER_REFUSED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_txn_state,
        ErrorCode.transaction_coordinator_fenced,
    }
)
"""Errors by which the log refuses a producer, and remains unchanged."""

RespondToCommit: TypeAlias = AfterAppendCallback
Commit: TypeAlias = Callable[[RespondToCommit, Committer, int, Sequence[OffsetColumns]], None]


class GroupHost(ShardHost[Request, Event, Record, Rebalance, Result]):
    """Runs one partition of `__consumer_offsets`."""

    logger = logging.getLogger("kohort.groups")
    content = "groups"
    shard: Shard

    def __init__(
        self,
        log: Log,
        new_shard: Callable[[], Shard],
        context: HostContext["GroupHost", TimerKey],
        *,
        on_rebalance: Callable[[Rebalance], None],
        on_append: Callable[[float], None],
        on_job: Callable[["GroupHost", Job], None],
    ) -> None:
        """Host the shard of `log`, as `ShardHost` does.

        `on_append` receives the duration of each append in seconds, until it is as durable as
        configured. `on_job` starts background work.
        """
        super().__init__(log, new_shard, context)
        self._on_rebalance = on_rebalance
        self._on_append = on_append
        self._on_job = on_job
        self._append_begun = 0.0
        self._deleted_topics: set[str] = set()
        """Deleted topics, until the tombstones of their offsets are in the log."""
        self._to_forget: set[str] = set()
        """Deleted topics whose offsets have not been searched for yet."""
        self._forgetting: asyncio.Task[None] | None = None

    # --- fast paths ---

    def heartbeat(
        self, group: str, generation: int, member_id: str, instance_id: str | None
    ) -> ErrorCode:
        """The error of a Heartbeat response. It never waits: it depends on no unlogged record."""
        if self.state is HostState.ACTIVE:
            try:
                error = self.shard.heartbeat(
                    group, generation, member_id, instance_id, self._clock.now()
                )
                if error is not None:
                    return error
            except Exception as e:  # as in `post`
                self._fail(e)
        request = Heartbeat(
            on_response=None,
            group=group,
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
        )
        if self.state is HostState.ACTIVE:
            response = self._decide_heartbeat(request)
        else:
            response = self._refusal(request)
        return cast("HeartbeatResponse", response).error

    def _decide_heartbeat(self, request: Heartbeat) -> Response:
        """The response to a heartbeat that sets a timer."""
        result = self.shard.handle(request, self._clock.now(), self._clock.timestamp())
        self._set_timers(result.timers)
        return result.replies[0].response

    def steady_heartbeat(self, request: SteadyHeartbeat) -> int | None:
        """The heartbeat interval in ms if the heartbeat only restarts the session.

        None if it has to be submitted.
        """
        if self.state is not _ACTIVE:
            return None
        return self.shard.steady_heartbeat(request, self._clock.now())

    def commit(
        self,
        respond: RespondToCommit,
        committer: Committer,
        version: int,
        topics: Sequence[OffsetColumns],
    ) -> None:
        """Decide an OffsetCommit whose partitions all have the same response."""
        if self.state is not _ACTIVE:
            respond(self._why_not())
            return
        shard = self.shard
        try:
            decided = shard.commit(
                committer, version, topics, self._clock.now(), self._clock.timestamp()
            )
            if isinstance(decided, list):
                for record in decided:
                    shard.replay(record)
                self._unlogged.append(decided)
                self._after_append.append(respond)
                if not self._flushing:
                    self._flush_soon()
                return
        except Exception as e:  # as in `post`
            self._fail(e)
            decided = self._why_not()
        if self._flushing:
            self._after_append.append(lambda failure: respond(failure or decided))
        else:
            respond(decided)

    # --- transactions ---

    def begin_verification(
        self, producer_id: int, producer_epoch: int
    ) -> VerificationStateEntry | None:
        """The guard of a transaction that must be verified before offsets are committed in it.

        None if it is already open in this log. Raises KafkaError if the log is not served.
        """
        if self.log.ongoing_transaction(producer_id, producer_epoch) is not None:
            return None
        now = self._clock.timestamp()
        return self.log.begin_verification(producer_id, producer_epoch, -1, now, tv2=False)

    def _decide(self, event: Event) -> Result:
        # The log may refuse a transaction, so its offsets are appended before they are replayed.
        result = super()._decide(event)
        if not result.transactional:
            return result
        request = cast("TxnOffsetCommit", event)
        verified = cast("VerificationStateEntry | None", request.verified)
        now = self._clock.timestamp()
        try:
            refused = self._append_alone(
                partial(append_transactional, self.log, result.transactional, verified, now)
            )
        except Exception:
            self._appended += result.replies
            raise
        if refused:
            return Result(replies=(Reply(request.on_response, refuse(request, refused)),))
        for entry in result.transactional:
            self.shard.replay(entry)
        return result

    async def complete_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        """Write the marker of a transaction; returns when it is as durable as configured.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER if the caller must retry later; other errors are
        the log's (`Log.append_marker`).
        """
        if self.state is not _ACTIVE:
            raise _not_ready()
        append = partial(
            self.log.append_marker,
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            timestamp=self._clock.timestamp(),
        )
        try:
            refused = self._append_alone(append)
            if not refused:
                self.shard.replay(TransactionMarker(producer_id, commit))
        except Exception as e:  # as in `post`
            self._fail(e)
            raise _not_ready() from None
        if refused:
            raise KafkaError(refused, f"marker of producer {producer_id} epoch {producer_epoch}")
        if await self._logged():
            raise _not_ready()

    def _append_alone(self, append: Callable[[], object]) -> ErrorCode:
        """Append the earlier decisions, then a batch of its own.

        Returns the error if the log refuses the producer. Raises as the log if that failed.
        """
        writes, self._unlogged = self._unlogged, []
        try:
            append_records(self.log, writes, self._clock.timestamp())
            refused = _refused(append)
        except Exception:
            # No waiting request is known to be the refused one.
            self._after_append = [*self._appended, *self._after_append]
            self._appended = []
            raise
        if refused:
            return refused
        if not self._flushing:
            self._flush_soon()
        return _NONE

    # --- deleted topics ---

    def topics_deleted(self, names: frozenset[str]) -> "asyncio.Task[None] | None":
        """Delete the offsets of these topics, now or before the shard serves.

        Returns the task that continues if they are many. No topic of such a name may be created
        before it ends: its commits would be deleted too. No-op if another node leads the partition;
        that node deletes them.
        """
        if self.state is HostState.ELSEWHERE:
            return None
        self._deleted_topics |= names
        if self.state is not HostState.ACTIVE:
            return None
        self._to_forget |= names
        if self._forgetting is None or self._forgetting.done():
            steps = self._forget_topics()
            if next(steps, _AT_END) is _AT_END:
                return None
            self._forgetting = asyncio.ensure_future(self._go_on(steps))
        return self._forgetting

    def _forget_topics(self) -> Iterator[None]:
        """Delete the offsets of deleted topics, in steps that take some milliseconds each."""
        shard = self.shard
        while self._to_forget:
            names = frozenset(self._to_forget)
            self._to_forget.clear()
            for number, groups in enumerate(_some_at_a_time(tuple(shard.groups))):
                if number:
                    yield
                event = TopicsDeleted(names, groups)
                while (decided := self.post(event)) and len(decided.records) == TOMBSTONE_CHUNK:
                    yield
                if self.shard is not shard:
                    return  # they stay in `_deleted_topics`
            self.when_logged(partial(self._topics_forgotten, names))

    async def _go_on(self, steps: Iterator[None]) -> None:
        for _ in steps:
            await self.appended()

    def _topics_forgotten(self, names: frozenset[str], failure: ErrorCode) -> None:
        if not failure:
            self._deleted_topics -= names

    async def _forget_topics_before_serving(self) -> None:
        """Delete the offsets of topics that were deleted while the shard did not serve.

        A topic of such a name may exist again, but no offset was committed for it yet.
        """
        while self._deleted_topics:
            names, failed_syncs = frozenset(self._deleted_topics), self.log.failed_syncs
            for groups in _some_at_a_time(tuple(self.shard.groups)):
                event = TopicsDeleted(names, groups)
                while records := self._decide(event).records:
                    for record in records:
                        self.shard.replay(record)
                    append_records(self.log, (records,), self._clock.timestamp())
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
            await self.log.durable()
            if self.log.failed_syncs != failed_syncs:
                raise OSError("deletions of offsets could not be made durable")
            self._deleted_topics -= names

    # --- groups as the content of a shard ---

    def _records_in(self, reads: Iterable[Batches]) -> Iterator[Sequence[Record]]:
        # Entries of other types, which only a log has, are replayed as records are.
        return cast("Iterator[Sequence[Record]]", read_records(reads))

    async def _replayed(self) -> None:
        await self._forget_topics_before_serving()

    async def _begin(self) -> None:
        self._apply(self.shard.loaded(self._clock.now(), self._clock.timestamp()))

    def _apply(self, result: Result) -> None:
        self._set_timers(result.timers)
        self._accept(result.records, (*result.journal, *result.replies))
        for job in result.jobs:
            self._on_job(self, job)
        if result.continuation is not None:
            self.when_logged(
                partial(self._continue_with, self.shard, cast("Event", result.continuation))
            )

    def _continue_with(self, shard: Shard, event: Event, failure: ErrorCode) -> None:
        if not failure:
            asyncio.get_running_loop().call_soon(self._post_to, shard, event)

    def _post_to(self, shard: Shard, event: Event) -> None:
        if self.shard is shard:
            self.post(event)

    def _append(self, decided: Sequence[Sequence[Record]]) -> None:
        self._append_begun = perf_counter()
        append_records(self.log, decided, self._clock.timestamp())

    def _flushed(self) -> None:
        self._on_append(perf_counter() - self._append_begun)
        super()._flushed()

    def _carry_out(self, rebalance: Rebalance) -> None:
        self._on_rebalance(rebalance)

    def _refuse(self, request: Request, error: ErrorCode) -> Response:
        return refuse(request, error)

    def _refusal(self, request: Request) -> Response:
        return (
            refuse_while_loading(request)
            if self.state is HostState.LOADING
            else refuse(request, self._why_not())
        )

    async def close(self) -> None:
        await super().close()
        if self._forgetting is not None:
            self._forgetting.cancel()

    def _stop(self, state: HostState) -> None:
        super()._stop(state)
        self._deleted_topics.clear()

    def _drop(self, refused: ErrorCode, dropped: ErrorCode) -> None:
        lost = [item for item in self._after_append if isinstance(item, Rebalance)]
        self._to_forget.clear()
        super()._drop(refused, dropped)
        for rebalance in lost:
            self._on_rebalance(replace(rebalance, outcome="lost"))


def _refused(append: Callable[[], object]) -> ErrorCode:
    """Append. Returns the error if the log refuses the producer."""
    try:
        append()
    except KafkaError as error:
        if error.code not in _PRODUCER_REFUSED:
            raise
        return error.code
    return _NONE


def _not_ready() -> KafkaError:
    return KafkaError(ErrorCode.not_leader_or_follower, "the group coordinator is not ready")


def _some_at_a_time(groups: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(groups), _GROUP_CHUNK):
        yield tuple(groups[start : start + _GROUP_CHUNK])
