"""Runs one member of a group: turns the membership's decisions into generations and requests.

`GroupMember` reports assignments and their ends (`on_start`, `on_end`). `GroupRun` keeps the owned
partitions that follow from them. A generation is prepared by `generation_setup`, handed over by
`generation_handover`, and ended by `draining`. No decision about the membership is taken here:
every event goes to the membership, which returns the actions.
"""

import asyncio
from collections.abc import Callable
from uuid import UUID, uuid4

from kohort.client.cluster import Cluster, list_offsets
from kohort.client.config import GroupConfig
from kohort.client.fetch import Fetcher
from kohort.client.group.commits import Identity, OffsetCommitter
from kohort.client.group.context import MemberContext
from kohort.client.group.draining import Draining
from kohort.client.group.events import EventReporter
from kohort.client.group.generation_handover import GenerationHandover
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.generation_setup import GenerationSetup
from kohort.client.group.leader_assignment import assignment_for
from kohort.client.group.marked_commits import MarkedCommits
from kohort.client.group.member import GroupMember
from kohort.client.group.member_services import MemberServices
from kohort.client.group.member_tasks import MemberTasks
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group.retry import retry_until_success
from kohort.client.group.start_offsets import ListOffsets
from kohort.client.group.subscription import MemberSubscription
from kohort.client.group.topic_watch import TopicWatch
from kohort.client.group_errors import GroupError
from kohort.client.membership import (
    LEAVE_TIMEOUT_MS,
    AnyMembership,
    Assign,
    ConsumerGroupHeartbeat,
    ConsumerMembership,
    EndPartitions,
    Grant,
    Heartbeat,
    JoinGroup,
    LogEvent,
    Membership,
    Raise,
    ResolveTopics,
    Start,
    SyncGroup,
    Uniform,
)
from kohort.client.metrics import CommitMetrics, GroupMetrics
from kohort.client.serialization import Deserializers
from kohort.errors import ErrorCode, caused_by


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
        own_id = str(new_id()) if config.protocol == "consumer" else None
        membership = _membership(config, cluster, subscription, own_id, uniform)
        watch = TopicWatch(None if config.protocol == "consumer" else config.pattern)
        self.membership = membership
        self.member = GroupMember(membership, cluster, self)
        self.committer = OffsetCommitter(
            config,
            cluster,
            timeout_ms=cluster.config.default_api_timeout_ms,
            identity=lambda: Identity(membership.member_id, membership.generation),
            topic_ids=watch.ids,
            on_fenced=self._fenced,
            backoff=cluster.backoff(),
        )
        self.context = MemberContext(
            config=config,
            cluster=cluster,
            fetcher=fetcher,
            subscription=subscription,
            watch=watch,
            marked=MarkedCommits(self.committer),
            membership=membership,
            member=self.member,
            events=EventReporter(config, membership),
            tasks=MemberTasks(config.group_id, self._give_up),
        )
        self.handover = GenerationHandover(self.context)
        self.draining = Draining(self.context, self.handover.give_up)
        self.rebalances = 0
        self._setup = GenerationSetup(self.context, list_offsets, self.handover.offer)
        self._services = MemberServices(self.context, self.handover, self.committer, deserializers)
        self._assigning: asyncio.Task[None] | None = None

    # --- for ConsumerGroup ---

    def metrics(self) -> GroupMetrics:
        """Counters of the member, and its state."""
        context = self.context
        counters, committer, now = self.member.counters, self.committer, self.member.now()
        requests, beat_at = counters.requests, counters.heartbeat_at
        heartbeat = Heartbeat if context.member_epoch is None else ConsumerGroupHeartbeat
        return GroupMetrics(
            client_id=context.cluster.config.client_id,
            is_closed=self.handover.has_left.is_set(),
            group_id=context.name,
            member_id=self.membership.member_id,
            state=self.membership.phase.value,
            generation=self.membership.generation,
            assignment=tuple(context.owned_partitions),
            rebalances=counters.rebalances.snapshot(),
            lost=counters.lost,
            joins=requests[JoinGroup].snapshot(),
            syncs=requests[SyncGroup].snapshot(),
            heartbeats=requests[heartbeat].snapshot(),
            heartbeat_age_ms=None if beat_at is None else max(now - beat_at * 1000, 0),
            commits=CommitMetrics(
                requests=committer.counter.snapshot(), partitions=committer.committed
            ),
            fetch=context.fetcher.metrics(),
            connections=context.cluster.metrics().connections,
        )

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to exactly these topics, and join again."""
        self.context.subscription.topics = topics
        self.member.dispatch(self.membership.rejoin, "the subscription changed")

    def leave(self, reason: str) -> None:
        """Begin to drain, commit and leave; does not wait."""
        self.member.dispatch(self.membership.leave, reason)

    async def close(self, reason: str) -> None:
        """Leave and end all tasks, within the drain timeout and a few seconds."""
        context = self.context
        self.leave(reason)
        try:
            async with asyncio.timeout((context.config.drain_ms + 2 * LEAVE_TIMEOUT_MS) / 1_000):
                await self.handover.has_left.wait()
        except TimeoutError:
            context.events.emit_event(
                "lost", "the membership did not end in time; the session timeout ends it"
            )
        finally:
            await context.tasks.close()
            await self.member.close()
            await self.committer.close()

    # --- decisions of the membership ---

    def on_assign(self, assign: Assign) -> None:
        if self._assigning is not None:
            self._assigning.cancel()
        self._assigning = self.context.tasks.spawn(
            self._assign(assign), f"assigns generation {assign.generation}"
        )

    def on_resolve(self, resolve: ResolveTopics) -> None:
        self.context.tasks.spawn(self._resolve(resolve.topic_ids), "names topics")

    async def _resolve(self, topic_ids: frozenset[UUID]) -> None:
        names = await retry_until_success(
            self.context,
            lambda: self.context.cluster.topic_names(topic_ids),
            operation=f"names of {len(topic_ids)} topics of group {self.context.name}",
        )
        assert isinstance(self.membership, ConsumerMembership)
        self.member.dispatch(self.membership.resolved, names)

    async def _assign(self, assign: Assign) -> None:
        try:
            assignments = await retry_until_success(
                self.context,
                lambda: assignment_for(self.context, assign),
                operation=f"metadata for the assignment of generation {assign.generation}",
            )
        except Exception as error:
            failure = GroupError(
                f"the assignment of generation {assign.generation} could not be made: {error!r}"
            )
            # The others wait for the assignment: leave at once.
            self._give_up(caused_by(error, failure))
        else:
            assert isinstance(self.membership, Membership)
            self.member.dispatch(self.membership.assigned, assign.generation, assignments)

    def on_start(self, start: Start) -> None:
        context, grant = self.context, start.grant
        self.rebalances += 1
        context.subscription.on_assignment(grant)
        context.watch.ids.update(grant.topic_ids)
        for partition in grant.added:
            context.owned_partitions[partition] = OwnedPartition(
                partition, self.handover.task_failed, self.handover.task_returned
            )
        assigned = {
            partition: context.owned_partitions[partition] for partition in grant.assignment
        }
        generation = GenerationScope(self._services, grant, assigned)
        for owned in assigned.values():
            owned.generation = generation
            owned.adoptable = owned.tasks.working()
        self.draining.begin(generation, grant)
        self.handover.withdraw()
        self._setup.begin(generation, grant)
        context.events.emit_event("generation", _described(grant))

    def on_end(self, end: EndPartitions) -> None:
        if end.partitions is None:
            self._setup.cancel()
            self.handover.withdraw()
        self.draining.end(end)

    def on_raise(self, raised: Raise) -> None:
        self.handover.end(raised.error)

    def on_left(self) -> None:
        self.handover.end()

    def on_log_event(self, event: LogEvent) -> None:
        self.context.events.emit_event(event.event, event.detail)

    def _give_up(self, error: GroupError) -> None:
        self.handover.give_up(error)

    def _fenced(self, generation: int, code: ErrorCode) -> None:
        self.member.dispatch(self.membership.fenced, generation, code)


def _membership(
    config: GroupConfig,
    cluster: Cluster,
    subscription: MemberSubscription,
    own_id: str | None,
    uniform: Uniform,
) -> AnyMembership:
    """A membership of the consumer protocol with `own_id`, or a classic one."""
    request_timeout_ms = cluster.config.request_timeout_ms
    if own_id is not None:
        return ConsumerMembership(
            config,
            subscription,
            member_id=own_id,
            request_timeout_ms=request_timeout_ms,
            uniform=uniform,
        )
    return Membership(
        config,
        subscription,
        cooperative=subscription.cooperative,
        request_timeout_ms=request_timeout_ms,
        uniform=uniform,
    )


def _described(grant: Grant) -> str:
    leads = ", leads" if grant.is_leader else ""
    assignor = f" by {grant.protocol}" if grant.protocol else ""
    return f"{grant.generation} with {len(grant.assignment)} partitions{assignor}{leads}"
