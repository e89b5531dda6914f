"""Use of a quota: a rate over sliding windows, and a bucket of tokens.

Both measure as Kafka does, whose clients see the difference: a quota of 1,000 bytes/s lets 10,000
bytes pass at once, and then nothing for a time.

Source: SampledStat, Rate and TokenBucket of Kafka's `common.metrics.stats`; QuotaUtils.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from kohort.types import Instant

_MS_PER_S: Final = 1000
_MAX_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Windows:
    """Over what time rates are measured: `quota.window.num` windows of `quota.window.size`."""

    number: int = 11
    size_ms: int = 1000


@dataclass(slots=True)
class _Sample:
    begun: Instant
    last: Instant
    total: float = 0.0


class Rate:
    """Values per second over the last windows."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now: Instant) -> None:
        """Add a value; a negative one takes back what was added before."""
        self._forget(now)
        if not self._samples or now - self._samples[-1].begun >= self._windows.size_ms:
            self._samples.append(_Sample(now, now))
        sample = self._samples[-1]
        sample.total += value
        sample.last = now

    def throttle_ms(self, bound: float, now: Instant) -> int:
        """Time after which the rate is `bound` per second again, 0 if it is not more."""
        self._forget(now)
        measured_ms = self._measured_ms(now)
        rate = sum(sample.total for sample in self._samples) / measured_ms * _MS_PER_S
        return _milliseconds((rate - bound) / bound * measured_ms) if rate > bound else 0

    def is_idle(self, now: Instant) -> bool:
        """Whether all that was recorded is too long ago to count."""
        self._forget(now)
        return not self._samples

    def _forget(self, now: Instant) -> None:
        expired = now - self._windows.number * self._windows.size_ms
        while self._samples and self._samples[0].last <= expired:
            self._samples.popleft()

    def _measured_ms(self, now: Instant) -> int:
        # A short history counts as if all windows but the last were over: the first requests of a
        # client are no burst.
        size_ms = self._windows.size_ms
        elapsed = now - self._samples[0].begun if self._samples else 0
        missing = self._windows.number - 1 - elapsed // size_ms
        return max(elapsed + max(missing, 0) * size_ms, 1)


class TokenBucket:
    """Tokens that come at a rate and are spent in bursts; it may owe tokens."""

    __slots__ = ("_refilled_at", "_tokens", "_windows", "bound")

    def __init__(self, windows: Windows, bound: float, now: Instant) -> None:
        self._windows = windows
        self.bound = bound
        """The rate, as it was used last."""
        self._refilled_at = now
        self._tokens = self._burst(bound)

    def spend(self, tokens: float, bound: float, now: Instant) -> None:
        """Spend tokens, whether they are there or not."""
        self._refill(bound, now)
        self._tokens -= tokens

    def throttle_ms(self, bound: float, now: Instant) -> int:
        """Time until no tokens are owed, which come at `bound` per second."""
        self._refill(bound, now)
        return _milliseconds(-self._tokens / bound * _MS_PER_S) if self._tokens < 0 else 0

    def is_idle(self, now: Instant) -> bool:
        """Whether it is full."""
        self._refill(self.bound, now)
        return self._tokens >= self._burst(self.bound)

    def _refill(self, bound: float, now: Instant) -> None:
        refill = (now - self._refilled_at) * bound / _MS_PER_S
        self._tokens = min(self._burst(bound), self._tokens + refill)
        self.bound = bound
        self._refilled_at = now

    def _burst(self, bound: float) -> float:
        return self._windows.number * self._windows.size_ms * bound / _MS_PER_S


def _milliseconds(wait: float) -> int:
    """Rounded as in Java: a bound of nearly nothing makes a wait without end."""
    return round(min(wait, _MAX_MS))
