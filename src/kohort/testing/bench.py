"""A shard on a clock that the test moves; it takes Kafka's requests, and nothing in it waits.

    bench = Bench()
    a = bench.join("orders")                       # MEMBER_ID_REQUIRED: nothing to wait for
    a = bench.join("orders", a.response.member_id) # parked
    bench.advance(0)                               # the initial delay, 0 ms here, is over
    assert a.response.generation == 1

Further fields of a request are keywords: `bench.join("orders", instance_id="i")`. Those that a test
does not name have the values of `DEFAULTS`. Every call keeps the whole `Result`. `bench.log` has
all logged records, and `bench.restart()` loads a new shard from them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeAlias, cast

from kohort.coordinator.classic import Group, State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from kohort.coordinator.jobs import Job, ResolveRegexes
from kohort.coordinator.records import Entry, OffsetCommits, TransactionMarker
from kohort.coordinator.requests import (
    ConnectionClosed,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
    ExpireOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    Request,
    SyncGroup,
    TopicsDeleted,
    TxnOffsetCommit,
)
from kohort.coordinator.result import Result, TimerFired, TimerKey
from kohort.coordinator.shard import Event, Shard
from kohort.coordinator.topics import NO_TOPICS, TopicsView
from kohort.coordinator_common import Cancel
from kohort.runtime.timers import TimerHeap
from kohort.types import ConnectionId, Instant, Timestamp, TopicPartition

DEFAULT = GroupCoordinatorConfig(initial_rebalance_delay_ms=0)
RANGE = {"range": b"range-metadata"}
_CLIENT: Final = {"client_id": "client", "client_host": "/127.0.0.1"}
_NO_MEMBER: Final = {"member_id": "", "generation": -1, "instance_id": None}
DEFAULTS: Final[Mapping[Callable[..., Request], Mapping[str, Any]]] = {
    JoinGroup: {
        **_CLIENT,
        "version": 9,
        "instance_id": None,
        "protocol_type": "consumer",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "reason": None,
    },
    SyncGroup: {
        "version": 5,
        "instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
    },
    Heartbeat: {"instance_id": None},
    ConsumerGroupHeartbeat: _CLIENT,
    LeaveGroup: {"version": 5},
    OffsetCommit: {**_NO_MEMBER, "version": 9},
    TxnOffsetCommit: {**_NO_MEMBER, "version": 6, "producer_id": 1, "producer_epoch": 0},
    DescribeGroup: {"version": 6},
}
"""Fields of requests that a test does not name, and that have no default of their own."""
Pairs: TypeAlias = Mapping[str, bytes] | Sequence[tuple[str, bytes]]
Offsets: TypeAlias = Mapping[tuple[str, int], int | OffsetToCommit]
"""By topic and partition."""


class Call:
    """One request that was made."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.result = Result()
        """The shard's decision on the request."""
        self.responses: list[Any] = []

    def __repr__(self) -> str:
        return f"<{type(self.request).__name__} {self.responses or 'parked'}>"

    @property
    def parked(self) -> bool:
        return not self.responses

    @property
    def response(self) -> Any:
        """The response; raises AssertionError while the request is parked."""
        assert len(self.responses) == 1, f"{self.request} has {len(self.responses)} responses"
        return self.responses[0]

    @property
    def error(self) -> str:
        """Kafka's name of the response's error in lower case, "none" if there is none."""
        return str(self.response.error.name)


class Bench:
    """One shard, its log, its timers and its clients."""

    def __init__(
        self,
        config: GroupCoordinatorConfig = DEFAULT,
        *,
        topics: TopicsView = NO_TOPICS,
        log: Iterable[Entry] = (),
    ) -> None:
        self.config = config
        self.topics = topics
        """The topics; a test may set other ones."""
        self.now = Instant(1_700_000_000_000)
        self._ahead_ms = 0
        self.log: list[Entry] = list(log)
        self.calls: dict[int, Call] = {}
        self.journal: list[Any] = []
        self.jobs: list[Job] = []
        """Jobs in the background that `do_jobs` has not done."""
        self._ids = count(1)
        self._fresh = count(1)
        self.restart()

    def restart(self) -> None:
        """Load a new shard from the log; parked requests of the old one are lost with it."""
        self.timers: TimerHeap[TimerKey] = TimerHeap()
        self.jobs = []
        self._deadlines: dict[TimerKey, Instant] = {}
        self.shard = Shard(self.config, self.topics)
        for record in self.log:
            self.shard.replay(record)
        self._apply(self.shard.loaded(self.now, self.timestamp))

    @property
    def timestamp(self) -> Timestamp:
        """Wall-clock time: the other clock, but for what the wall clock was `set_ahead`."""
        return Timestamp(self.now + self._ahead_ms)

    def set_ahead(self, ms: int) -> None:
        """Set the wall clock `ms` ahead, or back if negative; deadlines are not concerned."""
        self._ahead_ms += ms

    def group(self, group: str = "g") -> Group:
        """The classic group. Raises KeyError if it does not exist."""
        return cast("Group", self.shard.groups[group])

    def consumer_group(self, group: str = "g") -> ConsumerGroup:
        """The consumer group. Raises KeyError if it does not exist."""
        return cast("ConsumerGroup", self.shard.groups[group])

    def state(self, group: str = "g") -> State | ConsumerGroupState:
        """The group's state, Dead if it does not exist."""
        return self.shard.groups[group].state if group in self.shard.groups else State.DEAD

    def timer(self, key: TimerKey) -> int | None:
        """In how many ms a timer is due, None if it is not set."""
        return self._deadlines[key] - self.now if key in self._deadlines else None

    def post(self, event: Event) -> Result:
        """Have the shard decide on an event."""
        self.shard.topics = self.topics
        result = self.shard.handle(event, self.now, self.timestamp)
        self._apply(result)
        if result.continuation is not None:
            self.post(cast("Event", result.continuation))
        return result

    def do_jobs(self) -> list[Result]:
        """Do what was begun in the background, and post its events; returns their results."""
        jobs, self.jobs = self.jobs, []
        results = []
        for job in jobs:
            if isinstance(job, ResolveRegexes):
                matches: dict[str, tuple[str, ...]] = {}
                for _ in job.steps(tuple(self.topics.names()), matches):
                    pass
                results.append(self.post(job.done(matches)))
            else:
                results.append(self.post(job.done()))
        return results

    def advance(self, ms: int) -> list[TimerKey]:
        """Move the clock on by `ms`, firing what falls due at its time; returns it in order."""
        until = Instant(self.now + ms)
        fired: list[TimerKey] = []
        while (deadline := self.timers.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            for key in self.timers.due(self.now):
                fired.append(key)
                del self._deadlines[key]
                self.post(TimerFired(key))
        self.now = until
        return fired

    def _call(self, request: Request) -> Call:
        call = Call(request)
        assert isinstance(request.on_response, int)
        self.calls[request.on_response] = call
        call.result = self.post(request)
        return call

    def _apply(self, result: Result) -> None:
        for record in (*result.records, *result.transactional):
            self.shard.replay(record)
            self.log += record.rows() if isinstance(record, OffsetCommits) else (record,)
        for timer in result.timers:
            if isinstance(timer, Cancel):
                self.timers.cancel(timer.key)
                self._deadlines.pop(timer.key, None)
            else:
                self.timers.set(timer.key, timer.deadline)
                self._deadlines[timer.key] = timer.deadline
        for on_response, response in result.replies:
            assert isinstance(on_response, int)
            self.calls[on_response].responses.append(response)
        self.journal += result.journal
        self.jobs += result.jobs

    # --- requests ---
    # `fields` are further ones of the request, which `DEFAULTS` or the request itself has else.

    def join(
        self,
        group: str = "g",
        member_id: str = "",
        *,
        protocols: Pairs = RANGE,
        **fields: Any,
    ) -> Call:
        """JoinGroup."""
        return self._ask(
            JoinGroup,
            group=group,
            member_id=member_id,
            protocols=_pairs(protocols),
            fresh_id=f"{next(self._fresh):04}",
            **fields,
        )

    def handshake(self, group: str = "g", **fields: Any) -> Call:
        """Join as a new member: request an id, then join with it."""
        member_id = self.join(group, **fields).response.member_id
        return self.join(group, member_id, **fields)

    def sync(
        self,
        group: str,
        member_id: str,
        generation: int,
        assignments: Pairs = (),
        **fields: Any,
    ) -> Call:
        """SyncGroup."""
        return self._ask(
            SyncGroup,
            group=group,
            member_id=member_id,
            generation=generation,
            assignments=_pairs(assignments),
            **fields,
        )

    def heartbeat(self, group: str, member_id: str, generation: int, **fields: Any) -> Call:
        """Heartbeat."""
        return self._ask(
            Heartbeat, group=group, member_id=member_id, generation=generation, **fields
        )

    def consumer_heartbeat(
        self,
        group: str,
        member_id: str,
        member_epoch: int,
        *,
        topics: Sequence[str] | None = None,
        **fields: Any,
    ) -> Call:
        """ConsumerGroupHeartbeat; one with epoch 0 says what a first one has to."""
        if member_epoch == 0:
            fields = {"rebalance_timeout_ms": 60_000, "owned": {}} | fields
        return self._ask(
            ConsumerGroupHeartbeat,
            group=group,
            member_id=member_id,
            member_epoch=member_epoch,
            topics=None if topics is None else tuple(topics),
            **fields,
        )

    def describe_consumer_group(self, group: str) -> Call:
        """ConsumerGroupDescribe."""
        return self._ask(DescribeConsumerGroup, group=group)

    def leave(
        self,
        group: str,
        *members: str | tuple[str, str | None],
        reason: str | None = None,
        **fields: Any,
    ) -> Call:
        """LeaveGroup. `members`: member ids, or (member id, instance id)."""
        pairs = [(member, None) if isinstance(member, str) else member for member in members]
        leaving = tuple(
            LeavingMember(member_id=member_id, instance_id=instance_id, reason=reason)
            for member_id, instance_id in pairs
        )
        return self._ask(LeaveGroup, group=group, members=leaving, **fields)

    def commit(self, group: str, offsets: Offsets, **fields: Any) -> Call:
        """OffsetCommit."""
        return self._ask(OffsetCommit, group=group, offsets=_to_commit(offsets), **fields)

    def txn_commit(self, group: str, offsets: Offsets, **fields: Any) -> Call:
        """Commit in the transaction of a producer; `end_transaction` ends it."""
        return self._ask(TxnOffsetCommit, group=group, offsets=_to_commit(offsets), **fields)

    def end_transaction(self, producer_id: int = 1, *, commit: bool = True) -> None:
        """The marker of a producer's transaction is written."""
        marker = TransactionMarker(producer_id, commit)
        self.shard.replay(marker)
        self.log.append(marker)

    def fetch(
        self, group: str, *partitions: tuple[str, int], everything: bool = False, **fields: Any
    ) -> Call:
        """OffsetFetch of these partitions, or of `everything` that the group committed."""
        return self._ask(
            OffsetFetch,
            group=group,
            partitions=None if everything else _partitions(partitions),
            **fields,
        )

    def describe(self, group: str, **fields: Any) -> Call:
        """DescribeGroups, of one group."""
        return self._ask(DescribeGroup, group=group, **fields)

    def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> Call:
        """ListGroups."""
        return self._ask(ListGroups, states=tuple(states), types=tuple(types))

    def delete(self, group: str) -> Call:
        """DeleteGroups, of one group."""
        return self._ask(DeleteGroup, group=group)

    def delete_offsets(self, group: str, *partitions: tuple[str, int]) -> Call:
        """OffsetDelete."""
        return self._ask(OffsetDelete, group=group, partitions=_partitions(partitions))

    def _ask(self, kind: Callable[..., Request], **fields: Any) -> Call:
        return self._call(kind(on_response=next(self._ids), **{**DEFAULTS.get(kind, {}), **fields}))

    # --- what happens to everyone ---

    def disconnect(self, connection: ConnectionId) -> Result:
        """The connection is closed."""
        return self.post(ConnectionClosed(connection))

    def delete_topics(self, *topics: str) -> Result:
        return self.post(TopicsDeleted(frozenset(topics)))

    def expire_offsets(self) -> Result:
        """The periodic check of expiry runs."""
        return self.post(ExpireOffsets())

    # --- starting points ---

    def stable(self, group: str = "g", members: int = 1, **options: Any) -> list[str]:
        """Bring `members` members into one synced generation.

        Returns their ids, the leader's first. Each is assigned its own id as bytes.
        """
        ids = [self.join(group, **options).response.member_id for _ in range(members)]
        calls = [self.join(group, member_id, **options) for member_id in ids]
        while calls[0].parked:  # each further member extends the initial delay
            self.advance(self.config.initial_rebalance_delay_ms)
        leader = calls[0].response.leader
        ids.sort(key=lambda member_id: member_id != leader)
        generation = calls[0].response.generation
        for member_id in reversed(ids):
            self.sync(
                group,
                member_id,
                generation,
                {m: m.encode() for m in ids} if member_id == leader else {},
                protocol_type=options.get("protocol_type", "consumer"),
                protocol_name=calls[0].response.protocol_name,
            )
        return ids


def _pairs(pairs: Pairs) -> tuple[tuple[str, bytes], ...]:
    return tuple(pairs.items() if isinstance(pairs, Mapping) else pairs)


def _partitions(pairs: Sequence[tuple[str, int]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, partition) for topic, partition in pairs)


def _to_commit(offsets: Offsets) -> tuple[OffsetToCommit, ...]:
    return tuple(
        value if isinstance(value, OffsetToCommit) else OffsetToCommit(topic, partition, value)
        for (topic, partition), value in offsets.items()
    )
