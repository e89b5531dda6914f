"""Base of the two coordinators of a process: all shards of a topic, on one event loop."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from kohort.coordinator_common import partition_for
from kohort.log.base import Log
from kohort.runtime.clock import Clock
from kohort.runtime.loading_order import LoadingOrder
from kohort.runtime.shard_host import HostContext, HostState, ShardHost
from kohort.runtime.timer_driver import TimerDriver
from kohort.types import Instant

HostT = TypeVar("HostT", bound=ShardHost[Any, Any, Any, Any, Any])
KeyT = TypeVar("KeyT", bound=Hashable)


class Shards(ABC, Generic[HostT, KeyT]):
    """The shards of a topic, from start to close, with their timers and the end of their turns.

    `KeyT` names a timer of a shard. Everything runs on the loop thread.
    """

    _hosts: Sequence[HostT]

    def __init__(self, clock: Clock) -> None:
        self._timers: TimerDriver[tuple[HostT, object, KeyT]] = TimerDriver(
            clock, self._timer_is_due
        )
        self._loading: asyncio.Task[None] | None = None
        self._expiration: asyncio.Task[None] | None = None
        self._loading_order = LoadingOrder()
        self._ending_turn: list[Callable[[], None]] = []
        """Functions to call at the end of this turn."""

    def _host_context(
        self, clock: Clock, waits_for_disk: bool, reload_after_s: float
    ) -> HostContext[HostT, KeyT]:
        return HostContext(
            clock=clock,
            waits_for_disk=waits_for_disk,
            reload_after_s=reload_after_s,
            at_end_of_turn=self._at_end_of_turn,
            loading_order=self._loading_order,
            move_timer=self._move_timer,
        )

    # --- start and close ---

    def start(self) -> None:
        """Start loading. Requests get COORDINATOR_LOAD_IN_PROGRESS until their shard is loaded."""
        self._loading = asyncio.ensure_future(self._load())
        self._expiration = asyncio.ensure_future(self._expire())

    async def loaded(self) -> None:
        """Wait until every shard is loaded or has failed to load."""
        assert self._loading is not None
        await asyncio.shield(self._loading)

    async def close(self) -> None:
        """Log the decisions made so far and send their responses; refuse parked requests."""
        self._timers.close()
        for task in (self._loading, self._expiration):
            if task is not None:
                task.cancel()
        for host in self._hosts:
            await host.close()

    async def _load(self) -> None:
        # Smallest first, so that most shards serve before the largest is read.
        for host in sorted(self._hosts, key=lambda host: host.log.size):
            await host.load()

    @abstractmethod
    async def _expire(self) -> None:
        """Check periodically for expired state, in turns of a few milliseconds each."""

    async def reload(self, partition: int) -> None:
        """Load a shard again, as after a failover: its log has records that it did not decide.

        Requests in progress get NOT_COORDINATOR. No-op if the shard does not serve.
        """
        await self._hosts[partition].reload()

    def log_reopened(self, log: Log) -> None:
        """Replace the log of a shard, and serve from the new one."""
        for host in self._hosts:
            if host.log.topic_partition == log.topic_partition:
                host.log_reopened(log)

    @property
    def is_loaded(self) -> bool:
        """Whether all shards that this node leads are serving."""
        return all(host.state in (HostState.ACTIVE, HostState.ELSEWHERE) for host in self._hosts)

    def is_elsewhere(self, partition: int) -> bool:
        """Whether this node does not lead the shard of this partition."""
        return self._hosts[partition].state is HostState.ELSEWHERE

    def _states(self) -> Counter[str]:
        return Counter(host.state.value for host in self._hosts)

    def _host(self, key: str) -> HostT:
        return self._hosts[partition_for(key, len(self._hosts))]

    # --- the end of a turn ---

    def _at_end_of_turn(self, function: Callable[[], None]) -> None:
        if not self._ending_turn:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._ending_turn.append(function)

    def _end_turn(self) -> None:
        functions, self._ending_turn = self._ending_turn, []
        for function in functions:
            function()

    # --- timers ---

    def _move_timer(self, host: HostT, timer: KeyT, deadline: Instant | None) -> None:
        """Set or move a timer; cancel it if the deadline is None."""
        # The key includes the shard: timers of a dropped shard never reach its successor.
        key = (host, host.shard, timer)
        if deadline is None:
            self._timers.cancel(key)
        else:
            self._timers.set(key, deadline)

    def timers(self) -> Iterator[tuple[KeyT, Instant]]:
        """All timers of the shards, in no order.

        A session's timer may be due before the session, whose heartbeats do not move it.
        """
        for (host, shard, timer), deadline in self._timers.deadlines():
            if host.shard is shard:
                yield timer, deadline

    def _timer_is_due(self, key: tuple[HostT, object, KeyT]) -> None:
        host, shard, timer = key
        if host.shard is shard:
            self._fire(host, timer)

    @abstractmethod
    def _fire(self, host: HostT, timer: KeyT) -> None:
        """Post a due timer to its shard."""
