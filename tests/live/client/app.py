"""An application in this process: a member of a group that notes what it gets, and how its
partitions end.
"""

import asyncio

from kohort.client import ClientConfig, ConsumerGroup, Producer

QUICK = {
    "heartbeat_interval_ms": 50,
    "partition_watch_interval_ms": 100,
    "session_timeout_ms": 6_000,
}


async def produce(address, count, topic="orders"):
    """Records with the values 0 to `count` - 1, which are their keys too."""
    async with Producer(ClientConfig(bootstrap=address), linger_ms=0) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, key=b"%d" % number)


class App:
    def __init__(self, address, group="g", **options):
        self.group = ConsumerGroup(
            group, bootstrap=address, **{"topics": ["orders"]} | QUICK | options
        )
        self.generations, self.records, self.ends = [], [], []
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        async with self.group:
            async for generation in self.group:
                self.generations.append(generation)
                async with generation:
                    for partition in generation.assignment:
                        generation.start(self.work, partition)

    async def work(self, generation, partition):
        try:
            async for batch in generation.records(partition):
                self.records += batch
                await generation.commit({partition: batch.next_offset})
        finally:
            self.ends.append((partition, generation.end))

    @property
    def assignment(self):
        return (
            self.generations[-1].assignment
            if self.generations and self.generations[-1].end is None
            else ()
        )

    def values(self, topic="orders"):
        return [int(record.value) for record in self.records if record.topic == topic]

    async def stop(self):
        self.group.stop()
        await self.task
