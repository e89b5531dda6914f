"""Runs one member of a group: turns the membership's decisions into generations and requests.

`GroupMember` reports assignments and their ends (`on_start`, `on_end`). `GroupRun` keeps the owned
partitions that follow from them, and hands a generation over when its start offsets are known
(`generation_setup`). Their end is in `draining`. No decision about the membership is taken here:
every event goes to the membership, which returns the actions.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import UUID, uuid4

from kohort.client.cluster import Cluster, list_offsets
from kohort.client.config import GroupConfig, GroupEvent
from kohort.client.fetch import Fetcher
from kohort.client.group.commits import Identity, OffsetCommitter
from kohort.client.group.draining import Draining
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.generation_setup import GenerationSetup
from kohort.client.group.leading import assignment_for
from kohort.client.group.marked_commits import MarkedCommits
from kohort.client.group.member import GroupMember
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.retry import retry_until_success
from kohort.client.group.start_offsets import ListOffsets
from kohort.client.group.streaming import RecordStream
from kohort.client.group.subscription import MemberSubscription
from kohort.client.group.topic_watch import TopicWatch
from kohort.client.group_errors import GroupError, StuckError
from kohort.client.membership import (
    LEAVE_WITHIN_MS,
    AnyMembership,
    Assign,
    ConsumerGroupHeartbeat,
    ConsumerMembership,
    End,
    EndPartitions,
    Grant,
    Heartbeat,
    JoinGroup,
    Membership,
    Raise,
    ResolveTopics,
    Start,
    SyncGroup,
    Tell,
    Uniform,
)
from kohort.client.metrics import CommitMetrics, GroupMetrics
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.serialization import Deserializers
from kohort.errors import ErrorCode, KohortError, caused_by, fresh
from kohort.types import TopicPartition
from kohort.util.text import join_names

logger = logging.getLogger("kohort.client.group")

_LONG_S = 1.0
WARNING_EVENTS = frozenset(
    {
        *("lost", "heartbeat failed", "retry", "waiting", "commit failed", "stuck"),
        *("unavailable", "missing", "idle"),
    }
)


class GroupRun:
    """One member from joining to leaving. Created and closed by `ConsumerGroup`."""

    def __init__(
        self,
        config: GroupConfig,
        cluster: Cluster,
        fetcher: Fetcher,
        subscription: MemberSubscription,
        uniform: Uniform,
        *,
        list_offsets: ListOffsets = list_offsets,
        deserializers: Deserializers | None = None,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        """`uniform` randomises pauses between attempts; `list_offsets` queries start offsets.

        `new_id` gives the id of a member of the consumer protocol.
        """
        self.config = config
        self.name = config.group_id
        self.cluster = cluster
        self.fetcher = fetcher
        self.subscription = subscription
        by_coordinator = config.protocol == "consumer"
        self.watch = TopicWatch(None if by_coordinator else config.pattern)
        self.membership = self._membership(str(new_id()) if by_coordinator else None, uniform)
        self.member = GroupMember(self.membership, cluster, self)
        self.committer = OffsetCommitter(
            config,
            cluster,
            timeout_ms=cluster.config.default_api_timeout_ms,
            identity=self._identity,
            topic_ids=self.watch.ids,
            on_fenced=self._fenced,
            backoff=cluster.backoff(),
        )
        self.marked = MarkedCommits(self.committer)
        self.setup = GenerationSetup(self, list_offsets)
        self.draining = Draining(self)
        self.owned_partitions: dict[TopicPartition, OwnedPartition] = {}
        self.failure: GroupError | None = None
        """Error that ended the membership; None while it lasts, and after a requested leave."""
        self.left = asyncio.Event()
        """Set when the membership is over."""
        self.rebalances = 0
        self._deserializers = deserializers
        self._errors: list[BaseException] = []
        self._ready: GenerationScope | None = None
        self._ready_since = 0.0
        self._handed: GenerationScope | None = None
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._assigning: asyncio.Task[None] | None = None

    def _membership(self, own_id: str | None, uniform: Uniform) -> AnyMembership:
        request_timeout_ms = self.cluster.config.request_timeout_ms
        if own_id is not None:
            return ConsumerMembership(
                self.config,
                self.subscription,
                member_id=own_id,
                request_timeout_ms=request_timeout_ms,
                uniform=uniform,
            )
        return Membership(
            self.config,
            self.subscription,
            cooperative=self.subscription.cooperative,
            request_timeout_ms=request_timeout_ms,
            uniform=uniform,
        )

    def _identity(self) -> Identity:
        return Identity(self.membership.member_id, self.membership.generation)

    # --- for ConsumerGroup ---

    def metrics(self) -> GroupMetrics:
        """Counters of the member, and its state."""
        counters, committer, now = self.member.counters, self.committer, self.member.now()
        requests, beat_at = counters.requests, counters.heartbeat_at
        heartbeat = Heartbeat if self.member_epoch is None else ConsumerGroupHeartbeat
        return GroupMetrics(
            client_id=self.cluster.config.client_id,
            is_closed=self.left.is_set(),
            group_id=self.name,
            member_id=self.membership.member_id,
            state=self.membership.phase.value,
            generation=self.membership.generation,
            assignment=tuple(self.owned_partitions),
            rebalances=counters.rebalances.snapshot(),
            lost=counters.lost,
            joins=requests[JoinGroup].snapshot(),
            syncs=requests[SyncGroup].snapshot(),
            heartbeats=requests[heartbeat].snapshot(),
            heartbeat_age_ms=None if beat_at is None else max(now - beat_at * 1000, 0),
            commits=CommitMetrics(
                requests=committer.counter.snapshot(), partitions=committer.committed
            ),
            fetch=self.fetcher.metrics(),
            connections=self.cluster.metrics().connections,
        )

    async def next(self) -> GenerationScope | None:
        """The next generation; None when the membership is over because `leave` was called.

        Raises GroupError when the membership ended otherwise, and errors that tasks raised between
        two generations.
        """
        if self._handed is not None and self._handed.is_entered:
            raise KohortError(
                "leave the generation (async with generation) before asking for the next one"
            )
        while True:
            if errors := self.take_errors():
                raise BaseExceptionGroup(f"errors in tasks of group {self.name}", errors)
            if self.failure is not None:
                raise fresh(self.failure)
            if self.left.is_set():
                return None
            if self._ready is not None:
                return self._hand_over(self._ready)
            self.member.dispatch(self.membership.join)
            self._changed.clear()
            await self._changed.wait()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to exactly these topics, and join again."""
        self.subscription.topics = topics
        self.member.dispatch(self.membership.rejoin, "the subscription changed")

    def leave(self, reason: str) -> None:
        """Begin to drain, commit and leave; does not wait."""
        self.member.dispatch(self.membership.leave, reason)

    def give_up(self, error: GroupError) -> None:
        """Leave the group at once and raise `error` to the application."""
        if self.failure is None and not self.left.is_set():
            self.failure = error
            self.emit_event("stuck" if isinstance(error, StuckError) else "lost", str(error))
            self.member.dispatch(self.membership.leave, str(error), drain=False)
            self._changed.set()

    def validate_outside(self) -> None:
        """Raises KohortError in the scope or a task of a generation, which `close` waits for."""
        if self._handed is not None and self._handed.contains(asyncio.current_task()):
            raise KohortError(
                "close waits for the end of the generation, and so for its caller here: call "
                "group.stop() instead"
            )

    async def close(self, reason: str) -> None:
        """Leave and end all tasks, within the drain timeout and a few seconds."""
        self.leave(reason)
        try:
            async with asyncio.timeout((self.config.drain_ms + 2 * LEAVE_WITHIN_MS) / 1_000):
                await self.left.wait()
        except TimeoutError:
            self.emit_event(
                "lost", "the membership did not end in time; the session timeout ends it"
            )
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.member.close()
            await self.committer.close()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` until the group is closed. An exception in it ends the membership."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name} {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def emit_event(self, what: str, detail: str) -> None:
        """Report an event to the log and to `on_event`."""
        logger.log(
            logging.WARNING if what in WARNING_EVENTS else logging.INFO,
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
    def unclaimed_for_s(self) -> float:
        """Seconds for which a generation has waited to be requested; 0 if none waits."""
        waits = self._ready is not None
        return asyncio.get_running_loop().time() - self._ready_since if waits else 0.0

    def fetched(self) -> list[TopicPartition]:
        """The owned partitions that the fetcher reads."""
        return [partition for partition, owned in self.owned_partitions.items() if owned.is_fetched]

    # --- decisions of the membership ---

    def on_assign(self, assign: Assign) -> None:
        if self._assigning is not None:
            self._assigning.cancel()
        self._assigning = self.spawn(
            self._assign(assign), f"assigns generation {assign.generation}"
        )

    def on_resolve(self, resolve: ResolveTopics) -> None:
        self.spawn(self._resolve(resolve.topic_ids), "names topics")

    async def _resolve(self, topic_ids: frozenset[UUID]) -> None:
        names = await retry_until_success(
            self,
            lambda: self.cluster.topic_names(topic_ids),
            what=f"names of {len(topic_ids)} topics of group {self.name}",
        )
        assert isinstance(self.membership, ConsumerMembership)
        self.member.dispatch(self.membership.resolved, names)

    async def _assign(self, assign: Assign) -> None:
        try:
            assignments = await retry_until_success(
                self,
                lambda: assignment_for(self, assign),
                what=f"metadata for the assignment of generation {assign.generation}",
            )
        except Exception as error:
            failure = GroupError(
                f"the assignment of generation {assign.generation} could not be made: {error!r}"
            )
            self.give_up(
                caused_by(error, failure)
            )  # the others wait for the assignment: leave at once
        else:
            assert isinstance(self.membership, Membership)
            self.member.dispatch(self.membership.assigned, assign.generation, assignments)

    def on_start(self, start: Start) -> None:
        grant = start.grant
        self.rebalances += 1
        self.subscription.on_assignment(grant)
        self.watch.ids.update(grant.topic_ids)
        for partition in grant.added:
            self.owned_partitions[partition] = OwnedPartition(
                partition, self.task_failed, self.task_returned
            )
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
        self.emit_event("generation", _described(grant))

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
        self.emit_event(
            "left", "the membership is over" if self.failure is None else str(self.failure)
        )

    def on_tell(self, told: Tell) -> None:
        self.emit_event(told.what, told.detail)

    # --- handing over, and ending ---

    def on_set_up(self, generation: GenerationScope) -> None:
        """The generation's start offsets are known: the application may have it."""
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
        """The partition is drained: the member no longer has it."""
        owned.ending.over.set()
        if owned.is_fetched:
            self.fetcher.remove(owned.partition)
        if self.owned_partitions.get(owned.partition) is owned:
            del self.owned_partitions[owned.partition]
        self.marked.forget([owned])

    def on_drained(self) -> None:
        self.member.dispatch(self.membership.drained)

    # --- for generations ---

    @property
    def member_epoch(self) -> int | None:
        is_classic = isinstance(self.membership, Membership)
        return None if is_classic else self.membership.generation

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        return self.watch.ids

    @property
    def offset_reader(self) -> Identity | None:
        return None if self.member_epoch is None else self._identity()

    def stream(self, owned: OwnedPartition, max_wait_ms: float | None) -> RecordStream:
        return RecordStream(
            self.fetcher, owned, self._gone, self._passed, self._deserializers, max_wait_ms
        )

    def _passed(self, owned: OwnedPartition) -> None:
        """The application asked for what follows the batch: with auto-commit it is committed."""
        if self.config.enable_auto_commit and owned.ending.commits:
            position = self.fetcher.position(owned.partition)
            if position is not None:
                self.marked.mark({owned: owned.offset(position)})

    def _gone(self, owned: OwnedPartition, error: KohortError) -> None:
        """The fetcher found before the topic check that the topic was deleted or recreated.

        Its other partitions are lost at once, too: a task may be about to commit what it read.
        """
        topic = owned.partition.topic
        lost = tuple(each for each in self.owned_partitions if each.topic == topic)
        self.watch.forget([topic])
        self.emit_event("topics", str(error))
        self.member.dispatch(self.membership.lose, lost, str(error))

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
        self.member.dispatch(self.membership.abort, cause)

    def take_errors(self) -> list[BaseException]:
        errors, self._errors = self._errors, []
        return errors

    def task_failed(self, error: BaseException) -> None:
        self._errors.append(error)
        self.abort(f"a task failed: {error!r}")
        self._changed.set()

    def task_returned(self) -> None:
        idle = [] if self._handed is None or self._errors else self._handed.idle()
        if idle:
            self.emit_event(
                "idle",
                f"nothing works on {join_names(map(str, idle))}, which this member keeps until the "
                "generation ends: a worker goes on until generation.records ends; to finish, also "
                "by break or return, call group.stop() before",
            )

    def block_left(self) -> None:
        """The application leaves the group's block, without an exception."""
        waited_s = 0.0 if self._handed is None else self._handed.waited_s
        if waited_s > _LONG_S and self.membership.leaving_because is None:
            self.emit_event(
                "idle",
                f"the loop was left by break or return, {waited_s:.0f} s later than the body of the"
                " generation: a generation ends when the group rebalances, not at once. Call"
                " group.stop() before",
            )

    def _fenced(self, generation: int, code: ErrorCode) -> None:
        self.member.dispatch(self.membership.fenced, generation, code)

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
    by = f" by {grant.protocol}" if grant.protocol else ""
    return f"{grant.generation} with {len(grant.assignment)} partitions{by}{leads}"
