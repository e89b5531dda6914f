"""The time that the server works on a request, for clients with a quota of it (KIP-124)."""

import types
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any

from kohort.util.heavy_work import on_work


class RequestTime:
    """Time that the event loop, and the thread for heavy work, have worked on one request."""

    __slots__ = ("_begun", "_seconds")

    def __init__(self) -> None:
        self._seconds = 0.0
        self._begun = perf_counter()

    @property
    def seconds(self) -> float:
        """By now; it is asked for while the loop works on the request."""
        return self._seconds + (perf_counter() - self._begun if self._begun else 0.0)

    def pause(self) -> None:
        """The loop works on something else."""
        self._seconds, self._begun = self.seconds, 0.0

    def begin(
        self, begin: Callable[[], Coroutine[Any, Any, None] | None]
    ) -> Coroutine[Any, Any, None] | None:
        """Call `begin`, and count its time. Its result is for `rest`."""
        token = on_work.set(self._add)
        try:
            later = begin()
        finally:
            on_work.reset(token)
        self.pause()
        return later

    async def rest(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task of its own, and count its time."""
        on_work.set(self._add)
        await self._steps(work)

    def _add(self, seconds: float) -> None:
        self._seconds += seconds

    @types.coroutine
    def _steps(self, work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        failure: BaseException | None = None
        try:
            awaited: Any = None
            while True:
                self._begun = perf_counter()
                try:
                    awaited = work.send(None) if failure is None else work.throw(failure)
                except StopIteration:
                    return
                finally:
                    failure = None  # what `work` raises of it refers to this frame
                    self.pause()
                try:
                    failure = yield awaited
                except GeneratorExit:
                    raise
                except BaseException as error:  # a cancellation, for `work` to see
                    failure = error.with_traceback(None)  # which refers to this frame
                awaited = None  # a future: the traceback of its exception refers to this frame
        finally:
            work.close()
