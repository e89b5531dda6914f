"""What a node writes its logs with, as long as it has one session."""

import contextlib
from collections.abc import Callable
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
from kohort.storage.postgres.logs.backing import PostgresBacking, Shared
from kohort.storage.postgres.logs.delete_logs import FindStrays, LogDeletions
from kohort.storage.postgres.logs.lane import Lane, LaneCommit
from kohort.storage.postgres.logs.log import PostgresLog
from kohort.storage.postgres.logs.operations import Operations
from kohort.storage.postgres.logs.pages import PageCache
from kohort.storage.postgres.logs.reading import RowReader
from kohort.storage.postgres.logs.rows import StoredLog

OpenLink: TypeAlias = Callable[[str], Link]
"""Makes the connection for one purpose, which is a part of its name."""


class Session:
    """The lanes, operations and removals of one session, and the logs that append by them."""

    def __init__(
        self,
        link: OpenLink,
        fence: Fence,
        reader: RowReader,
        cache: PageCache,
        problems: Problems,
        *,
        report_health: Callable[[Exception | None], None] = lambda _: None,
        written: Callable[[float], None] = lambda _: None,
        find_strays: FindStrays | None = None,
    ) -> None:
        """`find_strays` is that of `LogDeletions`, other callbacks are those of `Lane`."""
        self.fence = fence
        self.operations = Operations(link("operations"), fence)
        self.deletions = LogDeletions(link("removals"), fence, self._settled, find_strays)
        self._problems = problems
        self._shared = Shared(operations=self.operations, reader=reader, cache=cache)
        self._lanes = {
            number: Lane(
                number, link(f"lane {number}"), fence, report_health=report_health, written=written
            )
            for number in (STATE, *RECORDS)
        }

    def open(
        self,
        stored: StoredLog,
        config: LogConfig,
        go_on: Progress,
        *,
        leader_epochs: LeaderEpochs = ONLY,
    ) -> PostgresLog:
        """The log; blocks if it has much behind its last snapshot. Raises KafkaError, OSError."""
        topic_partition = stored.topic_partition
        lane = self._lanes[lane_of(topic_partition.topic, stored.id)]
        backing = PostgresBacking(self._shared, stored.id, topic_partition, lane)
        segments = backing.restore(stored, config.index_interval_bytes)
        log = PostgresLog(
            topic_partition,
            config,
            backing,
            segments,
            Checkpoint(stored.start_offset, 0, stored.cleaned),
            partial(LaneCommit, lane, number=stored.id, rows=backing),
            self._problems,
            self._shared,
            leader_epochs,
        )
        log.restore_producers(go_on)
        return log

    async def _settled(self, log: int) -> None:
        """Return when nothing is left to be written of the log with this number.

        It has ended, and appends nothing more.
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
        """Write nothing more, and tell those who wait for it why."""
        self.stop()
        for lane in self._lanes.values():
            lane.abandon(error)
        self.operations.abandon(error)
