"""At the start, the directories of partitions are made to agree with the metadata log.

| directory | metadata | what happens |
|---|---|---|
| marked for the topic | has the partition | it is opened |
| marked for another topic, or none | | renamed aside (`-stray`), kept for stray.retention.ms |
| without a mark | has the partition | version 0.1: marked; else this partition is refused |
| without a mark | has no such partition | left as it is |
| missing | has the partition | made, empty, with a warning |
"""

import logging
from collections.abc import Iterable, Mapping
from typing import TypeAlias
from uuid import UUID

from kohort.errors import KohortError
from kohort.log.partition_directories import PartitionDirectories
from kohort.log.partition_mark import MARK, base64_id
from kohort.server.logs import fields
from kohort.server.topics.cluster_metadata import METADATA, METADATA_ID, ClusterState, TopicRecord
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.topics")

_MOST_NAMED = 5


Marks: TypeAlias = Mapping[TopicPartition, UUID | None]
"""Directories with the name of a partition → the id of the topic in their mark."""


def ensure_metadata_directory(directories: PartitionDirectories) -> Marks:
    """Make a place for the metadata log in a new data directory; the marks of all directories.

    Raises OSError, and KohortError if the directory is not new.
    """
    marks = directories.marks()
    if METADATA in marks:
        return marks
    marked = [str(each) for each, topic_id in marks.items() if topic_id is not None]
    if marked:
        raise KohortError(
            f"the data directory has partitions ({_some(marked)}), and no {METADATA} that says "
            "which topics there are; restore that directory from a copy"
        )
    directories.make({METADATA: METADATA_ID})
    return {**marks, METADATA: METADATA_ID}


def reconcile(
    directories: PartitionDirectories, state: ClusterState, marks: Marks
) -> dict[TopicPartition, str]:
    """Make the directories agree with `state`.

    Returns the partitions whose place is taken by a directory that is not Kohort's, with what to do
    about it. Raises KohortError if the directories cannot agree, OSError.
    """
    if directories.cluster_id not in (None, state.cluster_id):
        raise KohortError(
            f"the data directory is of the cluster {directories.cluster_id}, and its {METADATA} "
            f"of {state.cluster_id}; restore both from one copy"
        )
    if directories.is_case_insensitive:
        _refuse_names_that_differ_in_case(state.topics.values())
    known = {METADATA: METADATA_ID}
    for topic in state.topics.values():
        known |= places_of(topic)
    foreign = _mark_known(directories, known, marks)
    _set_strays_aside(directories, known, marks)
    missing = {
        each: topic_id
        for each, topic_id in known.items()
        if each not in marks or marks[each] not in (None, topic_id)
    }
    if missing:
        logger.warning(
            "directories of partitions are missing; they are made, without records",
            extra=fields(partitions=_some(map(str, missing)), count=len(missing)),
        )
        directories.make(missing)
    return foreign


def places_of(topic: TopicRecord, first: int = 0) -> dict[TopicPartition, UUID]:
    """The partitions of a topic from `first` on, as `PartitionDirectories.make` takes them."""
    return {TopicPartition(topic.name, index): topic.id for index in range(first, topic.partitions)}


def _mark_known(
    directories: PartitionDirectories,
    known: Mapping[TopicPartition, UUID],
    marks: Marks,
) -> dict[TopicPartition, str]:
    unmarked = {each: known[each] for each in known if each in marks and marks[each] is None}
    if directories.cluster_id is not None:
        foreign = {each: _without_mark(each, topic_id) for each, topic_id in unmarked.items()}
        if METADATA in foreign:
            raise KohortError(foreign[METADATA])
        return foreign
    if not unmarked:
        return {}
    directories.mark(unmarked)
    logger.info(
        "marked the directories of partitions that version 0.1 made",
        extra=fields(count=len(unmarked)),
    )
    return {}


def _without_mark(partition: TopicPartition, topic_id: UUID) -> str:
    return (
        f"the directory {partition} has the name of a partition of the topic {partition.topic}, "
        f"and no {MARK} that says it is; nothing in it was read or changed. Stop the server and "
        f"restore that file (it has the lines 'version: 0' and 'topic_id: {base64_id(topic_id)}'), "
        "or move the directory away: the partition is then made again, without records"
    )


def _set_strays_aside(
    directories: PartitionDirectories,
    known: Mapping[TopicPartition, UUID],
    marks: Marks,
) -> None:
    foreign = []
    for each, topic_id in marks.items():
        if topic_id is None:
            if each not in known:
                foreign.append(str(each))
        elif known.get(each) != topic_id:
            directories.set_aside(each)
    if foreign:
        logger.warning(
            "directories have the name of a partition, and Kohort did not make them; they are left "
            "as they are",
            extra=fields(directories=_some(foreign), count=len(foreign)),
        )


def _refuse_names_that_differ_in_case(topics: Iterable[TopicRecord]) -> None:
    seen: dict[str, str] = {}
    for topic in topics:
        other = seen.setdefault(topic.name.casefold(), topic.name)
        if other != topic.name:
            raise KohortError(
                f"the topics {other} and {topic.name} need a data directory that tells upper from "
                "lower case; this one does not"
            )


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more
