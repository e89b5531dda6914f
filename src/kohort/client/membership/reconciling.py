"""Reconciles the member with the coordinator's assignment: revokes, adds, acknowledges.

Partitions missing in the assignment are drained first. Then new ones are added, and a heartbeat
with all owned partitions acknowledges the assignment. Until then the coordinator does not assign
the revoked partitions to other members. An assignment that arrives meanwhile replaces the earlier
one.
"""

from collections.abc import Mapping
from uuid import UUID

from kohort.client.membership.consumer_state import ConsumerPhase, ConsumerState
from kohort.client.membership.events import End, ResolveTopics
from kohort.types import TopicIdPartition, TopicPartition


def handle_assignment(
    member: ConsumerState, assignment: frozenset[TopicIdPartition], now: int
) -> None:
    """Set the target assignment, and begin to reconcile."""
    member.target = assignment
    member.names = {
        topic_id: name
        for topic_id, name in member.names.items()
        if topic_id in {partition.topic_id for partition in assignment}
    }
    begin_to_reconcile(member, now)


def begin_to_reconcile(member: ConsumerState, now: int) -> None:
    """Compare the current assignment with the target."""
    member.phase = ConsumerPhase.RECONCILING
    resolve(member)
    reconcile(member, now)


def resolve(member: ConsumerState) -> None:
    """Request the names of unresolved topic ids; one request at a time."""
    if member.unresolved and not member.resolving:
        member.resolving, member.resolve_at = member.unresolved, None
        member.actions.append(ResolveTopics(member.resolving))


def handle_names(member: ConsumerState, names: Mapping[UUID, str], now: int) -> None:
    """Handle the names of `resolving`; ids without a name are requested again later."""
    requested, member.resolving = member.resolving, frozenset()
    resolved = {
        topic_id: names[topic_id] for topic_id in requested & names.keys() & member.unresolved
    }
    member.names |= resolved
    if member.unresolved - requested:
        resolve(member)
    elif member.unresolved:
        member.resolve_at = now + member.interval_ms
    if resolved and member.phase in (ConsumerPhase.ACKNOWLEDGING, ConsumerPhase.STABLE):
        member.phase = ConsumerPhase.RECONCILING
    reconcile(member, now)


def reconcile(member: ConsumerState, now: int) -> None:
    """Make the next step towards the assignment, unless partitions drain."""
    if (
        member.phase is not ConsumerPhase.RECONCILING
        or member.draining
        or member.leaving_because is not None
    ):
        return
    if revoked := member.current_assignment.keys() - member.target:
        _revoke(member, revoked, now)
    elif not member.resolving and (not member.active or now >= member.paused_until):
        _add(member, now)
        member.phase, member.acknowledges = ConsumerPhase.ACKNOWLEDGING, False
        member.hasten(now)


def _revoke(member: ConsumerState, revoked: set[TopicIdPartition], now: int) -> None:
    member.revoking = {partition: member.current_assignment[partition] for partition in revoked}
    remaining = {
        partition: name
        for partition, name in member.current_assignment.items()
        if partition not in revoked
    }
    member.session.revokes = True
    member.log_event("rebalance", f"the coordinator revokes {len(revoked)} partitions")
    member.start(remaining, now)
    names = tuple(sorted(member.revoking.values()))
    member.end(End.REVOKED, names, member.drain_ms(now), "the coordinator revoked it")


def _add(member: ConsumerState, now: int) -> None:
    """Start a generation with all assigned partitions whose topics have a name."""
    if not member.active:
        return
    assignment = member.current_assignment | {
        partition: TopicPartition(member.names[partition.topic_id], partition.partition)
        for partition in member.target
        if partition.topic_id in member.names
    }
    if assignment != member.current_assignment or not member.running:
        member.start(assignment, now)
