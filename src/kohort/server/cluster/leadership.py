"""Leadership loop of a node: lease, metadata changes, and the partitions that this node leads.

A node renews its lease, reads the metadata log, appends decisions (`kohort.cluster.decide`), and
opens and closes partitions. Every node does so. The log accepts only decisions that were made on
all of its records. A node whose lease has expired by its own clock leads nothing: other nodes may
have taken over its partitions.

A partition that is planned to move is read by its next leader while the current leader serves it.
The next leader logs that it is ready. Then the current leader closes the partition, and logs the
change of the leader. During the handover, requests get NOT_LEADER_OR_FOLLOWER for a few
milliseconds. If the next leader is not ready in time, or has lost its copy, it reads the whole
partition after the handover. A leader that is gone is replaced without a handover.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

from kohort.cluster import (
    LEASE_MS,
    MAX_MOVES,
    NO_LEADER,
    Endpoint,
    FencedError,
    HistoryLostError,
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRegistered,
    Observed,
    ReassignmentPlanned,
    SharedStorage,
    Situation,
    UnknownOutcomeError,
    decide,
    situation,
)
from kohort.errors import KafkaError, KohortError, fresh
from kohort.runtime.clock import Clock
from kohort.server.cluster.joining import this_machine
from kohort.server.cluster.node_status import MembershipLogger, NodeStatus
from kohort.server.logging import fields
from kohort.server.metadata import MetadataRecord
from kohort.server.topics import SharedMetadata, SharedTopics
from kohort.types import Instant, Timestamp, TopicIdPartition, TopicPartition
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.cluster")

TICK_S: Final = 0.5
"""Longest time between two ticks; records of other nodes wake a node at once."""
LIVENESS_POLL_INTERVAL_S: Final = 0.2
"""Time between two checks of the other nodes, and so the delay until one is replaced."""
OWN_LEASE_MS: Final = LEASE_MS * 99 // 100
"""The lease as its node counts it: the rates of two clocks differ by less than that."""
READY_TIMEOUT_MS: Final = 60_000
"""Time that the next leader of a partition has to read it; then it gets the partition unread."""
PRODUCER_TRANSITION_MS: Final = 30_000 + LEASE_MS
"""Time in which a producer retries a batch that it sent to the previous leader of a partition.

A leader that hangs has it for the `request.timeout.ms` of Kafka's producers. A client with older
metadata may still ask that one later: its next batch is then taken first, as in Kafka.
"""
TRANSITION_BATCH: Final = 5_000
"""Partitions whose transition ends in one tick."""
READY_REPORT_INTERVAL_MS: Final = 200
"""Time between two reports of partitions that are ready, while others are not."""
PARTITIONS_PER_MS: Final = 100
"""Divisor of the pause between decisions, as each decision visits all partitions.

The log grows many times a second while thousands of topics are created.
"""
_OPEN_BATCH: Final = 100
_TASK_BATCH: Final = 20
"""Tasks that start in one turn of the event loop: each takes up to 1 ms."""
_RENEW: Final = "renew its lease"
_WORK: Final = "follow the cluster"
_FAILURES: Final = (OSError, UnknownOutcomeError, TimeoutError)


class LeadershipManager:
    """Lease and leaderships of one node."""

    def __init__(
        self,
        storage: SharedStorage,
        metadata: SharedMetadata,
        topics: SharedTopics,
        clock: Clock,
        *,
        endpoints: Sequence[Endpoint],
        rack: str | None,
        rebalance_delay_ms: int,
        drained_within_ms: int,
        claimed_at: Instant,
        can_connect: bool = True,
        on_membership_change: Callable[[Mapping[int, NodeRegistered]], None] = lambda _: None,
    ) -> None:
        """`rebalance_delay_ms` is that of `decide`, `drained_within_ms` that of `leave`.

        `claimed_at`: local time at which the session was requested.
        `can_connect` is that of `NodeRegistered`. `on_membership_change` is called with the nodes
        of the cluster whenever they may have changed.
        """
        self._storage = storage
        self._metadata = metadata
        self._topics = topics
        self._clock = clock
        self._endpoints = tuple(endpoints)
        self._rack = rack
        self._can_connect = can_connect
        self._rebalance_delay_ms = rebalance_delay_ms
        self._drained_within_ms = drained_within_ms
        self._leased_at = claimed_at
        """Local time of the last successful request for the lease."""
        self._has_session = True
        self._sessions = 1
        self._away_since: Instant | None = None
        self._errors_by_activity: dict[str, str] = {}
        """Current error of each activity that fails."""
        self._membership_logger = MembershipLogger(storage.node_id)
        self._on_membership_change = on_membership_change
        self._renewed = asyncio.Event()
        """Set when the lease was renewed, or all partitions were closed."""
        self._last_open_error: str | None = None
        """Last error of a partition that could not be opened."""
        self._nothing_for: tuple[int, Situation] | None = None
        """End of the metadata log and situation of the nodes where nothing was to be decided."""
        self._decided_at = Instant(0)
        """Time of the last decision that changed nothing."""
        self._reconciled: tuple[int, bool, int, int] | None = None
        """Inputs of the last full reconciliation: log end, lease, counts of opened and closed."""
        self._wakeup = asyncio.Event()
        """Set when `work` has something to do."""
        self._has_worked = False
        """Whether `work` has succeeded once."""
        self._worked = asyncio.Event()
        """Set whenever `work` has ended."""
        self._planned: dict[tuple[TopicIdPartition, int], Instant] = {}
        """Planned moves of partitions that this node leads, and when they were first seen."""
        self._in_transition: dict[TopicPartition, Instant] = {}
        """Partitions in their transition period with its start, the latest last."""
        self._last_ready_report = claimed_at
        """Time of the last report of partitions that are ready."""
        self._is_draining = False
        """Whether this node gives up its leaderships: it stops, or an operator drains it."""
        self._running: list[asyncio.Task[None]] = []
        metadata.on_change = self._wakeup.set

    # Running

    def start(self, lost: Callable[[], object]) -> None:
        """Start the tasks that keep the lease and call `work`.

        `lost` is called when a task fails, as with a record that cannot be read.
        """
        self._running = [
            asyncio.create_task(self._keep_lease()),
            asyncio.create_task(self._keep_working()),
            asyncio.create_task(self._poll_liveness()),
        ]
        for task in self._running:
            task.add_done_callback(partial(_ended, lost))

    async def wait_for_first_pass(self) -> None:
        """Return after the first `work` since `start`, or when a task has ended."""
        worked = asyncio.create_task(self._worked.wait())
        try:
            await asyncio.wait((worked, *self._running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            worked.cancel()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self.renew()

    async def _poll_liveness(self) -> None:
        """Wake `work` when a node is gone, before the end of the tick."""
        while True:
            await asyncio.sleep(LIVENESS_POLL_INTERVAL_S)
            with suppress(FencedError, *_FAILURES):
                nodes = self._metadata.state.cluster.nodes.values()
                if len(nodes) == 1 and self._is_registered:
                    continue
                observed = await self._storage.observe()
                if any(observed.is_gone(each.id, each.session) for each in nodes):
                    self._wakeup.set()

    async def _keep_working(self) -> None:
        while True:
            await self.work()
            await self._rest()

    async def _rest(self) -> None:
        """Wait for new records or a wakeup, at most `TICK_S`."""
        grown = asyncio.create_task(self._storage.wait_beyond(self._metadata.end_offset))
        changed = asyncio.create_task(self._wakeup.wait())
        try:
            await asyncio.wait(
                (grown, changed), timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (grown, changed):
                task.cancel()
        if grown.done() and not grown.cancelled() and grown.exception() is not None:
            await asyncio.sleep(TICK_S)  # the storage is away: the next tick tells it

    async def tick(self) -> None:
        """`renew` and `work`, once."""
        await self.renew()
        await self.work()

    async def renew(self) -> None:
        """Renew the lease, with a new session if the former one is over.

        Without a lease, lead nothing. Failures of the storage are logged. Raises HistoryLostError.
        """
        asked_at = self._clock.now()
        left_ms = self._leased_at + OWN_LEASE_MS - asked_at
        try:
            async with asyncio.timeout((left_ms if left_ms > 0 else LEASE_MS) / 1_000):
                if self._has_session:
                    await self._storage.renew()
                else:
                    await self._storage.claim()
                    self._sessions += 1
            self._has_session = True
            self._leased_at = asked_at
            self._away_since = None
            self._clear_error(_RENEW)
        except HistoryLostError:
            raise  # what this process knows is not so
        except (KohortError, *_FAILURES) as error:
            if isinstance(error, FencedError):
                self._has_session = False
            if not isinstance(error, KohortError) and self._away_since is None:
                self._away_since = asked_at
            self._report_error(_RENEW, error)
        if not self._has_lease:
            await self._resign_all()
        self._renewed.set()

    @property
    def may_serve(self) -> bool:
        """Whether no other node can have taken over partitions that this one leads.

        False for requests that arrive before a process that was suspended has renewed its lease.
        """
        return self._has_lease or not self._topics.led

    async def wait_until_may_serve(self) -> None:
        """Return when the lease is renewed, or nothing is led here."""
        while not self.may_serve:
            self._renewed.clear()
            await self._renewed.wait()

    @property
    def _has_lease(self) -> bool:
        return self._has_session and self._clock.now() < self._leased_at + OWN_LEASE_MS

    def status(self) -> NodeStatus:
        """Current status of this node."""
        now, topics = self._clock.now(), self._topics
        since = now if self._away_since is None else self._away_since
        return NodeStatus(
            nodes=len(self._metadata.state.cluster.nodes),
            led=topics.led_by_kind(),
            awaited=max(len(self._assigned_partitions()) - len(topics.led), 0),
            taken=topics.taken,
            given_up=topics.given_up,
            has_lease=self._has_lease,
            is_registered=self._is_registered and self._has_worked,
            lease_age_s=(now - self._leased_at) / 1_000,
            sessions=self._sessions,
            away_s=(now - since) / 1_000,
            trouble=next(iter(self._errors_by_activity.values()), None),
        )

    def _report_error(self, activity: str, error: Exception) -> None:
        """Set the error of an activity. Log it unless another activity has the same one already."""
        known = {*self._errors_by_activity.values()}
        text = str(error) or "the database does not respond"
        # Popped first: `status` shows the error that was reported least recently.
        self._errors_by_activity.pop(activity, None)
        self._errors_by_activity[activity] = text
        if text not in known:
            logger.error("cannot participate in the cluster, retrying", extra=fields(why=text))

    def _clear_error(self, activity: str) -> None:
        """Forget the error of an activity. Log when no activity has one any more."""
        was_failing = self._errors_by_activity.pop(activity, None) is not None
        if was_failing and not self._errors_by_activity:
            logger.info("participating in the cluster again")

    async def work(self) -> None:
        """Append decisions on the cluster, lead the assigned partitions. Failures are logged."""
        self._wakeup.clear()
        self._end_transitions()
        if not self._has_lease:
            return
        try:
            # First, as clients wait for it: open the partitions that were assigned to this node.
            await self._metadata.read_news()
            await self._reconcile_leadership()
            known = set(self._metadata.state.cluster.nodes.values())
            observed = await self._storage.observe()
            while self._is_due(observed) and await self._metadata.decide_in_slices(
                partial(self._decide, observed, known)
            ):
                await self._reconcile_leadership()
            await self._reconcile_leadership()
            await self._start_standbys()
            await self._hand_over()
            if self._metadata.state.cluster.controller_id == self._node_id:
                await self._metadata.compact()
            self._has_worked = True
            self._clear_error(_WORK)
        except FencedError as error:
            self._has_session = False
            self._report_error(_WORK, error)
        except _FAILURES as error:
            self._report_error(_WORK, error)
        finally:
            nodes = self._metadata.state.cluster.nodes
            self._membership_logger.update(nodes)
            self._on_membership_change(nodes)
            self._worked.set()
        if not self._has_lease:
            await self._resign_all()

    # Deciding

    def _is_due(self, observed: Observed) -> bool:
        """Whether to decide now; if not, a timer wakes `work`."""
        cluster = self._metadata.state.cluster
        nodes, now = cluster.nodes.values(), self._clock.now()
        is_calm = self._is_registered and not (
            cluster.moves
            or any(each.is_draining or observed.is_gone(each.id, each.session) for each in nodes)
        )
        left_ms = self._decided_at + len(cluster.leaders) // PARTITIONS_PER_MS - now
        if is_calm and left_ms > 0:
            asyncio.get_running_loop().call_later(left_ms / 1_000, self._wakeup.set)
            return False
        return True

    def _decide(
        self, observed: Observed, known: Collection[NodeRegistered]
    ) -> Generator[None, None, Sequence[MetadataRecord]]:
        """`known`: the nodes that were registered when `observed` was seen."""
        if not self._is_registered:
            return [*self._reclaim_partitions(), self._registration(observed.now)]
        cluster = self._metadata.state.cluster
        self._is_draining |= cluster.nodes[self._node_id].is_draining
        newcomers = [each for each in cluster.nodes.values() if each not in known]
        seen = observed.with_newcomers(newcomers)
        nodes = situation(cluster, seen, self._rebalance_delay_ms)
        if self._node_id in nodes.gone:
            return ()  # it renews its lease before it decides on anybody
        at = self._metadata.end_offset, nodes
        if at == self._nothing_for:
            return ()
        topics = yield from self._topics.spread()
        decided = yield from decide(cluster, topics, nodes)
        self._nothing_for = None if decided else at
        if not decided:
            self._decided_at = self._clock.now()
        return decided

    def _reclaim_partitions(self) -> Iterable[LeaderChanged]:
        """New epochs for the partitions that this node led in its previous session.

        Batches of one epoch belong to one session: the storage may have lost the last batches of
        the previous one.
        """
        cluster = self._metadata.state.cluster
        for place in cluster.led_by(self._node_id):
            yield LeaderChanged(place, Leader(self._node_id, cluster.leaders[place].epoch + 1))

    def _registration(self, now: Timestamp) -> NodeRegistered:
        node, session = self._storage.node_id, self._storage.session
        return NodeRegistered(
            *(node, session, self._endpoints, now, self._rack),
            machine=this_machine(),
            is_draining=self._is_draining,
            can_connect=self._can_connect,
        )

    @property
    def _is_registered(self) -> bool:
        known = self._metadata.state.cluster.nodes.get(self._storage.node_id)
        return known is not None and known.session == self._storage.session

    # Leading

    async def _reconcile_leadership(self) -> None:
        """Lead the assigned partitions, and no others. Raises OSError."""
        topics = self._topics
        end_offset = self._metadata.end_offset
        if self._reconciled == (end_offset, self._has_lease, topics.taken, topics.given_up):
            return
        slices, mine = TimeSlices(), dict[TopicPartition, int]()
        wanted, led = [], topics.led
        for place, epoch in self._assigned_partitions():
            partition = topics.partition_of(place)
            if partition is not None:
                mine[partition] = epoch
                if led.get(partition) != epoch:
                    wanted.append((place, epoch))
            await slices.give_way()
        others = [each for each, epoch in led.items() if mine.get(each) != epoch]
        await self._resign(others)
        failures: list[Exception] = []
        for start in range(0, len(wanted), _OPEN_BATCH):
            some = wanted[start : start + _OPEN_BATCH]
            await _all(self._become_leader(place, epoch, failures) for place, epoch in some)
        untaken = str(failures[0]) if failures else None
        if untaken not in (None, self._last_open_error):
            told = fields(partitions=len(failures), why=untaken)
            logger.error("cannot open partitions, retrying", extra=told)
        self._last_open_error = untaken
        # Fewer are led if the lease was over meanwhile.
        if not failures and len(led) == len(mine):
            self._reconciled = end_offset, self._has_lease, topics.taken, topics.given_up

    async def _become_leader(
        self, place: TopicIdPartition, epoch: int, failures: list[Exception]
    ) -> None:
        """Lead a partition. An error is added to `failures`, and does not stop the others."""
        try:
            await self._topics.become_leader(place, epoch)
        except (OSError, KafkaError) as error:
            failures.append(error.with_traceback(None))
            return
        if (partition := self._topics.partition_of(place)) is not None:
            self._in_transition.pop(partition, None)
            self._in_transition[partition] = self._clock.now()

    def _end_transitions(self) -> None:
        """End the transition of partitions that are led for `PRODUCER_TRANSITION_MS`."""
        now = self._clock.now()
        old = takewhile(
            lambda each: now - each[1] >= PRODUCER_TRANSITION_MS, self._in_transition.items()
        )
        for partition, _ in list(islice(old, TRANSITION_BATCH)):
            del self._in_transition[partition]
            self._topics.end_transition(partition)

    def _assigned_partitions(self) -> Sequence[tuple[TopicIdPartition, int]]:
        """Partitions and epochs that the log assigns to this node in its current session."""
        if not (self._is_registered and self._has_lease):
            return ()
        leaders = self._metadata.state.cluster.leaders.items()
        return [(place, epoch) for place, (node, epoch) in leaders if node == self._node_id]

    @property
    def _node_id(self) -> int:
        return self._storage.node_id

    async def _resign(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises OSError if what was appended to one of them last is not known to be written."""
        await _all(self._topics.resign(each) for each in partitions)

    async def _resign_all(self) -> None:
        """Close all partitions: other nodes may have taken them over."""
        with suppress(*_FAILURES):
            await self._resign(tuple(self._topics.led))

    # Handing over

    async def _start_standbys(self) -> None:
        """Read the partitions that this node leads next, and report those that are ready.

        Raises as `SharedMetadata.decide`.
        """
        incoming = self._incoming_moves()
        wanted = {self._topics.partition_of(place) for place in incoming}
        for partition in self._topics.standbys.keys() - wanted:
            self._topics.stop_standby(partition)
        for place in incoming:
            self._topics.start_standby(place, self._wakeup.set)
        for log in self._topics.standbys.values():
            log.look()
        read, now = self._ready_records(), self._clock.now()
        unread = len(incoming) - len(self._metadata.state.cluster.ready.intersection(incoming))
        if read and (
            len(read) == unread or now - self._last_ready_report >= READY_REPORT_INTERVAL_MS
        ):
            self._last_ready_report = now
            await self._metadata.decide(self._ready_records)

    def _incoming_moves(self) -> list[TopicIdPartition]:
        """Partitions that this node leads next, and another node leads now."""
        cluster = self._metadata.state.cluster
        return [
            place
            for place, to in cluster.moves.items()
            if to == self._node_id and cluster.leader(place).node not in (to, NO_LEADER)
        ]

    def _ready_records(self) -> Sequence[MetadataRecord]:
        """Records of partitions that are ready and not reported yet."""
        known = self._metadata.state.cluster.ready
        read = {each for each, log in self._topics.standbys.items() if log.is_ready}
        return [
            ReassignmentPlanned(place, self._node_id, is_ready=True)
            for place in self._incoming_moves()
            if place not in known and self._topics.partition_of(place) in read
        ]

    async def _hand_over(self) -> None:
        """Close partitions that their next leaders have read, and log the new leaders.

        Raises as `SharedMetadata.decide`.
        """
        due = self._moves_to_hand_over()
        moving = due[:MAX_MOVES]
        if not moving:
            return
        if len(moving) < len(due):
            self._wakeup.set()
        found = (self._topics.partition_of(place) for place, _ in moving)
        await self._resign([each for each in found if each is not None])
        # Nobody serves them until that is logged.
        handed_over = partial(self._handover_records, moving)
        goes_on = await self._metadata.decide(handed_over, reads=False)
        while goes_on:
            goes_on = await self._metadata.decide(handed_over)
        await self._reconcile_leadership()

    def _moves_to_hand_over(self) -> list[tuple[TopicIdPartition, int]]:
        """Planned moves that are ready, or have waited for `READY_TIMEOUT_MS`."""
        cluster, now = self._metadata.state.cluster, self._clock.now()
        self._planned = {
            move: self._planned.get(move, now)
            for move in cluster.moves.items()
            if cluster.leader(move[0]).node == self._node_id
        }
        return [
            move
            for move, since in self._planned.items()
            if move[0] in cluster.ready or now - since >= READY_TIMEOUT_MS
        ]

    def _handover_records(
        self, moving: Iterable[tuple[TopicIdPartition, int]]
    ) -> Sequence[MetadataRecord]:
        """Records of the new leaders of these partitions."""
        cluster = self._metadata.state.cluster
        return [
            LeaderChanged(place, Leader(to, cluster.leaders[place].epoch + 1))
            for place, to in moving
            if cluster.moves.get(place) == to and cluster.leader(place).node == self._node_id
        ]

    # The end

    async def leave(self) -> None:
        """Hand over all partitions, and end the session. Idempotent.

        Partitions are handed over as in any move until `drained_within_ms` is over.
        """
        if self._running and self._drained_within_ms:
            await self._drain()
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
        await self._resign_all()
        self._renewed.set()
        if running and self._has_session:
            with suppress(FencedError, *_FAILURES):
                async with asyncio.timeout(TICK_S):
                    # Having failed to read the log, append nothing: others see the session end.
                    if all(isinstance(each, asyncio.CancelledError) for each in ended):
                        await self._metadata.decide(self._fence_self)
                    await self._storage.release()

    async def _drain(self) -> None:
        self._is_draining = True
        with suppress(Exception):  # other nodes take over the partitions that are left
            async with asyncio.timeout(self._drained_within_ms / 1_000):
                await self._metadata.decide(self._draining)
                self._wakeup.set()
                while self._topics.led and self._can_drain():
                    self._worked.clear()
                    await self._worked.wait()

    def _draining(self) -> Sequence[MetadataRecord]:
        if not (self._is_registered and self._can_drain()):
            return ()
        return [replace(self._metadata.state.cluster.nodes[self._node_id], is_draining=True)]

    def _can_drain(self) -> bool:
        """Whether another node can take partitions, and the tasks of this one run."""
        nodes = self._metadata.state.cluster.nodes.values()
        has_targets = any(not (each.is_draining or each.id == self._node_id) for each in nodes)
        return has_targets and not any(task.done() for task in self._running)

    def _fence_self(self) -> Sequence[MetadataRecord]:
        return [NodeFenced(self._node_id)] if self._is_registered else ()


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return when all coroutines have ended, then raise the first failure.

    When cancelled, cancel the tasks that have started, and wait for them.
    """
    tasks: list[asyncio.Task[None]] = []
    try:
        for each in work:
            tasks.append(asyncio.create_task(each))
            if not len(tasks) % _TASK_BATCH:
                await asyncio.sleep(0)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    for failure in ended:
        if failure is not None:
            raise fresh(failure)


def _ended(lost: Callable[[], object], task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("cannot follow the cluster metadata; stopping", exc_info=error)
        lost()
