"""A reset as a value: committed offsets before and after, and the file that stores both.

A plan is made once. Its execution commits every `new`; its undo executes the inverse. Both are
refused when the group's offsets differ from the plan's (`drift`). The file is JSON, so that it can
be reviewed, stored and compared like other changes.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self
from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata, committable
from kohort.client.resets.times import iso
from kohort.errors import KohortError
from kohort.types import GroupId, TopicPartition

FORMAT: Final = "kohort offset reset"
VERSION: Final = 1


class PlanError(KohortError):
    """A file that is not a plan; the message has the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """The change of one partition of one group."""

    group: GroupId
    partition: TopicPartition
    old: OffsetAndMetadata | None
    """The commit when the plan was made; None: there was none."""
    new: OffsetAndMetadata | None
    """The commit to make; None: the commit is deleted."""
    warning: str = ""
    """The reason if `new` is not the requested offset."""
    topic_id: UUID | None = None
    """The id of the topic, which must be the same when the change is made; None: any."""

    @property
    def moves(self) -> int | None:
        """Difference of the offsets; None if one of them does not exist."""
        return None if self.old is None or self.new is None else self.new.offset - self.old.offset

    @property
    def changes(self) -> bool:
        return self.old != self.new


@dataclass(frozen=True, slots=True)
class Drift:
    """A partition whose commit differs from the one in the plan."""

    group: GroupId
    partition: TopicPartition
    expected: int | None
    found: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """The changes of a reset to one or more groups."""

    specification: str
    """Text, such as "to-datetime 2026-01-31T09:30:00.000Z"."""
    cluster_id: str | None
    made_at_ms: int
    changes: tuple[OffsetChange, ...]
    executed_at_ms: int | None = None

    @property
    def groups(self) -> tuple[GroupId, ...]:
        """The groups in the order of their first change."""
        return tuple(dict.fromkeys(change.group for change in self.changes))

    def of(self, group: GroupId) -> tuple[OffsetChange, ...]:
        return tuple(change for change in self.changes if change.group == group)

    def inverse(self, now_ms: int) -> Self:
        """The plan that restores the former commits."""
        return replace(
            self,
            specification=f"undo of {self.specification}",
            made_at_ms=now_ms,
            executed_at_ms=None,
            changes=tuple(
                replace(change, old=change.new, new=change.old, warning="")
                for change in self.changes
            ),
        )

    def drift(
        self, current: Mapping[GroupId, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> tuple[Drift, ...]:
        """The partitions whose commits are neither at `old` nor at `new`.

        Those at `new` were changed already, by an execution that was interrupted. Compares offsets,
        not metadata.
        """
        drifts = [
            Drift(
                change.group,
                change.partition,
                _offset(change.old),
                _offset(current[change.group].get(change.partition)),
            )
            for change in self.changes
        ]
        return tuple(
            drift
            for change, drift in zip(self.changes, drifts, strict=True)
            if drift.found not in (drift.expected, _offset(change.new))
        )

    # --- the file

    def to_json(self) -> str:
        """The plan as one JSON object, with one line per partition for readable diffs."""
        head = {
            "format": FORMAT,
            "version": VERSION,
            "specification": self.specification,
            "cluster_id": self.cluster_id,
            "made_at": iso(self.made_at_ms),
            "made_at_ms": self.made_at_ms,
            "executed_at_ms": self.executed_at_ms,
        }
        lines = ",\n    ".join(
            json.dumps(_as_fields(change), ensure_ascii=False) for change in self.changes
        )
        body = ",\n".join(
            (f"  {json.dumps(name)}: {json.dumps(value)}") for name, value in head.items()
        )
        return f'{{\n{body},\n  "changes": [\n    {lines}\n  ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> "ResetPlan":
        """Read a plan. Raises PlanError."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"not JSON: {error}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise PlanError(f'not a plan: "format" is not "{FORMAT}"')
        if content.get("version") != VERSION:
            raise PlanError(
                f"version {content.get('version')} of a plan; this Kohort reads version {VERSION}"
            )
        try:
            return ResetPlan(
                specification=str(content["specification"]),
                cluster_id=_string_or_none(content["cluster_id"]),
                made_at_ms=_time(content["made_at_ms"]),
                executed_at_ms=None
                if content["executed_at_ms"] is None
                else _time(content["executed_at_ms"]),
                changes=_unique(_change(fields) for fields in content["changes"]),
            )
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise PlanError(f"not a plan: {type(error).__name__}: {error}") from None


def _offset(committed: OffsetAndMetadata | None) -> int | None:
    return None if committed is None else committed.offset


def _as_fields(change: OffsetChange) -> dict[str, Any]:
    topic_id = {} if change.topic_id is None else {"topic_id": str(change.topic_id)}
    return topic_id | {
        "group": change.group,
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "old": None if change.old is None else asdict(change.old),
        "new": None if change.new is None else asdict(change.new),
        "warning": change.warning,
    }


def _change(fields: Mapping[str, Any]) -> OffsetChange:
    partition = TopicPartition(_string(fields["topic"]), _integer(fields["partition"]))
    return OffsetChange(
        group=GroupId(_string(fields["group"])),
        partition=partition,
        old=_committed(partition, fields["old"]),
        new=_committed(partition, fields["new"]),
        warning=str(fields["warning"]),
        topic_id=None if fields.get("topic_id") is None else UUID(_string(fields["topic_id"])),
    )


def _committed(
    partition: TopicPartition, fields: Mapping[str, Any] | None
) -> OffsetAndMetadata | None:
    if fields is None:
        return None
    commit = OffsetAndMetadata(
        offset=_integer(fields["offset"]),
        leader_epoch=_integer(fields["leader_epoch"]),
        metadata=_string(fields["metadata"]),
    )
    return committable(partition, commit)


def _unique(changes: Iterable[OffsetChange]) -> tuple[OffsetChange, ...]:
    by_partition: dict[tuple[GroupId, TopicPartition], OffsetChange] = {}
    for change in changes:
        if by_partition.setdefault((change.group, change.partition), change) is not change:
            raise ValueError(f"{change.partition} of {change.group} appears twice")
    return tuple(by_partition.values())


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _time(value: Any) -> int:
    """Milliseconds within the calendar."""
    iso(_integer(value))
    return _integer(value)


def _string(value: Any) -> str:
    """Text that can be sent."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    value.encode()
    return value


def _string_or_none(value: Any) -> str | None:
    return None if value is None else _string(value)
