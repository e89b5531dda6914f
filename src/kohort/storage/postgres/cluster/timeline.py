"""Detection of a database that was rolled back.

It may have gone back: a standby was promoted that lagged behind, or a backup was restored. That
takes new connections, so each one is checked before it is used: appends are looked for by the ends
of their logs. A node begins another session with each promotion, and reads all it leads again.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kohort.storage.postgres.link import Connection
from kohort.storage.postgres.logs.log import PostgresLog
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")

_ENDS: Final = """
select l.id, greatest(
    l.start_offset,
    (select next from segments where log = l.id order by base desc limit 1),
    (select next from batches where log = l.id order by base desc limit 1)
) from logs l where l.id = any($1::int[])
"""


class LostEnd(NamedTuple):
    """A log of which the database lacks what was acknowledged."""

    log: PostgresLog
    end_offset: int
    """The end in the database."""
    before: int


async def find_lost_logs(connection: Connection, logs: Iterable[PostgresLog]) -> Sequence[LostEnd]:
    """The logs that lack acknowledged records. Raises what asyncpg raises."""
    stored_ends = {log.number: (log, log.stored_end) for log in logs}
    if not stored_ends:
        return ()  # at the start there may be no tables
    ends: Mapping[int, int] = dict(await connection.fetch(_ENDS, list(stored_ends)))
    return [
        LostEnd(log, ends.get(number, 0), before)
        for number, (log, before) in stored_ends.items()
        if ends.get(number, 0) < before and not log.is_removed
    ]


def log_loss(topic_partition: TopicPartition, end_offset: int, before: int) -> None:
    """Log what the database has lost of a log that had the end offset `before`."""
    logger.error(
        "%s: the database has lost what was acknowledged from offset %d to %d, as after a "
        "failover to a standby that lagged behind",
        topic_partition,
        end_offset,
        before - 1,
    )
