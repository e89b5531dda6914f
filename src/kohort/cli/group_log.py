"""Reads the generations of one group from `__consumer_offsets`, on any Kafka broker.

Kafka keeps a group in the partition that the hash of its id selects. So only that one is read, up
to its end at the start. Redpanda uses another hash: there, all partitions are searched for the
group. Records of other groups are skipped undecoded.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kohort.cli.reading_progress import reading_progress
from kohort.client.admin import Admin
from kohort.client.cluster import EARLIEST
from kohort.client.fetch import Batch, Fetcher
from kohort.coordinator.consumer_records import ConsumerGroupRecord
from kohort.coordinator.history import GroupHistory, LoggedGeneration, Position
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    decode,
    decode_redpanda_group,
)
from kohort.coordinator_common import CorruptRecordError, partition_for
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol.packing import pack_string
from kohort.types import GroupId, Timestamp, TopicPartition

TOPIC: Final = "__consumer_offsets"
MAX_BUFFERED_BYTES: Final = 16 * 1024 * 1024
"""Bytes that are fetched ahead of decoding."""
POLL_INTERVAL_MS: Final = 200
MAX_UNREADABLE_SHOWN: Final = 3
"""Most unreadable records whose reasons are shown."""
_OFFSETS: Final = frozenset({0, 1})
_GROUP_METADATA: Final = 2
_OTHER_TYPES: Final[Mapping[int, str]] = {
    **dict.fromkeys(range(9, 16), "share"),
    **dict.fromkeys(range(17, 24), "streams"),
}
"""Type of a key → protocol of groups whose records are not decoded."""


@dataclass(slots=True)
class GroupLog:
    """The records of one group in the log."""

    partition: TopicPartition
    """The last partition that was read; the group's partition if it was found."""
    generations: deque[LoggedGeneration]
    count: int = 0
    """Number of all generations; `generations` has the last ones."""
    has_offsets: bool = False
    """Whether it has records of committed offsets."""
    other_protocol: str | None = None
    """share | streams: it has records of a protocol that is not decoded."""
    unreadable: list[str] = field(default_factory=list)
    """The first records of the group that do not follow the schema, each with its reason."""
    unreadable_count: int = 0

    @property
    def is_found(self) -> bool:
        return bool(self.count or self.has_offsets or self.other_protocol or self.unreadable)


async def read_group_log(
    admin: Admin,
    group: GroupId,
    *,
    last: int,
    shows: Callable[[LoggedGeneration], bool],
    may_be_elsewhere: bool,
) -> GroupLog:
    """The last generations of a group for which `shows` is true.

    `may_be_elsewhere`: the group exists, so if it is not in the partition of its hash, the others
    are read. Raises KohortError.
    """
    partitions = await _partitions(admin)
    first = TopicPartition(TOPIC, partition_for(group, len(partitions)))
    names = await _topic_names(admin)
    candidates = [
        first,
        *(partition_of_log for partition_of_log in partitions if partition_of_log != first),
    ]
    for partition in candidates if may_be_elsewhere else candidates[:1]:
        group_log = GroupLog(partition, deque(maxlen=last))
        await _read(admin, group, group_log, GroupHistory(group, names), shows)
        if group_log.is_found:
            return group_log
    return GroupLog(first, deque())


async def _partitions(admin: Admin) -> list[TopicPartition]:
    described = (await admin.describe_topics([TOPIC])).get(TOPIC)
    if isinstance(described, KafkaError):
        raise _reason(described)
    if described is None:
        raise KohortError(f"no response about {TOPIC}")
    return [TopicPartition(TOPIC, partition.index) for partition in described.partitions]


def _reason(error: KafkaError) -> KohortError:
    match error.code:
        case ErrorCode.unknown_topic_or_partition:
            return KohortError(f"{TOPIC} does not exist: this cluster has never had a group")
        case ErrorCode.topic_authorization_failed:
            return KohortError(
                f"{TOPIC} may not be read: this user needs READ on it (kohort acls add "
                f"--allow-principal User:NAME --operation read --topic {TOPIC}); of a Kohort "
                "server, --http reads the journal instead"
            )
        case _:
            return error


async def _topic_names(admin: Admin) -> dict[UUID, str]:
    described = await admin.describe_topics()
    return {
        topic.id: name
        for name, topic in described.items()
        if not isinstance(topic, KafkaError) and topic.id is not None
    }


async def _read(
    admin: Admin,
    group: GroupId,
    log: GroupLog,
    history: GroupHistory,
    shows: Callable[[LoggedGeneration], bool],
) -> None:
    def keep(generations: Iterable[LoggedGeneration]) -> None:
        for generation in generations:
            log.count += 1
            if shows(generation):
                log.generations.append(generation)

    try:
        async for batch in _batches(admin, log.partition):
            for record, position in _records_of(group, batch, log):
                keep(history.replay(record, position))
    except KafkaError as error:
        raise _reason(error) from error
    keep(history.close())


async def _batches(admin: Admin, partition: TopicPartition) -> AsyncIterator[Batch]:
    """All batches up to the present end."""
    bounds = (await admin.ends([partition])).get(partition)
    if bounds is None:
        raise KohortError(f"{partition} has no leader now: try again")
    start, end = bounds
    async with Fetcher(
        admin.cluster,
        out_of_range="earliest",
        fetch_max_wait_ms=POLL_INTERVAL_MS,
        max_buffered_bytes=MAX_BUFFERED_BYTES,
    ) as fetcher:
        fetcher.add(partition, start if start >= 0 else EARLIEST)
        with reading_progress(str(partition), start, end) as show:
            while (position := fetcher.position(partition)) is None or position < end:
                batch = await fetcher.next(partition, max_wait_ms=POLL_INTERVAL_MS)
                if batch is not None:
                    yield batch
                    show(batch.next_offset)


def _records_of(
    group: GroupId, batch: Batch, log: GroupLog
) -> Iterator[tuple[GroupMetadataRecord | ConsumerGroupRecord, Position]]:
    """The records of the group's generations; others of the group are noted in `log`."""
    # All types of keys begin with the type, an int16, and the id of the group.
    name = pack_string(group)
    end = 2 + len(name)
    for record in batch:
        key = record.key
        if key is None or key[2:end] != name:
            continue
        type_ = int.from_bytes(key[:2], "big")
        if type_ in _OFFSETS:
            log.has_offsets = True
        elif type_ in _OTHER_TYPES:
            log.other_protocol = _OTHER_TYPES[type_]
        else:
            try:
                decoded = _decode(group, type_, key, record.value)
            except CorruptRecordError as error:
                _note_unreadable(log, record.offset, error)
                continue
            if decoded is not None:
                yield decoded, Position(record.offset, Timestamp(record.timestamp))


def _decode(
    group: GroupId, type_: int, key: bytes, value: bytes | None
) -> GroupMetadataRecord | ConsumerGroupRecord | None:
    """Raises CorruptRecordError."""
    try:
        decoded = decode(key, value)
    except CorruptRecordError:
        if type_ != _GROUP_METADATA or value is None:
            raise
        try:
            metadata = decode_redpanda_group(value)
        except CorruptRecordError:
            metadata = None
        if metadata is None:
            raise
        return GroupMetadataRecord(GroupMetadataKey(group), metadata)
    return decoded if isinstance(decoded, GroupMetadataRecord | ConsumerGroupRecord) else None


def _note_unreadable(log: GroupLog, offset: int, error: CorruptRecordError) -> None:
    log.unreadable_count += 1
    if len(log.unreadable) < MAX_UNREADABLE_SHOWN:
        log.unreadable.append(f"offset {offset}: {error}")
