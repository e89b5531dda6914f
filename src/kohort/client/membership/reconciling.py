"""From the coordinator's assignment to what the application has, and to its acknowledgement.

Partitions that the assignment lacks are drained first. Then the new ones are added, and a heartbeat
with all owned partitions acknowledges. Until it does, the coordinator gives the revoked ones to
nobody. An assignment that arrives meanwhile replaces the one that waits.
"""

from collections.abc import Mapping
from uuid import UUID

from kohort.client.membership.consumer_state import ConsumerPhase, ConsumerState
from kohort.client.membership.events import End, ResolveTopics, TopicIdPartition
from kohort.types import TopicPartition


def handle_assignment(
    member: ConsumerState, assignment: frozenset[TopicIdPartition], now: int
) -> None:
    """Take over an assignment of the coordinator."""
    member.target = assignment
    member.names = {
        topic_id: name
        for topic_id, name in member.names.items()
        if topic_id in {each.topic_id for each in assignment}
    }
    begin_to_reconcile(member, now)


def begin_to_reconcile(member: ConsumerState, now: int) -> None:
    """Compare what the application has with the assignment again."""
    member.phase = ConsumerPhase.RECONCILING
    resolve(member)
    reconcile(member, now)


def resolve(member: ConsumerState) -> None:
    """Look up the topic ids that have no name; one request at a time."""
    if member.unknown and not member.resolving:
        member.resolving, member.resolve_at = member.unknown, None
        member.actions.append(ResolveTopics(member.resolving))


def handle_names(member: ConsumerState, names: Mapping[UUID, str], now: int) -> None:
    """Handle the names of `resolving`; ids without a name are looked up again later."""
    asked, member.resolving = member.resolving, frozenset()
    known = {each: names[each] for each in asked & names.keys() & member.unknown}
    member.names |= known
    if member.unknown - asked:
        resolve(member)
    elif member.unknown:
        member.resolve_at = now + member.interval_ms
    if known and member.phase in (ConsumerPhase.ACKNOWLEDGING, ConsumerPhase.STABLE):
        member.phase = ConsumerPhase.RECONCILING
    reconcile(member, now)


def reconcile(member: ConsumerState, now: int) -> None:
    """Take the next step towards the assignment, unless something drains."""
    if (
        member.phase is not ConsumerPhase.RECONCILING
        or member.draining
        or member.leaving_because is not None
    ):
        return
    if revoked := member.held.keys() - member.target:
        _revoke(member, revoked, now)
    elif not member.resolving and (not member.wanted or now >= member.out_until):
        _add(member, now)
        member.phase, member.acknowledges = ConsumerPhase.ACKNOWLEDGING, False
        member.hasten(now)


def _revoke(member: ConsumerState, revoked: set[TopicIdPartition], now: int) -> None:
    member.ending = {each: member.held[each] for each in revoked}
    kept = {each: name for each, name in member.held.items() if each not in revoked}
    member.session.revokes = True
    member.tell("rebalance", f"the coordinator revokes {len(revoked)} partitions")
    member.start(kept, now)
    names = tuple(sorted(member.ending.values()))
    member.end(End.REVOKED, names, member.drain_ms(now), "the coordinator revoked it")


def _add(member: ConsumerState, now: int) -> None:
    """Begin a generation with all assigned partitions whose topics have a name."""
    if not member.wanted:
        return
    held = member.held | {
        each: TopicPartition(member.names[each.topic_id], each.partition)
        for each in member.target
        if each.topic_id in member.names
    }
    if held != member.held or not member.running:
        member.start(held, now)
