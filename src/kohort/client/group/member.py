"""Runs a membership on an event loop: sends requests, returns responses, keeps the deadline.

Each request is a task of its own on the connection of its purpose. So neither the application nor a
parked join delays a heartbeat. Actions for the application (`Start`, `EndPartitions`, …) go to
`Application`, synchronously and in order. Events that the application causes meanwhile are handled
after the current one.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Protocol

from kohort.client.cluster import Cluster
from kohort.client.errors import (
    AuthenticationError,
    ClientClosedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from kohort.client.group.counters import GroupCounters
from kohort.client.group.requests import PURPOSES, ask, coordinator
from kohort.client.group_errors import GroupError, advice, fatal
from kohort.client.membership import (
    Abandon,
    Action,
    Actions,
    AnyMembership,
    Assign,
    ConsumerGroupHeartbeat,
    ConsumerMembership,
    End,
    EndPartitions,
    ForgetCoordinator,
    Heartbeat,
    JoinGroup,
    Left,
    LogEvent,
    Raise,
    Request,
    ResolveTopics,
    Send,
    Start,
)
from kohort.client.net import Connection
from kohort.errors import ConfigError, KafkaError, KohortError, caused_by

P = ParamSpec("P")
_LASTING: Final = (
    AuthenticationError,
    ClientClosedError,
    ConfigError,
    UnsupportedVersionError,
)
"""Errors that no further attempt changes."""
_numbers: Final = itertools.count(1)


class Application(Protocol):
    """Receives the membership's decisions. No method waits."""

    def on_assign(self, assign: Assign) -> None: ...
    def on_resolve(self, resolve: ResolveTopics) -> None: ...
    def on_start(self, start: Start) -> None: ...
    def on_end(self, end: EndPartitions) -> None: ...
    def on_raise(self, raised: Raise) -> None: ...
    def on_left(self) -> None: ...
    def on_log_event(self, event: LogEvent) -> None: ...


class GroupMember:
    """A membership at work. `close` ends its requests in flight."""

    def __init__(
        self, membership: AnyMembership, cluster: Cluster, application: Application
    ) -> None:
        self.membership = membership
        self._config = membership.config
        # In the consumer protocol each generation is a rebalance of its own; none follows the end
        # of partitions for sure.
        self._has_no_rounds = isinstance(membership, ConsumerMembership)
        self._cluster = cluster
        self._application = application
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Action] = deque()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._sends: dict[int, asyncio.Task[None]] = {}
        self._connections: dict[int, Connection] = {}
        self._closed = False
        self._is_faulty = False
        self._number = next(_numbers)
        self.counters = GroupCounters()

    def now(self) -> int:
        """The loop's clock in ms."""
        return int(self._loop.time() * 1_000)

    def dispatch(
        self, event: Callable[Concatenate[int, P], Actions], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Pass an event to the membership, and carry out its actions; adds the time.

        For example `dispatch(membership.rejoin, "why")`. An exception on the way, also one of an
        own assignor, ends the membership: without its actions the member would wait for ever.
        """
        if self._closed:
            return
        try:
            self._carry_out(event(self.now(), *args, **kwargs))
        except Exception as error:
            if self._is_faulty:
                raise
            self._is_faulty = True
            self._queue.clear()
            fault = GroupError(f"the membership ended with an exception: {error!r}")
            self.dispatch(self.membership.refused, caused_by(error, fault))

    def _carry_out(self, actions: Actions) -> None:
        self._queue.extend(actions)
        if not self._busy:
            self._busy = True
            try:
                while self._queue:
                    self._do(self._queue.popleft())
            finally:
                self._busy = False
            self._set_timer()

    async def close(self) -> None:
        """End all requests in flight, and close their connections."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._sends.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for kind in (JoinGroup, Heartbeat):
            await self._cluster.release(self._purpose(kind))

    def _purpose(self, kind: type[Any]) -> str:
        """The purpose of connections that only this member uses, also in a shared cluster."""
        return f"{PURPOSES[kind]} {self._number}"

    def _do(self, action: Action) -> None:
        match action:
            case Send():
                if _joins(action.request):
                    self.counters.rebalance_began(self._loop.time())
                name = f"{self._config.group_id} {type(action.request).__name__}"
                self._sends[action.number] = self._loop.create_task(self._send(action), name=name)
            case Abandon():
                self._abandon(action.number)
            case ForgetCoordinator():
                self._cluster.coordinator_moved(self._config.group_id)
            case Assign():
                self._application.on_assign(action)
            case ResolveTopics():
                self._application.on_resolve(action)
            case Start():
                if self._has_no_rounds:
                    self.counters.rebalance_began(self._loop.time())
                self.counters.assigned(self._loop.time())
                self._application.on_start(action)
            case EndPartitions():
                self.counters.lost += action.end is End.LOST
                if action.end is End.REVOKED and not self._has_no_rounds:
                    self.counters.rebalance_began(self._loop.time())
                self._application.on_end(action)
            case Raise():
                self._application.on_raise(action)
            case Left():
                self._application.on_left()
            case LogEvent():
                self._application.on_log_event(action)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.membership.deadline
        if deadline is not None and not self._closed:
            # One ms later because of rounding: a timer that fires early would only be set again.
            self._timer = self._loop.call_at(
                (deadline + 1) / 1_000, self.dispatch, self.membership.tick
            )

    async def _send(self, send: Send) -> None:
        number = send.number
        try:
            async with asyncio.timeout(send.timeout_ms / 1_000):
                purpose = self._purpose(type(send.request))
                connection = await coordinator(self._cluster, self._config.group_id, purpose)
                self._connections[number] = connection
                sent = self._loop.time()
                response = await ask(connection, self._config, send.request, send.timeout_ms)
        except (RequestTimeoutError, TimeoutError) as error:
            self.counters.failed(send.request, error)
            self._timed_out(send)
        except KohortError as error:
            self.counters.failed(send.request, error)
            self._failed(send, error)
        except asyncio.CancelledError:
            # Only if the request is still awaited: then another party cancelled it.
            self.dispatch(self.membership.failed, number, "the request was cancelled", sent=False)
            raise
        except Exception as error:
            # Any exception: without a response or an error the member would wait for ever.
            fault = GroupError(
                f"{type(send.request).__name__}: a fault of the client, report it: {error!r}"
            )
            self.dispatch(self.membership.refused, caused_by(error, fault))
        else:
            self._forget(number)
            self.counters.responded(send.request, response, sent, self._loop.time())
            self.dispatch(self.membership.responded, number, response)
        finally:
            self._forget(number)

    def _timed_out(self, send: Send) -> None:
        was_sent = send.number in self._connections
        error = f"{type(send.request).__name__} got no response within {send.timeout_ms} ms"
        self._forget(send.number)
        self.dispatch(self.membership.failed, send.number, error, sent=was_sent)

    def _failed(self, send: Send, error: KohortError) -> None:
        name = type(send.request).__name__
        self._forget(send.number)
        if isinstance(error, KafkaError) and advice(error.code) is not None:
            self.dispatch(
                self.membership.refused, fatal(error.code, f"the way to {name}", error.message)
            )
        elif isinstance(error, _LASTING):
            self.dispatch(self.membership.refused, GroupError(f"{name}: {error}"))
        else:
            self.dispatch(self.membership.failed, send.number, f"{name}: {error}", sent=False)

    def _abandon(self, number: int) -> None:
        """End the request and its connection: a parked request would hold up the next one."""
        connection = self._connections.get(number)
        if task := self._sends.get(number):
            task.cancel()
        if connection is not None:
            closing = self._loop.create_task(connection.close())
            self._sends[-number] = closing
            closing.add_done_callback(lambda _: self._sends.pop(-number, None))

    def _forget(self, number: int) -> None:
        self._sends.pop(number, None)
        self._connections.pop(number, None)


def _joins(request: Request) -> bool:
    return isinstance(request, JoinGroup) or (
        isinstance(request, ConsumerGroupHeartbeat) and request.epoch == 0
    )
