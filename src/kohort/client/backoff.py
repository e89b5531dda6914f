"""Waiting between attempts (KIP-580), and attempts that end.

Nothing here retries for ever: `retrying` has a time limit, and what it raises then tells what was
tried.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kohort.client.errors import GaveUpError, is_retriable

T = TypeVar("T")

JITTER: Final = 0.2
"""Kafka's CommonClientConfigs.RETRY_BACKOFF_JITTER."""


class Backoff:
    """Delays that double from `initial_ms` up to `max_ms`, each ± 20 %, as KIP-580 has them."""

    __slots__ = ("_attempts", "_initial_ms", "_max_ms", "_random")

    def __init__(
        self,
        initial_ms: float,
        max_ms: float,
        uniform: Callable[[float, float], float] = random.uniform,
    ):
        self._initial_ms = initial_ms
        self._max_ms = max(max_ms, initial_ms)
        self._random = uniform
        self._attempts = 0

    @property
    def attempts(self) -> int:
        """Delays given since the last success."""
        return self._attempts

    def next_s(self) -> float:
        """Seconds to wait before the next attempt."""
        delay = min(self._initial_ms * 2.0 ** min(self._attempts, 60), self._max_ms)
        self._attempts += 1
        return self._random(1 - JITTER, 1 + JITTER) * delay / 1000

    def reset(self) -> None:
        """An attempt succeeded: the next delay is the first again."""
        self._attempts = 0


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    *,
    what: str,
    timeout_ms: float,
    backoff: Backoff,
    retriable: Callable[[BaseException], bool] = is_retriable,
    advice: str = "check that the brokers are up and can be reached from here",
) -> T:
    """What the first attempt that succeeds returns; between attempts, wait.

    An attempt that raises what is not `retriable` ends it with that error. Raises GaveUpError when
    `timeout_ms` are over, also in the middle of an attempt; its text has `what`, the errors of all
    attempts, and `advice`.
    """
    started = time.monotonic()
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    tried: Counter[str] = Counter()
    last: BaseException | None = None
    try:
        async with asyncio.timeout_at(deadline) as limit:
            while True:
                try:
                    return await attempt()
                except Exception as error:
                    if limit.expired() or not retriable(error):
                        raise
                    last = error
                    tried[described(error)] += 1
                await asyncio.sleep(backoff.next_s())
    except TimeoutError:
        if not limit.expired():
            raise
    raise gave_up(what, time.monotonic() - started, tried, last, advice)


def gave_up(
    what: str, seconds: float, tried: Counter[str], last: BaseException | None, advice: str
) -> GaveUpError:
    """The error that tells what was tried: how often, and what came of it."""
    if not tried:
        return GaveUpError(f"{what}: no answer within {seconds:.1f} s; {advice}", last)
    errors = "; ".join(
        f"{text} ({count} ×)" if count > 1 else text for text, count in tried.most_common(5)
    )
    return GaveUpError(
        f"{what}: gave up after {tried.total()} attempts in {seconds:.1f} s: {errors}; {advice}",
        last,
    )


def described(error: BaseException) -> str:
    """The error in one line, never empty."""
    return str(error) or type(error).__name__
