"""The records of one write of a group: of one decision of its coordinator.

They are in one batch, have one time, and follow one another. Two decisions of one group may be in
one batch and have the same time. They are told apart by the order in which Kafka writes records:
what changes members, then the epoch, then assignments.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kohort.history.group_records import GroupRecord
from kohort.history.interface import LogPosition

GENERATIONS: Final = frozenset({"classic", "epoch"})
"""Kinds of records that have a generation, or end the group."""


class Written(NamedTuple):
    record: GroupRecord
    at: LogPosition
    life: int
    key: bytes
    value: bytes | None


@dataclass(slots=True)
class Write:
    """A write whose end has not been seen."""

    group: str
    life: int
    records: list[Written] = field(default_factory=list)
    has_generation: bool = False
    ended: str | None = None
    """Type of the group that it has ended, if it has not gone on since."""

    def goes_on_with(self, record: GroupRecord, at: LogPosition) -> bool:
        last = self.records[-1].at
        if record.group != self.group:
            return False
        if (at.batch_offset, at.timestamp) != (last.batch_offset, last.timestamp):
            return False
        # After a generation there are only assignments: the rest is of another request.
        return not (self.has_generation and _begins_request(record))

    @property
    def follows_data_loss(self) -> bool:
        """Whether records of the group before it may be lost, if none is known."""
        return any(written.at.follows_data_loss for written in self.records)

    def replayed(self, *, is_exact: bool) -> Iterator[tuple[GroupRecord, LogPosition, int]]:
        """Each record, with its position and life. All are exact, or none is.

        `is_exact`: whether no record of the group before it is lost.
        """
        since = [written.at.exact_since for written in self.records]
        exact = [each for each in since if each is not None]
        exact_since = max(exact) if is_exact and len(exact) == len(since) else None
        for written in self.records:
            yield written.record, written.at._replace(exact_since=exact_since), written.life

    def append(self, written: Written, type_: str | None) -> None:
        """`type_`: of the group before the write."""
        record, self.life = written.record, written.life
        self.records.append(written)
        if not record.is_decoded:
            return
        if not record.is_tombstone:
            self.has_generation = self.has_generation or record.kind in GENERATIONS
            self.ended = None
        elif record.kind in GENERATIONS and record.protocol == type_:
            self.ended = type_


def _begins_request(record: GroupRecord) -> bool:
    return (
        record.kind in GENERATIONS
        or record.kind == "member"
        or (record.kind == "current" and record.is_tombstone)
    )
