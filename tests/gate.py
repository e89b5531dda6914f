"""Points at which a test holds up a thread."""

import asyncio
import threading
from typing import Any

_PATIENCE_S = 60


class Gate:
    """Holds up the threads that come to it until it is opened. To be made in the event loop."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._reached = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def is_reached(self) -> bool:
        """Whether a thread has come to the gate."""
        return self._reached.is_set()

    def wait(self) -> None:
        """Return, in a thread, when the gate is open."""
        self._loop.call_soon_threadsafe(self._reached.set)
        assert self._is_open.wait(_PATIENCE_S)

    async def reached(self) -> None:
        """Return when a thread has come to the gate."""
        await asyncio.wait_for(self._reached.wait(), _PATIENCE_S)

    def open(self) -> None:
        self._is_open.set()


class SlowCall(Gate):
    """A function of a module or class that waits at this gate, in its thread, before it runs."""

    def __init__(self, monkeypatch: Any, owner: object, name: str) -> None:
        super().__init__()
        really = getattr(owner, name)

        # A function, which is a method if `owner` is a class.
        def call(*arguments: Any) -> Any:
            self.wait()
            return really(*arguments)

        monkeypatch.setattr(owner, name, call)
