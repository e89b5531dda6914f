"""Opening of logs that a node leads from now on: many by a few statements.

Arrays are sent as text[], the only kind whose codec asyncpg has: for another one it first asks the
database about the type, in each connection, which takes 10 ms or more of a start.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kohort.cluster import FencedError
from kohort.log.base import LogConfig
from kohort.log.leader_epochs import ONLY, EpochEntry, LeaderEpochs
from kohort.storage.postgres.errors import DatabaseError
from kohort.storage.postgres.fence import OPERATIONS, Fence
from kohort.storage.postgres.link import Connection
from kohort.storage.postgres.logs.rows import StoredLog, pack_epochs, read_logs, unpack_epochs
from kohort.types import TopicPartition

_FIND: Final = (
    "select l.id, l.topic, l.partition, l.topic_id from unnest($1::text[], $2::text[]::int[]) i "
    "(topic, partition) join logs l using (topic, partition) where l.state = 'live'"
)
_END: Final = (
    "select b.next from logs l join batches b on b.log = l.id "
    "where l.topic = $1 and l.partition = $2 and l.state = 'live' order by b.base desc limit 1"
)
_MAKE: Final = (
    "insert into logs (id, topic, partition, topic_id) "
    "select nextval('log_ids'), i.* "
    "from unnest($1::text[], $2::text[]::int[], $3::text[]::uuid[]) i "
    "returning id, topic, partition, topic_id"
)
_SET_ASIDE: Final = (
    "update logs set state = 'stray', state_since = now() where state = 'live' "
    "and (topic, partition) in (select * from unnest($1::text[], $2::text[]::int[]))"
)
_LEAD: Final = """
with fence as (
    select 1 from nodes where node = $3 and lane = $4 and session = $5 for share
), led as (
    update logs set leader_epochs = i.epochs
    from fence, unnest($1::text[]::int[], $2::text[]::bytea[]) i (id, epochs) where logs.id = i.id
)
select count(*) from fence
"""


class LogRequest(NamedTuple):
    """A log to open, and the leadership in which it is opened."""

    topic_partition: TopicPartition
    topic_id: UUID
    config: LogConfig
    leader_epoch: int
    position: int
    """End of the metadata log as the node knows it."""


class TakenLog(NamedTuple):
    """A log as it was stored, with the epochs that it has from now on."""

    stored: StoredLog
    epochs: LeaderEpochs


async def take_logs(
    connection: Connection, fence: Fence, metadata: TopicPartition, requests: Sequence[LogRequest]
) -> list[TakenLog | DatabaseError]:
    """The logs in order, created if missing, or the error of one that cannot be opened now.

    `metadata` is the log of the cluster. Raises FencedError, and what asyncpg raises.
    """
    numbers = await _numbers(connection, fence, metadata, requests)
    stored = await read_logs(connection, tuple(numbers.values()))
    taken: list[TakenLog | DatabaseError] = []
    for request in requests:
        number = numbers.get(request.topic_partition)
        if number is None or number not in stored:
            taken.append(_is_behind(request))
        else:
            taken.append(TakenLog(stored[number], epochs_of(stored[number], request.leader_epoch)))
    await _lead(connection, fence, [log for log in taken if isinstance(log, TakenLog)])
    return taken


async def _numbers(
    connection: Connection, fence: Fence, metadata: TopicPartition, requests: Sequence[LogRequest]
) -> dict[TopicPartition, int]:
    """The numbers of logs; those are missing that another topic of that name may have now."""
    numbers, missing, others = await _found(connection, requests)
    if not (missing or others):
        return numbers
    async with connection.transaction():
        await _lock_session(connection, fence)
        numbers, missing, others = await _found(connection, requests)
        if others:
            # Who knows the whole metadata log knows the latest topic of that name. The end is read
            # after the logs: one that was made meanwhile is of a topic that was logged before.
            end = await metadata_end(connection, metadata)
            older = [request for request in others if request.position >= end]
            await connection.execute(_SET_ASIDE, *_columns(older))
            missing += older
        if missing:
            topic_ids = [str(request.topic_id) for request in missing]
            for number, *tp, _ in await connection.fetch(_MAKE, *_columns(missing), topic_ids):
                numbers[TopicPartition(*tp)] = number
    return numbers


async def metadata_end(connection: Connection, metadata: TopicPartition) -> int:
    """Offset behind the last record of the metadata log. Raises what asyncpg raises."""
    return await connection.fetchval(_END, *metadata) or 0


async def _found(
    connection: Connection, requests: Sequence[LogRequest]
) -> tuple[dict[TopicPartition, int], list[LogRequest], list[LogRequest]]:
    """The numbers of logs that are there, those that are missing, and those of other topics."""
    existing = {
        TopicPartition(topic, partition): (number, topic_id)
        for number, topic, partition, topic_id in await connection.fetch(_FIND, *_columns(requests))
    }
    numbers: dict[TopicPartition, int] = {}
    missing, others = [], []
    for request in requests:
        number, topic_id = existing.get(request.topic_partition, (None, None))
        if number is None:
            missing.append(request)
        elif topic_id == request.topic_id:
            numbers[request.topic_partition] = number
        else:
            others.append(request)
    return numbers, missing, others


def _columns(requests: Sequence[LogRequest]) -> tuple[list[str], list[str]]:
    """Topics and partitions."""
    partitions = [request.topic_partition for request in requests]
    return [tp.topic for tp in partitions], [str(tp.partition) for tp in partitions]


async def _lock_session(connection: Connection, fence: Fence) -> None:
    if not await fence.try_lock_session(connection, OPERATIONS):
        raise FencedError


def _is_behind(request: LogRequest) -> DatabaseError:
    return DatabaseError(
        None, f"{request.topic_partition} may be of another topic by now: the metadata log goes on"
    )


def epochs_of(stored: StoredLog, current: int) -> LeaderEpochs:
    """The epochs of a log that is led in `current`, unless it has a larger one."""
    epochs = unpack_epochs(stored.epochs)
    current = max(current, *(entry.epoch for entry in epochs), 0)
    if not current:
        return ONLY
    if not epochs and stored.end_offset > stored.start_offset:
        epochs = [EpochEntry(0, stored.start_offset)]  # of a server that led all
    return LeaderEpochs(current, stored.end_offset, epochs)


async def _lead(connection: Connection, fence: Fence, taken: Sequence[TakenLog]) -> None:
    """Store the epochs, before anything is appended in the last one of them."""
    changed: dict[int, bytes] = {}
    for stored, epochs in taken:
        packed = pack_epochs(epochs.entries(stored.start_offset))
        if packed != stored.epochs:
            changed[stored.id] = packed
    if changed and not await store_epochs(connection, fence, changed):
        raise FencedError


async def store_epochs(connection: Connection, fence: Fence, packed: Mapping[int, bytes]) -> bool:
    """Store the epochs of logs, by their numbers; False if the session is over."""
    return bool(
        await connection.fetchval(
            _LEAD,
            [*map(str, packed)],
            [rf"\x{epochs.hex()}" for epochs in packed.values()],
            fence.node,
            OPERATIONS,
            fence.session(OPERATIONS),
        )
    )
