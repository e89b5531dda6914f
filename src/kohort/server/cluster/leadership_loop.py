"""Leadership loop of a node: lease, metadata changes, and the partitions that this node leads.

A node renews its lease, reads the metadata log, appends decisions, and opens and closes partitions.
Every node does so. A node whose lease has expired by its own clock leads nothing: other nodes may
have taken over its partitions.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kohort.cluster import FencedError, NodeRegistered, SharedStorage
from kohort.runtime.clock import Clock
from kohort.server.cluster.handover import Handover
from kohort.server.cluster.leader_decisions import LeaderDecisions
from kohort.server.cluster.lease import Lease
from kohort.server.cluster.led_partitions import LedPartitions
from kohort.server.cluster.node_status import MembershipLogger, NodeStatus
from kohort.server.cluster.participation_errors import STORAGE_FAILURES, ParticipationErrors
from kohort.server.cluster.registration import NodeSettings, Registration
from kohort.server.metadata import MetadataRecord
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.replicas import SharedReplicaManager
from kohort.types import Instant

logger = logging.getLogger("kohort.cluster")

TICK_S: Final = 0.5
"""Longest time between two ticks; records of other nodes wake a node at once."""
LIVENESS_POLL_INTERVAL_S: Final = 0.2
"""Time between two checks of the other nodes, and so the delay until one is replaced."""
_WORK: Final = "follow the cluster"


class LeadershipLoop:
    """Keeps the lease of one node, and does what its leaderships need."""

    def __init__(
        self,
        storage: SharedStorage,
        metadata: SharedMetadataLog,
        replicas: SharedReplicaManager,
        clock: Clock,
        settings: NodeSettings,
        *,
        claimed_at: Instant,
        on_membership_change: Callable[[Mapping[int, NodeRegistered]], None] = lambda _: None,
    ) -> None:
        """`claimed_at`: local time at which the session was requested.

        `on_membership_change` is called with the nodes of the cluster whenever they may have
        changed.
        """
        self._storage = storage
        self._metadata = metadata
        self._replicas = replicas
        self._drain_timeout_ms = settings.drain_timeout_ms
        self._on_membership_change = on_membership_change
        self._membership_logger = MembershipLogger(storage.node_id)
        self._wakeup = asyncio.Event()
        """Set when `work` has something to do."""
        self._has_worked = False
        """Whether `work` has succeeded once."""
        self._worked = asyncio.Event()
        """Set whenever `work` has ended."""
        self._running: list[asyncio.Task[None]] = []
        self._errors = ParticipationErrors()
        self._registration = Registration(storage=storage, metadata=metadata, settings=settings)
        self._decisions = LeaderDecisions(
            self._registration,
            metadata,
            replicas,
            clock,
            rebalance_delay_ms=settings.rebalance_delay_ms,
            wake=self._wakeup.set,
        )
        self._partitions = LedPartitions(storage.node_id, metadata, replicas, clock)
        self._handover = Handover(
            storage.node_id, metadata, replicas, self._partitions, clock, self._wakeup.set
        )
        self.lease = Lease(storage, self._partitions, clock, self._errors, claimed_at=claimed_at)
        metadata.on_change = self._wakeup.set

    # Running

    def start(self, on_lost: Callable[[], object]) -> None:
        """Start the tasks that keep the lease and call `work`.

        `on_lost` is called when a task fails, as with a record that cannot be read.
        """
        self._running = [
            asyncio.create_task(self._keep_lease()),
            asyncio.create_task(self._keep_working()),
            asyncio.create_task(self._poll_liveness()),
        ]
        for task in self._running:
            task.add_done_callback(partial(_ended, on_lost))

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
            await self.lease.renew()

    async def _poll_liveness(self) -> None:
        """Wake `work` when a node is gone, before the end of the tick."""
        while True:
            await asyncio.sleep(LIVENESS_POLL_INTERVAL_S)
            with suppress(FencedError, *STORAGE_FAILURES):
                nodes = self._metadata.state.cluster.nodes.values()
                if len(nodes) == 1 and self._registration.is_logged:
                    continue
                observed = await self._storage.observe()
                if any(observed.is_gone(node.id, node.session) for node in nodes):
                    self._wakeup.set()

    async def _keep_working(self) -> None:
        while True:
            await self.work()
            await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        """Wait for new records or a wakeup, at most `TICK_S`."""
        log_grew = asyncio.create_task(self._storage.wait_beyond(self._metadata.end_offset))
        woken = asyncio.create_task(self._wakeup.wait())
        try:
            await asyncio.wait(
                (log_grew, woken), timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (log_grew, woken):
                task.cancel()
        if log_grew.done() and not log_grew.cancelled() and log_grew.exception() is not None:
            await asyncio.sleep(TICK_S)  # the storage does not respond: the next tick reports it

    async def tick(self) -> None:
        """Renew the lease, and `work` once."""
        await self.lease.renew()
        await self.work()

    def status(self) -> NodeStatus:
        """Current status of this node."""
        replicas, lease = self._replicas, self.lease
        assigned = len(self._partitions.assigned()) if self._may_lead else 0
        return NodeStatus(
            nodes=len(self._metadata.state.cluster.nodes),
            led_by_kind=replicas.led_counts(),
            awaited=max(assigned - len(replicas.led_epochs), 0),
            leaderships_gained=replicas.leaderships_gained,
            leaderships_lost=replicas.leaderships_lost,
            has_lease=lease.is_held,
            is_registered=self._registration.is_logged and self._has_worked,
            lease_age_s=lease.age_s,
            sessions=lease.sessions,
            unresponsive_s=lease.unresponsive_s,
            error=self._errors.current,
        )

    @property
    def _may_lead(self) -> bool:
        return self._registration.is_logged and self.lease.is_held

    async def work(self) -> None:
        """Append decisions on the cluster, lead the assigned partitions. Failures are logged."""
        self._wakeup.clear()
        self._partitions.end_transitions()
        if not self.lease.is_held:
            await self._follow_without_session()
            return
        try:
            await self._work()
            self._has_worked = True
            self._errors.clear(_WORK)
        except FencedError as error:
            self.lease.has_session = False
            self._errors.report(_WORK, error)
        except STORAGE_FAILURES as error:
            self._errors.report(_WORK, error)
        finally:
            self._update_members()
            self._worked.set()
        if not self.lease.is_held:
            await self._partitions.resign_all()

    async def _follow_without_session(self) -> None:
        """Read the log if the session is over: another process may have this node id.

        Clients of this process are then sent to that one. Nothing is done if the storage may be
        away.
        """
        if self.lease.has_session:
            return
        with suppress(FencedError, *STORAGE_FAILURES):
            async with asyncio.timeout(TICK_S):
                await self._metadata.read_next()
        self._update_members()

    def _update_members(self) -> None:
        nodes = self._metadata.state.cluster.nodes
        self._membership_logger.update(nodes)
        self._on_membership_change(nodes)

    async def _work(self) -> None:
        # First, as clients wait for it: open the partitions that were assigned to this node.
        await self._metadata.read_next()
        await self._reconcile()
        while await self._decide():
            await self._reconcile()
        await self._reconcile()
        await self._handover.start_standbys()
        if await self._handover.hand_over():
            await self._reconcile()
        if self._metadata.state.cluster.controller_id == self._storage.node_id:
            await self._metadata.compact()

    async def _decide(self) -> bool:
        """Decide once, on nodes that are observed now; False if there is nothing to decide."""
        observed_nodes = set(self._metadata.state.cluster.nodes.values())
        observed = await self._storage.observe()
        if not self._decisions.is_due(observed):
            return False
        decide = partial(self._decisions.decide, observed, observed_nodes)
        return await self._metadata.decide_in_slices(decide)

    async def _reconcile(self) -> None:
        await self._partitions.reconcile(may_lead=self._may_lead)

    # The end

    async def leave(self) -> None:
        """Hand over all partitions, and end the session. Idempotent.

        Partitions are handed over as in any move until `drain_timeout_ms` is over.
        """
        if self._running and self._drain_timeout_ms:
            await self._drain()
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        await self.lease.give_up()
        if running and self.lease.has_session:
            with suppress(FencedError, *STORAGE_FAILURES):
                async with asyncio.timeout(TICK_S):
                    # Having failed to read the log, append nothing: others see the session end.
                    if all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes):
                        await self._metadata.decide(self._registration.fenced)
                    await self._storage.release()

    async def _drain(self) -> None:
        self._registration.is_draining = True
        with suppress(Exception):  # other nodes take over the partitions that are left
            async with asyncio.timeout(self._drain_timeout_ms / 1_000):
                await self._metadata.decide(self._drain_records)
                self._wakeup.set()
                while self._partitions.led_epochs and self._can_drain():
                    self._worked.clear()
                    await self._worked.wait()

    def _drain_records(self) -> Sequence[MetadataRecord]:
        can_drain = self._registration.is_logged and self._can_drain()
        return [self._registration.drained()] if can_drain else ()

    def _can_drain(self) -> bool:
        """Whether another node can take partitions, and the tasks of this one run."""
        own_id, nodes = self._storage.node_id, self._metadata.state.cluster.nodes.values()
        has_targets = any(not (node.is_draining or node.id == own_id) for node in nodes)
        return has_targets and not any(task.done() for task in self._running)


def _ended(on_lost: Callable[[], object], task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("cannot follow the cluster metadata; stopping", exc_info=error)
        on_lost()
