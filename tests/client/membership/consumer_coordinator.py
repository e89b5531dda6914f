"""The coordinator of the consumer protocol as one member sees it: a model of KIP-848's rules.

The test moves partitions between the member and others (`retarget`). It knows when the member would
be removed, and which partitions it has taken back: `others`.
"""

from kohort.client.membership.events import ConsumerGroupHeartbeatResponse
from kohort.errors import ErrorCode

SESSION_MS = 45_000


class ModelCoordinator:
    def __init__(self, *, partitions, rebalance_timeout_ms, interval_ms):
        self.partitions = frozenset(partitions)
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.interval_ms = interval_ms
        self.target = frozenset()
        self.target_epoch = 2
        self.exists = False
        self.epoch = self.previous = 0
        self.assigned = self.pending = frozenset()
        self.heard_at = self.revoked_at = None

    @property
    def others(self):
        """What the coordinator may have given to other members."""
        return self.partitions - self.assigned - self.pending

    def retarget(self, target):
        self.target, self.target_epoch = frozenset(target), self.target_epoch + 1

    def remove(self):
        self.exists = False
        self.assigned = self.pending = frozenset()
        self.heard_at = self.revoked_at = None

    def advance(self, now):
        """Remove the member if its session or its revocation took too long."""
        if not self.exists:
            return
        session_ended = now >= self.heard_at + SESSION_MS
        revoked_at = self.revoked_at
        if session_ended or (revoked_at and now >= revoked_at + self.rebalance_timeout_ms):
            self.remove()

    def heartbeat(self, request, now):
        if request.epoch in (-1, -2):
            if not self.exists:
                return ConsumerGroupHeartbeatResponse(error=ErrorCode.unknown_member_id)
            self.remove()
            return ConsumerGroupHeartbeatResponse(epoch=request.epoch)
        if refused := self._refused(request):
            return ConsumerGroupHeartbeatResponse(error=refused)
        if request.epoch == 0 and not self.exists:
            self.exists, self.epoch, self.previous = True, 0, 0
        self.heard_at = now
        before = self.assigned
        self._reconcile(request, now)
        is_full = (
            request.rebalance_timeout_ms != -1
            and request.topics is not None
            and request.owned is not None
        )
        told = request.epoch == 0 or is_full or self.assigned != before
        return ConsumerGroupHeartbeatResponse(
            epoch=self.epoch,
            interval_ms=self.interval_ms,
            assignment=self.assigned if told else None,
        )

    def _refused(self, request):
        if request.epoch == 0:
            return None
        if not self.exists:
            return ErrorCode.unknown_member_id
        owns_less = request.owned is not None and request.owned <= self.assigned
        if request.epoch > self.epoch or (
            request.epoch < self.epoch and not (request.epoch == self.previous and owns_less)
        ):
            return ErrorCode.fenced_member_epoch
        return None

    def _reconcile(self, request, now):
        if self.pending:
            if request.owned is None or request.owned & self.pending:
                return
            self.pending, self.revoked_at = frozenset(), None
            self._advance_to_target(request, now)
        elif self.epoch != self.target_epoch:
            self._advance_to_target(request, now)

    def _advance_to_target(self, request, now):
        lost = self.assigned - self.target
        if lost and (request.owned is None or request.owned & lost):
            self.assigned, self.pending = self.assigned - lost, lost
            self.revoked_at = now
        else:
            self.previous, self.epoch = self.epoch, self.target_epoch
            self.assigned = self.target
