"""Counters of one group member: requests to the coordinator, and rebalances."""

from collections.abc import Mapping
from typing import Any, Final

from kohort.client.membership import (
    ConsumerGroupHeartbeat,
    CoordinatorResponse,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Request,
    SyncGroup,
)
from kohort.client.metrics import DurationCounter, RequestCounter, reason
from kohort.errors import ErrorCode

EXPECTED: Final[Mapping[type[Any], frozenset[ErrorCode]]] = {
    JoinGroup: frozenset({ErrorCode.none, ErrorCode.member_id_required}),
    SyncGroup: frozenset({ErrorCode.none, ErrorCode.rebalance_in_progress}),
    Heartbeat: frozenset({ErrorCode.none, ErrorCode.rebalance_in_progress}),
    LeaveGroup: frozenset({ErrorCode.none}),
    ConsumerGroupHeartbeat: frozenset({ErrorCode.none}),
}
"""Error codes that are part of joining and rebalancing, by request."""


class GroupCounters:
    """Counters of one member. Times are in seconds of the loop's clock."""

    def __init__(self) -> None:
        self.requests: Final = {kind: RequestCounter() for kind in EXPECTED}
        self.rebalances = DurationCounter()
        self.lost = 0
        self.heartbeat_at: float | None = None
        """When the last response to a heartbeat arrived."""
        self._rebalancing_since: float | None = None

    def responded(
        self, request: Request, response: CoordinatorResponse, sent: float, now: float
    ) -> None:
        """The response to a request that was sent at `sent` arrived."""
        counter = self.requests[type(request)]
        counter.latency.observe(now - sent)
        if response.error not in EXPECTED[type(request)]:
            counter.failures.count(response.error.name.upper())
        if isinstance(request, Heartbeat | ConsumerGroupHeartbeat):
            self.heartbeat_at = now

    def failed(self, request: Request, error: BaseException) -> None:
        """There is no response."""
        self.requests[type(request)].failures.count(reason(error))

    def rebalance_began(self, now: float) -> None:
        """The member gives up partitions, or joins; only the first counts until it is assigned."""
        if self._rebalancing_since is None:
            self._rebalancing_since = now

    def assigned(self, now: float) -> None:
        """The member has its assignment."""
        if self._rebalancing_since is not None:
            self.rebalances.observe(now - self._rebalancing_since)
            self._rebalancing_since = None
