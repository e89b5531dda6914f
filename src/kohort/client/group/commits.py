"""Committing offsets: one request at a time, with everything that was asked for since the last one.

Tasks commit when they like; what they ask while a request is in flight goes into the next one
together, the latest offset of a partition for all who asked. Each gets the answer for its own
partitions.

Who may commit is decided twice. Here: nothing of a partition that was lost, or is drained
(`Ending.commits`). And by the coordinator, by member and generation: those at the moment of
sending, so a partition that is kept through a cooperative rebalance is committed in the new
generation. An answer that fences the generation that the member still has goes to the membership;
one that fences an older one is tried again in the new.

What passes is tried again until `default_api_timeout_ms` is over. REBALANCE_IN_PROGRESS does: the
coordinator takes no commits between the join and the sync of a generation. So do unknown topics,
ids of them too: if the topic is gone indeed, or was made anew, the watch finds that out, and its
partitions are lost.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kohort.client.backoff import Backoff
from kohort.client.cluster import Cluster
from kohort.client.group.offset_requests import TopicIds, commit_offsets
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.requests import coordinator
from kohort.client.group_config import GroupConfig
from kohort.client.group_errors import (
    CommitError,
    GenerationEndedError,
    is_retriable,
    moves_coordinator,
)
from kohort.client.membership import End
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.client.group")

PURPOSE = "commit"
"""Its own connection: a join that is parked for minutes holds up no commit."""
_OF_THE_MEMBERSHIP = frozenset({ErrorCode.illegal_generation, ErrorCode.unknown_member_id})
_FOR_GOOD = frozenset({ErrorCode.fenced_instance_id, ErrorCode.group_authorization_failed})
_AGAIN = KohortError("not an error to tell anybody of: send it again")

Offsets: TypeAlias = Mapping[OwnedPartition, OffsetAndMetadata]
_Outcome: TypeAlias = KohortError | None


class Identity(NamedTuple):
    """By which the coordinator knows a commit to be a member's."""

    member_id: str
    generation: int


@dataclass(slots=True)
class _PendingCommit:
    offset: OffsetAndMetadata
    until: float
    """By the loop's clock."""
    waiters: list["asyncio.Future[_Outcome]"] = field(default_factory=list)

    def settle(self, outcome: _Outcome) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(outcome)


class Committer:
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
        self.requests = 0
        self.committed = 0
        """Partitions, over all requests."""

    async def commit(self, offsets: Offsets) -> None:
        """Back when the coordinator has them all.

        Raises GenerationEndedError if any of the partitions may not be committed any more,
        `CommitError` for those that were refused, or could not be committed in time.
        """
        for owned in offsets:
            validate_commits(owned)
        waiters = {owned: self._want(owned, offset) for owned, offset in offsets.items()}
        if self._sender is None:
            self._sender = self._loop.create_task(self._send_all())
        outcomes = await asyncio.gather(*waiters.values())
        _raise_for(dict(zip(waiters, outcomes, strict=True)))

    async def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _want(self, owned: OwnedPartition, offset: OffsetAndMetadata) -> "asyncio.Future[_Outcome]":
        waiter: asyncio.Future[_Outcome] = self._loop.create_future()
        until = self._loop.time() + self._timeout_ms / 1_000
        wanted = self._pending.setdefault(owned, _PendingCommit(offset, until))
        wanted.offset = offset
        wanted.waiters.append(waiter)
        return waiter

    async def _send_all(self) -> None:
        wanted: dict[OwnedPartition, _PendingCommit] = {}
        ended = KohortError("the group was closed before the offsets were committed")
        try:
            while self._pending:
                wanted, self._pending = self._pending, {}
                again = await self._send(self._still_ours(wanted))
                if again:
                    self._want_again(again)
                    await asyncio.sleep(self._backoff.next_s())
                else:
                    self._backoff.reset()
        except Exception as error:
            logger.exception("committing ended with an error that is our own")
            ended = KohortError(
                f"the offsets were not committed, for a fault of the client, report it: {error!r}"
            )
        finally:
            self._sender = None
            for each in (*wanted.values(), *self._pending.values()):
                each.settle(ended)
            self._pending.clear()

    def _still_ours(
        self, wanted: dict[OwnedPartition, _PendingCommit]
    ) -> dict[OwnedPartition, _PendingCommit]:
        for owned, each in wanted.items():
            if not owned.ending.commits:
                each.settle(_ended(owned))
        return {owned: each for owned, each in wanted.items() if owned.ending.commits}

    async def _send(
        self, wanted: dict[OwnedPartition, _PendingCommit]
    ) -> dict[OwnedPartition, _PendingCommit]:
        """One request; what has to be sent again."""
        if not wanted:
            return {}
        identity = self._identity()
        outcomes = await self._ask(wanted, identity)
        again = {}
        for owned, each in wanted.items():
            outcome = self._judged(owned, outcomes[owned.partition], identity)
            if outcome is _AGAIN and self._loop.time() < each.until:
                again[owned] = each
            else:
                each.settle(outcomes[owned.partition] if outcome is _AGAIN else outcome)
                self.committed += outcome is None
        return again

    async def _ask(
        self, wanted: dict[OwnedPartition, _PendingCommit], identity: Identity
    ) -> dict[TopicPartition, _Outcome]:
        offsets = {owned.partition: each.offset for owned, each in wanted.items()}
        self.requests += 1
        try:
            connection = await coordinator(self._cluster, self._config.group_id, PURPOSE)
            codes = await commit_offsets(
                connection,
                self._config,
                offsets,
                generation=identity.generation,
                member_id=identity.member_id,
                topic_ids=self._topic_ids,
            )
        except KohortError as error:
            self._cluster.coordinator_moved(self._config.group_id)
            return dict.fromkeys(offsets, error)
        if any(moves_coordinator(code) for code in codes.values()):
            self._cluster.coordinator_moved(self._config.group_id)
        return {each: _error(codes.get(each, ErrorCode.unknown_server_error)) for each in offsets}

    def _judged(self, owned: OwnedPartition, outcome: _Outcome, identity: Identity) -> _Outcome:
        """`_AGAIN`, or what to tell who asked."""
        if outcome is None:
            return None
        if not owned.ending.commits:
            return _ended(owned)
        if not isinstance(outcome, KafkaError):
            return _AGAIN
        code = outcome.code
        if code in _OF_THE_MEMBERSHIP or code in _FOR_GOOD:
            self._on_fenced(identity.generation, code)
            # Not all is lost if the member has a newer generation, or is about to: it is joining
            # with what it owns.
            return _AGAIN if owned.ending.commits else _ended(owned)
        return _AGAIN if code is ErrorCode.rebalance_in_progress or is_retriable(code) else outcome

    def _want_again(self, wanted: dict[OwnedPartition, _PendingCommit]) -> None:
        for owned, each in wanted.items():
            newer = self._pending.setdefault(owned, each)
            if newer is not each:
                newer.waiters += each.waiters


def validate_commits(owned: OwnedPartition) -> None:
    """Raises GenerationEndedError if nothing of this partition may be committed any more."""
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
            raise error
    if errors:
        raise CommitError(errors)
