"""`groupMode=member`: a streaming query as a member of a group, on the loop of `background`.

Spark requests a plan at every trigger, which is between two micro-batches: the last one has
succeeded, the next is not planned. Partitions are assigned and revoked only there.

    finish_batch(done)  commits the last batch, gives up revoked partitions, returns the owned ones
    start_batch()       begins a micro-batch: the group waits from here until `finish_batch`

During a batch the group waits for the drain timeout at most. If the batch takes longer, its
partitions are reassigned without its commit, which is refused from then on (fenced). Their new
owners read the same records again.

An assigned partition is read from the group's committed offset or from this query's checkpoint,
whichever is further (`finish_batch`). A member of the group has processed all records
below either, so no record is skipped, and none that this query wrote is written again. Without
both, it is read from `startingOffsets` if the partition existed when the query began and the group
had read no record of its topic before this generation. Later topics and partitions are read from
their first record. Members that begin in one generation mark this in the metadata of their first
commits.

With `transactionalSink` the sink commits the offsets, and only the group's offsets count: the
checkpoint is ahead of them if a transaction was aborted.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

from kohort.client.admin import Admin
from kohort.client.config import GroupConfig, GroupEvent
from kohort.client.group import ConsumerGroup, Generation, MemberSubscription
from kohort.client.group_metadata import GroupMetadata
from kohort.client.membership import End
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError, fresh, unless_error
from kohort.spark import background
from kohort.spark.offset_queries import OffsetQueries
from kohort.spark.option_values import named, numbers
from kohort.spark.options import Bound, ReadOptions
from kohort.spark.positions import EARLIEST, Positions, TopicIds
from kohort.spark.sink_offsets import SinkOffsets
from kohort.types import GroupId, TopicPartition

logger: Final = logging.getLogger("kohort.spark")

REBALANCE_TIMEOUT_MS: Final = 300_000
"""Kafka's default of `max.poll.interval.ms`: a micro-batch may take two thirds of it.

The first micro-batch of a query also compiles its plan and starts Python workers: a minute and more
on a busy machine.
"""

_NUMBERS: Final = {
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "rebalance_timeout_ms",
}
_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


class QueryMember:
    """One membership of a group. All methods run on the loop of `background`."""

    def __init__(self, options: ReadOptions, sink: SinkOffsets | None = None) -> None:
        """`sink`: commits the offsets, and is open; None: the member does."""
        self._options = options
        self._sink = sink
        self._in_flight: Positions = {}
        """Ends that the sink is to commit with the rows of this micro-batch."""
        self._offset_queries = OffsetQueries(options)
        self._group = ConsumerGroup(
            options.group_id or "", on_event=self._on_event, **group_options(options)
        )
        self.generation: Generation | None = None
        """The member's last generation; None before the first."""
        self._planned_generation: Generation | None = None
        """Generation of the last `finish_batch`."""
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        """No micro-batch is in flight."""
        self._idle.set()
        self._positions: Positions = {}
        """Next offset of each owned partition."""
        self._committed: Positions = {}
        self._first_generation: dict[TopicPartition, str] = {}
        """Generation in which the query first read a partition without earlier commits."""
        self._initial_partitions: frozenset[TopicPartition] | None = None
        """Partitions that existed when the query began.

        None before that; empty if the query continues from a checkpoint.
        """
        self._failure: BaseException | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def assigned(self, wait_s: float) -> None:
        """Wait until the member is in a generation, for `wait_s` at most.

        Raises the error that ended the membership.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._current_generation()

    async def finish_batch(
        self, done: Mapping[TopicPartition, int], wait_s: float
    ) -> Positions | None:
        """End the last micro-batch; returns the owned partitions with their next offsets.

        `done` is the checkpoint's position. Returns None if the group assigned no partitions within
        `wait_s` seconds. Raises the error that ended the membership.
        """
        if self._sink is None:
            for tp in self._positions:
                self._positions[tp] = max(self._positions[tp], done.get(tp, 0))
            await self._commit()
        else:
            self._apply_committed(self._sink)
        self._idle.set()
        try:
            async with asyncio.timeout(wait_s):
                while not await self._resolve_positions(
                    generation := await self._current_generation(), done
                ):
                    pass
                await self._commit()
        except TimeoutError:
            return None
        if self._sink is not None and self._positions != self._committed:
            return None  # the group does not have the start offsets yet
        self._planned_generation = generation
        return dict(self._positions)

    def start_batch(self, ends: Mapping[TopicPartition, int], ids: TopicIds) -> bool:
        """Begin a micro-batch up to `ends`, of the topics with these `ids`.

        False if partitions were revoked since `finish_batch`, which then has to be called again.
        Raises KohortError if the sink that commits `ends` cannot be reached.
        """
        if self._planned_generation is None or self._planned_generation.end is not None:
            return False
        self._idle.clear()
        if self._sink is not None:
            self._send_to_sink(self._sink, self._planned_generation, ends, ids)
        return True

    def reset_positions(self, position: Mapping[TopicPartition, int]) -> None:
        """Set the next offsets of partitions that lost data."""
        self._positions |= position

    def drop_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Drop positions in deleted partitions: new ones of their names are read from the start."""
        first = {tp: 0 for tp in self._positions if tp in partitions}
        self._positions |= first
        self._committed |= first
        # They were in the checkpoint: the query did not begin now.
        self._initial_partitions = (self._initial_partitions or frozenset()) - set(partitions)

    def membership(self) -> dict[str, Any]:
        """The fields of `kohort.spark.metrics.Membership`; empty before the first generation."""
        if self.generation is None:
            return {}
        metrics = self._group.metrics()
        return {
            "group_id": metrics.group_id,
            "generation": metrics.generation,
            "rebalances": metrics.rebalances.count,
            "losses": metrics.lost,
        }

    async def close(self) -> None:
        """Leave the group without waiting for a micro-batch in flight. Idempotent."""
        self._idle.set()
        await self._group.close()
        await asyncio.wait([self._task])

    # --- callbacks of the group ---

    async def _run(self) -> None:
        try:
            async with self._group:
                async for generation in self._group:
                    async with generation:
                        generation.pause(*generation.assignment)  # the workers fetch
                        for tp in generation.assignment:
                            generation.start(self._keep_partition, tp)
                        self.generation = generation
                        self._changed.set()
        except Exception as error:
            self._failure = error.with_traceback(None)  # it refers to this object
        else:
            self._failure = KohortError(f"group {self._options.group_id} was left")
        self._changed.set()

    def _on_event(self, event: GroupEvent) -> None:
        logger.info("group %s: %s %s", event.group_id, event.what, event.detail)
        if event.what == "generation" and self._in_flight.keys() <= self._positions.keys():
            self._renew(event.member_id, event.generation)

    def _renew(self, member_id: str, generation: int) -> None:
        """Pass the sink the generation of a rebalance that revoked none of its partitions."""
        if self._sink is not None:
            instance = self._options.kafka_option("group.instance.id")
            self._sink.renew(
                GroupMetadata(
                    group_id=self._options.group_id or "",
                    generation_id=generation,
                    member_id=member_id,
                    instance_id=instance,
                )
            )

    async def _keep_partition(self, generation: Generation, tp: TopicPartition) -> None:
        """Keep the partition until the query finishes its micro-batch.

        Cancelled on a late or lost membership.
        """
        try:
            await generation.ending()
            await self._idle.wait()
        finally:
            self._positions.pop(tp, None)

    # --- steps of the query's calls ---

    async def _current_generation(self) -> Generation:
        while True:
            if self._failure is not None:
                raise fresh(self._failure)
            if self.generation is not None and self.generation.end is None:
                return self.generation
            self._changed.clear()
            await self._changed.wait()

    def _send_to_sink(
        self,
        sink: SinkOffsets,
        generation: Generation,
        ends: Mapping[TopicPartition, int],
        ids: TopicIds,
    ) -> None:
        self._in_flight = {tp: end for tp, end in ends.items() if end != self._positions[tp]}
        if self._in_flight:
            group, offsets = generation.to_commit(self._offsets(self._in_flight))
            topics = {tp.topic for tp in self._in_flight}
            sink.plan_commit(group, offsets, {topic: ids[topic] for topic in topics & ids.keys()})

    def _apply_committed(self, sink: SinkOffsets) -> None:
        """Set positions to the offsets that the sink committed, of partitions that are still owned.

        Raises KohortError if it committed none.
        """
        sink.end_micro_batch()
        done = {tp: end for tp, end in self._in_flight.items() if tp in self._positions}
        self._positions |= done
        self._committed |= done
        self._in_flight = {}

    async def _resolve_positions(
        self, generation: Generation, done: Mapping[TopicPartition, int]
    ) -> bool:
        """Resolve the next offset of each owned partition; False if the generation has ended."""
        assigned = set(generation.assignment)
        self._positions = {
            tp: position for tp, position in self._positions.items() if tp in assigned
        }
        new = sorted(assigned - self._positions.keys())
        committed = {
            tp: commit.offset for tp in new if (commit := generation.committed(tp)) is not None
        }
        without_position = [tp for tp in new if tp not in committed and tp not in done]
        if self._initial_partitions is None:
            self._initial_partitions = (
                frozenset() if done else frozenset(await self._offset_queries.existing())
            )
        marker = f"begun in generation {generation.id}"
        known_topics = await self._topics_committed_before(
            {tp.topic for tp in without_position}, marker
        )
        started = await self._start_offsets(
            without_position,
            {tp for tp in self._initial_partitions if tp.topic not in known_topics},
        )
        if generation.end is not None:
            return False
        self._committed = {
            tp: position for tp, position in self._committed.items() if tp in self._positions
        } | committed
        self._first_generation = {
            tp: when for tp, when in self._first_generation.items() if tp in self._positions
        }
        self._first_generation |= dict.fromkeys(started, marker)
        for tp in new:
            candidates = [
                positions[tp] for positions in (committed, done, started) if tp in positions
            ]
            self._positions[tp] = max(candidates) if self._sink is None else candidates[0]
        return True

    async def _topics_committed_before(self, topics: set[str], marker: str) -> set[str]:
        """The `topics` that the group committed before the generation of `marker`."""
        if not topics:
            return set()
        partitions = [tp for tp in await self._offset_queries.existing() if tp.topic in topics]
        group = GroupId(self._options.group_id or "")
        admin = Admin(await background.cluster(self._options.kafka))
        committed = unless_error((await admin.committed([group], partitions))[group])
        return {tp.topic for tp, offset in committed.items() if offset.metadata != marker}

    async def _start_offsets(
        self, partitions: list[TopicPartition], beginning: Collection[TopicPartition]
    ) -> Positions:
        """Start offsets of partitions that no member has read.

        `startingOffsets` for partitions of `beginning`, the first records for others.
        """
        from_first = [tp for tp in partitions if tp not in beginning]
        from_starting_offsets = [tp for tp in partitions if tp in beginning]
        offsets = await self._offset_queries.resolved(
            Bound(option="", everywhere=EARLIEST), from_first
        )
        return offsets | await self._offset_queries.resolved(
            self._options.starting, from_starting_offsets, of_all=False
        )

    async def _commit(self) -> None:
        """Commit changed positions. A commit fails if the partitions have new owners."""
        generation = self.generation
        moved = {
            tp: position
            for tp, position in self._positions.items()
            if self._committed.get(tp) != position
        }
        if generation is None or generation.end is End.LOST or not moved:
            return
        try:
            await generation.commit(self._offsets(moved))
        except KohortError as error:
            logger.warning("group %s: %s", self._options.group_id, error)
        else:
            self._committed |= moved

    def _offsets(self, positions: Positions) -> dict[TopicPartition, OffsetAndMetadata]:
        """The commit of `positions`, with metadata."""
        return {
            tp: OffsetAndMetadata(offset=position, metadata=self._first_generation.get(tp, ""))
            for tp, position in positions.items()
        }


def group_options(options: ReadOptions) -> dict[str, Any]:
    """The arguments of `ConsumerGroup` for a query's options. Raises ConfigError."""
    group_fields: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
        "protocol": options.group_protocol,
        "remote_assignor": options.kafka_option("group.remote.assignor"),
    }
    group_fields |= numbers(dict(options.kafka), _NUMBERS, least=1)
    if (instance := options.kafka_option("group.instance.id")) is not None:
        group_fields["instance_id"] = instance
    if (strategy := options.kafka_option("partition.assignment.strategy")) is not None:
        group_fields["assignors"] = tuple(
            _ASSIGNORS.get(name.strip(), name.strip()) for name in strategy.split(",")
        )
    client = options.client_config()
    group_fields |= {field.name: getattr(client, field.name) for field in fields(client)}
    group_fields |= {"topics": options.subscription.topics, "pattern": options.subscription.pattern}
    # The group's own fetcher is paused at once; until then it fetches one batch at most.
    return group_fields | {"fetch_max_bytes": 1, "max_partition_fetch_bytes": 1}


def validate_group(options: ReadOptions) -> None:
    """Raise ConfigError, which names the option, if the group's options are invalid."""
    chosen = group_options(options)
    member_options = {
        name: chosen[name]
        for name in chosen
        if name in {field.name for field in fields(GroupConfig)}
    }
    config = named(
        "group.id and kafka.*",
        _NUMBERS,
        lambda: GroupConfig(group_id=options.group_id or "", **member_options),
    )
    named(
        "kafka.partition.assignment.strategy",
        {},
        lambda: MemberSubscription(config.topics, config.assignors, None),
    )


class BlockingQueryMember:
    """`QueryMember` for Spark's thread, as blocking functions. Joins at the first call."""

    def __init__(self, options: ReadOptions, sink: SinkOffsets | None = None) -> None:
        self._options = options
        self._sink = sink
        self._member: QueryMember | None = None

    def await_assignment(self, wait_s: float) -> None:
        background.run(self._assigned(wait_s))

    def finish_batch(self, done: Mapping[TopicPartition, int], wait_s: float) -> Positions | None:
        return background.run(self._finish_batch(done, wait_s))

    def start_batch(self, ends: Mapping[TopicPartition, int], ids: TopicIds) -> bool:
        return background.run(self._start_batch(ends, ids))

    def reset_positions(self, position: Mapping[TopicPartition, int]) -> None:
        background.run(self._reset_positions(position))

    def drop_deleted(self, partitions: Collection[TopicPartition]) -> None:
        background.run(self._drop_deleted(partitions))

    def membership(self) -> dict[str, Any]:
        return background.run(self._membership())

    def leave(self) -> None:
        if self._member is not None:
            background.run(self._member.close())
        if self._sink is not None:
            self._sink.close()

    async def _joined(self) -> QueryMember:
        if self._member is None:
            self._member = QueryMember(self._options, self._sink)
        return self._member

    async def _assigned(self, wait_s: float) -> None:
        await (await self._joined()).assigned(wait_s)

    async def _finish_batch(
        self, done: Mapping[TopicPartition, int], wait_s: float
    ) -> Positions | None:
        return await (await self._joined()).finish_batch(done, wait_s)

    async def _start_batch(self, ends: Mapping[TopicPartition, int], ids: TopicIds) -> bool:
        return (await self._joined()).start_batch(ends, ids)

    async def _reset_positions(self, position: Mapping[TopicPartition, int]) -> None:
        (await self._joined()).reset_positions(position)

    async def _drop_deleted(self, partitions: Collection[TopicPartition]) -> None:
        (await self._joined()).drop_deleted(partitions)

    async def _membership(self) -> dict[str, Any]:
        return (await self._joined()).membership()
