"""One partition of `__consumer_offsets`: a fold over its log.

    result = shard.handle(event, now, timestamp)    # decides; changes nothing that is logged
    for record in result.records:                   # the only writer of logged state
        shard.replay(record)

Loading is the same fold over all records of the log. `loaded(now, timestamp)` then gives every
member of every group a fresh session. A shard that served and a shard loaded from its log therefore
have the same logged state. `logged_state` returns that state for comparison.

A shard does no I/O and never fails half-way: if the append of its records fails, the runtime drops
it and loads a new one.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from kohort.coordinator import expiration
from kohort.coordinator.admin import (
    delete_group,
    describe_group,
    discard_offsets,
    group_tombstones,
    list_groups,
)
from kohort.coordinator.classic import Group
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer import classic_members, leaving, steady
from kohort.coordinator.consumer.describing import describe_consumer_group
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.heartbeat import heartbeat as consumer_group_heartbeat
from kohort.coordinator.consumer.heartbeat import not_found, validate_heartbeat
from kohort.coordinator.consumer.regular_expressions import regexes_resolved
from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.consumer.target import target_computed, target_failed
from kohort.coordinator.consumer.timers import restore_members
from kohort.coordinator.consumer.upgrade import upgrade
from kohort.coordinator.error_responses import refuse
from kohort.coordinator.fold import Fold
from kohort.coordinator.jobs import RegexesResolved, TargetComputed, TargetFailed
from kohort.coordinator.join import join_group, validate_join
from kohort.coordinator.journal import Cause
from kohort.coordinator.members import (
    heartbeat,
    keep_alive,
    leave_group,
    restore_sessions,
    session_expires,
)
from kohort.coordinator.offsets import (
    commit_columns,
    commit_offsets,
    commit_transactional_offsets,
    delete_offsets,
    fetch_offsets,
    offset_tombstone,
)
from kohort.coordinator.rebalance import join_phase_ends, maybe_complete_join, rebalance
from kohort.coordinator.records import OffsetCommits, new_empty_group_record
from kohort.coordinator.requests import (
    TOMBSTONE_CHUNK,
    Committer,
    ConnectionClosed,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
    DiscardOffsets,
    ExpireOffsets,
    ExpireSomeOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetColumns,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
    TopicsDeleted,
    TxnOffsetCommit,
)
from kohort.coordinator.reserved_member_ids import ReservedMemberIds
from kohort.coordinator.responses import (
    ConsumerGroupHeartbeatResponse,
    JoinGroupResponse,
    SyncGroupResponse,
)
from kohort.coordinator.result import (
    JoinPhaseEnds,
    MemberJoinExpires,
    MemberSyncExpires,
    Result,
    RevocationExpires,
    SessionExpires,
    SyncPhaseEnds,
    TimerFired,
    TimerKey,
)
from kohort.coordinator.step import Step
from kohort.coordinator.sync import sync_group, sync_phase_ends
from kohort.coordinator.topics import NO_TOPICS, TopicsView
from kohort.errors import ErrorCode, KafkaError
from kohort.types import Instant, Reply, Timestamp

Event = (
    Request
    | TimerFired
    | ConnectionClosed
    | TopicsDeleted
    | ExpireOffsets
    | ExpireSomeOffsets
    | DiscardOffsets
    | RegexesResolved
    | TargetComputed
    | TargetFailed
)


class Shard(Fold):
    """The groups of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        topics: TopicsView = NO_TOPICS,
        all_pending_bytes: Callable[[], int] | None = None,
    ) -> None:
        """`all_pending_bytes`: memory of the pending ids of all shards of the process."""
        super().__init__()
        self._all_pending_bytes = all_pending_bytes
        self.config = config
        self.topics = topics
        self._reserved_ids = ReservedMemberIds()
        self._deleting: Counter[str] = Counter()
        """Group → number of deletions whose tombstones are incomplete."""

    def __repr__(self) -> str:
        return f"<Shard groups={len(self.groups)}>"

    # --- deciding ---

    def handle(self, event: Event, now: Instant, timestamp: Timestamp) -> Result:
        """Decide on an event.

        The caller replays the records at once, and appends them before it replies.
        """
        return _HANDLERS[type(event)](self, event, now, timestamp)

    def heartbeat(
        self, group: str, generation: int, member_id: str, instance_id: str | None, now: Instant
    ) -> ErrorCode | None:
        """Decide on a Heartbeat, as `handle` does, without creating request and response values.

        It logs nothing, sets no timer and never waits. Returns None if a timer must be set; then
        `handle` must decide.
        """
        known_group = self.groups.get(group)
        if isinstance(known_group, ConsumerGroup):
            return classic_members.keep_alive_known(
                known_group, generation, member_id, instance_id, now
            )
        return keep_alive(known_group, group, generation, member_id, instance_id, now)

    def steady_heartbeat(self, request: SteadyHeartbeat, now: Instant) -> int | None:
        """Decide on a ConsumerGroupHeartbeat without changes, as `handle` does.

        Returns the heartbeat interval in ms for the response. Returns None, without an effect, if
        `handle` must decide.
        """
        group = self.groups.get(request.group)
        if not isinstance(group, ConsumerGroup):
            return None
        return steady.keep_alive(group, request, self.topics, self.config, now)

    def commit(
        self,
        committer: Committer,
        version: int,
        topics: Sequence[OffsetColumns],
        now: Instant,
        timestamp: Timestamp,
    ) -> ErrorCode | list[OffsetCommits]:
        """Decide on an OffsetCommit whose partitions all have the same response, as `handle` does.

        Returns the error for all partitions, or the records if there is none.
        """
        return commit_columns(
            self.groups.get(committer.group),
            committer,
            version,
            topics,
            self.config,
            now,
            timestamp,
        )

    def loaded(self, now: Instant, timestamp: Timestamp) -> Result:
        """End the replay of the log: members get fresh sessions.

        Groups over capacity rebalance, and so do groups without a generation since their downgrade:
        the partitions of the member that left have no owner.
        """
        step = Step(self.config, now, timestamp)
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                restore_members(group, step)
            elif group.logged is not None:
                restore_sessions(group, group.logged, step)
                if len(group.sessions) > self.config.max_size:
                    rebalance(group, [Cause("loaded over capacity", "")], step)
                elif group.sessions and group.logged.downgraded:
                    rebalance(group, [Cause("downgraded", "")], step)
        return step.result()

    def statistics(self) -> Mapping[str, Any]:
        """Counts: groups by (type, state), members, pending ids, parked requests, offsets."""
        classic = [group for group in self.groups.values() if isinstance(group, Group)]
        rounds = [group.round for group in classic if group.round is not None]
        return {
            "groups": Counter((group.TYPE, str(group.state)) for group in self.groups.values()),
            "members": sum(len(group.sessions) for group in self.groups.values()),
            "pending": sum(len(group.pending) for group in classic),
            "parked": sum(len(round_.joins) + len(round_.syncs) for round_ in rounds),
            "offsets": sum(len(group.offsets) for group in self.groups.values()),
        }

    # --- one function per event ---

    def _join_group(self, request: JoinGroup, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        error = validate_join(request, step)
        group = self.groups.get(request.group)
        if error is ErrorCode.none and isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._join_consumer_group(group, request, step)
        if error is ErrorCode.none and not isinstance(group, Group):
            error, group = self._new_classic_group(group, request, step)
        if not isinstance(group, Group) or error is not ErrorCode.none:
            step.reply(
                request.on_response, JoinGroupResponse(error=error, member_id=request.member_id)
            )
        else:
            join_group(group, request, step)
            self._reserved_ids.note_awaiting(group, request.connection)
            if not request.member_id:
                self._reserve_id(group, request, step)
        return step.result()

    def _join_consumer_group(self, group: ConsumerGroup, request: JoinGroup, step: Step) -> Result:
        try:
            classic_members.join_group(group, request, self.topics, step)
        except KafkaError as error:
            return Result(
                replies=(Reply(request.on_response, JoinGroupResponse(error=error.code)),)
            )
        return self._result(step)

    def _new_classic_group(
        self, former: ConsumerGroup | None, request: JoinGroup, step: Step
    ) -> tuple[ErrorCode, Group | None]:
        """A new group for a joining member; it may replace an empty consumer group."""
        if request.member_id:
            return ErrorCode.unknown_member_id, None
        if former is not None:
            group_tombstones(former, step)
        group = Group(request.group, None if former is None else former.offsets)
        self.groups[group.id] = group
        step.record(new_empty_group_record(request.group, step.timestamp))
        return ErrorCode.none, group

    def _reserve_id(self, group: Group, request: JoinGroup, step: Step) -> None:
        """Bound the memory of pending ids by removing the oldest."""
        pending = group.pending.get(f"{request.client_id}-{request.fresh_id}")
        if pending is None:
            return
        for oldest in self._reserved_ids.add(group, pending, self._most_pending_bytes()):
            group_id, member_id = oldest
            forgotten = self.groups.get(group_id)
            if isinstance(forgotten, Group) and forgotten.pending.pop(member_id) is not None:
                step.cancel_timer(SessionExpires(group_id, member_id))
                maybe_complete_join(forgotten, step)

    def _most_pending_bytes(self) -> int:
        """Memory limit of this shard's pending ids: the rest of the total, or the minimum."""
        everywhere = self._all_pending_bytes
        elsewhere = 0 if everywhere is None else everywhere() - self.pending_bytes
        return max(self.config.max_pending_bytes - elsewhere, self.config.min_pending_bytes)

    @property
    def pending_bytes(self) -> int:
        """Memory of the pending ids."""
        return self._reserved_ids.bytes

    def _sync_group(self, request: SyncGroup, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        group = self.groups.get(request.group)
        if isinstance(group, ConsumerGroup):
            return self._sync_consumer_group(group, request, step)
        sync_group(group, request, step)
        return step.result()

    def _sync_consumer_group(self, group: ConsumerGroup, request: SyncGroup, step: Step) -> Result:
        try:
            classic_members.sync_group(group, request, self.topics, step)
        except KafkaError as error:
            refused = SyncGroupResponse(error=error.code)
            return Result(replies=(Reply(request.on_response, refused),))
        return step.result()

    def _heartbeat(self, request: Heartbeat, now: Instant, timestamp: Timestamp) -> Result:
        group = self.groups.get(request.group)
        if not isinstance(group, ConsumerGroup):
            return heartbeat(group, request, now)
        step = Step(self.config, now, timestamp)
        classic_members.heartbeat(group, request, step)
        return step.result()

    def _leave_group(self, request: LeaveGroup, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        group = self.groups.get(request.group)
        if isinstance(group, ConsumerGroup):
            leaving.leave_group(group, request, self.topics, step)
        else:
            leave_group(group, request, step)
        return self._result(step)

    def _result(self, step: Step) -> Result:
        """The result of a step, which may have converted a consumer group to a classic group."""
        if step.classic_group is not None:
            self.groups[step.classic_group.id] = step.classic_group
        return step.result()

    def _consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeat, now: Instant, timestamp: Timestamp
    ) -> Result:
        step = Step(self.config, now, timestamp)
        try:
            validate_heartbeat(request, self.config)
            group = self._consumer_group(request, step)
            consumer_group_heartbeat(group, request, self.topics, step)
        except KafkaError as error:
            refused = ConsumerGroupHeartbeatResponse(error=error.code, error_message=error.message)
            return Result(replies=(Reply(request.on_response, refused),))
        self.groups[group.id] = group
        return self._result(step)

    def _consumer_group(self, request: ConsumerGroupHeartbeat, step: Step) -> ConsumerGroup:
        """The group, created or upgraded if a member joins. Raises the error of `not_found`."""
        group = self.groups.get(request.group)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch:
            raise not_found(request, step.config)
        if group is None:
            return ConsumerGroup(request.group)
        if not group.is_empty:
            return upgrade(group, self.topics, step)
        group_tombstones(group, step)
        return ConsumerGroup(request.group, group.offsets)

    def _describe_consumer_group(
        self,
        request: DescribeConsumerGroup,
        now: Instant,  # noqa: ARG002
        timestamp: Timestamp,  # noqa: ARG002
    ) -> Result:
        group = self.groups.get(request.group)
        described = describe_consumer_group(group, request, self.topics, self.config)
        return _respond(request, described)

    def _regexes_resolved(
        self, event: RegexesResolved, now: Instant, timestamp: Timestamp
    ) -> Result:
        step = Step(self.config, now, timestamp)
        group = self.groups.get(event.group)
        if isinstance(group, ConsumerGroup):
            regexes_resolved(group, event, self.topics, step)
        return step.result()

    def _target_computed(self, event: TargetComputed, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        group = self.groups.get(event.job.group)
        if isinstance(group, ConsumerGroup):
            target_computed(group, event, step)
        return step.result()

    def _target_failed(self, event: TargetFailed, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        group = self.groups.get(event.job.group)
        if isinstance(group, ConsumerGroup):
            target_failed(group, event, step)
        return step.result()

    def _offset_commit(self, request: OffsetCommit, now: Instant, timestamp: Timestamp) -> Result:
        return commit_offsets(self.groups.get(request.group), request, self.config, now, timestamp)

    def _txn_offset_commit(
        self,
        request: TxnOffsetCommit,
        now: Instant,  # noqa: ARG002
        timestamp: Timestamp,
    ) -> Result:
        if request.group in self._deleting:
            # A tombstone of the former group's offset would drop a pending one of this group.
            error = ErrorCode.coordinator_load_in_progress
            return Result(replies=(Reply(request.on_response, refuse(request, error)),))
        pending = self.count_pending(request.producer_id)
        group = self.groups.get(request.group)
        return commit_transactional_offsets(group, request, self.config, timestamp, pending)

    def _offset_fetch(self, request: OffsetFetch, now: Instant, timestamp: Timestamp) -> Result:  # noqa: ARG002
        return _respond(request, fetch_offsets(self.groups.get(request.group), request))

    def _describe_group(self, request: DescribeGroup, now: Instant, timestamp: Timestamp) -> Result:  # noqa: ARG002
        return _respond(request, describe_group(self.groups.get(request.group), request))

    def _list_groups(self, request: ListGroups, now: Instant, timestamp: Timestamp) -> Result:  # noqa: ARG002
        return _respond(request, list_groups(self.groups.values(), request))

    def _delete_group(self, request: DeleteGroup, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        delete_group(self.groups.get(request.group), request, step)
        result = step.result()
        if result.continuation is not None:
            self._deleting[request.group] += 1
        return result

    def _offset_delete(self, request: OffsetDelete, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        delete_offsets(self.groups.get(request.group), request, step)
        return step.result()

    def _timer_fired(self, event: TimerFired, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        key: TimerKey = event.key
        group = self.groups.get(key.group)
        if isinstance(group, ConsumerGroup):
            if isinstance(key, SessionExpires):
                leaving.session_expires(group, key.member_id, self.topics, step)
            elif isinstance(key, RevocationExpires):
                leaving.revocation_expires(group, key.member_id, self.topics, step)
            elif isinstance(key, MemberJoinExpires | MemberSyncExpires):
                leaving.classic_member_expires(group, key.member_id, self.topics, step)
        elif group is not None:
            if isinstance(key, SessionExpires):
                session_expires(group, key.member_id, step)
            elif isinstance(key, JoinPhaseEnds):
                join_phase_ends(group, step)
            elif isinstance(key, SyncPhaseEnds):
                sync_phase_ends(group, step)
        return self._result(step)

    def _connection_closed(
        self, event: ConnectionClosed, now: Instant, timestamp: Timestamp
    ) -> Result:
        step = Step(self.config, now, timestamp)
        for group_id in self._reserved_ids.connection_closed(event.connection):
            group = self.groups.get(group_id)
            if isinstance(group, Group):
                group.pending.connection_closed(event.connection)
                maybe_complete_join(group, step)
        return step.result()

    def _topics_deleted(self, event: TopicsDeleted, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        committed = (
            (group_id, partition)
            for group_id in (self.groups if event.groups is None else event.groups)
            if (group := self.groups.get(group_id)) is not None
            for partition in group.offsets.of_topics(event.topics)
        )
        for group_id, partition in islice(committed, TOMBSTONE_CHUNK):
            step.record(offset_tombstone(group_id, partition))
        return step.result()

    def _expire_offsets(self, event: ExpireOffsets, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        for group_id in self.groups if event.groups is None else event.groups:
            group = self.groups.get(group_id)
            if group is not None:
                expiration.expire_offsets(group, step)
        return step.result()

    def _expire_some_offsets(
        self, event: ExpireSomeOffsets, now: Instant, timestamp: Timestamp
    ) -> Result:
        step = Step(self.config, now, timestamp)
        group = self.groups.get(event.group)
        if group is not None:
            expiration.expire_some_offsets(group, event.partitions, step)
        return step.result()

    def _discard_offsets(self, event: DiscardOffsets, now: Instant, timestamp: Timestamp) -> Result:
        step = Step(self.config, now, timestamp)
        discard_offsets(self.groups.get(event.group), event, step)
        result = step.result()
        if result.continuation is None:
            self._deleting -= Counter((event.group,))
        return result


_HANDLERS: Final[Mapping[type, Callable[[Shard, Any, Instant, Timestamp], Result]]] = {
    JoinGroup: Shard._join_group,
    SyncGroup: Shard._sync_group,
    Heartbeat: Shard._heartbeat,
    LeaveGroup: Shard._leave_group,
    OffsetCommit: Shard._offset_commit,
    TxnOffsetCommit: Shard._txn_offset_commit,
    OffsetFetch: Shard._offset_fetch,
    DescribeGroup: Shard._describe_group,
    ListGroups: Shard._list_groups,
    DeleteGroup: Shard._delete_group,
    OffsetDelete: Shard._offset_delete,
    TimerFired: Shard._timer_fired,
    ConnectionClosed: Shard._connection_closed,
    TopicsDeleted: Shard._topics_deleted,
    ExpireOffsets: Shard._expire_offsets,
    ExpireSomeOffsets: Shard._expire_some_offsets,
    DiscardOffsets: Shard._discard_offsets,
    ConsumerGroupHeartbeat: Shard._consumer_group_heartbeat,
    DescribeConsumerGroup: Shard._describe_consumer_group,
    RegexesResolved: Shard._regexes_resolved,
    TargetComputed: Shard._target_computed,
    TargetFailed: Shard._target_failed,
}


def _respond(
    request: OffsetFetch | DescribeGroup | ListGroups | DescribeConsumerGroup, response: Any
) -> Result:
    return Result(replies=(Reply(request.on_response, response),))
