"""A streaming read that belongs to a consumer group (`groupMode=member`).

The offset that Spark keeps has a position for every partition that this query ever had. Positions
of partitions that other members own stay unchanged. If such a partition is assigned to this query
again, Spark must not count the records that other members have read. So if a micro-batch does not
start at the end of the previous one, the offset has its start:

    {"@begin": {"orders": {"3": 50}}, "orders": {"0": 60, "3": 70}}

So a restart repeats a micro-batch exactly, even if other members own its partitions by then (no
topic can be called `@begin`). Records that the other owner has read as well are then in both sinks.
A sink that both write to removes them by (topic, partition, offset).

With `transactionalSink` the sink commits the offsets, in the transaction of the rows
(`sink_offsets`). Then only the group's offsets count: the checkpoint is ahead of them if
the transaction was aborted. So a restart repeats a micro-batch without records,
and continues from the group's offsets. If that leads to the same end, the offset gets the key
`@again`, because Spark skips a micro-batch whose end does not change.
"""

import atexit
import signal
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from kohort.client.admin import Admin
from kohort.errors import KohortError, fresh, unless_error
from kohort.spark import background
from kohort.spark.error_messages import cause_first
from kohort.spark.membership import BlockingQueryMember, group_options
from kohort.spark.offset_queries import Existing, ids_of, validate_named
from kohort.spark.options import ReadOptions
from kohort.spark.positions import (
    BEGIN,
    GROUP,
    Positions,
    SparkOffset,
    TopicIds,
    from_spark,
    made_distinct,
    offset_of,
    topic_ids,
)
from kohort.spark.ranges import limited
from kohort.spark.sink_offsets import SinkOffsets
from kohort.spark.stream import StreamReader
from kohort.types import TopicPartition

ASSIGNMENT_WAIT_S: Final = 2.0
"""How long a trigger waits for an assignment. After that it is idle, and the next trigger waits.

Spark calls the sources of a query one after the other. While one waits, the micro-batch of the next
one is still in flight, and that source's group waits for it.
"""
RUN_WAIT_REBALANCES: Final = 2
"""Longest wait for an assignment, in rebalance timeouts: before the first trigger, and in a run."""


@dataclass(frozen=True, slots=True)
class TriggerPlan:
    """The offsets among which a trigger chooses the micro-batch."""

    existing: Existing
    """All partitions that the query may read."""
    checkpoint: Positions
    """Offsets in the checkpoint, without deleted partitions."""
    positions: Positions
    """Next offset of each owned partition."""
    latest: Positions
    """End offset of each owned partition."""

    def ends(self, limit: ReadLimit) -> Positions:
        """End offsets of the micro-batch."""
        if isinstance(limit, ReadMaxRows):
            return limited(limit.max_rows, self.positions, self.latest)
        return self.latest

    def jumps(self, ends: Positions) -> Positions:
        """Start offsets that differ from the checkpoint."""
        starts = {tp: self.positions[tp] for tp in ends}
        return {tp: start for tp, start in starts.items() if start != self.checkpoint.get(tp)}

    def cut(self, ends: Positions) -> Positions:
        """Ends below the next offset: the log lost what was between them."""
        return {tp: end for tp, end in ends.items() if end < self.positions[tp]}


@cause_first
class MemberStreamReader(StreamReader):
    """Joins before the first trigger, and leaves when the query stops."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._member: BlockingQueryMember | None = None
        self._waited_s = 0.0
        """Time that the last triggers of a run waited for an assignment, in seconds."""
        self._planned: SparkOffset | None = None
        """The end of the last micro-batch that this object planned."""
        self._deleted: dict[str, str | None] = {}
        """Topics deleted since that plan, with the ids of the topics that have their names now."""
        self._unclaimed: threading.Timer | None = None
        """Leaves the group if the query does not start. Not pickled: planners have none."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Also joins the group, and waits until it is assigned partitions.

        Spark calls this for each source of a query before the first trigger, which may be the only
        one (Trigger.Once). So no source joins while another one has a micro-batch in flight.
        """
        self.queries.partitions()  # fails sooner than a join
        self._mark_started()
        try:
            self._joined().await_assignment(self._run_wait_s)
        except BaseException:
            self._abandon()
            raise
        self._unclaimed = threading.Timer(self._rebalance_timeout_s, self._abandon)
        self._unclaimed.daemon = True
        self._unclaimed.start()
        return super().getDefaultReadLimit()

    def initialOffset(self) -> Any:  # noqa: N802
        validate_named(self.options, self.queries.partitions())
        return {}  # start offsets are known when partitions are assigned

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:  # noqa: N802
        self._mark_started()
        enough = False
        while (plan := self._plan_trigger(start)) is not None:
            enough = enough or not self.is_too_little(plan.positions, plan.latest)
            ends = plan.ends(limit)
            unchanged = ends == plan.positions and plan.checkpoint == from_spark(start)
            if not enough or unchanged:
                return start
            if self._joined().start_batch(ends, ids_of(plan.existing)):
                self._joined().reset_positions(plan.cut(ends))
                self._planned = self._offset_after(start, plan, ends)
                self._deleted = {}
                return self._planned
        return self._unassigned(start)

    def _plan_trigger(self, start: SparkOffset) -> TriggerPlan | None:
        """End the last micro-batch, which ended at `start`; None without an assignment."""
        existing = self.queries.partitions()
        before = from_spark(start)
        # A commit of partitions that no longer exist would be retried for long.
        checkpoint = self.without_missing(before, existing, self.recreated(start, existing))
        self._drop_deleted(before.keys() - checkpoint.keys(), ids_of(existing))
        owned = self._joined().finish_batch(checkpoint, self._trigger_wait_s)
        if owned is None:
            return None
        self._waited_s = 0.0
        positions = {tp: offset for tp, offset in owned.items() if tp in existing}
        latest = self.ends(tuple(sorted(positions)), positions)
        positions = {tp: offset for tp, offset in positions.items() if tp in latest}
        return TriggerPlan(existing, checkpoint, positions, latest)

    def _offset_after(self, start: SparkOffset, plan: TriggerPlan, ends: Positions) -> SparkOffset:
        """The end of this micro-batch for Spark's checkpoint; it differs from `start`."""
        positions = plan.checkpoint | ends
        ids = self.ids_beside(positions, plan.existing, topic_ids(start))
        return made_distinct(offset_of(positions, plan.jumps(ends), ids), start)

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        self._mark_started()  # a restart repeats a micro-batch before the first trigger
        if self.options.transactional_sink is not None and end != self._planned:
            self._joined()  # writes the plan without offsets that the sink reads
            return []
        return super().partitions(start, end)

    def reportLatestOffset(self) -> SparkOffset:  # noqa: N802
        """Also has the membership. Spark shows it in the progress, and does not keep it."""
        membership = self._joined().membership()
        return ({GROUP: membership} if membership else {}) | (super().reportLatestOffset() or {})

    def _mark_started(self) -> None:
        """Cancel the timer that would leave the group: the query has started."""
        if self._unclaimed is not None:
            self._unclaimed.cancel()
            self._unclaimed.join()
            self._unclaimed = None

    def _abandon(self) -> None:
        """Leave the group, like a consumer that has not polled for `max.poll.interval.ms`.

        If a source of a query does not start, Spark ends the query and forgets the sources that
        have started: it neither stops them nor calls them again.
        """
        member, self._member = self._member, None
        if member is not None:
            member.leave()

    def stop(self) -> None:
        self._mark_started()
        if self._member is not None:
            ignore_sigterm()
            self._member.leave()

    def _drop_deleted(self, deleted: Collection[TopicPartition], ids: TopicIds) -> None:
        """Have the member drop its positions in topics that were deleted since the last plan.

        Once for each: until the next plan `start` still has them, while the member has positions in
        new topics of the same names.
        """
        unseen = {tp for tp in deleted if self._deleted.get(tp.topic, "") != ids.get(tp.topic)}
        if unseen:
            self._joined().drop_deleted(unseen)
            self._deleted |= {tp.topic: ids.get(tp.topic) for tp in unseen}

    def _unassigned(self, start: SparkOffset) -> SparkOffset:
        """The end of a micro-batch without partitions.

        A run (Trigger.AvailableNow) ends when all its sources are idle. To go on, its offset
        differs from `start` in an empty `@begin`. Raises KohortError after `_run_wait_s`.
        """
        if self.target is None:
            return start
        self._waited_s += self._trigger_wait_s
        if self._waited_s >= self._run_wait_s:
            raise KohortError(
                f"group {self.options.group_id} assigned no partitions within "
                f"{self._run_wait_s:g} s"
            )
        begin: dict[str, Any] = {} if BEGIN in start else {BEGIN: {}}
        return begin | {topic: start[topic] for topic in start if topic != BEGIN}

    @property
    def _run_wait_s(self) -> float:
        return RUN_WAIT_REBALANCES * self._rebalance_timeout_s

    @property
    def _rebalance_timeout_s(self) -> float:
        return float(group_options(self.options)["rebalance_timeout_ms"] / 1000)

    @property
    def _trigger_wait_s(self) -> float:
        """Exponential: each empty micro-batch doubles the time that a run has waited."""
        return max(ASSIGNMENT_WAIT_S, self._waited_s)

    def _joined(self) -> BlockingQueryMember:
        if self._member is None:
            exit_on_sigterm()
            atexit.register(self.stop)
            self._member = BlockingQueryMember(self.options, self._sink_offsets())
        return self._member

    def _sink_offsets(self) -> SinkOffsets | None:
        """None without `transactionalSink`.

        Fences the producer of an earlier driver: until its transaction has ended, the group's
        offsets are not known. Raises KohortError.
        """
        sink = self.options.transactional_sink
        if sink is None:
            return None
        offsets = SinkOffsets(sink)
        offsets.open(self._run_wait_s)
        try:
            offsets.begin(background.run(fence(self.options, sink)))
        except BaseException:
            offsets.close()
            raise
        return offsets


async def fence(options: ReadOptions, transactional_id: str) -> tuple[int, int]:
    """End the open transaction, if there is one; returns the producer's id and epoch.

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
    """Ignore SIGTERM while the process shuts down."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
