"""An event loop whose time passes at once: where it would wait for its next timer, its clock jumps
there. It stands still while a thread works for the loop, however long that takes.
"""

import asyncio
import functools
import selectors

from kohort.types import Instant, Timestamp


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self.seconds = 0.0
        self.in_threads = 0
        """Calls that threads work on."""
        super().__init__(_JumpingSelector(self))

    def time(self):
        return self.seconds

    def run_in_executor(self, executor, func, *args):
        future = super().run_in_executor(executor, func, *args)
        self.in_threads += 1
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, *limit):
        """Its limit is 300 s from Python 3.12 on, which would pass at once."""
        self.in_threads += 1
        await super().shutdown_default_executor(*limit)
        self.in_threads -= 1

    def _thread_done(self, _):
        self.in_threads -= 1


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        if timeout is None or (timeout > 0 and self._loop.in_threads):
            return super().select(None)  # the thread's end is an event
        events = super().select(0)
        if not events:
            self._loop.seconds += timeout
        return events


class LoopClock:
    """The loop's time as the runtime's clock."""

    ahead_ms = 0
    """How far the wall clock was set ahead."""

    def now(self):
        return Instant(1_700_000_000_000 + round(asyncio.get_running_loop().time() * 1_000))

    def timestamp(self):
        return Timestamp(self.now() + self.ahead_ms)


def virtual_time(test):
    """Run an `async def` test in a loop of its own, in which sleeping takes no time."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
