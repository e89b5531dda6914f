"""Rules that a member of the consumer protocol keeps whatever happens, in whatever order.

- It never works on a partition that the coordinator may have given to others.
- It has one request in flight at a time. After one without an answer the next has all fields.
- A heartbeat with partitions names all that it works on; one of a joining member names none.
- It is never woken for nothing: after `tick` at its deadline, that has passed or moved.
- It has its whole assignment soon after everything goes well again, or has said why not.
- It does nothing any more once it is over.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from client.membership.bench import TOPIC
from client.membership.consumer_bench import INTERVAL_MS, ConsumerBench, ids
from client.membership.consumer_coordinator import ModelCoordinator
from effort import examples
from kohort.client.membership.consumer_state import ConsumerPhase
from kohort.client.membership.events import (
    Abandon,
    ConsumerGroupHeartbeatResponse,
    End,
    EndPartitions,
    Left,
    Raise,
    ResolveTopics,
    Send,
    Start,
)
from kohort.errors import ErrorCode

ALL = ids(*range(6))
partitions = st.sets(st.integers(0, 5)).map(lambda some: ids(*some))
retriable = st.sampled_from(
    (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )
)


class ConsumerMembershipMachine(RuleBasedStateMachine):
    @initialize(static=st.booleans())
    def begin(self, static):
        self.bench = ConsumerBench(
            instance_id="i" if static else None, retry_timeout_ms=600_000, session_timeout_ms=30_000
        )
        self.member = self.bench.member
        self.coordinator = ModelCoordinator(
            partitions=ALL,
            rebalance_timeout_ms=self.bench.config.rebalance_timeout_ms,
            interval_ms=INTERVAL_MS,
        )
        self.works_on = set()
        """Partitions that the application works on, draining ones included."""
        self.revoking = set()
        self.drained_by = None
        """Until then the application may take to drain; None: nothing drains."""
        self.has_generation = False
        self.resolving = None
        self.response = None
        """What the coordinator has decided, and is on its way."""
        self.unsure = False
        self.hurries = False
        """Whether it leaves without a drain."""
        self.over = False
        self.handle(self.bench.join())

    # --- the application's side, which the actions are for ---

    def handle(self, actions):
        for action in actions:
            assert not self.over, action
            match action:
                case Send(request=request):
                    self.sends(request)
                case Start(grant=grant):
                    self.starts(grant)
                case EndPartitions():
                    self.ends(action)
                case Abandon():
                    self.response = None
                case ResolveTopics(topic_ids=asked):
                    assert asked
                    self.resolving = asked
                case Raise() | Left():
                    self.over = True

    def sends(self, request):
        assert self.response is None
        if request.epoch < 0:
            assert self.drained_by is None or self.hurries
            return
        assert request.epoch == self.member.epoch
        if request.epoch == 0:
            assert not self.works_on
            assert request.owned == frozenset()
        elif request.owned is not None:
            assert request.owned >= self.works_on
        if self.unsure:
            assert None not in (request.topics, request.owned)
            assert request.rebalance_timeout_ms != -1

    def starts(self, grant):
        assigned = ids(*(each.partition for each in grant.assignment))
        added = ids(*(each.partition for each in grant.added))
        assert self.drained_by is None
        assert not added & self.works_on
        assert not (self.coordinator.exists and added & self.coordinator.others)
        assert self.works_on >= assigned - added
        self.works_on |= added
        self.has_generation = True

    def ends(self, action):
        ending = (
            set(self.works_on)
            if action.partitions is None
            else set(ids(*(partition.partition for partition in action.partitions)))
        )
        if action.end is End.LOST:
            self.works_on -= ending  # cancelled, and none of their commits is accepted
        self.revoking |= ending & self.works_on
        self.drained_by = self.bench.now + action.drain_ms
        if action.partitions is None:
            self.has_generation = False

    # --- what happens ---

    @precondition(lambda self: self.bench.sent is not None and self.response is None)
    @rule()
    def the_request_arrives(self):
        self.response = self.coordinator.heartbeat(self.bench.sent.request, self.bench.now)

    @precondition(lambda self: self.response is not None)
    @rule()
    def the_answer_arrives(self):
        sent, self.bench.sent = self.bench.sent, None
        response, self.response = self.response, None
        self.unsure = response.error is not ErrorCode.none
        self.handle(self.bench.do(self.member.responded(self.bench.now, sent.number, response)))

    @precondition(lambda self: self.bench.sent is not None)
    @rule()
    def no_answer_comes(self):
        self.response, self.unsure = None, True
        self.handle(self.bench.fail())

    @precondition(lambda self: self.bench.sent is not None and self.response is None)
    @rule(code=retriable)
    def the_coordinator_is_away(self, code):
        self.response = ConsumerGroupHeartbeatResponse(error=code)

    @rule(some=partitions)
    def the_target_changes(self, some):
        self.coordinator.retarget(some)

    @rule()
    def the_coordinator_removes_the_member(self):
        self.coordinator.remove()

    @precondition(lambda self: self.resolving is not None)
    @rule(known=st.booleans())
    def names_are_looked_up(self, known):
        asked, self.resolving = self.resolving, None
        self.handle(self.bench.named({each: TOPIC for each in asked if known}))

    @precondition(lambda self: self.drained_by is not None)
    @rule()
    def it_is_drained(self):
        self.works_on -= self.revoking
        self.revoking.clear()
        self.drained_by = None
        self.handle(self.bench.drained())

    @rule(ms=st.sampled_from((0, 1, 50, 1_000, 3_000, 10_000, 31_000)))
    def time_passes(self, ms):
        until = self.bench.now + ms
        while (at := self.next_event()) <= until:
            self.bench.now = max(self.bench.now, at)
            self.coordinator.advance(self.bench.now)
            if self.drained_by is not None and self.drained_by <= self.bench.now:
                self.it_is_drained()
            if self.member.deadline is not None and self.member.deadline <= self.bench.now:
                self.handle(self.bench.do(self.member.tick(self.bench.now)))
                assert self.member.deadline is None or self.member.deadline > self.bench.now
        self.bench.now = max(self.bench.now, until)
        self.coordinator.advance(self.bench.now)

    def next_event(self):
        due = (self.member.deadline, self.drained_by)
        return min((at for at in due if at is not None), default=float("inf"))

    @rule(some=partitions)
    def topics_are_deleted(self, some):
        if self.drained_by is None:
            self.handle(self.bench.lose(*(each.partition for each in some)))

    @rule(code=st.sampled_from((ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch)))
    def a_commit_is_refused(self, code):
        self.handle(self.bench.do(self.member.fenced(self.bench.now, self.member.generation, code)))

    @rule()
    def the_application_fails(self):
        self.handle(self.bench.abort())

    @rule()
    def the_application_asks(self):
        self.handle(self.bench.join())

    @rule(unlikely=st.integers(0, 9), drain=st.booleans())
    def the_application_leaves(self, unlikely, drain):
        if unlikely == 0:
            self.hurries |= not drain and self.member.leaving_because is None
            self.handle(self.bench.leave(drain=drain))

    # --- what always holds ---

    @invariant()
    def nothing_is_worked_on_that_others_have(self):
        if hasattr(self, "bench") and self.coordinator.exists:
            assert not self.works_on & self.coordinator.others

    @invariant()
    def over_is_over(self):
        if hasattr(self, "bench") and self.over:
            assert self.member.is_over
            assert (self.member.deadline, self.member.in_flight) == (None, None)

    def teardown(self):
        """Everything goes well from here on: the member has its assignment, or is out because
        somebody wanted that.
        """
        if not hasattr(self, "bench"):
            return
        for _ in range(60):
            if self.over or self.is_settled():
                return
            self.all_goes_well()
        raise AssertionError(f"{self.member!r} after {self.bench.history[-5:]}")

    def is_settled(self):
        return (
            self.member.phase is ConsumerPhase.STABLE
            and self.coordinator.exists
            and self.works_on == self.coordinator.target
            and self.has_generation
            and self.drained_by is None
        )

    def all_goes_well(self):
        if self.drained_by is not None:
            self.it_is_drained()
        elif self.resolving is not None:
            self.names_are_looked_up(known=True)
        elif self.response is not None:
            self.the_answer_arrives()
        elif self.bench.sent is not None:
            self.the_request_arrives()
        elif not self.member.active and self.member.leaving_because is None:
            self.the_application_asks()
        elif self.member.deadline is not None:
            self.time_passes(max(self.member.deadline - self.bench.now, 0))


TestConsumerMembershipMachine = ConsumerMembershipMachine.TestCase
TestConsumerMembershipMachine.settings = settings(
    max_examples=examples(150), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
