"""The group coordinator of a process: all shards of `__consumer_offsets`, on one event loop."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from kohort.coordinator.admin import list_groups
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.jobs import ComputeTarget, Job, ResolveRegexes, TargetFailed
from kohort.coordinator.journal import Rebalance
from kohort.coordinator.requests import (
    Committer,
    ConnectionClosed,
    JoinGroup,
    ListGroups,
    OffsetColumns,
    Request,
)
from kohort.coordinator.responses import ListedGroup, ListGroupsResponse, Response
from kohort.coordinator.result import TimerFired, TimerKey
from kohort.coordinator.shard import Event, Shard
from kohort.coordinator.topics import NO_TOPICS, TopicsView
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log
from kohort.log.producer_states import VerificationStateEntry
from kohort.runtime import expiration
from kohort.runtime.clock import Clock
from kohort.runtime.group_host import Commit, GroupHost, RespondToCommit
from kohort.runtime.journal import Journal
from kohort.runtime.shard_host import AfterAppendCallback
from kohort.runtime.shards import Shards
from kohort.types import ConnectionId, TopicPartition
from kohort.util.heavy_work import HeavyWork
from kohort.util.histogram import Histogram
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.groups")

APPEND_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

_LIST_CHUNK = 500
"""Number of groups that are listed before other tasks run."""


class Groups(Shards[GroupHost, TimerKey]):
    """All groups that this process coordinates.

    `on_response` of a request passed to `submit` is a function that is called with the response.
    Everything runs on the loop thread.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        config: GroupCoordinatorConfig,
        clock: Clock,
        *,
        waits_for_disk: bool = False,
        expiration_interval_ms: int = 600_000,
        reload_after_s: float = 1.0,
        topics: TopicsView = NO_TOPICS,
    ) -> None:
        """`reload_after_s`: delay before a failed shard is reloaded; doubled with every failure.

        `topics`: the topics to which consumer groups subscribe.
        """
        super().__init__(clock)
        self._config = config
        self._topics = topics
        self.on_rebalance: list[Callable[[Rebalance], None]] = []
        """Called with every rebalance that ended."""
        self.appends = Histogram(APPEND_BOUNDS_S)
        """Durations of appends to `__consumer_offsets`; under `fsync`, until they were durable."""
        self._expiration_s = expiration_interval_ms / 1_000
        self._tasks: set[asyncio.Task[None]] = set()
        """Running tasks: lists of groups, and jobs of shards."""
        self._heavy_work = HeavyWork()
        self._journal = Journal()
        self._joined_by: dict[ConnectionId, tuple[GroupHost, ...]] = {}
        """Connection → shards of the groups that clients joined on it."""
        context = self._host_context(clock, waits_for_disk, reload_after_s)
        self._hosts = [
            GroupHost(
                log,
                self._new_shard,
                context,
                on_rebalance=self._ended,
                on_append=self.appends.observe,
                on_job=self._start_job,
            )
            for log in logs
        ]
        self._alone = {host: (host,) for host in self._hosts}
        """One tuple per shard, shared by nearly all entries of `_joined_by`."""

    def configure(self, config: GroupCoordinatorConfig) -> None:
        """Use other settings from now on."""
        self._config = config
        for host in self._hosts:
            host.configure(config)

    def _new_shard(self) -> Shard:
        return Shard(self._config, self._topics, self._pending_bytes)

    def _pending_bytes(self) -> int:
        return sum(host.shard.pending_bytes for host in self._hosts)

    # --- life ---

    async def close(self) -> None:
        """Log the decisions made so far and send their responses; refuse parked requests."""
        for task in self._tasks:
            task.cancel()
        self._heavy_work.close()
        await super().close()

    # --- requests and events ---

    def submit(self, request: Request) -> None:
        """Submit a request to the shard of its group.

        `request.on_response` is called with the response, now or later.
        """
        self._timers.had_request = True
        if isinstance(request, ListGroups):
            self._list_groups(request)
        else:
            host = self._host(request.group)
            if isinstance(request, JoinGroup) and request.connection is not None:
                hosts = self._joined_by.get(request.connection)
                if hosts is None:
                    self._joined_by[request.connection] = self._alone[host]
                elif host not in hosts:
                    self._joined_by[request.connection] = (*hosts, host)
            host.submit(request)

    def heartbeat(
        self, group: str, generation: int, member_id: str, instance_id: str | None
    ) -> ErrorCode:
        """The error of a Heartbeat response; a heartbeat never waits."""
        self._timers.had_request = True
        return self._host(group).heartbeat(group, generation, member_id, instance_id)

    def heartbeats_of(
        self, group: str, generation: int, member_id: str, instance_id: str | None
    ) -> Callable[[], ErrorCode]:
        """A function that sends this heartbeat, for callers that send many."""
        heartbeat, timers = self._host(group).heartbeat, self._timers

        def repeat() -> ErrorCode:
            timers.had_request = True
            return heartbeat(group, generation, member_id, instance_id)

        return repeat

    def steady_heartbeats_of(self, request: SteadyHeartbeat) -> Callable[[], int | None]:
        """A function that sends the heartbeat of a member without changes.

        It returns the heartbeat interval in ms for the response; None if the heartbeat must be
        submitted because it may have another effect.
        """
        heartbeat, timers = self._host(request.group).steady_heartbeat, self._timers

        def repeat() -> int | None:
            timers.had_request = True
            return heartbeat(request)

        return repeat

    def commit(
        self,
        respond: RespondToCommit,
        committer: Committer,
        version: int,
        topics: Sequence[OffsetColumns],
    ) -> None:
        """Submit an OffsetCommit whose partitions all have the same response.

        `respond` receives that response.
        """
        self._timers.had_request = True
        self._host(committer.group).commit(respond, committer, version, topics)

    def committing(self, group: str) -> Commit:
        """A function that commits for this group, for callers with many commits."""
        commit, timers = self._host(group).commit, self._timers

        def repeat(
            respond: RespondToCommit,
            committer: Committer,
            version: int,
            topics: Sequence[OffsetColumns],
        ) -> None:
            timers.had_request = True
            commit(respond, committer, version, topics)

        return repeat

    def begin_verification(
        self, group: str, producer_id: int, producer_epoch: int
    ) -> VerificationStateEntry | None:
        """The guard of a transaction that must be verified before this group commits in it.

        It is passed with the `TxnOffsetCommit`. None if the transaction is already open in the
        group's partition. Raises KafkaError if the partition is not served.
        """
        return self._host(group).begin_verification(producer_id, producer_epoch)

    async def complete_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> None:
        """End a producer's transaction in a partition of `__consumer_offsets` by its marker.

        Its pending offsets are committed or dropped. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION,
        NOT_LEADER_OR_FOLLOWER (retriable) while the partition is loading or its log failed, and as
        `Log.append_marker`.
        """
        if not 0 <= partition < len(self._hosts):
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition, f"no partition {partition} of the group log"
            )
        await self._hosts[partition].complete_transaction(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )

    def partition_of(self, group: str) -> TopicPartition:
        """The partition of `__consumer_offsets` of the group."""
        return self._host(group).log.topic_partition

    def connection_closed(self, connection: ConnectionId) -> None:
        """Stop awaiting the pending member ids that were assigned on this connection."""
        for host in self._joined_by.pop(connection, ()):
            host.post(ConnectionClosed(connection))

    def topics_deleted(self, names: Iterable[str]) -> Sequence["asyncio.Task[None]"]:
        """Delete the offsets that were committed for these topics.

        Returns the tasks that continue. Until they end, these topics must not be recreated.
        """
        deleted = frozenset(names)
        tasks = (host.topics_deleted(deleted) for host in self._hosts)
        return [task for task in tasks if task is not None]

    async def _expire(self) -> None:
        """Check for expired offsets and groups, in turns that take a few milliseconds each."""
        while True:
            await asyncio.sleep(self._expiration_s)
            for host in self._hosts:
                for event in expiration.turns(tuple(host.shard.groups.values())):
                    host.post(event)
                    await host.appended()

    def _fire(self, host: GroupHost, timer: TimerKey) -> None:
        host.post(TimerFired(timer))

    def _list_groups(self, request: ListGroups) -> None:
        respond = cast("Callable[[Response], None]", request.on_response)
        if not self.is_loaded:
            respond(ListGroupsResponse(error=ErrorCode.coordinator_load_in_progress))
        elif sum(len(host.shard.groups) for host in self._hosts) <= _LIST_CHUNK:
            respond(list_groups(self.groups(), request))
        else:
            self._begin(self._list_in_slices(request, respond))

    async def _list_in_slices(
        self, request: ListGroups, respond: "Callable[[Response], None]"
    ) -> None:
        listed: list[ListedGroup] = []
        slices = TimeSlices()
        for host in self._hosts:
            following = iter(tuple(host.shard.groups.values()))
            while some := tuple(islice(following, _LIST_CHUNK)):
                listed += list_groups(some, request).groups
                await slices.give_way()
        respond(ListGroupsResponse(groups=tuple(listed)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _start_job(self, host: GroupHost, job: Job) -> None:
        self._begin(self._do(host, host.shard, job))

    async def _do(self, host: GroupHost, shard: Shard, job: Job) -> None:
        """Do a job in slices or in another thread, and post its result to the shard."""
        event: Event
        if isinstance(job, ResolveRegexes):
            matches: dict[str, tuple[str, ...]] = {}
            slices = TimeSlices()
            for _ in job.steps(tuple(self._topics.names()), matches):
                await slices.give_way()
            event = job.done(matches)
        else:
            event = await self._compute(host, shard, job)
        if host.shard is shard:
            host.post(event)

    async def _compute(self, host: GroupHost, shard: Shard, job: ComputeTarget) -> Event:
        try:
            return await self._heavy_work.run(job.done)
        except Exception as e:  # a bug of an assignor: the group keeps its old target
            error, group = repr(e), shard.groups.get(job.group)
            known_error = group.target_error if isinstance(group, ConsumerGroup) else None
            if host.shard is shard and error != known_error:
                logger.exception("cannot compute a target assignment of group %s", job.group)
            return TargetFailed(job, error)

    # --- queries ---

    def group(self, group_id: str) -> AnyGroup | None:
        """A group, read-only; None if it does not exist or its shard is not loaded."""
        return self._host(group_id).shard.groups.get(group_id)

    def groups(self) -> Iterator[AnyGroup]:
        """All groups, read-only."""
        for host in self._hosts:
            yield from host.shard.groups.values()

    def journal(self, group_id: str) -> Sequence[Rebalance]:
        """The latest rebalances of a group, oldest first: at most 100, of 1,000 groups.

        Entries with very long ids displace those of other groups sooner. The journal is kept in
        memory only.
        """
        return self._journal.of(group_id)

    def when_logged(self, group_id: str, function: AfterAppendCallback) -> None:
        """Call `function` when the journal and the responses of a group are as new as the group.

        A decision changes the group at once; its other effects follow when its records are logged.
        """
        self._host(group_id).when_logged(function)

    def statistics(self) -> Mapping[str, Any]:
        """Counts over all shards.

        Groups by (type, state), members, pending ids, parked requests, offsets, timers, and shards
        by state.
        """
        groups: Counter[tuple[str, str]] = Counter()
        totals: Counter[str] = Counter()
        for host in self._hosts:
            counts = dict(host.shard.statistics())
            groups.update(counts.pop("groups"))
            totals.update(counts)
        return {**totals, "groups": groups, "shards": self._states(), "timers": len(self._timers)}

    def _ended(self, rebalance: Rebalance) -> None:
        self._journal.append(rebalance)
        for listener in self.on_rebalance:
            listener(rebalance)
