"""Throttling: clients wait because of their quotas (KIP-219).

A response goes out at once and says for how long its connection is not read. So a client that
ignores `throttle_time_ms` waits as well, and no other client waits for it.
"""

from typing import Protocol

from kohort.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, ClientQuotas, MutationQuota
from kohort.runtime.clock import Clock
from kohort.security import Peer


class ThrottledRequest(Protocol):
    """A request of a client that may have to wait after the response."""

    client_id: str
    size: int

    @property
    def peer(self) -> Peer: ...

    def throttle(self, wait_ms: int) -> None:
        """Let the client wait at least so long."""
        ...


class Throttling:
    """The quotas of clients as handlers and connections apply them."""

    def __init__(self, quotas: ClientQuotas, clock: Clock) -> None:
        self._quotas = quotas
        self.table = quotas.table
        self._clock = clock

    def produced(self, request: ThrottledRequest) -> None:
        """Count a Produce request for its client."""
        if self.table.has(PRODUCER_BYTE_RATE):
            wait = self._quotas.throttle_ms(
                PRODUCER_BYTE_RATE, *_client(request), request.size, self._clock.now()
            )
            request.throttle(wait)

    def fetch_limit(self, request: ThrottledRequest) -> float | None:
        """Bytes that a Fetch response may have, None without a quota."""
        if not self.table.has(CONSUMER_BYTE_RATE):
            return None
        return self._quotas.largest_fetch(*_client(request))

    def admits_fetch(self, request: ThrottledRequest, size: int) -> bool:
        """Whether the client gets so many bytes now; if not, they do not count, and it waits."""
        if not self.table.has(CONSUMER_BYTE_RATE):
            return True
        client, now = _client(request), self._clock.now()
        wait = self._quotas.throttle_ms(CONSUMER_BYTE_RATE, *client, size, now)
        if wait:
            self._quotas.refund(CONSUMER_BYTE_RATE, *client, size, now)
            request.throttle(wait)
        return not wait

    def worked(self, request: ThrottledRequest, seconds: float) -> None:
        """Count the time that the event loop worked on a request for its client."""
        now = self._clock.now()
        request.throttle(self._quotas.request_throttle_ms(*_client(request), seconds, now))

    def mutations(self, request: ThrottledRequest, *, strict: bool) -> "Mutations":
        """The partitions that a request may create and delete.

        `strict`: its version knows THROTTLING_QUOTA_EXCEEDED.
        """
        quota = self._quotas.mutations(*_client(request), strict=strict)
        return Mutations(quota, request, self._clock)


class Mutations:
    """The partitions that one request creates and deletes."""

    def __init__(
        self, quota: MutationQuota | None, request: ThrottledRequest, clock: Clock
    ) -> None:
        self._quota = quota
        self._request = request
        self._clock = clock

    def admits(self, partitions: int) -> bool:
        """Whether the client may create or delete so many now; it waits if it may not."""
        if self._quota is None:
            return True
        now = self._clock.now()
        is_admitted = self._quota.admits(partitions, now)
        self._request.throttle(self._quota.throttle_ms(now))
        return is_admitted


def _client(request: ThrottledRequest) -> tuple[str, str]:
    return request.peer.principal.name, request.client_id
