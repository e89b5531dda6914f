"""Kohort's own client as a group member or a producer; see lines.py."""

import asyncio
import logging
import sys

import kio_alone  # noqa: F401  before all that imports kio
import lines

from kohort.client import Batch, ClientConfig, CommitError, ConsumerGroup, Generation, Producer
from kohort.client.security import PLAINTEXT, Security, security_of_file
from kohort.types import TopicPartition

QUICK = {"retry_backoff_ms": 50, "retry_backoff_max_ms": 500}


class Member:
    def __init__(self, options: dict[str, str]) -> None:
        self.owned: set[TopicPartition] = set()
        self.work_s = float(options.get("work", "0"))
        self.group = ConsumerGroup(
            options["group"],
            topics=options["topics"].split(","),
            bootstrap=options["bootstrap"],
            client_id=options["client"],
            security=security(options),
            assignors=[options["assignor"]],
            instance_id=options.get("instance"),
            protocol=options.get("protocol", "classic"),
            session_timeout_ms=int(options["session"]),
            rebalance_timeout_ms=max(int(options["session"]), 30_000),
            heartbeat_interval_ms=int(options["heartbeat"]),
            drain_timeout_ms=int(options["drain"]) if "drain" in options else None,
            partition_watch_interval_ms=500,
            join_group_backoff_ms=500,
            fetch_max_wait_ms=200,
            **QUICK,
        )

    async def run(self) -> None:
        async with self.group:
            self.group.stop_on()
            async for generation in self.group:
                told = [str(each) for each in generation.assignment]
                lines.say(
                    "began", generation=generation.id, leads=generation.is_leader, partitions=told
                )
                async with generation:
                    for partition in generation.assignment:
                        generation.start(self.work, partition)
        lines.say("left")

    async def work(self, generation: Generation, partition: TopicPartition) -> None:
        self.owned.add(partition)
        member = {"member": generation.member_id, "generation": generation.id}
        lines.owns(self.owned, **member)
        try:
            async for batch in generation.records(partition):
                await self.process(generation, partition, batch)
        finally:
            self.owned.discard(partition)
            lines.owns(self.owned, **member)
            lines.say(
                "ended",
                partition=str(partition),
                end=generation.end.value if generation.end else "failed",
            )

    async def process(
        self, generation: Generation, partition: TopicPartition, batch: Batch
    ) -> None:
        offsets = [record.offset for record in batch]
        lines.records(
            partition.topic, partition.partition, offsets, [record.value for record in batch]
        )
        await asyncio.sleep(self.work_s)
        try:
            await generation.commit({partition: batch.next_offset})
        except CommitError as error:
            lines.say("failed", what=str(error))
        else:
            lines.committed({(partition.topic, partition.partition): batch.next_offset})


def security(options: dict[str, str]) -> Security:
    return security_of_file(options["security"]) if "security" in options else PLAINTEXT


async def produce(options: dict[str, str]) -> int:
    """0 if every line of stdin was acknowledged."""
    config = ClientConfig(bootstrap=options["bootstrap"], security=security(options), **QUICK)
    producers = {
        topic: await Producer(config, compression=codec).__aenter__()
        for codec, topic in lines.topics(options).items()
    }
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        key, value = lines.keyed_line(line)
        for topic, producer in producers.items():
            await producer.send(topic, value, key=key)
    for producer in producers.values():
        await producer.__aexit__(None, None, None)  # raises if a record was not acknowledged
    return 0


def main() -> int:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    mode, options = lines.arguments()
    if mode == "produce":
        return asyncio.run(produce(options))
    asyncio.run(Member(options).run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
