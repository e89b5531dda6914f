"""A running `EmbeddedServer`, as a test calls its verbs."""

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kohort.testing.embedded.embedded_server import EmbeddedServer
from kohort.testing.embedded.loop_thread import WAIT_TIMEOUT_S, LoopThread

P = ParamSpec("P")
T = TypeVar("T")


class ControlledServer(Protocol):
    """A server in a thread of this process, or in another process."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def timeline(self) -> str:
        """The latest events, which can be read after its end, too."""
        ...

    def close(self) -> None:
        """Stop the server. Idempotent."""
        ...

    def call(
        self,
        verb: Callable[Concatenate[EmbeddedServer, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of a verb that does not wait. Raises what it raises, KohortError."""
        ...

    def run(
        self,
        verb: Callable[Concatenate[EmbeddedServer, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of a verb that waits. Raises what it raises, KohortError."""
        ...


class RunningServer:
    """A server in a thread of this process.

    Verbs are called on its loop, one after the other with a restart.
    """

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
                self._thread.run(self._server.stop())
            finally:
                self._thread.close()

    @property
    def timeline(self) -> str:
        return str(self._server.timeline)

    def call(
        self,
        verb: Callable[Concatenate[EmbeddedServer, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async def work() -> T:
            await self._server.serving()
            return verb(self._server, *args, **kwargs)

        return self._thread.run(work())

    def run(
        self,
        verb: Callable[Concatenate[EmbeddedServer, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async def work() -> T:
            await self._server.serving()
            return await verb(self._server, *args, **kwargs)

        return self._thread.run(work(), WAIT_TIMEOUT_S)
