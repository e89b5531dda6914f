"""A group's member at work: what the membership decides becomes generations, and what they do
becomes requests.

`Member` tells of assignments and of their ends (`on_start`, `on_end`); here are the holdings that
follow from it, and the generation that is handed over when its start offsets are known; how they
end is in `group_draining`. Nothing here decides about the membership: whatever happens is told to
it, and it says what to do.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from random import Random
from typing import Any

from kohort.client.cluster import Cluster
from kohort.client.fetch import Batch, Fetcher
from kohort.client.group.commits import Committer, Identity
from kohort.client.group.draining import Draining
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.generation_setup import GenerationSetup
from kohort.client.group.leading import assignment_for
from kohort.client.group.marked_commits import MarkedCommits
from kohort.client.group.member import Member
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.streaming import stream
from kohort.client.group.subscription import MemberSubscription
from kohort.client.group.topic_watch import TopicWatch
from kohort.client.group_config import GroupConfig, GroupEvent
from kohort.client.group_errors import GroupError, StuckError
from kohort.client.membership import (
    LEAVE_WITHIN_MS,
    Assign,
    End,
    EndPartitions,
    Grant,
    Membership,
    Raise,
    Start,
    Tell,
)
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode, KohortError
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.client.group")

_LOUD = frozenset({"lost", "heartbeat failed", "retry", "waiting", "commit failed", "stuck"})


class GroupRun:
    """One member from joining to leaving. Made and closed by `ConsumerGroup`."""

    def __init__(
        self,
        config: GroupConfig,
        cluster: Cluster,
        fetcher: Fetcher,
        subscription: MemberSubscription,
        random: Random,
    ) -> None:
        self.config = config
        self.name = config.group_id
        self.cluster = cluster
        self.fetcher = fetcher
        self.subscription = subscription
        self.watch = TopicWatch(config.pattern)
        self.membership = Membership(
            config,
            subscription,
            cooperative=subscription.cooperative,
            request_timeout_ms=cluster.config.request_timeout_ms,
            random=random,
        )
        self.member = Member(self.membership, cluster, self)
        self.committer = Committer(
            config,
            cluster,
            timeout_ms=cluster.config.default_api_timeout_ms,
            identity=lambda: Identity(self.membership.member_id, self.membership.generation),
            topic_ids=self.watch.ids,
            on_fenced=self._fenced,
            backoff=cluster.backoff(),
        )
        self.marked = MarkedCommits(self.committer)
        self.setup = GenerationSetup(self)
        self.draining = Draining(self)
        self.owned_partitions: dict[TopicPartition, OwnedPartition] = {}
        self.failure: GroupError | None = None
        """Why the membership is over, if it is not because it was asked for."""
        self.left = asyncio.Event()
        """The membership is over."""
        self.rebalances = 0
        self._errors: list[BaseException] = []
        self._ready: GenerationScope | None = None
        self._ready_since = 0.0
        self._handed: GenerationScope | None = None
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- for ConsumerGroup ---

    async def next(self) -> GenerationScope | None:
        """The next generation; None when the membership is over because it was asked for.

        Raises GroupError when it ended otherwise, and what tasks raised between two generations.
        """
        if self._handed is not None and self._handed.is_entered:
            raise KohortError(
                "leave the generation (async with generation) before asking for the next one"
            )
        while True:
            if errors := self.take_errors():
                raise BaseExceptionGroup(f"errors in tasks of group {self.name}", errors)
            if self.failure is not None:
                raise self.failure
            if self.left.is_set():
                return None
            if self._ready is not None:
                return self._hand_over(self._ready)
            self.member.tell(self.membership.join)
            self._changed.clear()
            await self._changed.wait()

    def leave(self, reason: str) -> None:
        """Drain, commit and leave, without waiting for it."""
        self.member.tell(self.membership.leave, reason)

    def give_up(self, error: GroupError) -> None:
        """Leave at once and raise `error`: something in this process is beyond help."""
        if self.failure is None and not self.left.is_set():
            self.failure = error
            self.tell("stuck" if isinstance(error, StuckError) else "lost", str(error))
            self.member.tell(self.membership.leave, str(error), drain=False)
            self._changed.set()

    async def close(self, reason: str) -> None:
        """Leave, and end everything that runs here; bounded by the drain timeout and a few seconds."""
        self.leave(reason)
        try:
            async with asyncio.timeout((self.config.drain_ms + 2 * LEAVE_WITHIN_MS) / 1_000):
                await self.left.wait()
        except TimeoutError:
            self.tell("lost", "the membership did not end in time; the session timeout ends it")
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.member.close()
            await self.committer.close()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run something until the group is closed. Whatever it raises ends the membership."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def tell(self, what: str, detail: str) -> None:
        """To the log, and to `on_event`."""
        logger.log(
            logging.WARNING if what in _LOUD else logging.INFO,
            "%s: %s: %s",
            self.name,
            what,
            detail,
        )
        if self.config.on_event is not None:
            member_id, generation = self.membership.member_id, self.membership.generation
            event = GroupEvent(
                what=what,
                group_id=self.name,
                member_id=member_id,
                generation=generation,
                detail=detail,
            )
            try:
                self.config.on_event(event)
            except Exception:
                logger.exception("%s: on_event raised; the membership goes on", self.name)

    @property
    def untaken_for(self) -> float:
        """For how many seconds a generation has waited to be asked for."""
        waits = self._ready is not None
        return asyncio.get_running_loop().time() - self._ready_since if waits else 0.0

    def fetched(self) -> list[TopicPartition]:
        """What this member has been working on."""
        return [partition for partition, owned in self.owned_partitions.items() if owned.is_fetched]

    # --- what the membership decides ---

    def on_assign(self, assign: Assign) -> None:
        self.spawn(self._assign(assign), f"assigns generation {assign.generation}")

    async def _assign(self, assign: Assign) -> None:
        try:
            assignments = await assignment_for(self, assign)
        except Exception as error:
            failure = GroupError(
                f"the assignment of generation {assign.generation} could not be made: {error!r}"
            )
            failure.__cause__ = error
            self.member.tell(self.membership.refused, failure)
        else:
            self.member.tell(self.membership.assigned, assign.generation, assignments)

    def on_start(self, start: Start) -> None:
        grant = start.grant
        self.rebalances += 1
        self.subscription.on_assignment(grant)
        for partition in grant.added:
            self.owned_partitions[partition] = OwnedPartition(partition, self.task_failed)
        generation = GenerationScope(
            self, grant, {each: self.owned_partitions[each] for each in grant.assignment}
        )
        for partition in grant.assignment:
            owned = self.owned_partitions[partition]
            owned.generation = generation
            owned.adoptable = owned.tasks.working()
        self.draining.begin(generation, grant)
        self._ready = None
        self.setup.begin(generation, grant)
        self.tell("generation", _described(grant))

    def on_end(self, end: EndPartitions) -> None:
        if end.partitions is None:
            self.setup.cancel()
            self._ready = None
        self.draining.end(end)

    def on_raise(self, raised: Raise) -> None:
        self.failure = self.failure or raised.error
        self.on_left()

    def on_left(self) -> None:
        self.left.set()
        self._changed.set()
        self.tell("left", "the membership is over" if self.failure is None else str(self.failure))

    def on_tell(self, told: Tell) -> None:
        self.tell(told.what, told.detail)

    # --- handing over, and ending ---

    def prepared(self, generation: GenerationScope) -> None:
        """Its start offsets are known: the application may have it."""
        self._ready = generation
        self._ready_since = asyncio.get_running_loop().time()
        self._changed.set()

    def _hand_over(self, generation: GenerationScope) -> GenerationScope:
        before = (
            self._handed.assignment
            if self._handed is not None and self._handed.end is not End.LOST
            else ()
        )
        generation.show(before)
        self._ready, self._handed = None, generation
        return generation

    def release(self, owned: OwnedPartition) -> None:
        """It is drained: this member does not have it any more."""
        owned.ending.over.set()
        if owned.is_fetched:
            self.fetcher.remove(owned.partition)
        if self.owned_partitions.get(owned.partition) is owned:
            del self.owned_partitions[owned.partition]
        self.marked.forget([owned])

    def on_drained(self) -> None:
        self.member.tell(self.membership.drained)

    # --- for generations ---

    def stream(self, owned: OwnedPartition) -> AsyncIterator[Batch]:
        return stream(self.fetcher, owned, self._gone)

    def _gone(self, owned: OwnedPartition, error: KohortError) -> None:
        """The fetcher noticed before the watch did that the topic was deleted, or made anew."""
        self.watch.forget([owned.partition.topic])
        self.tell("topics", str(error))
        self.member.tell(self.membership.lose, (owned.partition,), str(error))

    async def commit(
        self, offsets: Mapping[OwnedPartition, OffsetAndMetadata], *, wait: bool | None
    ) -> None:
        waits = self.config.commit_interval_ms == 0 if wait is None else wait
        if waits:
            self.marked.forget(offsets)
            await self.committer.commit(offsets)
        else:
            self.marked.mark(offsets)

    def abort(self, cause: str) -> None:
        self.member.tell(self.membership.abort, cause)

    def take_errors(self) -> list[BaseException]:
        errors, self._errors = self._errors, []
        return errors

    def task_failed(self, error: BaseException) -> None:
        self._errors.append(error)
        self.abort(f"a task failed: {error!r}")
        self._changed.set()

    def _fenced(self, generation: int, code: ErrorCode) -> None:
        self.member.tell(self.membership.fenced, generation, code)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            failure = (
                error
                if isinstance(error, GroupError)
                else GroupError(f"{task.get_name()}: {error!r}")
            )
            failure.__cause__ = error if failure is not error else None
            self.give_up(failure)


def _described(grant: Grant) -> str:
    leads = ", leads" if grant.is_leader else ""
    return f"{grant.generation} with {len(grant.assignment)} partitions by {grant.protocol}{leads}"
