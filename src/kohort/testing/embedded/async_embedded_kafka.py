"""Kafka in the test process, for tests on an asyncio event loop.

    async with AsyncEmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=kafka.bootstrap, group_id="billing")
        await consumer.start()
        await kafka.group("billing").wait(state="Stable", members=1)

The server has a thread of its own. What waits is a coroutine, so clients on the test's event loop
work meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

from kohort.errors import KohortError
from kohort.recording import ReplayResult
from kohort.testing.embedded import arguments, verbs
from kohort.testing.embedded.conditions import Condition
from kohort.testing.embedded.controls import Controls
from kohort.testing.embedded.embedded_kafka import (
    POLL_INTERVAL_S,
    WAIT_TIMEOUT_S,
    EmbeddedKafka,
)
from kohort.testing.embedded.group_state import GroupState
from kohort.testing.embedded.groups import GroupReader

P = ParamSpec("P")
T = TypeVar("T")


class AsyncGroup(GroupReader):
    """A group of an `AsyncEmbeddedKafka`."""

    async def wait(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        committed: Mapping[tuple[str, int], int] | None = None,
        timeout: float = WAIT_TIMEOUT_S,  # noqa: ASYNC109
    ) -> GroupState:
        """Wait until the group has this state, number of members and committed offsets.

        `timeout` is in seconds of the machine's clock. Raises AssertionError after it: the text has
        the members, who is awaited, and the rebalances.
        """
        __tracebackhide__ = True
        condition = Condition(state=state, members=members, committed=committed)
        loop = _running_loop()
        deadline = loop.time() + arguments.seconds("timeout", timeout)
        while not condition.holds(group := self.read()):
            if loop.time() > deadline:
                raise condition.failure(group, timeout)
            await asyncio.sleep(POLL_INTERVAL_S)
        return group


class AsyncEmbeddedKafka(Controls):
    """A Kafka server in a thread of this process, in an `async with` block."""

    @classmethod
    def of(cls, kafka: EmbeddedKafka) -> "AsyncEmbeddedKafka":
        """The same running server, for a test on an event loop; `kafka` closes it."""
        shared = cls()
        shared._running = kafka._running
        shared._numbers = kafka._numbers
        return shared

    async def __aenter__(self) -> Self:
        await _in_thread(self._start)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.verify_faults()
        finally:
            await _in_thread(self._close)

    def group(self, group_id: str) -> AsyncGroup:
        """A group, which need not exist."""
        return AsyncGroup(self._server, group_id)

    async def restart(self) -> None:
        """As `EmbeddedKafka.restart`."""
        await _in_thread(self._server.run, verbs.restart)

    async def advance(self, seconds: float) -> None:
        """As `EmbeddedKafka.advance`."""
        await _in_thread(self._advance, seconds)

    async def advance_until(
        self, predicate: Callable[[], object], *, at_most_seconds: float = 3_600
    ) -> None:
        """As `EmbeddedKafka.advance_until`; `predicate` is called in another thread."""
        await _in_thread(self._advance_until, predicate, at_most_seconds)

    async def replay(self, path: Path | str) -> ReplayResult:
        """As `EmbeddedKafka.replay`."""
        return await _in_thread(self._replay, path)


async def _in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    _running_loop()
    return await asyncio.to_thread(function, *args, **kwargs)


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop of the caller. Raises KohortError."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise KohortError(
            "AsyncEmbeddedKafka needs an event loop of asyncio: on another one, such as that of "
            "trio, call the methods of an EmbeddedKafka in a thread"
        ) from None
