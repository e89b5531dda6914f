"""Replays a recording on an embedded server, in whose time it happens.

The server's time stands still, and is advanced by the time between two events of the recording. So
a replay takes no longer than the server's work, and sessions expire as in the recording.

A join phase without a delay ends in the first millisecond without a request. Which one that is
depends on the machine. So time does not pass while a JoinGroup has no response, unless the response
is next, or the recording is ahead by more than such a phase lasts.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from kohort.client.config import ClientConfig
from kohort.recording import Pace, ReplayResult, replay
from kohort.testing.embedded import verbs
from kohort.testing.embedded.running_server import ControlledServer

_NUDGE_S: Final = 0.025
_JOIN_PHASE_S: Final = 0.025
"""More than the longest time for which the end of a join phase without a delay is deferred."""
_LEAD_S: Final = 0.005
"""Time by which a server may be later to do what is due than the recorded one."""
_DELIVERY_TIMEOUT_S: Final = 1.0


def replay_on(server: ControlledServer, path: Path | str) -> ReplayResult:
    """Replay a recording, in a thread of its own.

    Raises RecordingError, BrokerUnreachableError.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _replayed(server, path)).result()


async def _replayed(server: ControlledServer, path: Path | str) -> ReplayResult:
    was_frozen = server.call(verbs.is_frozen)
    server.call(verbs.freeze, creeps=False)
    try:
        config = ClientConfig(bootstrap=server.call(verbs.bootstrap))
        return await replay(path, config, _ServerPace(server))
    finally:
        server.call(verbs.freeze if was_frozen else verbs.resume)


class _ServerPace(Pace):
    """The time of the server, which passes in another thread: connections are served meanwhile."""

    def __init__(self, server: ControlledServer) -> None:
        self._server = server
        self._started = server.call(verbs.time)

    async def wait_until(self, at: float, *, is_joining: bool = False) -> None:
        remaining = self._started + at - self._server.call(verbs.time)
        if remaining > (_JOIN_PHASE_S if is_joining else 0):
            # What was due before the event in the recording has to be done before it again.
            lead = _LEAD_S if remaining > _JOIN_PHASE_S else 0
            await asyncio.to_thread(self._server.run, verbs.pass_time, remaining + lead)

    async def advance(self, seconds: float) -> None:
        await asyncio.to_thread(self._server.run, verbs.advance, seconds)

    async def nudge(self) -> None:
        before = self._server.call(verbs.time)
        await asyncio.to_thread(self._server.run, verbs.pass_time, _NUDGE_S, True)
        # What follows keeps its distance in time to the response.
        self._started += self._server.call(verbs.time) - before

    @asynccontextmanager
    async def delivery(self) -> AsyncIterator[None]:
        begun = self._server.call(verbs.request_count)
        yield
        deadline = time.monotonic() + _DELIVERY_TIMEOUT_S
        while self._server.call(verbs.request_count) == begun:
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0)
