"""A running `EmbeddedServer` with its thread, for other threads."""

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kohort.testing.embedded.embedded_server import EmbeddedServer
from kohort.testing.embedded.loop_thread import LoopThread
from kohort.testing.embedded.timeline import Timeline

T = TypeVar("T")


class RunningServer:
    """Hands functions to the loop of a server, from its start to `close`."""

    def __init__(self, settings: Mapping[str, object], directory: Path | None) -> None:
        """Start a server. Raises KohortError, and then nothing stays open."""
        self._thread = LoopThread()
        self._thread.start()
        try:
            self._server = self._thread.run(self._open(settings, directory))
        except BaseException:
            self._thread.close()
            raise
        self.is_closed = False

    async def _open(self, settings: Mapping[str, object], directory: Path | None) -> EmbeddedServer:
        server = EmbeddedServer(settings, directory, self._thread.loop)
        await server.start()
        return server

    def close(self) -> None:
        """Stop the server and its thread. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            try:
                self._thread.run(self._stop())
            finally:
                self._thread.close()

    async def _stop(self) -> None:
        self._server.loop.resume()  # the end of a server waits for its clients
        await self._server.broker.close()

    @property
    def timeline(self) -> Timeline:
        """What happened on the server; it can be read after its end, too."""
        return self._server.timeline

    def call(self, function: Callable[[EmbeddedServer], T]) -> T:
        """The result of a function, called on the loop. Raises what it raises, KohortError."""
        return self._thread.call(lambda: function(self._server))

    def run(self, function: Callable[[EmbeddedServer], Coroutine[Any, Any, T]]) -> T:
        """The result of a coroutine function on the loop. Raises what it raises, KohortError."""
        return self._thread.run(function(self._server))
