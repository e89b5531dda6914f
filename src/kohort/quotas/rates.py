"""Use of a quota: a rate over sliding windows, and a bucket of tokens.

Both measure as Kafka does, because clients would notice a difference: a quota of 1,000 bytes/s
admits 10,000 bytes at once, and then none for a time.

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
    """Period over which rates are measured: `quota.window.num` windows of `quota.window.size`."""

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
        """Add a value; a negative value undoes an earlier one."""
        self._forget(now)
        if not self._samples or now - self._samples[-1].begun >= self._windows.size_ms:
            self._samples.append(_Sample(now, now))
        sample = self._samples[-1]
        sample.total += value
        sample.last = now

    def throttle_ms(self, bound: float, now: Instant) -> int:
        """Time in ms until the rate falls to `bound` per second; 0 if it does not exceed it."""
        self._forget(now)
        measured_ms = self._measured_ms(now)
        rate = sum(sample.total for sample in self._samples) / measured_ms * _MS_PER_S
        return _milliseconds((rate - bound) / bound * measured_ms) if rate > bound else 0

    def is_idle(self, now: Instant) -> bool:
        """Whether all recorded values are too old to count."""
        self._forget(now)
        return not self._samples

    def _forget(self, now: Instant) -> None:
        expired = now - self._windows.number * self._windows.size_ms
        while self._samples and self._samples[0].last <= expired:
            self._samples.popleft()

    def _measured_ms(self, now: Instant) -> int:
        # A short history counts as if all windows but the last had passed, so that the first
        # requests of a client are no burst.
        size_ms = self._windows.size_ms
        elapsed = now - self._samples[0].begun if self._samples else 0
        missing = self._windows.number - 1 - elapsed // size_ms
        return max(elapsed + max(missing, 0) * size_ms, 1)


class TokenBucket:
    """Tokens that are added at a rate and spent in bursts; their number may be negative."""

    __slots__ = ("_refilled_at", "_tokens", "_windows", "bound")

    def __init__(self, windows: Windows, bound: float, now: Instant) -> None:
        self._windows = windows
        self.bound = bound
        """The last used rate."""
        self._refilled_at = now
        self._tokens = self._burst(bound)

    def spend(self, tokens: float, bound: float, now: Instant) -> None:
        """Spend tokens; their number may become negative."""
        self._refill(bound, now)
        self._tokens -= tokens

    def throttle_ms(self, bound: float, now: Instant) -> int:
        """Time in ms until the number of tokens is not negative, at `bound` tokens per second."""
        self._refill(bound, now)
        return _milliseconds(-self._tokens / bound * _MS_PER_S) if self._tokens < 0 else 0

    def is_idle(self, now: Instant) -> bool:
        """Whether the bucket is full."""
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
    """A wait rounded as in Java; with a bound near zero it may be infinite."""
    return round(min(wait, _MAX_MS))
