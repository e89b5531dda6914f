"""Rules that a member keeps whatever happens, in whatever order.

- It has one JoinGroup or SyncGroup in flight at a time, and one heartbeat.
- It joins only when nothing drains: eagerly without anything, cooperatively with what it has.
- It never starts an eager generation before the one before has ended, nor one that is not newer
  without a loss between.
- It is never woken for nothing: after `tick` at its deadline, that has passed or moved.
- It is a stable member soon after everything goes well again, or has said why not.
- It does nothing any more once it is over.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from client.membership.bench import MembershipBench, joined_member, tps
from effort import examples
from kohort.client.membership.events import (
    EndPartitions,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Left,
    PlainResponse,
    Raise,
    Send,
    Start,
    SyncGroup,
    SyncGroupResponse,
)
from kohort.client.membership.state import Phase
from kohort.errors import ErrorCode
from kohort.protocol.subscription import Assignment, decode_subscription, encode_assignment

NORMAL = [
    ErrorCode.rebalance_in_progress,
    ErrorCode.unknown_member_id,
    ErrorCode.illegal_generation,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.unknown_server_error,
    ErrorCode.member_id_required,
]
FATAL = [ErrorCode.fenced_instance_id, ErrorCode.group_authorization_failed]
codes = st.sampled_from(NORMAL * 4 + FATAL)
partitions = st.sets(st.integers(0, 5)).map(lambda some: tps(*sorted(some)))


class MembershipMachine(RuleBasedStateMachine):
    @initialize(cooperative=st.booleans(), static=st.booleans())
    def begin(self, cooperative, static):
        self.cooperative = cooperative
        self.bench = MembershipBench(
            cooperative=cooperative, instance_id="i" if static else None, retry_timeout_ms=600_000
        )
        self.member = self.bench.member
        self.draining = False
        self.running = None
        """The generation that the application has."""
        self.generation = 0
        self.over = False
        self.handle(self.bench.join())

    # --- the application's side, which the actions are for ---

    def handle(self, actions):
        for action in actions:
            assert not self.over, action
            match action:
                case Send():
                    self.sends(action)
                case Start():
                    self.starts(action.grant)
                case EndPartitions():
                    self.draining = True
                    if action.partitions is None:
                        self.running = None
                case Raise() | Left():
                    self.over = True

    def sends(self, send):
        kinds = (
            (Heartbeat,)
            if isinstance(send.request, Heartbeat)
            else (JoinGroup, SyncGroup, LeaveGroup)
        )
        known = (
            self.member.session.in_flight if kinds == (Heartbeat,) else self.member.awaited_request
        )
        assert known == send.number
        if isinstance(send.request, JoinGroup):
            assert not self.draining
            owned = decode_subscription(send.request.protocols[0][1]).owned
            assert set(owned) == set(self.member.current_assignment)
            assert self.cooperative or not owned
        if isinstance(send.request, Heartbeat | SyncGroup):
            assert send.request.generation >= 0
            assert send.request.member_id

    def starts(self, grant):
        assert self.cooperative or self.running is None
        assert self.cooperative or not self.draining
        assert set(grant.added) | set(grant.kept) == set(grant.assignment)
        assert not set(grant.revoked) & set(grant.assignment)
        self.running = grant.generation

    def in_flight(self, *kinds):
        found = [
            number for number, send in self.bench.sent.items() if isinstance(send.request, kinds)
        ]
        return max(found, default=None)

    # --- what happens ---

    def awaited(self, *kinds):
        return any(isinstance(send.request, kinds) for send in self.bench.sent.values())

    @precondition(lambda self: self.awaited(JoinGroup))
    @rule(leads=st.booleans(), skip=st.booleans(), more=st.integers(0, 2))
    def join_succeeds(self, leads, skip, more):
        self.generation += 1 + more
        leader = "m1" if leads else "other"
        members = (joined_member("m1"),) if leads else ()
        self.handle(
            self.bench.joined(
                self.generation,
                leader=leader,
                member_id="m1",
                members=members,
                skip_assignment=skip,
            )
        )

    @precondition(lambda self: self.awaited(JoinGroup))
    @rule(code=codes)
    def join_is_refused(self, code):
        self.handle(self.bench.join_answer(code, member_id="m1"))

    @precondition(lambda self: self.member.phase is Phase.ASSIGNING)
    @rule()
    def assignment_is_made(self):
        self.handle(
            self.bench.do(self.member.assigned(self.bench.now, self.member.generation, {"m1": b""}))
        )

    @precondition(lambda self: self.awaited(SyncGroup))
    @rule(some=partitions)
    def sync_succeeds(self, some):
        blob = encode_assignment(Assignment(partitions=some))
        self.handle(self.bench.answer(SyncGroup, SyncGroupResponse(assignment=blob)))

    @precondition(lambda self: self.awaited(SyncGroup))
    @rule(code=codes)
    def sync_is_refused(self, code):
        self.handle(self.bench.sync_answer(code))

    @precondition(lambda self: self.awaited(Heartbeat))
    @rule(code=st.none() | codes)
    def heartbeat_is_answered(self, code):
        self.handle(self.bench.answer(Heartbeat, PlainResponse(error=code or ErrorCode.none)))

    @precondition(lambda self: self.awaited(LeaveGroup))
    @rule(code=st.none() | codes)
    def leave_is_answered(self, code):
        self.handle(self.bench.leave_answer(code or ErrorCode.none))

    @precondition(lambda self: self.bench.sent)
    @rule(data=st.data(), sent=st.booleans())
    def no_answer_comes(self, data, sent):
        number = data.draw(st.sampled_from(sorted(self.bench.sent)))
        del self.bench.sent[number]
        self.handle(self.bench.do(self.member.failed(self.bench.now, number, "gone", sent=sent)))

    @precondition(lambda self: self.draining)
    @rule()
    def it_is_drained(self):
        self.draining = False
        self.handle(self.bench.drained())

    @rule(ms=st.sampled_from((0, 1, 50, 1_000, 3_000, 10_000, 31_000)))
    def time_passes(self, ms):
        for at in self.due(ms):
            self.bench.now = max(self.bench.now, at)
            self.handle(self.bench.do(self.member.tick(self.bench.now)))
            assert self.member.deadline is None or self.member.deadline > self.bench.now
        self.bench.now = max(self.bench.now, self.until)

    def due(self, ms):
        self.until = self.bench.now + ms
        while (at := self.member.deadline) is not None and at <= self.until:
            yield at

    @rule(some=partitions)
    def topics_are_deleted(self, some):
        self.handle(self.bench.do(self.member.lose(self.bench.now, some, "deleted")))

    @rule()
    def topics_change(self):
        self.handle(self.bench.do(self.member.rejoin(self.bench.now, "changed")))

    @rule(
        code=st.sampled_from((ErrorCode.unknown_member_id, ErrorCode.illegal_generation)),
        old=st.booleans(),
    )
    def a_commit_is_fenced(self, code, old):
        generation = self.member.generation - old
        self.handle(self.bench.do(self.member.fenced(self.bench.now, generation, code)))

    @rule()
    def the_application_fails(self):
        self.handle(self.bench.do(self.member.abort(self.bench.now, "failed")))

    @rule()
    def the_application_asks(self):
        self.handle(self.bench.join())

    @rule(unlikely=st.integers(0, 9), drain=st.booleans())
    def the_application_leaves(self, unlikely, drain):
        if unlikely == 0:
            if not drain and self.member.leaving_because is None:
                self.draining = False  # nobody waits for it
            self.handle(self.bench.do(self.member.leave(self.bench.now, "bye", drain=drain)))

    # --- what always holds ---

    @invariant()
    def what_is_sent_is_awaited(self):
        if hasattr(self, "bench"):
            self.bench.sent = {
                number: send
                for number, send in self.bench.sent.items()
                if number in (self.member.awaited_request, self.member.session.in_flight)
            }

    @invariant()
    def over_is_over(self):
        if hasattr(self, "bench") and self.over:
            assert self.member.is_over
            assert self.member.deadline is None
            assert (self.member.awaited_request, self.member.session.in_flight) == (None, None)

    def teardown(self):
        """Everything goes well from here on: the member is stable, or out because somebody wanted
        that.
        """
        if not hasattr(self, "bench"):
            return
        for _ in range(60):
            if self.over or (
                self.member.phase is Phase.STABLE and self.running is not None and not self.draining
            ):
                return
            self.all_goes_well()
        raise AssertionError(f"{self.member!r} after {self.bench.history[-5:]}")

    def all_goes_well(self):
        if self.draining:
            self.it_is_drained()
        elif self.awaited(LeaveGroup):
            self.leave_is_answered(None)
        elif self.awaited(JoinGroup):
            self.join_succeeds(leads=False, skip=False, more=0)
        elif self.awaited(SyncGroup):
            self.sync_succeeds(self.member.current_assignment)
        elif self.member.phase is Phase.ASSIGNING:
            self.assignment_is_made()
        elif self.member.deadline is not None and (
            self.member.phase is not Phase.STABLE or self.member.retry_at is not None
        ):
            self.time_passes(max(self.member.deadline - self.bench.now, 0))
        else:
            self.the_application_asks()
        self.what_is_sent_is_awaited()


TestMembershipMachine = MembershipMachine.TestCase
TestMembershipMachine.settings = settings(
    max_examples=examples(150), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
