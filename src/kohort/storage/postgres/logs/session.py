"""Everything by which a node writes its logs in one session."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from kohort.errors import KohortError
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.leader_epochs import ONLY, LeaderEpochs
from kohort.log.problems import Problems
from kohort.log.segment_recovery import Progress
from kohort.storage.postgres.fence import RECORDS, STATE, Fence, lane_of
from kohort.storage.postgres.link import Link
from kohort.storage.postgres.logs.backing import LogContext, PostgresBacking
from kohort.storage.postgres.logs.delete_logs import FindStrays, LogDeletions
from kohort.storage.postgres.logs.lane import Lane, LaneCommit
from kohort.storage.postgres.logs.log import PostgresLog, RestoredLog
from kohort.storage.postgres.logs.operations import Operations
from kohort.storage.postgres.logs.pages import PageCache
from kohort.storage.postgres.logs.reading import RowReader
from kohort.storage.postgres.logs.rows import StoredLog

OpenLink: TypeAlias = Callable[[str], Link]
"""Makes the connection for one purpose, which is a part of its name."""


def _ignore(_: object) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """Services that a session uses and that outlive it."""

    link: OpenLink
    reader: RowReader
    cache: PageCache
    problems: Problems
    report_health: Callable[[Exception | None], None] = _ignore
    """Called with the error while nothing can be written, and with None when writes work again."""
    written: Callable[[float], None] = _ignore
    """Called with the seconds that each statement took, with all its attempts."""
    find_strays: FindStrays | None = None
    """As in `LogDeletions`."""


class Session:
    """The lanes, operations and deletions of one session, and the logs that append by them."""

    def __init__(self, context: SessionContext, fence: Fence) -> None:
        """Write in the session of `fence`. Nothing is connected before the first write."""
        link = context.link
        self.fence = fence
        self.operations = Operations(link("operations"), fence)
        self.deletions = LogDeletions(link("removals"), fence, self._settled, context.find_strays)
        self._logs = LogContext(
            operations=self.operations,
            reader=context.reader,
            cache=context.cache,
            problems=context.problems,
        )
        self._lanes = {
            number: Lane(
                number,
                link(f"lane {number}"),
                fence,
                report_health=context.report_health,
                written=context.written,
            )
            for number in (STATE, *RECORDS)
        }

    def open(
        self,
        stored: StoredLog,
        config: LogConfig,
        progress: Progress,
        *,
        leader_epochs: LeaderEpochs = ONLY,
    ) -> PostgresLog:
        """The log; blocks if it has much behind its last snapshot. Raises KafkaError, OSError."""
        topic_partition = stored.topic_partition
        lane = self._lanes[lane_of(topic_partition.topic, stored.id)]
        backing = PostgresBacking(self._logs, stored.id, topic_partition, lane)
        restored = RestoredLog(
            backing.restore(stored, config.index_interval_bytes),
            Checkpoint(stored.start_offset, 0, stored.cleaned),
            leader_epochs,
        )
        commit = partial(LaneCommit, lane, number=stored.id, rows=backing)
        log = PostgresLog(topic_partition, config, backing, restored, commit, self._logs)
        log.restore_producers(progress)
        return log

    async def _settled(self, log: int) -> None:
        """Return when nothing is left to be written of the log with this number.

        The log has ended, and appends nothing more.
        """
        for lane in self._lanes.values():
            await lane.written(log)
        with contextlib.suppress(OSError, KohortError):
            await self.operations.settled(log)

    def stop(self) -> None:
        """Write nothing more on the event loop."""
        for lane in self._lanes.values():
            lane.stop()
        self.operations.stop()
        self.deletions.stop()

    def abandon(self, error: KohortError) -> None:
        """Write nothing more; what waits for a write raises `error`."""
        self.stop()
        for lane in self._lanes.values():
            lane.abandon(error)
        self.operations.abandon(error)
