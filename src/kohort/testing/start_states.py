"""Groups in a state to start a test with, as records of `__consumer_offsets`.

    start_state("billing", StartState(members=3, generation=7, topics=["orders"]), topics, config)

Members join, sync and commit at a coordinator of their own, which decides all records. So there is
no state that a server could not be in. Only the generation before is given: that of a group whose
members have left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from uuid import UUID

from kohort.assignors import (
    SubscribedMember,
    assignor,
    encode_metadata,
    perform_assignment,
    without_racks,
)
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import FIRST_EPOCH, ConsumerGroupState
from kohort.coordinator.consumer_records import (
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    GroupKey,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    Row,
)
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.topics import TopicsView
from kohort.errors import KohortError
from kohort.testing.bench import Bench, Call
from kohort.types import Timestamp
from kohort.util.text import did_you_mean

_HOST: Final = "/127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class StartState:
    """What a group is to be; the names are Kafka's. Values are of their ranges."""

    members: int | None = None
    """Number of members; by default one for each instance id, or one."""
    instance_ids: Sequence[str] = ()
    """The `group.instance.id` of the first members, which makes them static."""
    generation: int | None = None
    """Generation, or group epoch of a consumer group; None: that of a new group."""
    topics: Sequence[str] = ()
    """Topics to which each member subscribes; by default those of `committed`."""
    committed: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Committed offsets by topic and partition."""
    type: str = "classic"
    """classic | consumer"""
    assignor: str = "range"
    """Of a classic group: range, roundrobin, sticky, cooperative-sticky; else uniform or range."""
    reconciling: bool = False
    """A consumer group whose last member has just joined: the others have been told to revoke its
    partitions, and have not."""
    session_timeout_ms: int = 45_000
    """Of members of a classic group; a consumer group has that of the server."""
    rebalance_timeout_ms: int = 300_000

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self.instance_ids) or 1 if self.members is None else self.members


@dataclass(frozen=True, slots=True)
class StartedGroup:
    """The records of a group, and its members."""

    records: tuple[Row, ...]
    member_ids: tuple[str, ...]
    """In the order in which they joined."""


def start_state(
    group: str,
    state: StartState,
    topics: TopicsView,
    config: GroupCoordinatorConfig,
    now: Timestamp,
) -> StartedGroup:
    """The records that bring a new group into a state.

    `topics` are those of the server, `config` its limits, `now` its time in ms since the epoch.
    Raises KohortError for a state that no group can be in; the text says why.
    """
    _validate(group, state, topics)
    builder = _Builder(group, state, topics, config, now)
    if state.type == "classic":
        return builder.classic_group()
    return builder.consumer_group()


def _validate(group: str, state: StartState, topics: TopicsView) -> None:
    if not group:
        raise KohortError("a group needs an id")
    if len(state.instance_ids) > state.count:
        raise KohortError(
            f"members={state.members}: a group has at least its {len(state.instance_ids)} static "
            "members"
        )
    if state.count and not _subscribed(state):
        raise KohortError("members subscribe to topics: name them by topics=[…]")
    if state.reconciling and (state.type != "consumer" or state.count < 2):
        raise KohortError("reconciling=True needs type='consumer' and two members or more")
    _validate_partitions(state, topics)


def _validate_partitions(state: StartState, topics: TopicsView) -> None:
    for name in {*_subscribed(state), *(topic for topic, _ in state.committed)}:
        if topics.by_name(name) is None:
            hint = did_you_mean(name, topics.names())
            raise KohortError(f"there is no topic {name!r}{hint} kafka.topic(…) creates topics")
    for name, partition in state.committed:
        image = topics.by_name(name)
        if image is not None and partition >= image.partitions:
            raise KohortError(f"{name} has the partitions 0 to {image.partitions - 1}")


def _subscribed(state: StartState) -> tuple[str, ...]:
    return tuple(sorted({*state.topics} or {topic for topic, _ in state.committed}))


class _Builder:
    """A coordinator without other groups, and the members of the group."""

    def __init__(
        self,
        group: str,
        state: StartState,
        topics: TopicsView,
        config: GroupCoordinatorConfig,
        now: Timestamp,
    ) -> None:
        self._group = group
        self._state = state
        self._topics = topics
        self._config = replace(
            config,
            initial_rebalance_delay_ms=0,
            consumer=replace(config.consumer_group(group), assignment_interval_ms=0),
            consumer_of=lambda _: None,
        )
        self._now = now

    def _bench(self, *log: Row) -> Bench:
        bench = Bench(self._config, topics=self._topics, log=log)
        bench.set_ahead(self._now - bench.now)
        return bench

    def _members(self) -> list[tuple[str, str | None]]:
        """Client id and instance id of each member."""
        missing = self._state.count - len(self._state.instance_ids)
        names: list[str | None] = [*self._state.instance_ids, *[None] * missing]
        return [(f"{self._group}-{number}", name) for number, name in enumerate(names, 1)]

    def _commit(self, bench: Bench, member_id: str, generation: int) -> None:
        offsets = {
            (topic, partition): OffsetToCommit(
                topic, partition, offset, topic_id=self._topic_id(topic)
            )
            for (topic, partition), offset in self._state.committed.items()
        }
        if offsets:
            call = bench.commit(self._group, offsets, member_id=member_id, generation=generation)
            for error in {error for _, error in call.response.results if error}:
                raise self._refused("OffsetCommit", error.name)

    def _topic_id(self, topic: str) -> UUID | None:
        image = self._topics.by_name(topic)
        return None if image is None else image.id

    def _refused(self, api: str, error: str) -> KohortError:
        return KohortError(
            f"group {self._group} cannot be started: its coordinator responds to {api} with "
            f"{error.upper()}"
        )

    def _checked(self, api: str, call: Call) -> Any:
        """The response. Raises KohortError if it has an error."""
        if call.error not in ("none", "member_id_required"):
            raise self._refused(api, call.error)
        return call.response

    # --- the classic protocol

    def classic_group(self) -> StartedGroup:
        count, generation = self._state.count, self._state.generation
        if generation is None:
            generation = 1 if count else 0
        if count and not generation:
            raise KohortError("generation=0: a group with members is in generation 1 or later")
        before = generation - 1 if count else generation
        bench = self._bench(*([self._empty(before)] if before else ()))
        member_ids = self._join_and_sync(bench, generation) if count else ()
        leader = member_ids[0] if member_ids else ""
        self._commit(bench, leader, generation if count else -1)
        return StartedGroup(_rows(bench), member_ids)

    def _empty(self, generation: int) -> Row:
        value = GroupMetadataValue("consumer", generation, None, None, self._now, ())
        return GroupMetadataRecord(GroupMetadataKey(self._group), value)

    def _join_and_sync(self, bench: Bench, generation: int) -> tuple[str, ...]:
        metadata = encode_metadata(assignor(self._state.assignor), _subscribed(self._state))
        calls: list[Call] = []
        for client_id, instance_id in self._members():
            fields: dict[str, Any] = {
                "protocols": {self._state.assignor: metadata},
                "client_id": client_id,
                "client_host": _HOST,
                "session_timeout_ms": self._state.session_timeout_ms,
                "rebalance_timeout_ms": self._state.rebalance_timeout_ms,
                "instance_id": instance_id,
            }
            call = bench.join(self._group, **fields)
            if not call.parked:
                member_id = self._checked("JoinGroup", call).member_id
                call = bench.join(self._group, member_id, **fields)
            calls.append(call)
        bench.advance(1)  # the initial delay is over
        responses = [self._checked("JoinGroup", call) for call in calls]
        assignments = self._assignments(responses)
        for response in sorted(responses, key=lambda each: each.member_id == each.leader):
            bench.sync(
                self._group,
                response.member_id,
                generation,
                assignments if response.member_id == response.leader else (),
                protocol_name=self._state.assignor,
            )
        return tuple(response.member_id for response in responses)

    def _assignments(self, responses: Sequence[Any]) -> list[tuple[str, bytes]]:
        images = map(self._topics.by_name, _subscribed(self._state))
        partitions = {image.name: image.partitions for image in images if image is not None}
        leader = next(each for each in responses if each.member_id == each.leader)
        members = [
            SubscribedMember(member.member_id, member.instance_id, member.metadata)
            for member in leader.members
        ]
        assigned = perform_assignment(self._state.assignor, without_racks(partitions), members)
        return cast("list[tuple[str, bytes]]", assigned)

    # --- the consumer protocol (KIP-848)

    def consumer_group(self) -> StartedGroup:
        bench, member_ids = self._reconciled(FIRST_EPOCH)
        least = bench.consumer_group(self._group).epoch
        epoch = least if self._state.generation is None else self._state.generation
        if epoch < least:
            raise KohortError(
                f"generation={epoch}: each member that joins increments the group epoch, so this "
                f"group is in epoch {least} or a later one"
            )
        if epoch > least:
            bench, member_ids = self._reconciled(FIRST_EPOCH + epoch - least)
        if self._state.reconciling and bench.state(self._group) is ConsumerGroupState.STABLE:
            raise KohortError(
                f"reconciling=True: the last of {len(member_ids)} members gets no partition that "
                "another one owns; there have to be as many partitions as members"
            )
        leader = member_ids[0] if member_ids else ""
        self._commit(bench, leader, self._epoch_of(bench, leader))
        return StartedGroup(_rows(bench), member_ids)

    def _epoch_of(self, bench: Bench, member_id: str) -> int:
        if not member_id:
            return -1
        return bench.consumer_group(self._group).members[member_id].current.epoch

    def _empty_at(self, epoch: int) -> tuple[Row, ...]:
        key = GroupKey(self._group)
        return (
            ConsumerGroupMetadataRecord(key, ConsumerGroupMetadataValue(epoch)),
            TargetAssignmentMetadataRecord(key, TargetAssignmentMetadataValue(epoch, self._now)),
        )

    def _reconciled(self, epoch: int) -> tuple[Bench, tuple[str, ...]]:
        """A coordinator with the group, whose epoch was `epoch` before its members joined."""
        is_new = epoch == FIRST_EPOCH and self._state.count
        bench = self._bench(*(() if is_new else self._empty_at(epoch)))
        members: list[_ConsumerMember] = []
        for number, (client_id, instance_id) in enumerate(self._members(), 1):
            member = _ConsumerMember(f"{client_id}-{number:04}", client_id, instance_id)
            self._heartbeat(
                bench,
                member,
                topics=_subscribed(self._state),
                assignor=self._state.assignor,
                rebalance_timeout_ms=self._state.rebalance_timeout_ms,
            )
            members.append(member)
            is_last = number == self._state.count
            if is_last and self._state.reconciling:
                for other in members[:-1]:  # they learn what to revoke
                    self._heartbeat(bench, other, acknowledges=False)
            else:
                self._reconcile(bench, members)
        return bench, tuple(member.id for member in members)

    def _reconcile(self, bench: Bench, members: "Sequence[_ConsumerMember]") -> None:
        while bench.state(self._group) is not ConsumerGroupState.STABLE:
            for member in members:
                self._heartbeat(bench, member)

    def _heartbeat(
        self, bench: Bench, member: "_ConsumerMember", *, acknowledges: bool = True, **fields: Any
    ) -> None:
        """A heartbeat with the partitions that the member owns."""
        call = bench.consumer_heartbeat(
            self._group,
            member.id,
            member.epoch,
            owned=member.owned,
            client_id=member.client_id,
            client_host=_HOST,
            instance_id=member.instance_id,
            **fields,
        )
        bench.do_jobs()
        response = self._checked("ConsumerGroupHeartbeat", call)
        member.epoch = response.member_epoch
        if response.assignment is not None and acknowledges:
            member.owned = response.assignment


@dataclass(slots=True)
class _ConsumerMember:
    id: str
    client_id: str
    instance_id: str | None
    epoch: int = 0
    owned: Mapping[UUID, Sequence[int]] = field(default_factory=dict)


def _rows(bench: Bench) -> tuple[Row, ...]:
    return tuple(cast("Sequence[Row]", bench.log))
