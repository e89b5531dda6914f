"""A member on a clock that the test moves: methods are events, attributes the resulting actions.

bench = MembershipBench()
bench.stable("orders-0")              # joined, synced
bench.heartbeat(ErrorCode.rebalance_in_progress)
assert bench.ends == [...]
"""

from random import Random

from kohort.client.config import GroupConfig
from kohort.client.membership.events import (
    Assign,
    EndPartitions,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroup,
    LogEvent,
    PlainResponse,
    Send,
    Start,
    SyncGroup,
    SyncGroupResponse,
)
from kohort.client.membership.membership import Membership
from kohort.errors import ErrorCode
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.types import TopicPartition

TOPIC = "orders"


def tp(partition):
    return TopicPartition(TOPIC, partition)


def tps(*partitions):
    return tuple(map(tp, partitions))


class Subscriber:
    """One assignor, one topic."""

    def protocols(self, owned, generation):
        return (
            (
                "range",
                encode_subscription(
                    Subscription(topics=(TOPIC,), owned=owned, generation=generation)
                ),
            ),
        )


class MachineBench:
    """What both protocols of membership have: a clock, events, and the actions they cause."""

    def __init__(self, member):
        self.member = member
        self.now = 1_000_000
        self.actions = ()
        """Actions of the last event, without log events."""
        self.reports = []
        """Log events."""
        self.history = []

    def do(self, actions):
        self.reports += [action for action in actions if isinstance(action, LogEvent)]
        self.actions = tuple(action for action in actions if not isinstance(action, LogEvent))
        self.history += self.actions
        for action in self.actions:
            self.note(action)
        return self.actions

    def note(self, action):
        """Keep what an action says of requests in flight."""
        raise NotImplementedError

    @property
    def request(self):
        """The only request that the last event sends."""
        sent = [action.request for action in self.actions if isinstance(action, Send)]
        assert len(sent) == 1, self.actions
        return sent[0]

    @property
    def ends(self):
        """(end, partitions) of what the last event ends."""
        return [
            (action.end, action.partitions)
            for action in self.actions
            if isinstance(action, EndPartitions)
        ]

    @property
    def grants(self):
        return [action.grant for action in self.actions if isinstance(action, Start)]

    # --- events ---

    def join(self):
        return self.do(self.member.join(self.now))

    def drained(self):
        return self.do(self.member.drained(self.now))

    def advance(self, ms=None):
        """Move the clock by `ms`, or to what is due next; returns what that causes, all of it."""
        until = self.now + ms if ms is not None else self.member.deadline
        caused = []
        while (at := self.member.deadline) is not None and at <= until:
            self.now = max(self.now, at)
            caused += self.do(self.member.tick(self.now))
        self.now = until
        self.actions = tuple(caused)
        return self.actions


class MembershipBench(MachineBench):
    """A member of the classic protocol."""

    def __init__(self, *, cooperative=False, request_timeout_ms=30_000, **config):
        self.config = GroupConfig(group_id="g", topics=[TOPIC], **config)
        super().__init__(
            Membership(
                self.config,
                Subscriber(),
                cooperative=cooperative,
                request_timeout_ms=request_timeout_ms,
                uniform=Random(1).uniform,
            )
        )
        self.sent = {}
        """Requests in flight by number, as far as the bench has not answered them."""

    def note(self, action):
        if isinstance(action, Send):
            self.sent[action.number] = action

    @property
    def action(self):
        """The only action of the last event."""
        assert len(self.actions) == 1, self.actions
        return self.actions[0]

    def pending(self, kind):
        """The number of the request of that kind that is in flight."""
        return max(number for number, send in self.sent.items() if isinstance(send.request, kind))

    # --- events ---

    def answer(self, kind, answer):
        number = self.pending(kind)
        del self.sent[number]
        return self.do(self.member.responded(self.now, number, answer))

    def fail(self, kind, error="connection refused", *, sent=False):
        number = self.pending(kind)
        del self.sent[number]
        return self.do(self.member.failed(self.now, number, error, sent=sent))

    def join_answer(self, error=ErrorCode.none, **fields):
        return self.answer(JoinGroup, JoinGroupResponse(error=error, **fields))

    def joined(self, generation=1, *, leader="other", member_id="m1", **fields):
        return self.join_answer(
            generation=generation, protocol="range", leader=leader, member_id=member_id, **fields
        )

    def synced(self, *partitions):
        blob = encode_assignment(Assignment(partitions=tps(*partitions)))
        return self.answer(SyncGroup, SyncGroupResponse(assignment=blob))

    def sync_answer(self, error):
        return self.answer(SyncGroup, SyncGroupResponse(error=error))

    def heartbeat(self, error=ErrorCode.none):
        """Time passes until the next heartbeat is sent, and it is answered."""
        self.until_heartbeat()
        return self.answer(Heartbeat, PlainResponse(error=error))

    def until_heartbeat(self):
        for _ in range(20):
            if any(isinstance(send.request, Heartbeat) for send in self.sent.values()):
                return
            self.advance()
        raise AssertionError("no heartbeat is sent")

    def leave_answer(self, error=ErrorCode.none):
        return self.answer(LeaveGroup, PlainResponse(error=error))

    def let_pass(self, ms, *, heartbeats=None, joins_fail=False):
        """`ms` in small steps, and what ended then. Heartbeats get the error code `heartbeats`,
        None: no answer.
        """
        until, before = self.now + ms, len(self.history)
        while self.now < until:
            self.advance(min(100, until - self.now))
            for kind in {type(send.request) for send in self.sent.values()}:
                if kind is Heartbeat and heartbeats is None:
                    self.fail(Heartbeat)
                elif kind is Heartbeat:
                    self.answer(Heartbeat, PlainResponse(error=heartbeats))
                elif kind is JoinGroup and joins_fail:
                    self.fail(JoinGroup)
        return [
            (each.end, each.partitions)
            for each in self.history[before:]
            if isinstance(each, EndPartitions)
        ]

    # --- starting points ---

    def stable(self, *partitions, generation=1, leads=False):
        """A member with these partitions."""
        self.join()
        self.join_answer(ErrorCode.member_id_required, member_id="m1")
        self.joined(generation, leader="m1" if leads else "other")
        if leads:
            assert isinstance(self.action, Assign)
            self.do(self.member.assigned(self.now, generation, {}))
        self.synced(*partitions)
        return self


def joined_member(member_id, *, metadata=b""):
    return JoinGroupResponseMember(member_id=member_id, metadata=metadata)
