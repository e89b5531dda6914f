"""The isolated Kafka brokers of one process, each with clients, faults and time of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Final

from kohort.errors import KohortError
from kohort.testing.embedded import verbs
from kohort.testing.embedded.running_server import RunningServer

MAX_BROKERS: Final = 64
"""Most brokers of a process: each has a thread, and its records in memory."""


class NoBrokerError(KohortError):
    """There is no broker with this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """A broker of this process."""

    broker: str
    """Its number, for the paths of its verbs."""
    bootstrap: str
    """HOST:PORT for clients."""


@dataclass(slots=True)
class _Broker:
    settings: dict[str, object]
    server: RunningServer


class Brokers:
    """Starts and stops brokers. Any thread may call it."""

    def __init__(self) -> None:
        self._brokers: dict[str, _Broker] = {}
        self._numbers = count(1)
        self._one_at_a_time = Lock()

    def start_broker(self, settings: Mapping[str, object] | None = None) -> BrokerAddress:
        """Start a further broker, with settings by Kafka's names. It shares nothing with others.

        Raises KohortError.
        """
        with self._one_at_a_time:
            if len(self._brokers) >= MAX_BROKERS:
                raise KohortError(
                    f"there are {MAX_BROKERS} brokers: stop those that no test uses any more, or "
                    "reset one instead of starting another"
                )
            own = dict(settings or {})
            server = RunningServer(own, None)
            number = str(next(self._numbers))
            self._brokers[number] = _Broker(own, server)
            return _address(number, server)

    def server(self, broker: str) -> RunningServer:
        """The server of a broker. Raises NoBrokerError."""
        found = self._brokers.get(broker)
        if found is None:
            numbers = ", ".join(self._brokers) or "none"
            raise NoBrokerError(
                f"there is no broker {broker!r}, but: {numbers}. POST /brokers starts one"
            )
        return found.server

    def stop_broker(self, broker: str) -> None:
        """Stop a broker, and forget its records. Raises NoBrokerError."""
        with self._one_at_a_time:
            server = self.server(broker)
            del self._brokers[broker]
        server.close()

    def reset_broker(self, broker: str) -> BrokerAddress:
        """Replace a broker by a new one on the same port: no topic, group, fault or advanced time.

        Raises KohortError if its records are on disk.
        """
        with self._one_at_a_time:
            server = self.server(broker)
            replaced = self._brokers[broker]
            if replaced.settings.get("storage", "memory") != "memory":
                raise KohortError(
                    "a broker with records on disk is not reset: stop it, and start another one "
                    "with another log.dir"
                )
            listeners = server.call(lambda embedded: embedded.listeners)
            server.close()
            replaced.server = RunningServer({**replaced.settings, "listeners": listeners}, None)
            return _address(broker, replaced.server)

    def list_brokers(self) -> list[BrokerAddress]:
        """The brokers, the oldest first."""
        return [_address(number, each.server) for number, each in list(self._brokers.items())]

    def close(self) -> None:
        """Stop all brokers. Idempotent."""
        for number in list(self._brokers):
            self.stop_broker(number)


def _address(number: str, server: RunningServer) -> BrokerAddress:
    return BrokerAddress(broker=number, bootstrap=server.call(verbs.bootstrap))
