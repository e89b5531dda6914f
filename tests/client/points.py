"""Every point at which a program may be disturbed: each time that one of its tasks suspends."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

T = TypeVar("T")

_IS_WATCHED: Final = ContextVar("is_watched", default=False)


class Points:
    """Counts points, and calls `strike` at one of them."""

    def __init__(self, at: int, strike: Callable[[], object] = lambda: None) -> None:
        self.seen = 0
        self.strike = strike
        self._at = at

    def count(self) -> None:
        self.seen += 1
        if self.seen == self._at:
            self.strike()

    @property
    def is_struck(self) -> bool:
        return self.seen >= self._at


class Watch:
    """Has points counted of tasks that a watched block starts, also while a later one goes on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._points: Points | None = None
        loop.set_task_factory(self._task)

    @contextmanager
    def __call__(self, points: Points) -> Iterator[None]:
        """Watch what the block starts, from this task or thread."""
        self._points = points
        token = _IS_WATCHED.set(True)
        try:
            yield
        finally:
            _IS_WATCHED.reset(token)
            self._points = None

    async def counted(self, work: Awaitable[T]) -> T:
        """Await `work`, and count each time that it suspends."""
        return await _Suspensions(work, self)

    def count(self) -> None:
        """A task suspends."""
        if self._points is not None:
            self._points.count()

    def _task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        watched = self.counted(work) if _IS_WATCHED.get() else work
        return asyncio.Task(watched, loop=loop, **options)


class _Suspensions(Awaitable[T]):
    def __init__(self, work: Awaitable[T], watch: Watch) -> None:
        self._work, self._watch = work, watch

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                suspended = next(steps) if thrown is None else steps.throw(thrown)  # type: ignore[attr-defined]
            except StopIteration as end:
                result: T = end.value
                return result
            self._watch.count()
            thrown = None
            try:
                yield suspended
            except BaseException as error:
                thrown = error
