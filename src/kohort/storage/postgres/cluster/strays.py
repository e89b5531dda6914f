"""Logs of topics that were deleted while no node could mark them as removed.

Each node marks the logs of a topic whose deletion it learns of. The database may refuse that, and
all nodes may end before it. Such a log is set aside, as a single server does at its start.
"""

from collections.abc import Callable, Container
from typing import Final, TypeAlias
from uuid import UUID

from kohort.storage.postgres.link import Connection
from kohort.storage.postgres.logs.open_logs import metadata_end
from kohort.types import TopicPartition

CurrentTopics: TypeAlias = Callable[[], tuple[int, Container[UUID]]]
"""Returns how far the metadata log was read, and the ids of the topics that it has up to there."""

_TOPICS: Final = (
    "select distinct topic_id from logs "
    "where state = 'live' and topic_id is not null and topic <> $1"
)
_LOGS: Final = "select id from logs where state = 'live' and topic_id = any($1::uuid[])"


async def find_strays(
    connection: Connection, metadata: TopicPartition, current_topics: CurrentTopics
) -> list[int] | None:
    """The numbers of the live logs of topics that the metadata log does not have.

    None if this node has not read all of that log. Raises what asyncpg raises.
    """
    topic_ids = [topic_id for (topic_id,) in await connection.fetch(_TOPICS, metadata.topic)]
    # The end is read after the logs: the topic of each of them was logged before it was made.
    end = await metadata_end(connection, metadata)
    position, topics = current_topics()
    if position < end:
        return None
    deleted = [topic_id for topic_id in topic_ids if topic_id not in topics]
    return [number for (number,) in await connection.fetch(_LOGS, deleted)] if deleted else []
