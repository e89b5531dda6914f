"""Commits offsets: one request at a time, with all offsets that tasks passed since the last one.

Tasks commit at any time. Offsets passed while a request is in flight go into the next one: the
latest offset of each partition, for all callers. Each caller gets the outcome of its partitions.

Two checks decide whether a commit is accepted. Here: no offset of a partition that was lost or is
drained (`Ending.commits`). At the coordinator: member id and generation, those of the moment of
sending. A partition that is kept through a cooperative rebalance is thus committed in the new
generation. A response that fences the current generation goes to the membership. After one that
fences an older generation the commit is repeated in the new one. In the consumer protocol the
generation is the member epoch, and STALE_MEMBER_EPOCH says that the member's next one is under way.

Retriable errors are retried until `default_api_timeout_ms` is over. REBALANCE_IN_PROGRESS is one of
them: the coordinator accepts no commits between the join and the sync of a generation. Unknown
topics and topic ids are as well: if the topic was deleted or recreated, the topic check finds it,
and its partitions are lost.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kohort.client.backoff import Backoff
from kohort.client.cluster import Cluster
from kohort.client.config import GroupConfig
from kohort.client.group.offset_requests import TopicIds, commit_offsets
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.requests import coordinator
from kohort.client.group_errors import (
    CommitError,
    GenerationEndedError,
    is_retriable,
    moves_coordinator,
)
from kohort.client.membership import End
from kohort.client.metrics import RequestCounter, reason
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.client.group")

PURPOSE = "commit"
"""Purpose of a connection of its own: a join that is parked for minutes delays no commit."""
_OF_THE_MEMBERSHIP = frozenset(
    {
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.stale_member_epoch,
    }
)
_FOR_GOOD = frozenset({ErrorCode.fenced_instance_id, ErrorCode.group_authorization_failed})
_AGAIN = KohortError("a marker that is never raised: send the commit again")

Offsets: TypeAlias = Mapping[OwnedPartition, OffsetAndMetadata]
_Outcome: TypeAlias = KohortError | None


class Identity(NamedTuple):
    """The member id and generation (or member epoch) by which the coordinator accepts a commit."""

    member_id: str
    generation: int


@dataclass(slots=True)
class _PendingCommit:
    offset: OffsetAndMetadata
    until: float
    """When to give up, by the loop's clock."""
    waiters: list["asyncio.Future[_Outcome]"] = field(default_factory=list)

    def settle(self, outcome: _Outcome) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(outcome)


class OffsetCommitter:
    """The commits of one member."""

    def __init__(
        self,
        config: GroupConfig,
        cluster: Cluster,
        *,
        timeout_ms: int,
        identity: Callable[[], Identity],
        topic_ids: TopicIds,
        on_fenced: Callable[[int, ErrorCode], None],
        backoff: Backoff,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._identity = identity
        self._topic_ids = topic_ids
        self._on_fenced = on_fenced
        self._backoff = backoff
        self._loop = asyncio.get_running_loop()
        self._pending: dict[OwnedPartition, _PendingCommit] = {}
        self._sender: asyncio.Task[None] | None = None
        self.counter = RequestCounter()
        self.requests = 0
        self.committed = 0
        """Partitions that were committed, over all requests."""

    async def commit(self, offsets: Offsets) -> None:
        """Commit, and return when the coordinator has all offsets.

        Raises GenerationEndedError if one of the partitions may not be committed any more,
        `CommitError` for those that were refused or not committed in time.
        """
        for owned in offsets:
            validate_commits(owned)
        waiters = {owned: self._enqueue(owned, offset) for owned, offset in offsets.items()}
        if self._sender is None:
            self._sender = self._loop.create_task(self._send_all())
        outcomes = await asyncio.gather(*waiters.values())
        _raise_for(dict(zip(waiters, outcomes, strict=True)))

    async def close(self) -> None:
        """End the request in flight; offsets that wait fail."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _enqueue(
        self, owned: OwnedPartition, offset: OffsetAndMetadata
    ) -> "asyncio.Future[_Outcome]":
        waiter: asyncio.Future[_Outcome] = self._loop.create_future()
        deadline = self._loop.time() + self._timeout_ms / 1_000
        pending = self._pending.setdefault(owned, _PendingCommit(offset, deadline))
        pending.offset = offset
        pending.waiters.append(waiter)
        return waiter

    async def _send_all(self) -> None:
        sending: dict[OwnedPartition, _PendingCommit] = {}
        ended = KohortError("the group was closed before the offsets were committed")
        try:
            while self._pending:
                sending, self._pending = self._pending, {}
                to_retry, error = await self._send(self._still_ours(sending))
                if error is None:
                    self._backoff.reset()
                    continue
                self._requeue(to_retry)
                operation = f"committing {len(to_retry)} offsets of group {self._config.group_id}"
                await asyncio.sleep(self._backoff.after(error, operation))
        except Exception as error:
            logger.exception("internal error in an offset commit")
            ended = KohortError(
                "the offsets were not committed because of a bug in the client, please "
                f"report it: {error!r}"
            )
        finally:
            self._sender = None
            for commit in (*sending.values(), *self._pending.values()):
                commit.settle(ended)
            self._pending.clear()

    def _still_ours(
        self, commits: dict[OwnedPartition, _PendingCommit]
    ) -> dict[OwnedPartition, _PendingCommit]:
        for owned, commit in commits.items():
            if not owned.ending.commits:
                commit.settle(_ended(owned))
        return {owned: commit for owned, commit in commits.items() if owned.ending.commits}

    async def _send(
        self, commits: dict[OwnedPartition, _PendingCommit]
    ) -> tuple[dict[OwnedPartition, _PendingCommit], _Outcome]:
        """Send one request; returns the commits to send again, and the error of one of them."""
        if not commits:
            return {}, None
        identity = self._identity()
        outcomes = await self._ask(commits, identity)
        to_retry = {}
        error = None
        for owned, commit in commits.items():
            outcome = self._judged(owned, outcomes[owned.partition], identity)
            if outcome is _AGAIN and self._loop.time() < commit.until:
                to_retry[owned], error = commit, outcomes[owned.partition]
            else:
                commit.settle(outcomes[owned.partition] if outcome is _AGAIN else outcome)
                self.committed += outcome is None
        return to_retry, error

    async def _ask(
        self, commits: dict[OwnedPartition, _PendingCommit], identity: Identity
    ) -> dict[TopicPartition, _Outcome]:
        offsets = {owned.partition: commit.offset for owned, commit in commits.items()}
        self.requests += 1
        try:
            connection = await coordinator(self._cluster, self._config.group_id, PURPOSE)
            sent = self._loop.time()
            codes = await commit_offsets(
                connection,
                self._config,
                offsets,
                generation=identity.generation,
                member_id=identity.member_id,
                topic_ids=self._topic_ids,
            )
        except KohortError as error:
            self.counter.failures.count(reason(error))
            self._cluster.coordinator_moved(self._config.group_id)
            return dict.fromkeys(offsets, error.with_traceback(None))
        self.counter.latency.observe(self._loop.time() - sent)
        for code in set(codes.values()) - {ErrorCode.none}:
            self.counter.failures.count(code.name.upper())
        if any(moves_coordinator(code) for code in codes.values()):
            self._cluster.coordinator_moved(self._config.group_id)
        return {
            partition: _error(codes.get(partition, ErrorCode.unknown_server_error))
            for partition in offsets
        }

    def _judged(self, owned: OwnedPartition, outcome: _Outcome, identity: Identity) -> _Outcome:
        """`_AGAIN`, or the outcome for the callers."""
        if outcome is None:
            return None
        if not owned.ending.commits:
            return _ended(owned)
        if not isinstance(outcome, KafkaError):
            return _AGAIN
        code = outcome.code
        if code in _OF_THE_MEMBERSHIP or code in _FOR_GOOD:
            self._on_fenced(identity.generation, code)
            # The commit can be repeated if the member has a newer generation, or is joining with
            # the partitions that it owns.
            return _AGAIN if owned.ending.commits else _ended(owned)
        return _AGAIN if code is ErrorCode.rebalance_in_progress or is_retriable(code) else outcome

    def _requeue(self, commits: dict[OwnedPartition, _PendingCommit]) -> None:
        for owned, commit in commits.items():
            newer = self._pending.setdefault(owned, commit)
            if newer is not commit:
                newer.waiters += commit.waiters


def validate_commits(owned: OwnedPartition) -> None:
    """Raises GenerationEndedError if the partition may not be committed any more."""
    if not owned.ending.commits:
        raise _ended(owned)


def _ended(owned: OwnedPartition) -> GenerationEndedError:
    ending = owned.ending
    how = (ending.end or End.LOST).value
    return GenerationEndedError(
        f"{owned.partition} is not this member's any more: it was {how} "
        f"({ending.cause or 'fenced'}). "
        "Its next owner starts at the last committed offset; stop working on it"
    )


def _error(code: ErrorCode) -> _Outcome:
    return None if code is ErrorCode.none else KafkaError(code)


def _raise_for(outcomes: Mapping[OwnedPartition, _Outcome]) -> None:
    errors = {owned.partition: error for owned, error in outcomes.items() if error is not None}
    for error in errors.values():
        if isinstance(error, GenerationEndedError):
            raise fresh(error)
    if errors:
        raise CommitError(errors)
