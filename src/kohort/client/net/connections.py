"""The connections of one client: one per broker and purpose, opened on first use and after breaks.

Different purposes have different TCP connections: a JoinGroup that waits for minutes must not delay
a commit, nor a fetch a heartbeat. Concurrent callers of the same connection share one attempt.
After a failure an address is not tried for a growing pause (Kafka's `reconnect.backoff`). A host
name may have several IP addresses (`happy_eyeballs`).
"""

import asyncio
import logging
from collections.abc import Hashable, Iterable
from typing import Final

from kohort.client.backoff import Backoff, described
from kohort.client.config import Address, ClientConfig
from kohort.client.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClientClosedError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from kohort.client.metrics import ConnectionMetrics
from kohort.client.net.connect_errors import format_address
from kohort.client.net.connection import Connection
from kohort.client.net.counters import NetCounters
from kohort.client.net.handshake import ExpectedNode
from kohort.client.net.happy_eyeballs import open_connection
from kohort.client.net.outages import Outages
from kohort.errors import fresh

log: Final = logging.getLogger("kohort.client.net")

Key = tuple[Hashable, str]
"""Node id (or the address of a bootstrap server) and purpose."""

NEXT_BROKER_INTERVAL_S: Final = 1.0
"""Time after which the next broker is tried beside one that has not responded yet."""


class Connections:
    """Opens, keeps and closes the connections of one client."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        next_broker_interval_s: float = NEXT_BROKER_INTERVAL_S,
        outages: Outages | None = None,
    ) -> None:
        """`next_broker_interval_s`: when `first_of` tries the next candidate beside a hanging one.

        `outages` reports unreachable brokers (default: by warnings).
        """
        self._config = config
        self._counters = NetCounters()
        self._next_broker_interval_s = next_broker_interval_s
        self._open: dict[Key, Connection] = {}
        self._opening: dict[Key, tuple[Address, asyncio.Task[Connection]]] = {}
        self._failed: dict[Address, tuple[Backoff, float]] = {}
        self._outages = Outages() if outages is None else outages
        self._opened_last: dict[Address, str] = {}
        self._avoided: dict[Address, str] = {}  # the IP address of a useless broker
        self._attempts: dict[Address, int] = {}  # the number of the last attempt
        self._count = 0
        self._restarts = 0
        self._closed = False
        self.cluster_id: str | None = None
        """Cluster id of the current metadata, for `ExpectedNode`; None without metadata."""

    async def get(self, key: Key, address: Address) -> Connection:
        """The open connection of `key` to `address`.

        Raises as `Connection.open` does, and ClientClosedError.
        """
        connection = self._open.get(key)
        if connection is not None:
            if not connection.closed and connection.address == address:
                return connection
            self._avoid_if_useless(self._open.pop(key))
            connection.fail(
                BrokerUnreachableError(
                    f"the broker moved from {format_address(connection.address)} to "
                    f"{format_address(address)}"
                )
            )
        attempt = self._attempt(key, address)
        await asyncio.wait((attempt,))  # other callers may wait for the same attempt
        if attempt.cancelled():
            raise ClientClosedError
        return attempt.result()

    @property
    def is_closed(self) -> bool:
        """Whether no connection can be opened any more."""
        return self._closed

    def backoff(self, initial_ms: int | None = None, max_ms: int | None = None) -> Backoff:
        """A new Backoff, by default as configured; its retries count in this client's metrics."""
        return Backoff(
            self._config.retry_backoff_ms if initial_ms is None else initial_ms,
            self._config.retry_backoff_max_ms if max_ms is None else max_ms,
            retries=self._counters.retries,
        )

    def metrics(self) -> ConnectionMetrics:
        """Counters and current state of the connections."""
        counters, connections = self._counters, tuple(self._open.values())
        return ConnectionMetrics(
            open=sum(not connection.closed for connection in connections),
            opened=counters.opened,
            failed=counters.failed,
            in_flight=sum(connection.in_flight for connection in connections),
            sent_bytes=counters.sent_bytes,
            received_bytes=counters.received_bytes,
            requests={api: counter.snapshot() for api, counter in tuple(counters.requests.items())},
            failures=counters.failures.snapshot(),
            throttled=counters.throttled.snapshot(),
            retries=counters.retries.snapshot(),
        )

    @property
    def purposes(self) -> frozenset[str]:
        """Purposes with a connection, open or being opened."""
        return frozenset(purpose for _, purpose in (*self._open, *self._opening))

    def idlest(self, purpose: str) -> Connection | None:
        """The open connection for that purpose with the fewest requests in flight."""
        idle_candidates = [
            connection
            for (_, used_for), connection in self._open.items()
            if used_for == purpose and not connection.closed
        ]
        return min(idle_candidates, key=lambda connection: connection.in_flight, default=None)

    async def first_of(self, candidates: Iterable[tuple[Key, Address]]) -> Connection:
        """The first connection to any of the candidates that opens.

        The order is: candidates without a recent failure, then the longest untried. A slow
        candidate does not delay the next. When all have failed, raises an error that no further
        attempt changes (AuthenticationError, UnsupportedVersionError, ConfigError) if there is one,
        else BrokerUnreachableError. Raises RebootstrapRequiredError at once.
        """
        now = asyncio.get_running_loop().time()
        untried = sorted(
            candidates,
            key=lambda candidate: (
                max(self._not_before(candidate[1]), now),
                self._attempts.get(candidate[1], 0),
            ),
        )
        waiting: set[asyncio.Task[Connection]] = set()
        addresses: dict[asyncio.Task[Connection], Address] = {}
        failures: dict[Address, BaseException] = {}
        while untried or waiting:
            if untried:
                key, address = untried.pop(0)
                task = self._attempt(key, address)
                addresses[task] = address
                waiting.add(task)
            done, waiting = await asyncio.wait(
                waiting,
                timeout=self._next_broker_interval_s if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                if task.cancelled():
                    raise ClientClosedError
                if (error := task.exception()) is None:
                    return task.result()
                if isinstance(error, RebootstrapRequiredError):
                    raise fresh(error)  # the other candidates are of the same metadata
                failures[addresses[task]] = error
        raise fresh(_all_failed(failures))

    async def close(self) -> None:
        """Close all connections; afterwards none can be opened."""
        self._closed = True
        tasks = [task for _, task in self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self._open.values()))
        self._open.clear()

    def _attempt(self, key: Key, address: Address) -> asyncio.Task[Connection]:
        opening = self._opening.get(key)
        if opening is not None and opening[0] == address:
            return opening[1]
        if self._closed:
            raise ClientClosedError
        self._count += 1
        self._attempts[address] = self._count
        opened = self._opened(key, address, self._expected(key[0]), self._restarts)
        task = asyncio.get_running_loop().create_task(opened)
        self._opening[key] = address, task
        task.add_done_callback(lambda done: self._attempted(key, done))
        return task

    def _attempted(self, key: Key, task: asyncio.Task[Connection]) -> None:
        if self._opening.get(key, (None, None))[1] is task:
            del self._opening[key]
        if not task.cancelled():
            task.exception()  # mark it as read: no caller may be waiting for the attempt

    async def _opened(
        self, key: Key, address: Address, expected: ExpectedNode | None, restarts: int
    ) -> Connection:
        """`expected` and `restarts` are those before the attempt: `restart` may be called in it."""
        loop = asyncio.get_running_loop()
        if (pause_s := self._not_before(address) - loop.time()) > 0:
            await asyncio.sleep(pause_s)
        if key in self._open:
            self._avoid_if_useless(self._open[key])
        try:
            connection = await open_connection(
                address,
                self._config,
                self._counters,
                self._opened_last,
                self._avoided.get(address),
                expected,
            )
        except (BrokerUnreachableError, AuthenticationError) as error:
            self._counters.failed += 1
            backoff = self._failed[address][0] if address in self._failed else self.backoff()
            delay_s = backoff.after(error, f"connecting to {format_address(address)}")
            self._failed[address] = backoff, loop.time() + delay_s
            if isinstance(error, RebootstrapRequiredError):
                if restarts != self._restarts:
                    raise _restarted() from None  # the client has rebootstrapped since
                log.info("rebootstrapping, %s: %s", format_address(address), error)
            elif isinstance(error, BrokerUnreachableError):
                self._outages.failed(address, error, loop.time())
            raise
        if restarts != self._restarts and isinstance(key[0], int):
            connection.fail(_restarted())
            raise _restarted()
        self._counters.opened += 1
        self._failed.pop(address, None)
        self._outages.reached(address)
        self._open[key] = connection
        return connection

    def _expected(self, node: Hashable) -> ExpectedNode | None:
        if not self._config.checks_cluster or self.cluster_id is None or not isinstance(node, int):
            return None
        return ExpectedNode(self.cluster_id, node)

    def _avoid_if_useless(self, connection: Connection) -> None:
        if connection.is_useless:
            self._avoided[connection.address] = connection.host

    def _not_before(self, address: Address) -> float:
        failure = self._failed.get(address)
        return failure[1] if failure else 0.0

    async def release(self, purpose: str) -> None:
        """Close the connections of a purpose, also connections that are being opened."""
        opening = [task for key, (_, task) in self._opening.items() if key[1] == purpose]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        keys = [key for key in self._open if key[1] == purpose]
        await asyncio.gather(*(self._open.pop(key).close() for key in keys))

    def restart(self) -> None:
        """Forget the cluster, and fail every open connection; new ones can be opened.

        Connections to nodes of the cluster that are being opened fail once they are open.
        """
        self._restarts += 1
        self.cluster_id = None
        self.drop_all(_restarted())

    def drop_all(self, error: BrokerUnreachableError) -> None:
        """Fail every open connection with that error; new ones can be opened."""
        for connection in self._open.values():
            connection.fail(error)
        self._open.clear()


def _restarted() -> BrokerUnreachableError:
    return BrokerUnreachableError("the client restarts from the bootstrap servers")


def _all_failed(failures: dict[Address, BaseException]) -> BaseException:
    if not failures:
        return BrokerUnreachableError("there is no broker to connect to")
    attempts = "; ".join(_describe_failure(address, error) for address, error in failures.items())
    message = f"no broker could be reached: {attempts}"
    for error in failures.values():
        if isinstance(error, AuthenticationError | UnsupportedVersionError):
            return type(error)(message)
        if not isinstance(error, BrokerUnreachableError):
            return error
    unreachable = BrokerUnreachableError(message)
    unreachable.is_refused = all(
        getattr(failure, "is_refused", False) for failure in failures.values()
    )
    return unreachable


def _describe_failure(address: Address, error: BaseException) -> str:
    text = described(error)
    return text if format_address(address) in text else f"{format_address(address)}: {text}"
