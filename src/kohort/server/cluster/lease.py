"""The lease of a node, by which no other node takes over its partitions."""

import asyncio
from typing import Final

from kohort.cluster import LEASE_MS, FencedError, HistoryLostError, SharedStorage
from kohort.errors import KohortError
from kohort.runtime.clock import Clock
from kohort.server.cluster.led_partitions import LedPartitions
from kohort.server.cluster.participation_errors import STORAGE_FAILURES, ParticipationErrors
from kohort.types import Instant

OWN_LEASE_MS: Final = LEASE_MS * 99 // 100
"""The lease as its node counts it: the rates of two clocks differ by less than that."""
_RENEW: Final = "renew its lease"


class Lease:
    """Session and lease of this node. Without them it leads nothing."""

    def __init__(
        self,
        storage: SharedStorage,
        partitions: LedPartitions,
        clock: Clock,
        errors: ParticipationErrors,
        *,
        claimed_at: Instant,
    ) -> None:
        """`claimed_at`: local time at which the session was requested."""
        self._storage = storage
        self._partitions = partitions
        self._clock = clock
        self._errors = errors
        self._renewed_at = claimed_at
        """Local time of the last successful request."""
        self._unresponsive_since: Instant | None = None
        self._ended = asyncio.Event()
        """Set when a request for the lease has ended, or all partitions were closed."""
        self.has_session = True
        self.sessions = 1
        """Number of sessions so far."""

    @property
    def is_held(self) -> bool:
        """Whether other nodes leave the partitions of this one alone."""
        return self.has_session and self._clock.now() < self._renewed_at + OWN_LEASE_MS

    @property
    def age_s(self) -> float:
        """Time since the lease was renewed."""
        return (self._clock.now() - self._renewed_at) / 1_000

    @property
    def unresponsive_s(self) -> float:
        """Time for which the storage has not responded; 0: it does."""
        return (
            0
            if self._unresponsive_since is None
            else (self._clock.now() - self._unresponsive_since) / 1_000
        )

    @property
    def may_serve(self) -> bool:
        """Whether no other node can have taken over partitions that this one leads.

        False for requests that arrive before a process that was suspended has renewed its lease.
        """
        return self.is_held or not self._partitions.led_epochs

    async def wait_until_may_serve(self) -> None:
        """Return when the lease is renewed, or nothing is led here."""
        while not self.may_serve:
            self._ended.clear()
            await self._ended.wait()

    async def renew(self) -> None:
        """Renew the lease, with a new session if the former one is over.

        Without a lease, lead nothing. Failures of the storage are logged. Raises HistoryLostError.
        """
        asked_at = self._clock.now()
        left_ms = self._renewed_at + OWN_LEASE_MS - asked_at
        try:
            async with asyncio.timeout((left_ms if left_ms > 0 else LEASE_MS) / 1_000):
                if self.has_session:
                    await self._storage.renew()
                else:
                    await self._storage.claim()
                    self.sessions += 1
            self.has_session = True
            self._renewed_at = asked_at
            self._unresponsive_since = None
            self._errors.clear(_RENEW)
        except HistoryLostError:
            raise  # the storage has lost records that this process has read
        except (KohortError, *STORAGE_FAILURES) as error:
            if isinstance(error, FencedError):
                self.has_session = False
            if not isinstance(error, KohortError) and self._unresponsive_since is None:
                self._unresponsive_since = asked_at
            self._errors.report(_RENEW, error)
        if not self.is_held:
            await self._partitions.resign_all()
        self._ended.set()

    async def give_up(self) -> None:
        """Close all partitions; requests that wait for the lease continue."""
        await self._partitions.resign_all()
        self._ended.set()
