"""Checks the result of an application's own assignor before the leader sends it.

A broker and other members accept any assignment. A partition with two owners, without an owner, or
moved before its owner has revoked it would only show in the data. Java checks the last case
(ConsumerCoordinator.validateCooperativeAssignment) for every assignor that is not its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kohort.assignors.base import Assignment, Assignor, Member, RebalanceProtocol, Topics
from kohort.errors import KohortError
from kohort.types import MemberId, TopicPartition

SHOWN: Final = 5
"""Maximum number of mistakes in the error text."""


class InvalidAssignmentError(KohortError):
    """An assignor returned an invalid assignment; the text names each mistake."""


def validate_assignment(
    assignor: Assignor,
    topics: Topics,
    members: Sequence[Member],
    assigned: Mapping[MemberId, Assignment],
) -> None:
    """Check an assignment. Raises InvalidAssignmentError.

    Every member must have an assignment, and every partition of a subscribed topic one owner, which
    subscribes to the topic. A cooperative assignor must leave out partitions that another member
    has to revoke.
    """
    mistakes = list(_wrong_members(members, assigned))
    if not mistakes:
        cooperative = RebalanceProtocol.COOPERATIVE in assignor.protocols
        mistakes += _wrong_partitions(topics, members, assigned, cooperative=cooperative)
    if mistakes:
        more = f"; and {len(mistakes) - SHOWN} more" if len(mistakes) > SHOWN else ""
        raise InvalidAssignmentError(
            f"the assignor {assignor.name!r} returned an assignment that cannot be used: "
            f"{'; '.join(mistakes[:SHOWN])}{more}"
        )


def _wrong_members(
    members: Sequence[Member], assigned: Mapping[MemberId, Assignment]
) -> Iterator[str]:
    member_ids = {member.member_id for member in members}
    for member_id in sorted(member_ids - assigned.keys()):
        yield f"member {member_id!r} has no assignment, not even an empty one"
    for member_id, assignment in assigned.items():
        if member_id not in member_ids:
            yield f"there is no member {member_id!r} in the group"
        elif not isinstance(assignment, Assignment):
            yield f"member {member_id!r} gets {assignment!r} instead of an Assignment"


def _wrong_partitions(
    topics: Topics,
    members: Sequence[Member],
    assigned: Mapping[MemberId, Assignment],
    *,
    cooperative: bool,
) -> Iterator[str]:
    owners: dict[TopicPartition, MemberId] = {}
    owned_by = {tp: member.member_id for member in members for tp in member.owned_partitions}
    for member in members:
        owned_before = set(member.owned_partitions)
        for tp in assigned[member.member_id].partitions:
            if tp in owners:
                yield f"{tp} is assigned to {owners[tp]!r} and to {member.member_id!r}"
            elif tp.topic not in member.topics:
                yield f"{tp} is assigned to {member.member_id!r}, which does not subscribe to it"
            elif not 0 <= tp.partition < len(topics.get(tp.topic, ())):
                yield f"{tp} is assigned to {member.member_id!r}, but there is no such partition"
            elif cooperative and tp in owned_by and tp not in owned_before:
                yield (
                    f"{tp} moves to {member.member_id!r} while {owned_by[tp]!r} owns it: leave it "
                    "out, and assign it in the rebalance after its owner has revoked it"
                )
            owners.setdefault(tp, member.member_id)
    revocable = owned_by.keys() if cooperative else ()
    for topic in sorted({topic for member in members for topic in member.topics}):
        for number in range(len(topics.get(topic, ()))):
            if (tp := TopicPartition(topic, number)) not in owners and tp not in revocable:
                yield f"{tp} is assigned to no member"
