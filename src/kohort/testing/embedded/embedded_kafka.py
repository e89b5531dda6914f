"""Kafka in the test process, for tests that block.

    with EmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "billing", …})
        kafka.group("billing").wait(state="Stable", members=1, poll=lambda: consumer.poll(0))

The server has a thread of its own, so clients of any library can wait for it in the test's thread.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from kohort.recording import ReplayResult
from kohort.testing.embedded import arguments, verbs
from kohort.testing.embedded.conditions import Condition
from kohort.testing.embedded.controls import Controls
from kohort.testing.embedded.group_state import GroupState
from kohort.testing.embedded.groups import GroupReader

WAIT_TIMEOUT_S: Final = 10.0
POLL_INTERVAL_S: Final = 0.002


class Group(GroupReader):
    """A group of an `EmbeddedKafka`."""

    def wait(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        committed: Mapping[tuple[str, int], int] | None = None,
        timeout: float = WAIT_TIMEOUT_S,
        poll: Callable[[], object] | None = None,
    ) -> GroupState:
        """Wait until the group has this state, number of members and committed offsets.

        `poll` is called in between: clients that work only inside of their `poll`, such as those of
        confluent-kafka and kafka-python, need it if no other thread polls them. `timeout` is in
        seconds of the machine's clock. Raises AssertionError after it: the text has the members,
        who is awaited, and the rebalances.
        """
        __tracebackhide__ = True
        condition = Condition(state=state, members=members, committed=committed)
        deadline = time.monotonic() + arguments.seconds("timeout", timeout)
        while not condition.holds(group := self.read()):
            if time.monotonic() > deadline:
                raise condition.failure(group, timeout)
            if poll is not None:
                poll()
            time.sleep(POLL_INTERVAL_S)
        return group


class EmbeddedKafka(Controls):
    """A Kafka server in a thread of this process, from `start` to `close` or in a `with` block."""

    def start(self) -> Self:
        """Start the server; it serves when this returns. Raises KohortError."""
        self._start()
        return self

    def close(self) -> None:
        """Stop the server. Idempotent."""
        self._close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.verify_faults()
        finally:
            self.close()

    def group(self, group_id: str) -> Group:
        """A group, which need not exist."""
        return Group(self._server, group_id)

    def restart(self) -> None:
        """Stop the server and start it again, on the same port, with what it has stored.

        Raises KohortError if its records are in memory.
        """
        self._server.run(verbs.restart)

    def advance(self, seconds: float) -> None:
        """Let `seconds` of the server's time pass now, with all that happens in it, in order.

        A member whose connection is open keeps its session, as if its client had sent heartbeats. A
        killed one expires. Clients do not see the time pass: what the server waits for from them,
        such as the JoinGroup of a rebalance, has only the machine's time to arrive.
        """
        self._advance(seconds)

    def advance_until(
        self, predicate: Callable[[], object], *, at_most_seconds: float = 3_600
    ) -> None:
        """Advance from timer to timer until `predicate` returns true.

        Raises AssertionError after `at_most_seconds` of the server's time.
        """
        self._advance_until(predicate, at_most_seconds)

    def replay(self, path: Path | str) -> ReplayResult:
        """Send the requests of a recording again, and compare the responses.

        The server should be in the state in which the recording began. Its time is frozen, and
        advanced as it passed in the recording. Raises RecordingError for a damaged file.
        """
        return self._replay(path)
