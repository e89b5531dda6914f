"""A group's committed offsets: OffsetCommit (API 8), TxnOffsetCommit (28), OffsetFetch (9) and
OffsetDelete (47).

Each partition is one record. The replay of a commit for an unknown group creates the group. Whether
a commit is accepted depends on its member and generation:

- generation -1, no member: a *simple* consumer or an administrator; accepted while the group has no
  members.
- otherwise checked as a heartbeat. In the join phase, commits of the previous generation are
  accepted, because members commit before they revoke partitions. In the sync phase none are.

Commits in a transaction are checked alike, but independently of the phase of a rebalance; a commit
without member and generation is always accepted (KIP-447).

Source: ClassicGroup.validateOffsetCommit/validateOffsetDelete and OffsetMetadataManager of Kafka.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from uuid import UUID

from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, Group, State
from kohort.coordinator.committed import CommittedOffsets
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.offsets import (
    TRANSACTIONAL_MEMBER_EPOCH_SINCE,
    validate_commit,
    validate_fetch,
    validate_transactional_commit,
)
from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.records import (
    NO_TIMESTAMP,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommits,
    OffsetCommitValue,
    TransactionalOffsets,
    new_empty_group_record,
    pack_offset,
    pack_offsets,
    too_long,
)
from kohort.coordinator.requests import (
    Committer,
    OffsetColumns,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    TxnOffsetCommit,
)
from kohort.coordinator.responses import (
    NONE,
    FetchedOffset,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from kohort.coordinator.result import Result
from kohort.coordinator.step import Step
from kohort.errors import ErrorCode
from kohort.protocol.subscription import subscribed_topics
from kohort.types import Instant, Reply, Timestamp, TopicPartition

GROUP_ID_NOT_FOUND_SINCE = 9
"""First version of OffsetCommit with this error."""
FETCH_CHUNK = 500
"""Offsets that are unpacked at once for an OffsetFetch of all partitions."""
RECORD_OVERHEAD = 32
"""Maximum size of an offset's record without group, topic and value."""
MIN_RECORD_BYTES = 1 + 24 + RECORD_OVERHEAD
"""Size of the smallest record: empty group id, topic of one character, shortest value."""
_LAST_TIMESTAMP = 2**63 - 1
_EMPTY = State.EMPTY
_COMPLETING_REBALANCE = State.COMPLETING_REBALANCE


def commit_offsets(
    group: AnyGroup | None,
    request: OffsetCommit,
    config: GroupCoordinatorConfig,
    now: Instant,
    timestamp: Timestamp,
) -> Result:
    """Decide one OffsetCommit."""
    if isinstance(group, ConsumerGroup):
        error = validate_commit(
            group,
            request.member_id,
            request.generation,
            request.version,
            _partitions_by_id(request.offsets),
        )
    else:
        error = validate_offset_commit(group, request, request.version)
    if error is NONE:
        error = _validate_size(request, config)
    if error is not NONE:
        return _refused(request, error)
    if isinstance(group, Group) and request.member_id:
        _keep_alive(group, request.member_id, now)
    expires = (
        NO_TIMESTAMP
        if request.retention_ms == -1
        else min(timestamp + request.retention_ms, _LAST_TIMESTAMP)
    )
    records, results = _decide_offsets(request.group, request.offsets, config, timestamp, expires)
    return Result(tuple(records), (Reply(request.on_response, OffsetCommitResponse(results)),))


def commit_transactional_offsets(
    group: AnyGroup | None,
    request: TxnOffsetCommit,
    config: GroupCoordinatorConfig,
    timestamp: Timestamp,
    pending: int,
) -> Result:
    """Decide one TxnOffsetCommit; the producer already has `pending` offsets."""
    if isinstance(group, ConsumerGroup):
        error = validate_transactional_commit(
            group,
            request.member_id,
            request.instance_id,
            request.generation,
            request.version,
            _partitions_by_id(request.offsets),
        )
    else:
        error = validate_transactional_offset_commit(group, request)
    if error is NONE:
        error = _validate_size(request, config)
    if error is NONE and pending + len(request.offsets) > config.max_pending_offsets:
        error = ErrorCode.invalid_commit_offset_size
    if error is not NONE:
        return _refused(request, error)
    commits, results = _decide_offsets(request.group, request.offsets, config, timestamp)
    producer = request.producer_id, request.producer_epoch
    return Result(
        replies=(Reply(request.on_response, OffsetCommitResponse(results)),),
        transactional=tuple(TransactionalOffsets(*producer, commit) for commit in commits),
    )


def _refused(request: OffsetCommit | TxnOffsetCommit, error: ErrorCode) -> Result:
    results = tuple((TopicPartition(o.topic, o.partition), error) for o in request.offsets)
    return Result(replies=(Reply(request.on_response, OffsetCommitResponse(results)),))


def _partitions_by_id(
    offsets: Iterable[OffsetToCommit],
) -> Iterator[tuple[UUID | None, tuple[int]]]:
    return ((offset.topic_id, (offset.partition,)) for offset in offsets)


def _decide_offsets(
    group: str,
    offsets: Iterable[OffsetToCommit],
    config: GroupCoordinatorConfig,
    timestamp: Timestamp,
    expires: int = NO_TIMESTAMP,
) -> tuple[list[OffsetCommits], tuple[tuple[TopicPartition, ErrorCode], ...]]:
    """The records of an accepted commit, and the error of each offset."""
    has_expiry = expires != NO_TIMESTAMP
    records: list[OffsetCommits] = []
    partitions: list[int] = []
    values: list[bytes] = []
    topic_and_size = ("", 0)
    results = []
    for topic, partition, offset, leader_epoch, metadata, topic_id in offsets:
        tp = TopicPartition(topic, partition)
        if metadata and _metadata_too_large(metadata, config.offset_metadata_max_bytes):
            results.append((tp, ErrorCode.offset_metadata_too_large))
            continue
        results.append((tp, NONE))
        # The record version with an expiry has no topic id.
        value = pack_offset(
            offset,
            leader_epoch,
            metadata or "",
            timestamp,
            expires,
            None if has_expiry else topic_id,
        )
        if topic_and_size != (topic, len(value)):
            topic_and_size = topic, len(value)
            partitions, values = [], []
            records.append(OffsetCommits(group, topic, partitions, values))
        partitions.append(partition)
        values.append(value)
    if _too_large_to_log(records, config):
        size = ErrorCode.unknown_server_error
        results = [(tp, error or size) for tp, error in results]
        records = []
    return records, tuple(results)


def commit_columns(
    group: AnyGroup | None,
    committer: Committer,
    version: int,
    topics: Sequence[OffsetColumns],
    config: GroupCoordinatorConfig,
    now: Instant,
    timestamp: Timestamp,
) -> ErrorCode | list[OffsetCommits]:
    """Decide a commit without metadata in columns. Returns one error for all, or the records.

    The result is the same as of `commit_offsets`.
    """
    group_id, epoch, member_id, _ = committer
    if isinstance(group, ConsumerGroup):
        by_id = ((UUID(bytes=topic_id), partitions) for _, topic_id, partitions, _ in topics)
        error = validate_commit(group, member_id, epoch, version, by_id)
        if error is not NONE:
            return error
    else:
        error = validate_offset_commit(group, committer, version)
        if error is not NONE:
            return error
        if member_id and group is not None:
            _keep_alive(group, member_id, now)
    records = []
    for topic, topic_id, partitions, positions in topics:
        records.append(
            OffsetCommits(group_id, topic, partitions, pack_offsets(positions, timestamp, topic_id))
        )
    return ErrorCode.unknown_server_error if _too_large_to_log(records, config) else records


def _too_large_to_log(commits: Iterable[OffsetCommits], config: GroupCoordinatorConfig) -> bool:
    """Whether a commit is too large for one batch; each record includes the group's id.

    Kafka's log refuses such a batch, and its coordinator returns UNKNOWN_SERVER_ERROR.
    """
    size = 0
    for group, topic, partitions, values in commits:
        group_bytes = len(group) if group.isascii() else 3 * len(group)
        size += len(partitions) * (len(values[0]) + len(topic) + group_bytes + RECORD_OVERHEAD)
    return size > config.max_commit_bytes


def _validate_size(
    request: OffsetCommit | TxnOffsetCommit, config: GroupCoordinatorConfig
) -> ErrorCode:
    """Refuse a commit that would be too large for one batch even with empty strings."""
    least = len(request.offsets) * (len(request.group) + MIN_RECORD_BYTES)
    return ErrorCode.unknown_server_error if least > config.max_commit_bytes else NONE


def _keep_alive(group: Group, member_id: str, now: Instant) -> None:
    """Restart the session of the member: a commit counts as a heartbeat."""
    session = group.sessions.get(member_id)
    if session is not None:
        session.deadline = Instant(now + session.session_timeout_ms)


def validate_offset_commit(
    group: Group | None, request: OffsetCommit | Committer, version: int
) -> ErrorCode:
    """Check whether a member of a classic group may commit in this generation."""
    if group is None:
        if too_long(request.group):
            return ErrorCode.invalid_group_id
        if request.generation < 0:
            return ErrorCode.none
        newer = version >= GROUP_ID_NOT_FOUND_SINCE
        return ErrorCode.group_id_not_found if newer else ErrorCode.illegal_generation
    state = group.state
    if request.generation < 0:
        if state is _EMPTY:
            return NONE
        if not request.member_id and request.instance_id is None:
            return ErrorCode.unknown_member_id
    error = group.validate_member(request.member_id, request.instance_id)
    if error is not NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.illegal_generation
    return ErrorCode.rebalance_in_progress if state is _COMPLETING_REBALANCE else NONE


def validate_transactional_offset_commit(
    group: Group | None, request: TxnOffsetCommit
) -> ErrorCode:
    """Check whether a member of a classic group may commit in a transaction."""
    if not request.group or too_long(request.group):
        return ErrorCode.invalid_group_id
    if group is None:
        if request.generation < 0:
            return NONE
        newer = request.version >= TRANSACTIONAL_MEMBER_EPOCH_SINCE
        return ErrorCode.group_id_not_found if newer else ErrorCode.illegal_generation
    if request.generation < 0:
        names_no_member = not request.member_id and request.instance_id is None
        if names_no_member or group.state is _EMPTY:
            return NONE
    error = group.validate_member(request.member_id, request.instance_id)
    if error is NONE and request.generation != group.generation:
        return ErrorCode.illegal_generation
    return error


def fetch_offsets(group: AnyGroup | None, request: OffsetFetch) -> OffsetFetchResponse:
    """Decide one OffsetFetch of one group; it restarts no session."""
    if isinstance(group, ConsumerGroup):
        error = validate_fetch(group, request.member_id, request.member_epoch)
        if error is not NONE:
            return OffsetFetchResponse(error=error)
    offsets = CommittedOffsets() if group is None else group.offsets
    ids, unstable = request.topic_ids, _unstable(offsets, request)
    if request.partitions is None:
        if len(offsets) > FETCH_CHUNK:
            return OffsetFetchResponse(offsets=_Everything(offsets.snapshot(), ids, unstable))
        return OffsetFetchResponse(offsets=tuple(_Everything(offsets, ids, unstable)))
    return OffsetFetchResponse(
        offsets=tuple(
            _unstable_offset(p)
            if p.partition in unstable.get(p.topic, ())
            else _fetched(p, offsets.get(p), ids.get(p.topic))
            for p in request.partitions
        )
    )


def _unstable(offsets: CommittedOffsets, request: OffsetFetch) -> Mapping[str, Set[int]]:
    """Requested partitions by topic whose offset depends on an open transaction."""
    pending = offsets.pending
    if pending is None or not request.require_stable:
        return {}
    if request.partitions is None:
        return {topic: pending.unstable(topic) for topic in pending.topics}
    return pending.unstable_among(request.partitions)


def _unstable_offset(partition: TopicPartition) -> FetchedOffset:
    return FetchedOffset(*partition, error=ErrorCode.unstable_offset_commit)


class _Everything:
    """Snapshot of all offsets of a group, unpacked during iteration."""

    def __init__(
        self,
        offsets: CommittedOffsets,
        ids: Mapping[str, UUID],
        unstable: Mapping[str, Set[int]],
    ) -> None:
        self._offsets = offsets
        self._ids = ids
        self._unstable = unstable

    def __iter__(self) -> Iterator[FetchedOffset]:
        for partition, value in self._offsets.items():
            if partition.partition in self._unstable.get(partition.topic, ()):
                yield _unstable_offset(partition)
            elif not _is_of_namesake(value, self._ids.get(partition.topic)):
                yield _fetched(partition, value)


def delete_offsets(group: AnyGroup | None, request: OffsetDelete, step: Step) -> None:
    """Decide one OffsetDelete."""
    error = _validate_offset_delete(group, request)
    if group is None or error is not ErrorCode.none:
        step.reply(request.on_response, OffsetDeleteResponse(error=error))
        return
    subscribed = group_subscription(group)
    if (
        isinstance(group, Group)
        and group.logged is None
        and group.offsets.keys() <= set(request.partitions)
    ):
        # A simple group that loses its last offset stays until the next check for expired groups,
        # as in Kafka.
        step.record(new_empty_group_record(group.id, step.timestamp))
    results = []
    for partition in request.partitions:
        if subscribed is None or partition.topic in subscribed:
            results.append((partition, ErrorCode.group_subscribed_to_topic))
        else:
            if group.offsets.concerns(partition):
                step.record(offset_tombstone(group.id, partition))
            results.append((partition, ErrorCode.none))
    step.reply(request.on_response, OffsetDeleteResponse(results=tuple(results)))


def group_subscription(group: AnyGroup) -> Set[str] | None:
    """Subscribed topics of the current generation; None if they cannot be read.

    Among classic groups, only those of type consumer have subscriptions.
    """
    if isinstance(group, ConsumerGroup):
        return group.subscribed_topics()
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return frozenset()
    topics: set[str] = set()
    for blob in _subscriptions(group):
        parsed = subscribed_topics(blob)
        if parsed is None:
            return None
        topics |= parsed
    return frozenset(topics)


def offset_tombstone(group: str, partition: TopicPartition) -> OffsetCommitRecord:
    return OffsetCommitRecord(OffsetCommitKey(group, *partition), None)


def _subscriptions(group: Group) -> list[bytes]:
    if group.round is not None and not group.round.joining:
        return [session.metadata(group.round.protocol) for session in group.sessions.values()]
    return (
        []
        if group.logged is None
        else [member.subscription for member in group.logged.value.members]
    )


def _validate_offset_delete(group: AnyGroup | None, request: OffsetDelete) -> ErrorCode:
    if not request.group:
        return ErrorCode.invalid_group_id
    if group is None:
        return ErrorCode.group_id_not_found
    if not group.is_empty and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.non_empty_group
    return ErrorCode.none


def _metadata_too_large(metadata: str, limit: int) -> bool:
    if 2 * len(metadata) > limit and len(metadata.encode("utf-16-le", "surrogatepass")) > 2 * limit:
        return True
    return too_long(metadata)


def _fetched(
    partition: TopicPartition, value: OffsetCommitValue | None, topic_id: UUID | None = None
) -> FetchedOffset:
    if value is None or _is_of_namesake(value, topic_id):
        return FetchedOffset(partition.topic, partition.partition)
    return FetchedOffset(
        partition.topic, partition.partition, value.offset, value.leader_epoch, value.metadata
    )


def _is_of_namesake(value: OffsetCommitValue, topic_id: UUID | None) -> bool:
    """Whether it was committed for an earlier topic of the same name, with another id."""
    return topic_id is not None and value.topic_id not in (None, topic_id)
