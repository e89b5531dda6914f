"""A member of the consumer protocol on a clock that the test moves; what it would do is shown.

bench = ConsumerBench()
bench.stable("orders-0")              # joined, assigned, acknowledged
bench.heartbeat(assignment=bench.ids())
assert bench.ends == [...]
"""

from random import Random
from types import SimpleNamespace
from uuid import UUID

from client.membership.bench import TOPIC, MachineBench, tps
from kohort.client.config import GroupConfig
from kohort.client.membership.consumer_membership import ConsumerMembership
from kohort.client.membership.events import (
    Abandon,
    ConsumerGroupHeartbeatResponse,
    EndPartitions,
    ResolveTopics,
    Send,
)
from kohort.errors import ErrorCode
from kohort.types import TopicIdPartition

TOPIC_ID = UUID(int=1)
INTERVAL_MS = 5_000


def ids(*partitions, topic_id=TOPIC_ID):
    return frozenset(TopicIdPartition(topic_id, partition) for partition in partitions)


class ConsumerBench(MachineBench):
    def __init__(self, *, request_timeout_ms=30_000, **config):
        if "pattern" not in config:
            config.setdefault("topics", [TOPIC])
        self.config = GroupConfig(group_id="g", protocol="consumer", **config)
        self.subscribed = SimpleNamespace(topics=tuple(self.config.topics))
        super().__init__(
            ConsumerMembership(
                self.config,
                self.subscribed,
                member_id="m1",
                request_timeout_ms=request_timeout_ms,
                uniform=Random(1).uniform,
            )
        )
        self.sent = None
        """The `Send` in flight."""

    def note(self, action):
        if isinstance(action, Send | Abandon):
            self.sent = action if isinstance(action, Send) else None

    @property
    def requests(self):
        return [action.request for action in self.actions if isinstance(action, Send)]

    @property
    def drain_ms(self):
        return [action.drain_ms for action in self.actions if isinstance(action, EndPartitions)]

    @property
    def asked_names(self):
        return [action.topic_ids for action in self.actions if isinstance(action, ResolveTopics)]

    # --- events ---

    def answer(self, error=ErrorCode.none, *, epoch=1, assignment=None, message=""):
        """The response to the request in flight."""
        sent, self.sent = self.sent, None
        if error is not ErrorCode.none:
            response = ConsumerGroupHeartbeatResponse(error=error, message=message)
        else:
            response = ConsumerGroupHeartbeatResponse(
                epoch=epoch, interval_ms=INTERVAL_MS, assignment=assignment
            )
        return self.do(self.member.responded(self.now, sent.number, response))

    def heartbeat(self, error=ErrorCode.none, **fields):
        """Time passes until the next heartbeat is sent, and it is answered."""
        self.until_heartbeat()
        return self.answer(error, **fields)

    def until_heartbeat(self):
        for _ in range(20):
            if self.sent is not None:
                return self.sent.request
            self.advance()
        raise AssertionError("no heartbeat is sent")

    def fail(self, error="connection refused"):
        sent, self.sent = self.sent, None
        return self.do(self.member.failed(self.now, sent.number, error, sent=False))

    def named(self, names=None):
        return self.do(
            self.member.resolved(self.now, {TOPIC_ID: TOPIC} if names is None else names)
        )

    def leave(self, *, drain=True):
        return self.do(self.member.leave(self.now, "bye", drain=drain))

    def abort(self):
        return self.do(self.member.abort(self.now, "failed"))

    def lose(self, *partitions):
        return self.do(self.member.lose(self.now, tps(*partitions), "deleted"))

    def until_asked_names(self):
        """Time passes, and heartbeats are answered, until names of topics are looked up."""
        for _ in range(20):
            if asked := self.asked_names:
                return asked
            if self.sent is not None:
                self.answer()
            else:
                self.advance()
        raise AssertionError("no names are looked up")

    def until_granted(self):
        """Time passes, and heartbeats are answered, until there is a generation."""
        for _ in range(20):
            if self.grants:
                return self.grants[0]
            if self.sent is not None:
                self.answer()
            else:
                self.advance()
        raise AssertionError("no generation begins")

    # --- starting points ---

    def joined(self, *partitions, epoch=1):
        """A member with these partitions, whose acknowledgement is in flight."""
        self.join()
        self.answer(epoch=epoch, assignment=ids(*partitions))
        if partitions:
            self.named()
        return self

    def stable(self, *partitions, epoch=1):
        """A member with these partitions."""
        self.joined(*partitions, epoch=epoch)
        self.answer(epoch=epoch)
        return self
