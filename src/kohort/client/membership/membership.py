"""One member of a classic group, as a state machine without I/O: it is told what happened, and says
what to do.

    actions = membership.join(now)                       # -> Send(1, JoinGroup(...))
    actions = membership.answered(1, answer, now)        # -> Send(2, SyncGroup(...)), or Assign(...) for the leader
    actions = membership.answered(2, answer, now)        # -> Start(grant)
    ...                                                  # tick(now) at `deadline`: heartbeats, retries, expiry

Time is an argument, in ms of any monotonic clock; randomness is the generator that is given at the
start. So a test can run a thousand rebalances of a group in a second, against a coordinator that is
as pure as this (`kohort.coordinator`).

The rules, each of which some client gets wrong:

- The member id is kept whatever happens, but for UNKNOWN_MEMBER_ID: the broker has forgotten it
then. A member that
  forgets its id leaves a zombie behind which the group waits for.
- A generation ends *revoked* when the group rebalances (REBALANCE_IN_PROGRESS): the broker waits
for this member, which
  drains, and joins again. It ends *lost* when the broker goes on without the member (UNKNOWN_MEMBER_ID,
  ILLEGAL_GENERATION), or may do so by now: no heartbeat was answered for a session timeout.
- An error that passes (a broker that restarts, a coordinator that moves or loads) ends nothing:
heartbeats are tried
  again until the session is over, joins until `retry_timeout_ms` is.
- Nobody joins before what was revoked is drained: a partition has no two owners even for a moment.
- Cooperative members (KIP-429) join with what they own, and keep working; what the next assignment
does not have is
  drained then, and a further join lets others have it. Heartbeats go on meanwhile: 27 says that the group waits for
  them, and 25 that it does not.

What the member knows is in `membership_state`, the rules are beside it by what they are about.

Source: AbstractCoordinator and ConsumerCoordinator of Kafka's consumer; KIP-345, 394, 429, 559,
800, 814.
"""

from collections.abc import Mapping
from typing import TypeAlias, cast

from kohort.client.group_errors import GroupError
from kohort.client.membership.ending import fail, lose_membership, rebalance
from kohort.client.membership.events import (
    Action,
    CoordinatorResponse,
    End,
    JoinGroupResponse,
    PlainResponse,
    SyncGroupResponse,
)
from kohort.client.membership.heartbeats import (
    handle_heartbeat_response,
    heartbeat_failed,
    membership_refused,
    send_heartbeat,
)
from kohort.client.membership.joining import (
    handle_join_response,
    handle_sync_response,
    request_failed,
    send_join,
    send_sync,
)
from kohort.client.membership.leaving import (
    begin_leave,
    handle_leave_response,
    leave_failed,
    send_leave,
)
from kohort.client.membership.state import MembershipState, Phase
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

Actions: TypeAlias = tuple[Action, ...]

BLOCKED_MS = 1_000
"""From here on a late tick is worth telling."""


class Membership(MembershipState):
    """One member. Every method but the properties is an event, and returns the actions that it
    causes; its first argument is the time.
    """

    @property
    def deadline(self) -> int | None:
        """When `tick` is due, None if nothing is."""
        due = (self.session.beat_at, self.retry_at, self.expires_at)
        return min((at for at in due if at is not None), default=None)

    @property
    def is_leader(self) -> bool:
        return self.leads and self.phase is Phase.STABLE

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.LEFT

    # --- what the application wants ---

    def join(self, now: int, reason: str = "") -> Actions:
        """Be a member: at first, or again after `abort`."""
        if not self.wanted and self.leaving_because is None:
            self.wanted = True
            self.want_join(reason)
        return self._settled(now)

    def rejoin(self, now: int, reason: str) -> Actions:
        """Topics changed: rebalance, be it after the generation that is just being made."""
        if self.phase is Phase.STABLE and self.running and self.leaving_because is None:
            rebalance(self, reason, now)
        elif self.phase in (Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING):
            self.outdated_because = reason
        return self._settled(now)

    def lose(self, now: int, partitions: tuple[TopicPartition, ...], reason: str) -> Actions:
        """Partitions are gone, with what was committed for them: their topics were deleted or made
        anew.
        """
        gone = tuple(each for each in self.held if each in set(partitions))
        if gone and not self.draining:
            self.held = tuple(each for each in self.held if each not in set(gone))
            self.end(End.LOST, gone, 0, reason)
            rebalance(self, reason, now)
        return self._settled(now)

    def drained(self, now: int) -> Actions:
        """What the last `EndPartitions` named is drained and joined."""
        self.draining = False
        return self._settled(now)

    def abort(self, now: int, cause: str) -> Actions:
        """The application failed: cancel everything, and stay out until `join`."""
        if self.has_generation:
            self.end_all(End.CLOSED, 0, cause)
            self.wanted, self.rejoin_because = False, None
        return self._settled(now)

    def leave(self, now: int, reason: str, *, drain: bool = True) -> Actions:
        """Leave the group, first draining, or else losing everything at once; the last action is
        `Left`.
        """
        if self.leaving_because is None and not self.is_over:
            begin_leave(self, now, reason, drain=drain)
        return self._settled(now)

    def fenced(self, now: int, generation: int, code: ErrorCode) -> Actions:
        """A commit with `generation` was refused with `code`."""
        if generation == self.generation >= 0 and not self.is_over:
            membership_refused(self, code, now)
        return self._settled(now)

    # --- what the coordinator, the leader's assignor and the clock say ---

    def responded(self, now: int, number: int, response: CoordinatorResponse) -> Actions:
        """The answer to `Send(number, …)`."""
        if number == self.session.in_flight:
            self.session.in_flight = None
            handle_heartbeat_response(self, cast(PlainResponse, response).error, now)
        elif number == self.awaited:
            self.awaited = None
            if isinstance(response, JoinGroupResponse):
                handle_join_response(self, response, now)
            elif isinstance(response, SyncGroupResponse):
                handle_sync_response(self, response, now)
            else:
                handle_leave_response(self, response.error, now)
        return self._settled(now)

    def failed(self, now: int, number: int, error: str, *, sent: bool) -> Actions:
        """There is no answer to `Send(number, …)`. `sent`: the coordinator was there, but did not
        answer in time.
        """
        if number == self.session.in_flight:
            self.session.in_flight = None
            heartbeat_failed(self, error, now)
        elif number == self.awaited:
            self.awaited = None
            if self.phase is Phase.LEAVING:
                leave_failed(self, error, now)
            else:
                request_failed(self, error, now, sent=sent)
        return self._settled(now)

    def refused(self, now: int, error: GroupError) -> Actions:
        """Something that the membership needs cannot be had at all: the versions, the credentials,
        the assignment.
        """
        fail(self, error)
        return self._settled(now)

    def assigned(self, now: int, generation: int, assignments: Mapping[str, bytes]) -> Actions:
        """The leader's assignment by member id, for the `Assign` of that generation."""
        if self.phase is Phase.ASSIGNING and generation == self.generation:
            send_sync(self, tuple(assignments.items()), now)
        return self._settled(now)

    def tick(self, now: int) -> Actions:
        """Time passed: something may be due."""
        if self.expires_at is not None and self.expires_at <= now:
            lose_membership(self, self._why_expired(now - self.expires_at))
        if self.session.beat_at is not None and self.session.beat_at <= now:
            send_heartbeat(self, now)
        return self._settled(now)

    def _why_expired(self, late: int) -> str:
        config = self.config
        if self.session.waits_for_session:
            told = f"no heartbeat was answered for {config.session_timeout_ms} ms"
        else:
            told = (
                f"the group waits {config.rebalance_timeout_ms} ms for a member, and may "
                "have gone on without this one"
                " (rebalance_timeout_ms)"
            )
        blocked = f"; the event loop was blocked for {late} ms: do such work in asyncio.to_thread"
        return told + blocked * (late > BLOCKED_MS)

    def _settled(self, now: int) -> Actions:
        """All that the event causes: also the join or leave that waited for it."""
        if self.retry_at is not None and self.retry_at <= now:
            # Also where nothing waits for it any more: a deadline that stays past is never slept
            # to.
            self.retry_at = None
        if self.retry_at is not None or self.draining or self.phase in (Phase.LEFT, Phase.LEAVING):
            pass
        elif self.leaving_because is not None:
            send_leave(self, now)
        elif (
            self.rejoin_because is not None
            and self.awaited is None
            and self.phase in (Phase.OUT, Phase.STABLE)
        ):
            send_join(self, now)
        actions, self.actions = tuple(self.actions), []
        return actions
