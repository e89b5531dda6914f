"""Consumes as a member of a group, and commits the offsets of written records.

An offset is committed after its record was written to standard output: every second, when a
partition is revoked, and when the member leaves. After a crash, records may be written twice, but
none is lost.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kohort.cli.consume_offsets import Start, start_offsets
from kohort.cli.consume_sink import Sink
from kohort.client.admin import Admin
from kohort.client.errors import DeserializationError
from kohort.client.group import ConsumerGroup, Generation
from kohort.errors import ConfigError
from kohort.types import TopicPartition

COMMIT_INTERVAL_MS: Final = 1_000
POLL_INTERVAL_S: Final = 0.2
PROPERTIES: Final = {
    "auto.offset.reset": "start_offset",
    "group.instance.id": "instance_id",
    "group.protocol": "protocol",
    "group.remote.assignor": "remote_assignor",
    "client.rack": "rack",
    "isolation.level": "isolation_level",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "rebalance.timeout.ms": "rebalance_timeout_ms",
    "partition.assignment.strategy": "assignors",
    "fetch.min.bytes": "fetch_min_bytes",
    "fetch.max.bytes": "fetch_max_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "auto.commit.interval.ms": "commit_interval_ms",
}
"""Java's property of `-X` → option of ConsumerGroup."""
_RESETS: Final = {"earliest": "first", "smallest": "first", "beginning": "first", "latest": "last",
    "largest": "last",
                  "end": "last"}  # fmt: skip


def group_options(properties: Mapping[str, str], topics: Sequence[str]) -> dict[str, Any]:
    """The options of ConsumerGroup. Raises ConfigError."""
    options: dict[str, Any] = {"commit_interval_ms": COMMIT_INTERVAL_MS, "start_offset": "last"}
    for name, option in PROPERTIES.items():
        if name in properties:
            options[option] = _typed(name, properties[name])
    return options | _subscription(topics)


def _typed(name: str, value: str) -> Any:
    if name.endswith((".ms", ".bytes")):
        if not value.isdecimal():
            raise ConfigError(f"{name}={value}: is not a number")
        return int(value)
    if name == "partition.assignment.strategy":
        return tuple(item.strip() for item in value.split(","))
    return _RESETS.get(value, value) if name == "auto.offset.reset" else value


def _subscription(topics: Sequence[str]) -> dict[str, Any]:
    """Topics by name, or `^` and a regular expression that matches a prefix, as in librdkafka."""
    if not any(topic.startswith("^") for topic in topics):
        return {"topics": list(topics)}
    patterns = (f"{topic}.*" if topic.startswith("^") else re.escape(topic) for topic in topics)
    return {"pattern": "|".join(f"(?:{pattern})" for pattern in patterns)}


class GroupConsumer:
    """A member that passes records of its partitions to the sink."""

    def __init__(
        self, admin: Admin, group: ConsumerGroup, sink: Sink, start: Start | None, exit_at_end: bool
    ) -> None:
        self._admin = admin
        self._group = group
        self._sink = sink
        self._start = start
        self._exit_at_end = exit_at_end
        self._turn = asyncio.Lock()
        self._started: set[TopicPartition] = set()
        self._at_end: set[TopicPartition] = set()

    async def run(self) -> None:
        """Consume until a signal, a full sink, or the end with `exit_at_end`.

        Raises KohortError, OSError.
        """
        self._group.stop_on()
        self._sink.print_message("Waiting for group rebalance")
        async for generation in self._group:
            assigned = ", ".join(f"{tp.topic} [{tp.partition}]" for tp in generation.assignment)
            self._sink.print_message(
                f"Group {self._group.config.group_id} rebalanced "
                f"(memberid {generation.member_id}): assigned: {assigned}"
            )
            self._at_end.intersection_update(generation.kept)
            async with generation:
                generation.start(self._watch)
                for partition in generation.assignment:
                    generation.start(self._work, partition)

    async def _work(self, generation: Generation, partition: TopicPartition) -> None:
        await self._seek(generation, partition)
        async for batch in generation.records(partition):
            async with self._turn:
                if self._sink.is_full:
                    return
                self._at_end.discard(partition)
                try:
                    cut = await self._sink.write(partition, batch.records)
                except DeserializationError as error:
                    await generation.commit({partition: error.offset})
                    raise
            await generation.commit({partition: batch.next_offset if cut is None else cut})
            if self._sink.is_full:
                self._group.stop("as many records were consumed as were requested")
                return
            if partition in self._sink.stopped or generation.lag(partition) == 0:
                self._report_end(generation, partition)
            if partition in self._sink.stopped:
                return

    async def _seek(self, generation: Generation, partition: TopicPartition) -> None:
        """Seek to the offset of `-o`, but only once: later the committed offset counts."""
        if partition in self._started:
            return
        self._started.add(partition)
        if self._start not in (None, "stored"):
            assert self._start is not None
            offsets = await start_offsets(self._admin, self._start, [partition])
            generation.seek(partition, offsets[partition])

    async def _watch(self, generation: Generation) -> None:
        """Check for events without records: the end of a partition, a closed standard output."""
        while generation.end is None:
            for partition in generation.assignment:
                if partition in self._started and generation.lag(partition) == 0:
                    self._report_end(generation, partition)
            if self._sink.output.is_broken:
                raise BrokenPipeError
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await generation.ending()

    def _report_end(self, generation: Generation, partition: TopicPartition) -> None:
        if partition in self._at_end:
            return
        self._at_end.add(partition)
        assigned = set(generation.assignment)
        done = self._sink.stopped >= assigned or (self._exit_at_end and self._at_end >= assigned)
        if partition not in self._sink.stopped:
            self._sink.print_end(partition, generation.position(partition), exiting=done)
        if done:
            self._group.stop("the end of all partitions is reached")
