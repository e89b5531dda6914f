"""The server's view of the group: its `/groups/{id}` as values (JSON in docs/operations.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kohort.coordinator.journal import Cause, Rebalance
from kohort.types import Timestamp
from kohort_demo.loading import Ends


@dataclass(frozen=True, slots=True)
class MemberState:
    member_id: str
    client_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionState:
    partition: int
    owner: str | None
    """Client id."""
    committed: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """The group at one moment."""

    group: str
    state: str = "Dead"
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: tuple[MemberState, ...] = ()
    partitions: tuple[PartitionState, ...] = ()
    journal: tuple[Rebalance, ...] = ()

    @property
    def committed(self) -> int:
        return sum(partition.committed for partition in self.partitions)

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)


def group_state(group: str, told: Mapping[str, Any] | None, topic: str, ends: Ends) -> GroupState:
    """From the server's JSON, None for a group that it does not know yet.

    Only `topic`'s partitions count.
    """
    told = told or {"members": [], "offsets": [], "journal": []}
    members = tuple(
        sorted(
            (_member(member, topic) for member in told["members"]),
            key=lambda member: member.client_id,
        )
    )
    owners = {partition: member.client_id for member in members for partition in member.partitions}
    committed = {
        at["partition"]: at["committed_offset"] for at in told["offsets"] if at["topic"] == topic
    }
    return GroupState(
        group=group,
        state=told.get("state", "Dead"),
        generation=told.get("generation", 0),
        protocol=told.get("protocol"),
        leader=next(
            (member.client_id for member in members if member.member_id == told.get("leader")), None
        ),
        members=members,
        partitions=tuple(
            PartitionState(
                partition, owners.get(partition), max(0, committed.get(partition, 0)), end
            )
            for partition, end in sorted(ends.items())
        ),
        journal=tuple(_rebalance(group, entry) for entry in told["journal"]),
    )


def _member(told: Mapping[str, Any], topic: str) -> MemberState:
    assigned = [part["partitions"] for part in told["assignment"] or () if part["topic"] == topic]
    partitions = tuple(sorted(number for numbers in assigned for number in numbers))
    return MemberState(told["member_id"], told["client_id"], partitions)


def _rebalance(group: str, told: Mapping[str, Any]) -> Rebalance:
    return Rebalance(
        group=group,
        generation=told["generation"],
        causes=tuple(
            Cause(cause["what"], cause["member_id"], cause["client_id"], cause["reason"])
            for cause in told["causes"]
        ),
        outcome=told["outcome"],
        started=Timestamp(told["started"]),
        joined=None if told["joined"] is None else Timestamp(told["joined"]),
        ended=Timestamp(told["ended"]),
        members=tuple(told["members"]),
        awaited=tuple(told["awaited"]),
    )
