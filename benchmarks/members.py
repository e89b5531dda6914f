"""One group member, with any client library.

    python -m benchmarks.members CLIENT ASSIGNOR ADDRESS TOPIC GROUP FILE

It reports on standard output and takes commands on standard input, line by line. It prints
`imported` and joins after the next line. It prints `ready` at its first record and leaves after the
next line. Then it writes the time of each record to FILE as JSON: [ns of the system's monotonic
clock, partition, offset].

With `--joins N` before FILE it joins N groups in turn, each of its own, and leaves at the first
record. It writes the milliseconds to each first record, from its start and from its assignment.
"""

import importlib
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

HEARTBEAT_MS = 100
"""Heartbeat interval of every client: members learn of a rebalance from a heartbeat response, and
that wait is no property of a client.
"""
COMMIT_MS = 5_000
POLL_MS = 500
"""Timeout of a poll. kafka-python forgets an assignment that arrives just after it."""


class Watch:
    """Record of what a member sees.

    The member stops once `stopped` is set. `on_stop` sets a function to call then, from another
    thread.
    """

    def __init__(self, on_first: Callable[["Watch"], None]) -> None:
        self.records: list[tuple[int, int, int]] = []
        self.began_ns = self.assigned_ns = 0
        self.stopped = False
        self._on_first = on_first
        self._on_stop: Callable[[], object] = lambda: None

    def began(self) -> None:
        """Note that the client is imported and its time starts."""
        self.began_ns = time.monotonic_ns()

    def assigned(self) -> None:
        """Note an assignment, at the client's callback and before it looks up start offsets."""
        self.assigned_ns = self.assigned_ns or time.monotonic_ns()

    def saw(self, partition: int, offset: int) -> None:
        """Note that the application has a record."""
        self.records.append((time.monotonic_ns(), partition, offset))
        if len(self.records) == 1:
            self._on_first(self)

    def on_stop(self, call: Callable[[], object]) -> None:
        self._on_stop = call

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self._on_stop()


Member = Callable[[str, str, str, str, Watch], None]


def kohort(assignor: str, address: str, topic: str, group_id: str, watch: Watch) -> None:
    """Run one task for each partition, as in the documentation."""
    import asyncio

    from kohort.client import ConsumerGroup, Generation, GroupEvent
    from kohort.types import TopicPartition

    async def work(generation: Generation, partition: TopicPartition) -> None:
        async for batch in generation.records(partition):
            for record in batch:
                watch.saw(record.partition, record.offset)
            await generation.commit({partition: batch.next_offset})

    def on_event(event: GroupEvent) -> None:
        if event.what == "generation":
            watch.assigned()

    async def run() -> None:
        watch.began()
        options: dict[str, Any] = {
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "commit_interval_ms": COMMIT_MS,
        }
        options |= {"bootstrap": address, "assignors": [assignor], "on_event": on_event}
        async with ConsumerGroup(group_id, topics=[topic], **options) as group:
            loop = asyncio.get_running_loop()
            watch.on_stop(lambda: loop.call_soon_threadsafe(group.stop))
            async for generation in group:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(work, partition)

    uvloop.run(run())


def aiokafka(assignor: str, address: str, topic: str, group_id: str, watch: Watch) -> None:
    """Run `getmany`; it supports eager rebalancing only."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener  # type: ignore[import-untyped]
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]

    assert assignor == "range"

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        def on_partitions_assigned(self, assigned: Any) -> None:
            watch.assigned()

    async def run() -> None:
        watch.began()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=group_id,
            partition_assignment_strategy=[RangePartitionAssignor],
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_commit_interval_ms=COMMIT_MS,
        )
        consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        try:
            while not watch.stopped:
                for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                    for record in records:
                        watch.saw(record.partition, record.offset)
        finally:
            await consumer.stop()

    uvloop.run(run())


def confluent_kafka(assignor: str, address: str, topic: str, group_id: str, watch: Watch) -> None:
    """Run `poll` for each record: `consume` waits until it has all the records requested."""
    from confluent_kafka import Consumer

    watch.began()
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group_id,
            "partition.assignment.strategy": assignor,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.commit.interval.ms": COMMIT_MS,
        }
    )
    consumer.subscribe([topic], on_assign=lambda *_: watch.assigned())
    while not watch.stopped:
        message = consumer.poll(POLL_MS / 1000)
        if message is not None and message.error() is None:
            watch.saw(message.partition(), message.offset())  # type: ignore[arg-type]  # None before it is produced
    consumer.close()


def kafka_python(assignor: str, address: str, topic: str, group_id: str, watch: Watch) -> None:
    """Run `poll`."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer  # type: ignore[import-untyped]
    from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]
        CooperativeStickyAssignor,
    )
    from kafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None: ...

        def on_partitions_assigned(self, assigned: Any) -> None:
            watch.assigned()

    watch.began()
    consumer = KafkaConsumer(
        bootstrap_servers=address,
        group_id=group_id,
        partition_assignment_strategy=[
            RangePartitionAssignor if assignor == "range" else CooperativeStickyAssignor
        ],
        auto_offset_reset="earliest",
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_commit_interval_ms=COMMIT_MS,
    )
    consumer.subscribe([topic], listener=Listener())
    while not watch.stopped:
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            for record in records:
                watch.saw(record.partition, record.offset)
    consumer.close()


MEMBERS: dict[str, Member] = {
    "kohort": kohort,
    "aiokafka": aiokafka,
    "confluent-kafka": confluent_kafka,
    "kafka-python": kafka_python,
}

MODULES: dict[Member, str] = {
    kohort: "kohort.client.group.group",
    aiokafka: "aiokafka",
    confluent_kafka: "confluent_kafka",
    kafka_python: "kafka",
}


def join(
    member: Member, assignor: str, address: str, topic: str, group_id: str
) -> dict[str, float]:
    """Run one member from its start to its first record."""
    watch = Watch(on_first=Watch.stop)
    member(assignor, address, topic, group_id, watch)
    first = watch.records[0][0]
    return {
        "join_ms": (first - watch.began_ns) / 1e6,
        "assigned_ms": (first - watch.assigned_ns) / 1e6,
    }


def work(
    member: Member, assignor: str, address: str, topic: str, group_id: str
) -> list[tuple[int, int, int]]:
    """Run one member by commands on standard input; return the records that it got."""
    watch = Watch(on_first=lambda _: print("ready", flush=True))
    print("imported", flush=True)
    sys.stdin.readline()

    def until_told() -> None:
        sys.stdin.readline()
        watch.stop()

    threading.Thread(target=until_told, daemon=True).start()
    member(assignor, address, topic, group_id, watch)
    return watch.records


def main() -> None:
    client, assignor, address, topic, group_id, *joins, file = sys.argv[1:]
    member = MEMBERS[client]
    importlib.import_module(MODULES[member])  # before the clock runs
    if joins[:1] == ["--joins"]:
        told: Any = [
            join(member, assignor, address, topic, f"{group_id}-{n}") for n in range(int(joins[1]))
        ]
    else:
        told = work(member, assignor, address, topic, group_id)
    Path(file).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
