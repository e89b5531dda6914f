"""Pauses between attempts (KIP-580), and retries with a time limit.

Nothing here retries for ever: `retrying` raises an error that lists the attempts. `Backoff.after`
counts and logs every attempt that is repeated (logger `kohort.client.retries`, DEBUG).
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kohort.client.errors import GaveUpError, is_retriable
from kohort.client.metrics import ReasonCounter, reason

T = TypeVar("T")

log: Final = logging.getLogger("kohort.client.retries")

CHECK_BROKERS: Final = "check that the brokers are up and can be reached from here"

JITTER: Final = 0.2
"""Kafka's CommonClientConfigs.RETRY_BACKOFF_JITTER."""


class Backoff:
    """Delays that double from `initial_ms` up to `max_ms`, each with jitter of 20 % (KIP-580)."""

    __slots__ = ("_attempts", "_initial_ms", "_max_ms", "_random", "_retries")

    def __init__(
        self,
        initial_ms: float,
        max_ms: float,
        uniform: Callable[[float, float], float] = random.uniform,
        *,
        retries: ReasonCounter | None = None,
    ):
        """`retries` counts the attempts that failed, for all backoffs of a client."""
        self._initial_ms = initial_ms
        self._max_ms = max(max_ms, initial_ms)
        self._random = uniform
        self._attempts = 0
        self._retries = ReasonCounter() if retries is None else retries

    @property
    def attempts(self) -> int:
        """Number of delays since the last success."""
        return self._attempts

    def next_s(self) -> float:
        """Seconds to wait before the next attempt."""
        delay = min(self._initial_ms * 2.0 ** min(self._attempts, 60), self._max_ms)
        self._attempts += 1
        return self._random(1 - JITTER, 1 + JITTER) * delay / 1000

    def after(self, error: BaseException, operation: str) -> float:
        """Count and log a failed attempt at `operation`; seconds to wait before the next one."""
        delay_s = self.next_s()
        self._retries.count(reason(error))
        log.debug(
            "%s: attempt %d failed: %s; next attempt in %d ms",
            operation,
            self._attempts,
            described(error),
            delay_s * 1000,
        )
        return delay_s

    def reset(self) -> None:
        """Begin with the first delay again, after a success."""
        self._attempts = 0


async def retrying(
    attempt: Callable[[], Awaitable[T]],
    *,
    operation: str,
    timeout_ms: float,
    backoff: Backoff,
    retriable: Callable[[BaseException], bool] = is_retriable,
    advice: str = CHECK_BROKERS,
) -> T:
    """Attempt until one succeeds, with pauses; returns its result.

    Errors that are not `retriable` are raised at once. Raises GaveUpError after `timeout_ms`, also
    during an attempt; its text has `operation`, the errors of all attempts, and `advice`.
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
                    last = error.with_traceback(None)  # which refers to this frame
                    tried[described(error)] += 1
                await asyncio.sleep(backoff.after(last, operation))
    except TimeoutError:
        if not limit.expired():
            raise
    raise gave_up(operation, time.monotonic() - started, tried, last, advice)


def gave_up(
    operation: str, seconds: float, tried: Counter[str], last: BaseException | None, advice: str
) -> GaveUpError:
    """The error that lists the attempts: how often, and with which errors."""
    if not tried:
        return GaveUpError(f"{operation}: no response within {seconds:.1f} s; {advice}", last)
    errors = "; ".join(
        f"{text} ({count} ×)" if count > 1 else text for text, count in tried.most_common(5)
    )
    return GaveUpError(
        f"{operation}: gave up after {tried.total()} attempts in {seconds:.1f} s: "
        f"{errors}; {advice}",
        last,
    )


def described(error: BaseException) -> str:
    """The error in one line, never empty."""
    return str(error) or type(error).__name__
