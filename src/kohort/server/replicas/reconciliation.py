"""Reconciliation of partition directories with the metadata log, at the start.

| directory | metadata | what happens |
|---|---|---|
| marked for the topic | has the partition | it is opened |
| marked | has no such partition | renamed aside (`-stray`), kept for stray.retention.ms |
| marked for a deleted topic | has the partition | renamed aside, as above, and made, empty |
| marked for another topic | has the partition | this partition is refused |
| without a mark | has the partition | version 0.1: marked; else this partition is refused |
| without a mark | has no such partition | left as it is |
| missing | has the partition | made, empty, with a warning |

A worker that is away while a topic is deleted and created again leaves the mark of the deleted one.
No crash leaves that of any other topic in a known partition's place: a damaged mark does, and an
operator who swaps directories. A metadata log in such a place is not read.
"""

import logging
from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias
from uuid import UUID

from kohort.errors import KohortError
from kohort.log.directory_format import METADATA_ID
from kohort.log.partition_directories import PartitionDirectories, StorageIdentity
from kohort.log.partition_mark import MARK, base64_id
from kohort.server.logging import fields
from kohort.server.metadata import METADATA, MetadataImage, TopicRecord
from kohort.types import TopicPartition
from kohort.util.text import join_names

logger = logging.getLogger("kohort.topics")


Marks: TypeAlias = Mapping[TopicPartition, UUID | None]
"""Directories with the name of a partition → the id of the topic in their mark."""


def ensure_metadata_directory(directories: PartitionDirectories) -> None:
    """Make a place for the metadata log in a new data directory.

    Raises OSError, and KohortError if the directory is not new, or that place is not marked for it.
    """
    marks = directories.marks()
    if METADATA in marks:
        _ensure_metadata_mark(directories, marks[METADATA])
        return
    marked = [str(partition) for partition, topic_id in marks.items() if topic_id is not None]
    if marked:
        raise KohortError(
            f"the data directory has partitions ({join_names(marked)}), and no {METADATA} that "
            "says which topics there are; restore that directory from a copy"
        )
    directories.make({METADATA: METADATA_ID})


def ensure_same_cluster(directories: StorageIdentity, state: MetadataImage) -> None:
    """Raise KohortError if the metadata log and the other logs are of different clusters."""
    if directories.cluster_id not in (None, state.cluster_id):
        raise KohortError(
            f"what is stored is of the cluster {directories.cluster_id}, and its {METADATA} of "
            f"{state.cluster_id}; restore all of it from one copy"
        )


def reconcile(
    directories: PartitionDirectories, state: MetadataImage, expected: Mapping[TopicPartition, UUID]
) -> dict[TopicPartition, str]:
    """Make the directories those of the partitions `expected`, which belong here.

    Returns the partitions whose place is taken by a directory that is not Kohort's, with what to do
    about it. Raises KohortError if the directories cannot agree, OSError.
    """
    ensure_same_cluster(directories, state)
    if directories.is_case_insensitive:
        _refuse_names_that_differ_in_case(state.topics.values())
    marks = directories.marks()
    if METADATA in expected:
        _ensure_metadata_mark(directories, marks.get(METADATA))
    _mark_expected(directories, expected, marks)
    deleted = (state.deleted or set()) - state.topics.keys()
    _set_strays_aside(directories, expected, marks, deleted)
    missing, refused = {}, {}
    for partition, topic_id in expected.items():
        marked_id = marks.get(partition)
        if marked_id == topic_id or (
            partition in marks and _is_of_version_0_1(directories, marked_id)
        ):
            continue
        if directories.is_taken(partition):
            refused[partition] = _foreign_directory_error(partition, topic_id, marked_id)
        else:
            missing[partition] = topic_id
    if missing and marks:  # else the directory is new
        logger.warning(
            "partition directories are missing; creating them without records",
            extra=fields(partitions=join_names(map(str, missing)), count=len(missing)),
        )
    if missing:
        directories.make(missing)
    return refused


def _ensure_metadata_mark(directories: PartitionDirectories, marked_id: UUID | None) -> None:
    """Raise KohortError if `marked_id`, found in the metadata log's place, is not its mark."""
    if marked_id != METADATA_ID and not _is_of_version_0_1(directories, marked_id):
        raise KohortError(_foreign_directory_error(METADATA, METADATA_ID, marked_id))


def _is_of_version_0_1(directories: PartitionDirectories, marked_id: UUID | None) -> bool:
    """Whether a place with the mark `marked_id` was made by version 0.1, which made no marks."""
    return marked_id is None and directories.cluster_id is None


def _mark_expected(
    directories: PartitionDirectories,
    expected: Mapping[TopicPartition, UUID],
    marks: Marks,
) -> None:
    unmarked = {
        partition: topic_id
        for partition, topic_id in expected.items()
        if partition in marks and _is_of_version_0_1(directories, marks[partition])
    }
    if unmarked:
        directories.mark(unmarked)
        logger.info(
            "added partition.metadata to directories of version 0.1",
            extra=fields(count=len(unmarked)),
        )


def _foreign_directory_error(
    partition: TopicPartition, topic_id: UUID, marked_id: UUID | None
) -> str:
    owner = "" if marked_id is None else f" (its topic_id is {base64_id(marked_id)})"
    return (
        f"the directory {partition} has the name of a partition of the topic {partition.topic}, "
        f"and no {MARK} that says it is{owner}; nothing in it was read or changed. Stop the server "
        f"and restore that file (it has the lines 'version: 0' and 'topic_id: "
        f"{base64_id(topic_id)}') or the whole directory, or move the directory away: the "
        "partition is then made again, without records"
    )


def _set_strays_aside(
    directories: PartitionDirectories,
    expected: Mapping[TopicPartition, UUID],
    marks: Marks,
    deleted: Container[UUID],
) -> None:
    foreign = []
    for partition, topic_id in marks.items():
        if topic_id is None:
            if partition not in expected:
                foreign.append(str(partition))
        elif partition not in expected or topic_id in deleted:
            directories.set_aside(partition)
    if foreign:
        logger.warning(
            "ignoring directories with partition names that Kohort did not create",
            extra=fields(directories=join_names(foreign), count=len(foreign)),
        )


def _refuse_names_that_differ_in_case(topics: Iterable[TopicRecord]) -> None:
    seen: dict[str, str] = {}
    for topic in topics:
        first_name = seen.setdefault(topic.name.casefold(), topic.name)
        if first_name != topic.name:
            raise KohortError(
                f"the topics {first_name} and {topic.name} need a data directory that tells upper "
                "from lower case; this one does not"
            )
