"""Which logs the tables have, and for which topics they were made."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from kohort.log.postgres.control import Control
from kohort.log.postgres.fence import METADATA, Fence
from kohort.log.postgres.link import Connection
from kohort.log.postgres.session import Session
from kohort.types import TopicPartition

MAKE = (
    "insert into logs (id, topic, partition, topic_id) "
    "select nextval('log_ids'), i.* from unnest($1::text[], $2::int[], $3::uuid[]) i "
    "returning id, topic, partition, topic_id"
)
SET_ASIDE = (
    "update logs set state = 'stray', state_since = now() where state = 'live' "
    "and (topic, partition) in (select * from unnest($1::text[], $2::int[]))"
)


class Place(NamedTuple):
    """A log's number, and the topic it was made for."""

    number: int
    topic_id: UUID | None


class PostgresPlaces:
    """The `PartitionDirectories` of the tables."""

    is_case_insensitive = False

    def __init__(
        self,
        control: Control,
        session: Session | None,
        cluster_id: str | None,
        written_by: str,
        version: str,
        fence: Fence | None = None,
    ) -> None:
        """`session` removes logs that are known; `version` is that of this Kohort.

        `fence` is needed to make logs and to set them aside: a replaced server does neither.
        """
        self.cluster_id = cluster_id
        self.written_by = written_by
        self._version = version
        self._control = control
        self._session = session
        self._fence = fence
        self._places: dict[TopicPartition, Place] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(tuple(self._places))

    def add(self, partition: TopicPartition, number: int, topic_id: UUID | None) -> None:
        """There is such a log in the tables."""
        self._places[partition] = Place(number, topic_id)

    def number(self, partition: TopicPartition) -> int:
        """The number of a log, which is made if there is none. Raises OSError."""
        if partition not in self._places:
            self._make({partition: None})
        return self._places[partition].number

    def marks(self) -> dict[TopicPartition, UUID | None]:
        return {partition: place.topic_id for partition, place in self._places.items()}

    def is_taken(self, partition: TopicPartition) -> bool:
        return partition in self._places

    def make(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        self._make(partitions)

    def _make(self, partitions: Mapping[TopicPartition, UUID | None]) -> None:
        if not partitions:
            return
        topics = [each.topic for each in partitions]
        numbers = [each.partition for each in partitions]

        async def make(connection: Connection) -> list[tuple[int, str, int, UUID | None]]:
            async with connection.transaction():
                await self._hold(connection)
                await connection.execute(SET_ASIDE, topics, numbers)
                rows = await connection.fetch(MAKE, topics, numbers, list(partitions.values()))
            return [tuple(row) for row in rows]

        for number, topic, partition, topic_id in self._control.query(make):
            self.add(TopicPartition(topic, partition), number, topic_id)

    async def _hold(self, connection: Connection) -> None:
        """Keep others from taking this server's place. Raises FencedError."""
        assert self._fence is not None
        # The session of this lane changes in the thread of `control` only.
        await self._fence.hold(connection, METADATA)

    def mark(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        raise NotImplementedError  # version 0.1 made no tables

    def set_aside(self, partition: TopicPartition) -> str:
        async def update(connection: Connection) -> None:
            async with connection.transaction():
                await self._hold(connection)
                await connection.execute(SET_ASIDE, [partition.topic], [partition.partition])

        number = self._places[partition].number
        self._control.query(update)
        del self._places[partition]
        return f"log {number} (stray)"

    def remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        place = self._places.get(partition)
        if place is None or place.topic_id != topic_id:
            return
        del self._places[partition]
        assert self._session is not None
        self._session.removing.remove(partition, topic_id)

    def settle(self, cluster_id: str) -> None:
        async def update(connection: Connection) -> None:
            await connection.execute(
                "update meta set cluster_id = $1, written_by = $2", cluster_id, self._version
            )

        self._control.query(update)
        self.cluster_id = cluster_id
