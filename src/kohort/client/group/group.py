"""`ConsumerGroup`: a member of a consumer group, whose generations are task scopes.

    async with ConsumerGroup("orders", topics=["orders"], bootstrap="localhost:9092") as group:
        async for generation in group:                       # one at a time, never overlapping
            async with generation:                           # ends with the generation
                for partition in generation.assignment:
                    generation.start(work, partition)

    async def work(generation, partition):
        async for batch in generation.records(partition):    # from the committed offset
            ...
            await generation.commit({partition: batch.next_offset})

The member joins the group on entering `async with`, and leaves it on exit. Heartbeats, joins and
commits use connections of their own and run beside the application. They need the event loop:
blocking work belongs into `asyncio.to_thread`. An error that ends the membership for good is raised
by `async for` (`GroupError`). The life of a generation is in `kohort.client.group.generation`.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from random import uniform
from typing import Any, Generic, Self, Unpack, cast

from kohort.client.cluster import Cluster, open_cluster
from kohort.client.concurrency import own_loop, to_its_end
from kohort.client.config import (
    OUT_OF_RANGE,
    ClientConfig,
    GroupConfig,
    GroupOptions,
    split_options,
    validate_names,
)
from kohort.client.fetch import Fetcher
from kohort.client.group.background_tasks import start_background_tasks
from kohort.client.group.generation import Args, Generation
from kohort.client.group.generation_scope import GenerationScope
from kohort.client.group.negotiation import negotiated
from kohort.client.group.records import GroupRecords
from kohort.client.group.run import GroupRun
from kohort.client.group.signals import SIGNALS, listen
from kohort.client.group.subscription import MemberSubscription
from kohort.client.group_errors import GroupError
from kohort.client.method_names import GROUP, MethodHints
from kohort.client.metrics import GroupMetrics
from kohort.client.properties import checks_arguments, shows_options
from kohort.client.record import K, Record, V
from kohort.client.serialization import Deserializer, deserializers
from kohort.errors import ConfigError, KohortError
from kohort.types import TopicPartition


class GroupClosedError(GroupError):
    """The group was left on request: there is no further generation."""


@shows_options(GroupConfig, ClientConfig)
@checks_arguments
class ConsumerGroup(MethodHints, Generic[K, V]):
    """One member of a group. Options are the fields of `GroupConfig` and `ClientConfig`.

    Raises ConfigError for an option that is unknown or out of its bounds.
    """

    _OTHER_NAMES = GROUP

    def __init__(
        self,
        group_id: str,
        *,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        cluster: ClientConfig | Cluster | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[GroupOptions],
    ) -> None:
        """`cluster` is an open one of the caller, or a ClientConfig in place of its options.

        Deserializers are those of `kohort.client.serialization`. They run before a batch is handed
        out, are cancelled when its partition is revoked, and count for `max_poll_interval_ms`.
        """
        own_options, client_options = split_options(options, GroupConfig)
        self.config = GroupConfig(
            group_id=group_id, topics=tuple(_validated(topics)), pattern=pattern, **own_options
        )
        self._cluster = open_cluster(cluster, client_options)
        self._owns_cluster = self._cluster is not cluster
        self._deserializers = deserializers(key_deserializer, value_deserializer)
        self._subscription = MemberSubscription(
            self.config.topics, self.config.assignors, self.config.rack
        )
        self._opened = AsyncExitStack()
        self._closing: asyncio.Task[None] | None = None
        self._run: GroupRun | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._records: GroupRecords[K, V] | None = None

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self._run.membership if self._run else self.config.group_id}>"

    # --- opening and closing ---

    async def __aenter__(self) -> Self:
        if self._run is not None:
            raise KohortError("the group was entered before: create another ConsumerGroup")
        self._own_loop = own_loop(self._own_loop, "group")
        try:
            await self._open()
        except BaseException:
            await self._opened.aclose()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._run is not None:
            self._run.handover.block_left()
        await self.close()

    async def _open(self) -> None:
        cluster = self._cluster
        if self._owns_cluster:
            self._opened.push_async_callback(cluster.close)
        self.config = await negotiated(cluster, self.config)
        fetcher = self._make_fetcher(cluster)
        self._opened.push_async_callback(fetcher.close)
        run = self._make_run(cluster, fetcher)
        watch = run.context.watch
        if watch.has_pattern or (self.config.pattern and self.config.start == "last"):
            metadata = await cluster.metadata()
            watch.begin_with(metadata)
            if watch.has_pattern:
                self._subscription.topics = watch.matched(metadata)
        self._run = run
        self._opened.push_async_callback(run.close, "the consumer is closed")
        start_background_tasks(run.context, run.handover)
        run.member.dispatch(run.membership.join)

    def _make_run(self, cluster: Cluster, fetcher: Fetcher) -> GroupRun:
        return GroupRun(
            self.config,
            cluster,
            fetcher,
            self._subscription,
            uniform,
            deserializers=self._deserializers,
        )

    def _make_fetcher(self, cluster: Cluster) -> Fetcher:
        config = self.config
        return Fetcher(
            cluster,
            isolation=config.isolation_level,
            out_of_range=OUT_OF_RANGE.get(config.start, "earliest"),
            fetch_min_bytes=config.fetch_min_bytes,
            fetch_max_bytes=config.fetch_max_bytes,
            fetch_max_wait_ms=config.fetch_max_wait_ms,
            max_partition_fetch_bytes=config.max_partition_fetch_bytes,
            check_crcs=config.check_crcs,
            rack=config.rack or "",
        )

    async def close(self) -> None:
        """Drain, commit, leave the group, and close all connections. Idempotent.

        Tasks and scopes of a generation call `stop` instead: `close` waits for them to end, and
        raises KohortError there. If it is cancelled, it cancels draining tasks, and still leaves
        the group.
        """
        if self._run is None:
            await self._opened.aclose()
            return
        own_loop(self._own_loop, "group")
        self._run.handover.validate_outside()
        if self._closing is None:
            self._closing = asyncio.create_task(
                self._opened.aclose(), name=f"{self.config.group_id} closes"
            )
        await to_its_end(self._closing, self._run.draining.cancel_tasks)

    def stop(self, reason: str = "the application stops") -> None:
        """Request the end: the generation closes as if revoked, then the member leaves the group.

        `async for` ends after that.
        """
        self._running.leave(reason)

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to exactly these topics from now on: the group rebalances.

        Under cooperative rebalancing the partitions of topics that stay are not interrupted. Raises
        ConfigError for invalid names, and for a group with a pattern.
        """
        if self.config.pattern is not None:
            raise ConfigError("subscribe: the group has a pattern, which decides on its topics")
        names = tuple(dict.fromkeys(_validated(topics)))
        replace(self.config, topics=names)
        self._running.subscribe(names)

    # --- generations ---

    def __aiter__(self) -> AsyncIterator[GenerationScope[K, V]]:
        return self

    async def __anext__(self) -> GenerationScope[K, V]:
        generation = await self._next()
        if generation is None:
            raise StopAsyncIteration
        return generation

    async def next(self) -> GenerationScope[K, V]:
        """Wait for the next generation, as one turn of `async for`.

        Raises GroupClosedError once the group was left, GroupError when the membership ended
        otherwise.
        """
        generation = await self._next()
        if generation is None:
            raise GroupClosedError(
                f"group {self.config.group_id} was left: there is no further generation"
            )
        return generation

    async def _next(self) -> GenerationScope[K, V] | None:
        run = self._running
        own_loop(self._own_loop, "group")
        return cast("GenerationScope[K, V] | None", await run.handover.next())

    def records(self) -> AsyncIterator[Record[K, V]]:
        """The records of all partitions one by one, with at-least-once commits, for scripts.

        Used instead of the loop over generations. A record is finished when the next one is
        requested. Offsets of finished records are committed every `commit_interval_ms` (if it is 0:
        `auto_commit_interval_ms`), when a partition is revoked, and when the member leaves. A
        partition is given up after the record in work. Ends after `stop`. Raises GroupError, and an
        ExceptionGroup with the errors of partitions.

            async for record in group.records():
        """
        own_loop(self._own_loop, "group")
        if self._records is None:
            self._validate_entered()
            interval_ms = self.config.commit_interval_ms or self.config.auto_commit_interval_ms
            self._records = GroupRecords(self, interval_ms)
            self._opened.push_async_callback(self._records.close)
        return self._records

    async def run_until_signal(
        self,
        work: Callable[[Generation[K, V], TopicPartition, *Args], Coroutine[Any, Any, object]],
        *args: *Args,
        signals: Iterable[signal.Signals] = SIGNALS,
    ) -> None:
        """Run `work(generation, partition, *args)` for every partition until a signal or `stop`.

        SIGTERM or SIGINT ends the loop: the member drains, commits and leaves. A second signal is
        not caught, and ends the process. Raises the errors of tasks, and GroupError.
        """
        self.stop_on(signals)
        async for generation in self:
            async with generation:
                for partition in generation.assignment:
                    generation.start(work, partition, *args)

    def stop_on(self, signals: Iterable[signal.Signals] = SIGNALS) -> None:
        """Call `stop` at the first of these signals, until the group is closed.

        Handlers that were there before are called as well, and put back. Raises ValueError outside
        of the main thread.
        """
        loop = asyncio.get_running_loop()

        def stop(number: signal.Signals) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.stop, number.name)

        self._opened.callback(listen(signals, stop))

    # --- state ---

    @property
    def member_id(self) -> str:
        """The member id; "" before the coordinator has given one."""
        return self._running.membership.member_id

    @property
    def generation_id(self) -> int:
        """The generation id; -1 while there is none."""
        return self._running.membership.generation

    def metrics(self) -> GroupMetrics:
        """Counters since the group was entered, and gauges of this moment; from any thread.

        Raises KohortError before that.
        """
        return self._running.metrics()

    def statistics(self) -> dict[str, object]:
        """State and counters of the member, for gauges and log lines."""
        run = self._running
        return {
            "state": run.membership.phase.value,
            "generation": run.membership.generation,
            "member_id": run.membership.member_id,
            "partitions": len(run.context.owned_partitions),
            "rebalances": run.rebalances,
            "commit_requests": run.committer.requests,
            "committed_partitions": run.committer.committed,
        }

    @property
    def _running(self) -> GroupRun:
        self._validate_entered()
        assert self._run is not None
        return self._run

    def _validate_entered(self) -> None:
        if self._run is None:
            raise KohortError("enter the group first: async with ConsumerGroup(...) as group")


def _validated(topics: Sequence[str]) -> Sequence[str]:
    validate_names("topics", topics)
    return topics
