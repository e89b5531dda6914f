"""A broker in another process, as a test calls its verbs."""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from kohort.errors import KohortError
from kohort.testing.control.brokers import Brokers
from kohort.testing.control.http_client import ControlClient
from kohort.testing.control.routes import route_of
from kohort.testing.embedded import verbs
from kohort.testing.embedded.embedded_server import EmbeddedServer

P = ParamSpec("P")
T = TypeVar("T")


class RemoteServer:
    """A `ControlledServer` behind a control API; verbs are requests to it."""

    def __init__(self, client: ControlClient, broker: str, *, stops: bool) -> None:
        """`broker` is its number; `stops`: `close` stops it."""
        self._client = client
        self.broker = broker
        self._stops = stops
        self._last_timeline = ""
        self.is_closed = False

    @classmethod
    def started(cls, client: ControlClient, settings: Mapping[str, object]) -> Self:
        """A further broker with these settings. Raises KohortError."""
        started = client.call(route_of(Brokers.start_broker), {"settings": dict(settings)})
        return cls(client, started.broker, stops=True)

    @classmethod
    def reset(cls, client: ControlClient, broker: str) -> Self:
        """A broker that exists, after a reset. Raises KohortError."""
        client.call(route_of(Brokers.reset_broker), {"broker": broker})
        return cls(client, broker, stops=False)

    def close(self) -> None:
        if not self.is_closed:
            self._last_timeline = self.timeline
            self.is_closed = True
            if self._stops:
                self._client.call(route_of(Brokers.stop_broker), {"broker": self.broker})

    @property
    def timeline(self) -> str:
        return self._last_timeline if self.is_closed else self.call(verbs.timeline)

    def call(
        self,
        verb: Callable[Concatenate[EmbeddedServer, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        result: T = self._request(verb, args, kwargs)
        return result

    def run(
        self,
        verb: Callable[Concatenate[EmbeddedServer, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        result: T = self._request(verb, args, kwargs)
        return result

    def _request(
        self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        if self.is_closed:
            raise KohortError("the embedded Kafka is closed")
        given = inspect.signature(verb).bind(self, *args, **kwargs).arguments
        _, *named = given.items()
        arguments: dict[str, Any] = {"broker": self.broker}
        for name, value in named:
            arguments |= value if name == "which" else {name: value}
        for name, value in arguments.items():
            if callable(value):
                raise KohortError(
                    f"{name}=: a function cannot be handed to another process: narrow the fault "
                    "by group= or client_id=, or use an EmbeddedKafka"
                )
        return self._client.call(route_of(verb), arguments)
