"""Consuming partitions of one topic, without a group."""

import asyncio
from collections.abc import Collection

from kohort.cli.consume_offsets import Start, start_offsets
from kohort.cli.consume_queries import require_partition
from kohort.cli.consume_sink import Sink
from kohort.cli.signals import stop_on_signal
from kohort.client.admin import Admin
from kohort.client.cluster import Isolation
from kohort.client.fetch import Fetcher
from kohort.errors import KafkaError, KohortError, fresh
from kohort.types import TopicPartition

POLL_INTERVAL_MS = 200
"""Interval of checks whether to continue, without records."""


async def consume(
    admin: Admin,
    sink: Sink,
    *,
    topic: str,
    partition: int | None,
    start: Start,
    group: str,
    isolation: Isolation,
    exit_at_end: bool,
) -> None:
    """Consume until the sink is full, a signal, or the end with `exit_at_end`.

    A signal ends the process until the start offsets are known.

    Raises KohortError, BrokenPipeError.
    """
    offsets = await start_offsets(admin, start, await _partitions(admin, topic, partition), group)
    stop = stop_on_signal()
    wait_ms = POLL_INTERVAL_MS // 2 if exit_at_end else 500
    async with Fetcher(
        admin.cluster, isolation=isolation, out_of_range="earliest", fetch_max_wait_ms=wait_ms
    ) as fetcher:
        fetcher.assign(offsets)
        await _Reading(fetcher, sink, exit_at_end).run(stop)


async def _partitions(admin: Admin, topic: str, partition: int | None) -> list[TopicPartition]:
    described = (await admin.describe_topics([topic])).get(topic)
    if described is None or isinstance(described, KafkaError):
        raise fresh(described) if described else KohortError(f"no response about topic {topic}")
    every = sorted(TopicPartition(topic, partition.index) for partition in described.partitions)
    if partition is None:
        return every
    require_partition(described, partition)
    return [TopicPartition(topic, partition)]


class _Reading:
    """Batches from the fetcher to the sink."""

    def __init__(self, fetcher: Fetcher, sink: Sink, exit_at_end: bool) -> None:
        self._fetcher = fetcher
        self._sink = sink
        self._exit_at_end = exit_at_end
        self._at_end: set[TopicPartition] = set()

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set() and not self._sink.is_full and self._fetcher.assignment:
            batch = await self._fetcher.next_any(max_wait_ms=POLL_INTERVAL_MS)
            if batch is not None:
                tp = batch.topic_partition
                self._at_end.discard(tp)
                await self._sink.write(tp, batch.records)
                if tp in self._sink.stopped:
                    self._fetcher.remove(tp)
            elif self._sink.output.is_broken:
                raise BrokenPipeError
            if not self._sink.is_full and self._all_at_end(self._fetcher.assignment):
                return

    def _all_at_end(self, assigned: Collection[TopicPartition]) -> bool:
        """Report partitions that reached their end; whether all have, and consuming is done."""
        for tp in sorted(assigned):
            if tp not in self._at_end and self._fetcher.lag(tp) == 0:
                self._at_end.add(tp)
                exiting = self._exit_at_end and len(self._at_end) == len(assigned)
                self._sink.print_end(tp, self._fetcher.position(tp), exiting=exiting)
        return self._exit_at_end and bool(assigned) and len(self._at_end) == len(assigned)
