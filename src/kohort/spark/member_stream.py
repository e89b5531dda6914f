"""A streaming read that belongs to a consumer group (`groupMode=member`).

The offset that Spark keeps has a position for every partition that this query ever had. Positions
of partitions that other members own stay unchanged. If such a partition comes back, Spark must not
count the records in between as this query's. So where a micro-batch does not start at the end of
the one before, the offset has its start:

    {"@begin": {"orders": {"3": 50}}, "orders": {"0": 60, "3": 70}}

A batch that a restart has to repeat is thus repeated exactly, whichever member owns its partitions
by then (no topic can be called `@begin`). Records that the other owner has read as well are then in
both sinks. A sink that both write to removes them by (topic, partition, offset).

With `transactionalSink` the sink commits the offsets, in the transaction of the rows
(`sink_offsets`). Then the group alone knows what was written. So a restart repeats a micro-batch
without records, and goes on from the group's offsets, not from those of the checkpoint: these are
further if the transaction was aborted. If they are read again up to the same end, the offset has
the key `@again`, for Spark to see a difference.
"""

import atexit
import signal
import sys
import threading
from collections.abc import Collection, Sequence
from typing import Any, Final, NoReturn

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from kohort.client.admin import Admin
from kohort.errors import KohortError, fresh, unless_error
from kohort.spark import background
from kohort.spark.cause_first import cause_first
from kohort.spark.membership import BlockingQueryMember, group_options
from kohort.spark.offset_queries import ids_of, validate_named
from kohort.spark.options import ReadOptions
from kohort.spark.positions import (
    BEGIN,
    GROUP,
    SparkOffset,
    TopicIds,
    from_spark,
    offset_of,
    topic_ids,
    unlike,
)
from kohort.spark.ranges import limited
from kohort.spark.sink_offsets import SinkOffsets
from kohort.spark.stream import StreamReader
from kohort.types import TopicPartition

PATIENCE_S: Final = 2.0
"""How long a trigger waits for the group; then it is idle, and the next one goes on waiting.

Spark asks the sources of a query one after the other. While one waits, the micro-batch of the next
one stays in flight, for which the group waits in turn.
"""
RUN_PATIENCE: Final = 2
"""Patience before the first trigger, and of all triggers of a run, in rebalance timeouts."""


@cause_first
class MemberStreamReader(StreamReader):
    """Joins before the first trigger, and leaves when the query stops."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._member: BlockingQueryMember | None = None
        self._waited_s = 0.0
        """How long the last triggers of a run waited for the group."""
        self._planned: SparkOffset | None = None
        """The end of the last micro-batch that this object planned."""
        self._forgotten: dict[str, str | None] = {}
        """Topics that were deleted since that plan, and the ids of those with their names now."""
        self._unclaimed: threading.Timer | None = None
        """Ends the membership if the query does not begin. Not pickled: planners have none."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Also joins the group, and waits until it is assigned partitions.

        Spark calls this for each source of a query before the first trigger, which may be the only
        one (Trigger.Once). So no source joins while another one has a micro-batch in flight.
        """
        self.queries.partitions()  # its errors come sooner than those of a join
        self._claim()
        try:
            self._joined().await_assignment(self._run_patience_s)
        except BaseException:
            self._abandon()
            raise
        self._unclaimed = threading.Timer(self._rebalance_timeout_s, self._abandon)
        self._unclaimed.daemon = True
        self._unclaimed.start()
        return super().getDefaultReadLimit()

    def initialOffset(self) -> Any:  # noqa: N802
        validate_named(self.options, self.queries.partitions())
        return {}  # where it begins is known when partitions are assigned

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:  # noqa: N802
        self._claim()
        before, released = from_spark(start), False
        while True:
            there = self.queries.partitions()
            # what is gone is not to be committed, which would be tried for long
            at = self.left(before, there, self.recreated(start, there))
            self._forget(before.keys() - at.keys(), ids_of(there))
            assigned = self._joined().boundary(at, self._patience_s)
            if assigned is None:
                return self._unassigned(start)
            self._waited_s = 0.0
            held = {tp: begin for tp, begin in assigned.items() if tp in there}
            latest = self.ends(tuple(sorted(held)), held)
            held = {tp: begin for tp, begin in held.items() if tp in latest}
            released = released or not self.waits(held, latest)
            if not released:
                return start
            ends = (
                limited(limit.max_rows, held, latest) if isinstance(limit, ReadMaxRows) else latest
            )
            if ends == held and at == before:
                return start
            if self._joined().take_off(ends, ids_of(there)):
                self._joined().moved({tp: end for tp, end in ends.items() if end < held[tp]})
                begin = {tp: held[tp] for tp in ends if held[tp] != at.get(tp)}
                ids = self.ids_beside(at | ends, there, topic_ids(start))
                self._planned = unlike(offset_of(at | ends, begin, ids), start)
                self._forgotten = {}
                return self._planned

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        self._claim()  # a restart repeats a micro-batch before the first trigger
        if self.options.transactional_sink is not None and end != self._planned:
            self._joined()  # the sink has to find that the micro-batch has no records
            return []
        return super().partitions(start, end)

    def reportLatestOffset(self) -> SparkOffset:  # noqa: N802
        """Spark shows it in the progress, and does not keep it."""
        membership = self._joined().membership()
        return ({GROUP: membership} if membership else {}) | (super().reportLatestOffset() or {})

    def _claim(self) -> None:
        """The query goes on: keep the membership, or begin another one if it has been ended."""
        if self._unclaimed is not None:
            self._unclaimed.cancel()
            self._unclaimed.join()
            self._unclaimed = None

    def _abandon(self) -> None:
        """Leave the group, as a consumer does that has not polled for `max.poll.interval.ms`.

        If a source of a query does not start, Spark ends the query and forgets the sources that
        have started: it neither stops them nor asks them for anything again.
        """
        member, self._member = self._member, None
        if member is not None:
            member.leave()

    def stop(self) -> None:
        self._claim()
        if self._member is not None:
            ignore_sigterm()
            self._member.leave()

    def _forget(self, gone: Collection[TopicPartition], ids: TopicIds) -> None:
        """Have the member forget positions in topics that were deleted since `start`.

        Once: until the next plan `start` stays, while the member learns positions in the new ones.
        """
        new = {tp: ids.get(tp.topic) for tp in gone}
        new = {tp: told for tp, told in new.items() if self._forgotten.get(tp.topic, "") != told}
        if new:
            self._joined().forget(new.keys())
            self._forgotten |= {tp.topic: told for tp, told in new.items()}

    def _unassigned(self, start: SparkOffset) -> SparkOffset:
        """The end of a micro-batch without partitions.

        A run (Trigger.AvailableNow) ends when all its sources are idle. So its offset differs from
        `start` in `@begin`, though nothing begins. Raises KohortError if that goes on for too long.
        """
        if self.target is None:
            return start
        self._waited_s += self._patience_s
        if self._waited_s >= self._run_patience_s:
            raise KohortError(
                f"group {self.options.group_id} assigned no partitions within "
                f"{self._run_patience_s:g} s"
            )
        begin: dict[str, Any] = {} if BEGIN in start else {BEGIN: {}}
        return begin | {topic: start[topic] for topic in start if topic != BEGIN}

    @property
    def _run_patience_s(self) -> float:
        return RUN_PATIENCE * self._rebalance_timeout_s

    @property
    def _rebalance_timeout_s(self) -> float:
        return float(group_options(self.options)["rebalance_timeout_ms"] / 1000)

    @property
    def _patience_s(self) -> float:
        """It doubles the time that a run has waited, which makes few micro-batches of it."""
        return max(PATIENCE_S, self._waited_s)

    def _joined(self) -> BlockingQueryMember:
        if self._member is None:
            exit_on_sigterm()
            atexit.register(self.stop)
            self._member = BlockingQueryMember(self.options, self._sink_offsets())
        return self._member

    def _sink_offsets(self) -> SinkOffsets | None:
        """None without `transactionalSink`.

        The transaction of an earlier driver is ended, either way: until then the group's offsets
        are not known. Raises KohortError.
        """
        sink = self.options.transactional_sink
        if sink is None:
            return None
        found = SinkOffsets(sink)
        found.open(self._run_patience_s)
        try:
            found.begin(background.run(fence(self.options, sink)))
        except BaseException:
            found.close()
            raise
        return found


async def fence(options: ReadOptions, transactional_id: str) -> tuple[int, int]:
    """End the transaction that is open, if there is one; returns the producer's id and epoch.

    Raises KohortError.
    """
    admin = Admin(await background.cluster(options.kafka))
    outcome = (await admin.fence_producers([transactional_id]))[transactional_id]
    if outcome is not None:
        raise fresh(outcome)
    described = unless_error(
        (await admin.describe_transactions([transactional_id]))[transactional_id]
    )
    return described.producer_id, described.producer_epoch


def exit_on_sigterm() -> None:
    """Exit in order on SIGTERM, so that `stop` is called.

    Spark ends this process by closing its socket and by SIGTERM, in any order, without waiting. A
    signal during the departure from the group would cut that short, and the other members would
    wait for the session timeout.
    """

    def leave(*_: object) -> NoReturn:
        ignore_sigterm()
        sys.exit(0)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, leave)


def ignore_sigterm() -> None:
    """We are about to end as it is."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
