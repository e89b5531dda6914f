"""Groups that an embedded server loads from files, to start a test with."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from kohort.coordinator.consumer_records import (
    CurrentMemberAssignmentRecord,
    TargetAssignmentMemberRecord,
)
from kohort.coordinator.records import OffsetCommitRecord, Row
from kohort.errors import KohortError
from kohort.runtime.group_log import append_records
from kohort.testing.embedded.embedded_server import EmbeddedServer
from kohort.testing.embedded.partitions import find_topic
from kohort.testing.stored_groups import StoredGroups, read_stored_groups
from kohort.util.text import join_names


@dataclass(frozen=True, slots=True)
class LoadedGroups:
    """What was loaded."""

    groups: tuple[str, ...]
    topics: tuple[str, ...]
    """Topics that were created, without records."""
    left_out: int
    """Records of share and streams groups, which Kohort does not serve."""
    open_transactions: int
    """Transactions that had not ended, whose offsets are left out."""


async def load_groups(server: EmbeddedServer, path: Path) -> LoadedGroups:
    """Load all groups of a data directory. Raises KohortError; then nothing is loaded."""
    stored = read_stored_groups(path)
    by_group: defaultdict[str, list[Row]] = defaultdict(list)
    for row in stored.rows:
        by_group[row.key.group].append(row)
    existing = [group for group in by_group if server.broker.groups.group(group) is not None]
    if existing:
        raise KohortError(f"groups that exist cannot be loaded: {join_names(existing, 5)}")
    created = _create_topics(server, stored)
    ids = {
        topic_id: find_topic(server.broker, name).id
        for topic_id, name in _topic_ids(stored).items()
    }
    partitions = {server.broker.groups.partition_of(group) for group in by_group}
    for group, rows in by_group.items():
        topic, number = server.broker.groups.partition_of(group)
        log = find_topic(server.broker, topic).partitions[number]
        moved = [_with_ids(row, ids) for row in rows]
        append_records(log, (moved,), server.clock.timestamp())
    for _, number in sorted(partitions):
        await server.broker.groups.reload(number)
    server.timeline.add(f"{len(by_group)} groups were loaded from {path}")
    return LoadedGroups(tuple(by_group), tuple(created), stored.left_out, stored.open_transactions)


def _create_topics(server: EmbeddedServer, stored: StoredGroups) -> list[str]:
    """Create the topics that do not exist."""
    partitions = dict(stored.partitions)
    for row in stored.rows:
        if isinstance(row, OffsetCommitRecord):
            known = partitions.get(row.key.topic, 0)
            partitions[row.key.topic] = max(known, row.key.partition + 1)
    missing = [name for name in partitions if server.broker.topics.get(name) is None]
    for name in missing:
        server.create_topic(name, partitions[name], {})
    return missing


def _topic_ids(stored: StoredGroups) -> dict[UUID, str]:
    """Names of the topics whose ids are known by their directories or by committed offsets."""
    found = dict(stored.topic_ids)
    for row in stored.rows:
        if isinstance(row, OffsetCommitRecord) and row.value and row.value.topic_id is not None:
            found[row.value.topic_id] = row.key.topic
    return found


def _with_ids(row: Row, ids: Mapping[UUID, UUID]) -> Row:
    """The record with the ids that topics have here; those of unknown topics stay."""
    if row.value is None:
        return row
    if isinstance(row, OffsetCommitRecord):
        topic_id = row.value.topic_id
        here = topic_id if topic_id is None else ids.get(topic_id, topic_id)
        return row._replace(value=row.value._replace(topic_id=here))
    if isinstance(row, TargetAssignmentMemberRecord):
        return row._replace(value=row.value._replace(partitions=_moved(row.value.partitions, ids)))
    if isinstance(row, CurrentMemberAssignmentRecord):
        value = row.value._replace(
            assigned=_moved(row.value.assigned, ids),
            pending_revocation=_moved(row.value.pending_revocation, ids),
        )
        return row._replace(value=value)
    return row


def _moved(partitions: Mapping[UUID, Any], ids: Mapping[UUID, UUID]) -> dict[UUID, Any]:
    return {ids.get(topic_id, topic_id): value for topic_id, value in partitions.items()}
