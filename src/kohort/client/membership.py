"""One member of a classic group, as a state machine without I/O: it is told what happened, and says what to do.

    actions = membership.join(now)                       # -> Send(1, JoinGroup(...))
    actions = membership.answered(1, answer, now)        # -> Send(2, SyncGroup(...)), or Assign(...) for the leader
    actions = membership.answered(2, answer, now)        # -> Start(grant)
    ...                                                  # tick(now) at `deadline`: heartbeats, retries, expiry

Time is an argument, in ms of any monotonic clock; randomness is the generator that is given at the start. So a test can
run a thousand rebalances of a group in a second, against a coordinator that is as pure as this (`kohort.coordinator`).

The rules, each of which some client gets wrong:

- The member id is kept whatever happens, but for UNKNOWN_MEMBER_ID: the broker has forgotten it then. A member that
  forgets its id leaves a zombie behind which the group waits for.
- A generation ends *revoked* when the group rebalances (REBALANCE_IN_PROGRESS): the broker waits for this member, which
  drains, and joins again. It ends *lost* when the broker goes on without the member (UNKNOWN_MEMBER_ID,
  ILLEGAL_GENERATION), or may do so by now: no heartbeat was answered for a session timeout.
- An error that passes (a broker that restarts, a coordinator that moves or loads) ends nothing: heartbeats are tried
  again until the session is over, joins until `retry_timeout_ms` is.
- Nobody joins before what was revoked is drained: a partition has no two owners even for a moment.
- Cooperative members (KIP-429) join with what they own, and keep working; what the next assignment does not have is
  drained then, and a further join lets others have it. Heartbeats go on meanwhile: 27 says that the group waits for
  them, and 25 that it does not.

Source: AbstractCoordinator and ConsumerCoordinator of Kafka's consumer; KIP-345, 394, 429, 559, 800, 814.
"""

from collections.abc import Mapping
from enum import Enum
from random import Random
from typing import Final, Protocol, TypeAlias, cast

from kohort.client.group_config import GroupConfig
from kohort.client.group_errors import (
    CoordinatorUnavailableError,
    GroupError,
    advice,
    fatal,
    moves_coordinator,
)
from kohort.client.membership_events import (
    Abandon,
    Action,
    Answer,
    Assign,
    End,
    EndPartitions,
    ForgetCoordinator,
    Grant,
    Heartbeat,
    JoinAnswer,
    JoinedMember,
    JoinGroup,
    LeaveGroup,
    Left,
    PlainAnswer,
    Raise,
    Request,
    Send,
    Start,
    SyncAnswer,
    SyncGroup,
    Tell,
)
from kohort.client.session import Session, Tries, backoff_ms
from kohort.errors import ErrorCode
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import Assignment, decode_assignment
from kohort.types import TopicPartition

Actions: TypeAlias = tuple[Action, ...]

LEAVE_WITHIN_MS: Final = 5_000
"""How long leaving may take: the session timeout does the same a little later."""


class Phase(Enum):
    """Where the member stands. What it still holds, and drains, is beside that."""

    OUT = "out"
    """It waits: for the application, for what drains, or for a pause to end."""
    JOINING = "joining"
    ASSIGNING = "assigning"
    """It leads, and the application computes the assignment."""
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"
    LEFT = "left"


class Subscriber(Protocol):
    """Writes what the member says of itself."""

    def protocols(self, owned: tuple[TopicPartition, ...], generation: int) -> tuple[tuple[str, bytes], ...]:
        """(assignor's name, subscription) for a join with `owned`, got in `generation`; pure."""
        ...


class Membership:
    """The state of one member. Every method but the properties is an event, and returns the actions that it causes; its
    first argument is the time."""

    def __init__(
        self,
        config: GroupConfig,
        subscriber: Subscriber,
        *,
        cooperative: bool,
        request_timeout_ms: int,
        random: Random,
    ) -> None:
        self.config = config
        self.phase = Phase.OUT
        self.member_id = ""
        self.generation = -1
        """For heartbeats and commits; -1 while there is none."""
        self.held: tuple[TopicPartition, ...] = ()
        """What the application may work on, without what drains."""
        self.draining = False
        self.session = Session(interval_ms=config.heartbeat_interval_ms, timeout_ms=config.session_timeout_ms)
        self._cooperative = cooperative
        self._subscriber = subscriber
        self._request_timeout_ms = request_timeout_ms
        self._random = random
        self._actions: list[Action] = []
        self._running = False
        """The application has a generation, be it one without partitions."""
        self._protocol = ""
        self._is_leader = False
        self._members: tuple[JoinedMember, ...] = ()
        self._wanted = False
        """Whether the application wants to be a member."""
        self._rejoin: str | None = None
        """Why to join as soon as nothing drains; None: there is no need."""
        self._outdated: str | None = None
        """Why to join again as soon as the generation that is being made is there."""
        self._leaving: str | None = None
        self._numbers = 0
        self._awaited: int | None = None
        """The JoinGroup, SyncGroup or LeaveGroup in flight."""
        self._tries = Tries()
        self._retry_at: int | None = None
        self._leave_until = 0

    def __repr__(self) -> str:
        draining = " draining" if self.draining else ""
        return (
            f"<Membership {self.config.group_id} {self.phase.value}{draining} gen={self.generation} "
            f"member={self.member_id!r} held={len(self.held)}>"
        )

    @property
    def deadline(self) -> int | None:
        """When `tick` is due, None if nothing is."""
        due = (self.session.beat_at, self._retry_at, self._expires_at)
        return min((at for at in due if at is not None), default=None)

    @property
    def is_leader(self) -> bool:
        return self._is_leader and self.phase is Phase.STABLE

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.LEFT

    # --- what the application wants ---

    def join(self, now: int, reason: str = "") -> Actions:
        """Be a member: at first, or again after `abort`."""
        if not self._wanted and self._leaving is None:
            self._wanted = True
            self._want_join(reason)
        return self._settled(now)

    def rejoin(self, now: int, reason: str) -> Actions:
        """Topics changed: rebalance, be it after the generation that is just being made."""
        if self.phase is Phase.STABLE and self._running and self._leaving is None:
            self._rebalance(reason)
        elif self.phase in (Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING):
            self._outdated = reason
        return self._settled(now)

    def lose(self, now: int, partitions: tuple[TopicPartition, ...], reason: str) -> Actions:
        """Partitions are gone, with what was committed for them: their topics were deleted or made anew."""
        gone = tuple(each for each in self.held if each in set(partitions))
        if gone and not self.draining:
            self.held = tuple(each for each in self.held if each not in set(gone))
            self._end(End.LOST, gone, 0, reason)
            self._rebalance(reason)
        return self._settled(now)

    def drained(self, now: int) -> Actions:
        """What the last `EndPartitions` named is drained and joined."""
        self.draining = False
        return self._settled(now)

    def abort(self, now: int, cause: str) -> Actions:
        """The application failed: cancel everything, and stay out until `join`."""
        if self._running or self.held:
            self._end_all(End.CLOSED, 0, cause)
            self._wanted, self._rejoin = False, None
        return self._settled(now)

    def leave(self, now: int, reason: str, *, drain: bool = True) -> Actions:
        """Leave the group, first draining, or else losing everything at once; the last action is `Left`."""
        if self._leaving is None and not self.is_over:
            self._leaving = reason
            self._rejoin = self._retry_at = None
            self._leave_until = now + self.config.drain_ms + LEAVE_WITHIN_MS
            if self._running or self.held:
                self._end_all(End.CLOSED if drain else End.LOST, self.config.drain_ms if drain else 0, reason)
            self.draining = self.draining and drain
        return self._settled(now)

    def fenced(self, now: int, generation: int, code: ErrorCode) -> Actions:
        """A commit with `generation` was refused with `code`."""
        if generation == self.generation >= 0 and self.phase is not Phase.LEFT:
            self._refused(code)
        return self._settled(now)

    # --- what the coordinator, the leader's assignor and the clock say ---

    def answered(self, now: int, number: int, answer: Answer) -> Actions:
        """The answer to `Send(number, …)`."""
        if number == self.session.in_flight:
            self.session.in_flight = None
            self._heartbeat_answered(cast(PlainAnswer, answer).error, now)
        elif number == self._awaited:
            self._awaited = None
            if isinstance(answer, JoinAnswer):
                self._join_answered(answer, now)
            elif isinstance(answer, SyncAnswer):
                self._sync_answered(answer, now)
            else:
                self._leave_answered(answer.error, now)
        return self._settled(now)

    def failed(self, now: int, number: int, error: str, *, sent: bool) -> Actions:
        """There is no answer to `Send(number, …)`. `sent`: the coordinator was there, but did not answer in time."""
        if number == self.session.in_flight:
            self.session.in_flight = None
            self._heartbeat_failed(error, now)
        elif number == self._awaited:
            self._awaited = None
            self._request_failed(error, now, sent=sent)
        return self._settled(now)

    def refused(self, now: int, error: GroupError) -> Actions:
        """Something that the membership needs cannot be had at all: the versions, the credentials, the assignment."""
        self._fail(error)
        return self._settled(now)

    def assigned(self, now: int, generation: int, assignments: Mapping[str, bytes]) -> Actions:
        """The leader's assignment by member id, for the `Assign` of that generation."""
        if self.phase is Phase.ASSIGNING and generation == self.generation:
            self._sync(tuple(assignments.items()))
        return self._settled(now)

    def tick(self, now: int) -> Actions:
        """Time passed: something may be due."""
        if self._expires_at is not None and self._expires_at <= now:
            late = now - self._expires_at
            blocked = f"; the event loop was blocked for {late} ms: do such work in asyncio.to_thread" * (late > 1_000)
            self._lose_membership(f"no heartbeat was answered for {self.config.session_timeout_ms} ms{blocked}")
        if self.session.beat_at is not None and self.session.beat_at <= now:
            self._send_heartbeat(now)
        return self._settled(now)

    # --- joining ---

    def _want_join(self, reason: str) -> None:
        """Join as soon as nothing drains, and no request is in flight."""
        if self._wanted and self._leaving is None:
            self._rejoin, self._retry_at = reason, None

    def _send_join(self) -> None:
        self.phase = Phase.JOINING
        reason, self._rejoin, self._outdated = self._rejoin or "", None, None
        owned, generation = (self.held, self.generation) if self.held else ((), -1)
        if not self.held:
            self.session.pause()
        request = JoinGroup(
            member_id=self.member_id, protocols=self._subscriber.protocols(owned, generation), reason=reason
        )
        if not self.member_id or reason:
            self._tell("join", reason or "as a new member")
        self._awaited = self._send(request, self._request_timeout_ms + self.config.rebalance_timeout_ms)

    def _join_answered(self, answer: JoinAnswer, now: int) -> None:
        if answer.error is ErrorCode.none:
            self._joined(answer, now)
        elif answer.error is ErrorCode.member_id_required and not self.member_id:
            self.member_id = answer.member_id
            self._send_join()
        elif answer.error is ErrorCode.unknown_member_id:
            self._lose_membership("the group does not know this member any more", forget=True)
            self._retry("JoinGroup was answered UNKNOWN_MEMBER_ID", now)
        else:
            self._answered_with(answer.error, "JoinGroup", now)

    def _joined(self, answer: JoinAnswer, now: int) -> None:
        self.member_id, self.generation, self._protocol = answer.member_id, answer.generation, answer.protocol
        self._is_leader = answer.leader == answer.member_id
        self._members = answer.members
        self.session.begin(now)
        if self._is_leader and not answer.skip_assignment:
            self.phase = Phase.ASSIGNING
            assign = Assign(generation=self.generation, protocol=self._protocol, members=answer.members)
            self._actions.append(assign)
        else:
            self._sync(())

    def _sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        self.phase = Phase.SYNCING
        request = SyncGroup(
            generation=self.generation, member_id=self.member_id, protocol=self._protocol, assignments=assignments
        )
        self._awaited = self._send(request, self._request_timeout_ms + self.config.session_timeout_ms)

    def _sync_answered(self, answer: SyncAnswer, now: int) -> None:
        if answer.error is ErrorCode.none:
            self._synced(answer.assignment)
        elif answer.error is ErrorCode.rebalance_in_progress:
            self.phase = Phase.OUT
            self._want_join("the group rebalances again")
        elif answer.error is ErrorCode.unknown_member_id or answer.error is ErrorCode.illegal_generation:
            forget = answer.error is ErrorCode.unknown_member_id
            self._lose_membership(f"SyncGroup was answered {answer.error.name.upper()}", forget=forget)
            self._retry(f"SyncGroup was answered {answer.error.name.upper()}", now)
        else:
            self._answered_with(answer.error, "SyncGroup", now)

    def _synced(self, assignment: bytes) -> None:
        try:
            decoded = decode_assignment(assignment) if assignment else Assignment(partitions=())
        except MalformedError as error:
            self._fail(GroupError(f"the leader's assignment cannot be read: {error}; is it another kind of consumer?"))
            return
        self.phase = Phase.STABLE
        self._tries.succeeded()
        if self._leaving is not None:
            return  # its only use was to have commits accepted in this generation
        grant = self._granted(decoded)
        self.held, self._running = grant.assignment, True
        self._actions.append(Start(grant))
        if grant.revoked:
            self._end(End.REVOKED, grant.revoked, self.config.drain_ms, "assigned to others")
            self._want_join("need to revoke partitions and re-join")
        elif self._outdated is not None:
            self._rebalance(self._outdated)

    def _granted(self, assignment: Assignment) -> Grant:
        had, has = set(self.held), set(assignment.partitions)
        return Grant(
            generation=self.generation,
            member_id=self.member_id,
            protocol=self._protocol,
            is_leader=self._is_leader,
            assignment=assignment.partitions,
            added=tuple(each for each in assignment.partitions if each not in had),
            revoked=tuple(each for each in self.held if each not in has),
            user_data=assignment.user_data,
            members=self._members,
        )

    # --- staying ---

    @property
    def _expires_at(self) -> int | None:
        """When what is held can be no longer, unless the coordinator is heard of."""
        return self.session.alive_until if self._running or self.held or self.draining else None

    @property
    def _heartbeat_timeout_ms(self) -> int:
        """A third of the session: a connection that is dead but open leaves time for another try."""
        of_session = max(self.config.session_timeout_ms // 3, 1)
        return min(self._request_timeout_ms, of_session)

    def _send_heartbeat(self, now: int) -> None:
        request = Heartbeat(generation=self.generation, member_id=self.member_id)
        self.session.sent(self._send(request, self._heartbeat_timeout_ms), now)

    def _heartbeat_answered(self, error: ErrorCode, now: int) -> None:
        if error is ErrorCode.none or error is ErrorCode.rebalance_in_progress:
            self.session.answered(now)
            if error is ErrorCode.rebalance_in_progress:
                self._group_rebalances()
        elif advice(error) is None and error not in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            if moves_coordinator(error):
                self._actions.append(ForgetCoordinator())
            self._heartbeat_failed(error.name.upper(), now)
        else:
            self.session.wait(now)
            self._refused(error)

    def _refused(self, error: ErrorCode) -> None:
        """What a heartbeat, or a commit, says of a membership that is no longer as it was."""
        told = f"the coordinator answered {error.name.upper()}"
        if error is ErrorCode.unknown_member_id:
            self._lose_membership(told, forget=True)
        elif error is ErrorCode.illegal_generation:
            # While a join is in flight that is no news: the group moved on, with this member, and the answer will come.
            if self.phase is not Phase.JOINING:
                self._lose_membership(told)
        elif error is ErrorCode.rebalance_in_progress:
            self._group_rebalances()
        elif advice(error) is not None:
            self._fail(fatal(error, "a heartbeat or commit"))

    def _heartbeat_failed(self, error: str, now: int) -> None:
        left = self.session.failed(now, self._backoff(self.session.failures + 1))
        self._tell("heartbeat failed", f"{error}; tried again, the session lasts for another {left} ms")

    def _group_rebalances(self) -> None:
        if self.phase is Phase.STABLE and self._running and self._rejoin is None and self._leaving is None:
            self._rebalance("the group rebalances")

    def _rebalance(self, reason: str) -> None:
        """Join again, eager members after they have drained everything."""
        self._tell("rebalance", reason)
        if not self._cooperative:
            self._end_all(End.REVOKED, self.config.drain_ms, reason)
        self._want_join(reason)

    # --- ending ---

    def _end(self, end: End, partitions: tuple[TopicPartition, ...] | None, drain_ms: int, cause: str) -> None:
        self.draining = True
        self._actions.append(EndPartitions(end=end, partitions=partitions, drain_ms=drain_ms, cause=cause))

    def _end_all(self, end: End, drain_ms: int, cause: str) -> None:
        self.held, self._running = (), False
        self._end(end, None, drain_ms, cause)

    def _lose_membership(self, cause: str, *, forget: bool = False) -> None:
        """The broker goes on without this member, or may do so: cancel everything, and join anew."""
        if forget:
            self.member_id = ""
        self._abandon()
        self.generation, self._is_leader = -1, False
        self.session.end()
        self.phase = Phase.OUT
        if self._running or self.held or self.draining:
            self._tell("lost", cause)
            self._end_all(End.LOST, 0, cause)
        self._want_join(cause)

    def _fail(self, error: GroupError) -> None:
        if self.phase is Phase.LEFT:
            return
        self._abandon()
        if self._running or self.held or self.draining:
            self._end_all(End.LOST, 0, str(error))
        self._over()
        self._actions.append(Raise(error))

    def _over(self) -> None:
        self.phase = Phase.LEFT
        self._rejoin = self._retry_at = None
        self.session.end()

    def _abandon(self) -> None:
        if self._awaited is not None:
            self._actions.append(Abandon(self._awaited))
            self._awaited = None

    def _send_leave(self, now: int) -> None:
        self._abandon()
        if not self.member_id or not self.config.sends_leave:
            self._left()
            return
        self.phase = Phase.LEAVING
        self.session.end()
        self._leave_until = min(self._leave_until, now + LEAVE_WITHIN_MS)
        request = LeaveGroup(member_id=self.member_id, reason=self._leaving or "")
        self._awaited = self._send(request, min(self._request_timeout_ms, max(self._leave_until - now, 1)))

    def _leave_answered(self, error: ErrorCode, now: int) -> None:
        if error is ErrorCode.coordinator_load_in_progress or moves_coordinator(error):
            self._actions.append(ForgetCoordinator())
            self._leave_failed(error.name.upper(), now)
        else:
            self._left()

    def _leave_failed(self, error: str, now: int) -> None:
        again = now + self._backoff(1)
        if again >= self._leave_until:
            self._tell("left", f"without the coordinator's answer ({error}): the session timeout ends the membership")
            self._left()
        else:
            self.phase = Phase.OUT
            self._retry_at = again

    def _left(self) -> None:
        self._over()
        self._actions.append(Left())

    # --- failing, and trying again ---

    def _answered_with(self, error: ErrorCode, asked: str, now: int) -> None:
        """An error that is no part of a rebalance."""
        if advice(error) is not None:
            self._fail(fatal(error, asked))
            return
        if moves_coordinator(error):
            self._actions.append(ForgetCoordinator())
        self._retry(f"{asked} was answered {error.name.upper()}", now)

    def _request_failed(self, error: str, now: int, *, sent: bool) -> None:
        if self.phase is Phase.LEAVING:
            self._leave_failed(error, now)
        elif self.phase is Phase.JOINING and sent:
            # The coordinator is there, and waits for members whose rebalance timeout is longer than this one's.
            self._tell("waiting", f"the group's rebalance takes long: {error}")
            self.phase = Phase.OUT
            self._want_join("the answer to JoinGroup did not come")
        else:
            self._actions.append(ForgetCoordinator())
            self._retry(error, now)

    def _retry(self, error: str, now: int) -> None:
        """Join again after a pause, or give up when that has been so for too long."""
        lasting = self._tries.failed(now)
        if lasting >= self.config.retry_timeout_ms:
            self._fail(
                CoordinatorUnavailableError(
                    f"group {self.config.group_id} could not be joined: {self._tries.failures} tries in {lasting} ms, "
                    f"the last one: {error}. Check that the brokers run and are reachable under the addresses that "
                    "they advertise; retry_timeout_ms says how long it is tried"
                )
            )
            return
        self.phase = Phase.OUT
        self._want_join(error)
        if self._rejoin is not None:
            pause = self._backoff(self._tries.failures)
            self._tell("retry", f"{error}; tried again in {pause} ms")
            self._retry_at = now + pause

    def _backoff(self, failures: int) -> int:
        return backoff_ms(failures, self.config.join_group_backoff_ms, self._random)

    # --- doing ---

    def _settled(self, now: int) -> Actions:
        """All that the event causes: also the join or leave that waited for it."""
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = (
                None  # also where nothing waits for it any more: a deadline that stays past is never slept to
            )
        if self._retry_at is not None or self.draining or self.phase in (Phase.LEFT, Phase.LEAVING):
            pass
        elif self._leaving is not None:
            self._send_leave(now)
        elif self._rejoin is not None and self._awaited is None and self.phase in (Phase.OUT, Phase.STABLE):
            self._send_join()
        actions, self._actions = tuple(self._actions), []
        return actions

    def _send(self, request: Request, timeout_ms: int) -> int:
        self._numbers += 1
        self._actions.append(Send(self._numbers, request, timeout_ms))
        return self._numbers

    def _tell(self, what: str, detail: str) -> None:
        self._actions.append(Tell(what=what, detail=detail))
