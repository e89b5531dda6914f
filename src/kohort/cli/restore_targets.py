"""The commits that a restore sets: those of a group at a time, from its history. No I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.types import TopicPartition

if TYPE_CHECKING:
    from kohort.history_files.committed import CommittedAt, CommittedOffsets

Scope: TypeAlias = Mapping[str, Collection[int] | None]
"""Topic → its partitions, None for all of them."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What a restore does with each partition."""

    commits: dict[TopicPartition, OffsetAndMetadata | None] = field(default_factory=dict)
    """Partition → the commit to set; None: the present one is deleted."""
    origins: dict[TopicPartition, "CommittedAt"] = field(default_factory=dict)
    """What the history says of the partitions with a commit to set."""
    kept: list[TopicPartition] = field(default_factory=list)
    """Partitions that had no commit then, and have one."""
    unknown: list[TopicPartition] = field(default_factory=list)

    def recreated(self, ids: Mapping[str, UUID | None]) -> list[str]:
        """The topics that have another id than the history has for a commit to set."""
        return sorted(
            {
                tp.topic
                for tp, origin in self.origins.items()
                if origin.commit is not None
                and origin.commit.topic_id is not None
                and ids.get(tp.topic) is not None
                and str(ids[tp.topic]) != origin.commit.topic_id
            }
        )


def targets_of(
    offsets: "CommittedOffsets",
    current: Iterable[TopicPartition],
    scope: Scope | None = None,
    *,
    delete_absent: bool = False,
) -> Targets:
    """Decide on each partition of the history and of `current`, the group's present commits.

    `scope` None: all of them.
    """
    targets = Targets()
    present = set(current)
    recorded = {TopicPartition(*key): entry for key, entry in offsets.partitions.items()}
    for tp in sorted(recorded.keys() | present):
        if scope is not None and not _is_in(tp, scope):
            continue
        entry = recorded.get(tp)
        is_certain = offsets.gap is None if entry is None else entry.is_certain
        commit = None if entry is None else commit_of(entry)
        if not is_certain:
            targets.unknown.append(tp)
        elif entry is not None and commit is not None:
            targets.commits[tp] = commit
            targets.origins[tp] = entry
        elif tp in present and delete_absent:
            targets.commits[tp] = None
        elif tp in present:
            targets.kept.append(tp)
    return targets


def commit_of(entry: "CommittedAt") -> OffsetAndMetadata | None:
    """The commit in force; None also for a negative offset, which clients take for none."""
    commit = entry.commit
    if commit is None or commit.offset is None or commit.offset < 0:
        return None
    return OffsetAndMetadata(
        offset=commit.offset, leader_epoch=commit.leader_epoch, metadata=commit.metadata
    )


def _is_in(tp: TopicPartition, scope: Scope) -> bool:
    partitions = scope.get(tp.topic, ())
    return partitions is None or tp.partition in partitions
