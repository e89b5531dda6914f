"""The part of an embedded Kafka in which nothing waits for clients or for time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, Unpack

from kohort.errors import KohortError
from kohort.recording import ReplayResult
from kohort.testing.embedded import arguments, verbs
from kohort.testing.embedded.advancing import advance_until
from kohort.testing.embedded.clients import identify
from kohort.testing.embedded.due_timers import DueTimer
from kohort.testing.embedded.exchange_log import LoggedExchange
from kohort.testing.embedded.fault_handle import FaultHandle
from kohort.testing.embedded.faults import Which
from kohort.testing.embedded.loaded_groups import LoadedGroups
from kohort.testing.embedded.open_transactions import OpenTransaction
from kohort.testing.embedded.recording import Recording
from kohort.testing.embedded.replays import replay_on
from kohort.testing.embedded.running_server import ControlledServer, RunningServer
from kohort.testing.embedded.topic_records import TopicRecord
from kohort.testing.embedded.transaction_state import TransactionState

_killed: Final[list[object]] = []
"""Killed clients. One of librdkafka that has not polled a rebalance may not end, and then holds
Python's lock.
"""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a test can leave behind on a server."""

    faults: frozenset[int]
    """Numbers of the faults."""
    is_frozen: bool


class Controls:
    """Topics, records, clients and faults of an embedded server.

    Each method returns within milliseconds, so it may also be called on an event loop. Any thread
    may call it.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: Path | None = None,
    ) -> None:
        """`settings` are settings of the server by Kafka's names, added to those for tests.

        Records are in memory, or in `directory`, where they survive `restart`. Raises KohortError.
        """
        self._settings = arguments.mapping("settings", settings or {})
        self._directory = directory
        self._running: ControlledServer | None = None
        self._numbers = count(1)

    def __repr__(self) -> str:
        state = "not started" if self._running is None else "closed"
        return f"<{type(self).__name__} {self.bootstrap if self.is_running else state}>"

    def _start(self) -> None:
        if self.is_running:
            raise KohortError(f"{self!r} is already started; a fixture starts and closes its own")
        self._open()

    def _open(self) -> None:
        self._running = RunningServer(self._settings, self._directory)

    def _close(self) -> None:
        if self._running is not None:
            self._running.close()

    @property
    def _server(self) -> ControlledServer:
        if self._running is None:
            raise KohortError("the embedded Kafka is not started: use it in a with block")
        return self._running

    @property
    def is_running(self) -> bool:
        """Whether it was started and not closed."""
        return self._running is not None and not self._running.is_closed

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for clients. It has a free port of 127.0.0.1."""
        return self._server.call(verbs.bootstrap)

    @property
    def timeline(self) -> str:
        """The latest events with the server's time: rebalances, faults, kills, advanced time."""
        return self._server.timeline

    @property
    def exchanges(self) -> list[LoggedExchange]:
        """The latest 1,000 requests and their responses, in the order in which they were handled.

        Requests that wait, such as a parked JoinGroup, have the outcome `waiting`.
        """
        return self._server.call(verbs.exchanges)

    @property
    def timers(self) -> list[DueTimer]:
        """The timers of groups and transactions, the next one first."""
        return self._server.call(verbs.timers)

    @property
    def transactions(self) -> list[TransactionState]:
        """All transactional ids with their states."""
        return self._server.call(verbs.transactions)

    # --- topics ---

    def name(self, prefix: str) -> str:
        """A name that no earlier call returned: for topics and groups of tests with one server."""
        return f"{arguments.text('prefix', prefix)}-{next(self._numbers)}"

    def topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic; returns its name. Raises KafkaError, such as TOPIC_ALREADY_EXISTS."""
        self._server.call(verbs.topic, name, partitions, configs)
        return name

    def produce(
        self,
        topic: str,
        *values: bytes | None,
        key: bytes | None = None,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> int:
        """Append records to a partition; returns the offset of the first. Raises KafkaError."""
        return self._server.call(verbs.produce, topic, values, key, partition, headers)

    def records(self, topic: str) -> list[TopicRecord]:
        """The committed records of a topic, by partition and offset. Raises KafkaError."""
        return self._server.call(verbs.records, topic)

    def load(self, path: Path | str) -> LoadedGroups:
        """Load the groups of a data directory of Apache Kafka or Kohort, which is only read.

        `path` may also be a copy of directories such as `__consumer_offsets-0`. Topics of committed
        offsets, and of directories beside them, are created without records. Raises KohortError for
        a directory without groups, a damaged file, and groups that exist.
        """
        return self._server.run(verbs.load, str(Path(path).absolute()))

    def open_transaction(
        self,
        transactional_id: str,
        records: Mapping[tuple[str, int], Sequence[bytes]],
        *,
        offsets: Mapping[tuple[str, int], int] | None = None,
        group: str = "",
        timeout_ms: int = 60_000,
    ) -> OpenTransaction:
        """Begin with an open transaction, as a producer leaves it that crashes.

        It has these records by topic and partition, and `offsets` of a `group`. The server aborts
        it after `timeout_ms` of its time, or when a producer with the same id starts. Raises
        KafkaError, such as UNKNOWN_TOPIC_OR_PARTITION.
        """
        return self._server.run(
            verbs.open_transaction, transactional_id, records, offsets, group, timeout_ms
        )

    # --- recordings ---

    def record(self, path: Path | str, *, redact_values: bool = False) -> Recording:
        """Record all requests and responses to a new file, until `stop`, or in a with block.

        `redact_values` replaces keys, values and header values of records by pseudonyms of the same
        length; secrets are removed always. Raises RecordingError if the file exists.
        """
        return Recording(self._server, Path(path), redact_values=redact_values)

    def _replay(self, path: Path | str) -> ReplayResult:
        return replay_on(self._server, path)

    # --- clients ---

    def kill(
        self,
        client: object = None,
        *,
        client_id: str | None = None,
        member_id: str | None = None,
    ) -> None:
        """Cut the connections of a client, now and whenever it connects again.

        The group learns of it only when the session of the member expires.

        `client` is a consumer of confluent-kafka, aiokafka, kafka-python or `kohort.client` that
        has joined a group: the connection to its coordinator is cut, by which it joins and commits.
        Any other client is named by its client id, and loses all connections; so do other clients
        with that id. Raises KohortError if the client tells neither id.
        """
        if client is not None:
            client_id, member_id = identify(client)
            _killed.append(client)
        elif not client_id and not member_id:
            raise KohortError("kill a client: kill(consumer), kill(client_id=…), kill(member_id=…)")
        self._server.call(verbs.kill, client_id, member_id)

    def revive(self) -> None:
        """Let all killed clients connect again, as after a partition of the network.

        Those whose session has expired join again as new members.
        """
        self._server.call(verbs.revive)

    def let_killed_leave(self) -> None:
        """Let killed clients commit and leave, but not join: so they close without waiting.

        A client that cannot reach its coordinator may take seconds to close. The fixtures of pytest
        call this at the end of a test, before other fixtures are torn down.
        """
        self._server.call(verbs.let_killed_leave)

    # --- time ---

    def freeze(self) -> None:
        """Stop the server's time, until `resume`; only `advance` moves it on."""
        self._server.call(verbs.freeze)

    def resume(self) -> None:
        """Let the server's time pass again, as fast as the machine's."""
        self._server.call(verbs.resume)

    def _advance(self, seconds: float) -> None:
        self._server.run(verbs.advance, seconds)

    def _advance_until(self, predicate: Callable[[], object], at_most_s: float) -> None:
        advance_until(self._server, predicate, at_most_s)

    # --- faults ---

    def fail(self, api: str, *, error: str, **which: Unpack[Which]) -> FaultHandle:
        """Respond to requests with an error, and do nothing else.

        `api` and `error` have Kafka's names: `fail("OffsetCommit", error="NOT_COORDINATOR")`. The
        next `times` requests of the API are concerned (1; None: all), or of those only the ones of
        a `group`, a `client_id`, or for which `when` returns true. A fault that no request has met
        is an error at the end of the test unless `required` is false. Raises KohortError for
        unknown names, and for an API that cannot be failed.
        """
        return FaultHandle(self._server, self._server.call(verbs.fail, api, error, **which))

    def delay(self, api: str, *, seconds: float, **which: Unpack[Which]) -> FaultHandle:
        """Handle requests after so many seconds of the server's time; else as `fail`."""
        return FaultHandle(self._server, self._server.call(verbs.delay, api, seconds, **which))

    def drop(self, api: str, *, applied: bool = False, **which: Unpack[Which]) -> FaultHandle:
        """Cut the connection instead of a response; else as `fail`.

        The request has no effect, or with `applied` its whole effect: the client cannot know which.
        """
        return FaultHandle(self._server, self._server.call(verbs.drop, api, applied, **which))

    def truncate(self, api: str, **which: Unpack[Which]) -> FaultHandle:
        """Send the first half of the response and close the connection; else as `fail`.

        The request has its whole effect.
        """
        return FaultHandle(self._server, self._server.call(verbs.truncate, api, **which))

    def throttle(self, api: str, *, seconds: float, **which: Unpack[Which]) -> FaultHandle:
        """Throttle the client for so many seconds, as a quota does; else as `fail`.

        The response has that `throttle_time_ms`, and the server takes no further request of the
        connection for so long, in its own time.
        """
        return FaultHandle(self._server, self._server.call(verbs.throttle, api, seconds, **which))

    def clear_faults(self) -> None:
        """Remove all faults."""
        self._server.call(verbs.clear_faults)

    def verify_faults(self) -> None:
        """Raise AssertionError for a required fault without a request, or whose `when` raised.

        A Kafka that is closed has no faults.
        """
        if self.is_running:
            self._server.call(verbs.verify_faults)

    # --- servers of several tests ---

    def checkpoint(self) -> Checkpoint:
        """The faults and the mode of time at this moment, for `restore`."""
        numbers = frozenset(fault.number for fault in self._server.call(verbs.faults))
        return Checkpoint(numbers, self._server.call(verbs.is_frozen))

    def restore(self, checkpoint: Checkpoint, *, verify: bool = True) -> None:
        """Remove the faults that were set since, and let time run if it did.

        With `verify`, raises AssertionError as `verify_faults` does, for these faults.
        """
        numbers = [
            fault.number
            for fault in self._server.call(verbs.faults)
            if fault.number not in checkpoint.faults
        ]
        if not checkpoint.is_frozen:
            self.resume()
        try:
            if verify:
                self._server.call(verbs.verify_faults, numbers)
        finally:
            self._server.call(verbs.clear_faults, numbers)
