"""Target assignments of consumer groups (KIP-848), as Kafka's assignors compute them.

`assign` is a pure function of values that do not change, and may run in a worker thread. Its result
is the same as Kafka's, in the order of Kafka's records, if the members come in Kafka's order
(`MemberTable.assignment_order`). Racks have no influence.
"""

from collections.abc import Mapping
from typing import Final

from kohort.assignors.server.base import MemberSpec, Target, Topics
from kohort.assignors.server.heterogeneous import assign_heterogeneous
from kohort.assignors.server.homogeneous import assign_homogeneous
from kohort.assignors.server.range import assign_range
from kohort.types import MemberId

UNIFORM: Final = "uniform"
RANGE: Final = "range"


def assign(
    assignor: str, members: Mapping[MemberId, MemberSpec], topics: Topics, *, homogeneous: bool
) -> Mapping[MemberId, Target]:
    """The target assignment of every member, empty ones included, in the order of the members.

    An unchanged target is the same object as the old one. No two old targets have
    the same partition (`without_overlaps`). `topics` has at least the topics of the subscriptions.
    `homogeneous`: all members name the same topics without a regular expression, or use
    the same regular expression without names.
    """
    if not any(member.subscription.topic_ids for member in members.values()):
        assigned: dict[MemberId, Target] = {member_id: {} for member_id in members}
    elif assignor == RANGE:
        assigned = assign_range(members, topics, homogeneous=homogeneous)
    elif homogeneous:
        assigned = assign_homogeneous(members, topics)
    else:
        assigned = assign_heterogeneous(members, topics)
    for member_id, member in members.items():
        new, old = assigned[member_id], member.target
        if new is not old and _same(old, new):
            assigned[member_id] = old
    return assigned


def _same(old: Target, new: Target) -> bool:
    """Whether both have the same partitions, in any order."""
    if len(old) != len(new):
        return False
    if old == new:
        return True
    for topic_id, partitions in old.items():
        others = new.get(topic_id, ())
        if len(partitions) != len(others) or not set(partitions).issuperset(others):
            return False
    return True
