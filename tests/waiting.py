"""Waiting in tests until a condition holds, with what was awaited in the error."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 120.0
"""Seconds until a test gives up: more than a busy machine takes to start a server or to rebalance.
A test that succeeds waits for none of it.
"""
What = str | Callable[[], object] | None


async def until(
    condition: Callable[[], Any],
    what: What = None,
    *,
    seconds: float = PATIENCE_S,
    every_s: float = 0.01,
) -> Any:
    """Return the first true value of `condition`, which may be a coroutine function.

    Raises AssertionError after `seconds` of the loop's clock, with `what` was awaited: a text, a
    function that describes the state then, or None for the source of the condition.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not (value := await _value(condition)):
        assert loop.time() < deadline, _described(condition, what, seconds)
        await asyncio.sleep(every_s)
    return value


def wait_until(
    condition: Callable[[], Any],
    what: What = None,
    *,
    seconds: float = PATIENCE_S,
    every_s: float = 0.05,
) -> Any:
    """As `until`, for a thread without an event loop."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, _described(condition, what, seconds)
        time.sleep(every_s)
    return value


async def turns(count: int = 2) -> None:
    """Let the event loop turn `count` times, without waiting."""
    for _ in range(count):
        await asyncio.sleep(0)


async def _value(condition: Callable[[], Any]) -> Any:
    value = condition()
    return await value if isinstance(value, Awaitable) else value


def _described(condition: Callable[[], Any], what: What, seconds: float) -> str:
    if what is None:
        try:
            what = inspect.getsource(condition).strip()
        except (OSError, TypeError):  # a callable without source, as `event.is_set`
            what = repr(condition)
    return f"not within {seconds:g} s: {what() if callable(what) else what}"
