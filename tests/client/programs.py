"""Programs of users, for type checkers alone: in lines that end with `# wrong` they find errors."""

import kohort.client
from kohort.client import (
    Admin,
    ClientConfig,
    Cluster,
    Consumer,
    ConsumerGroup,
    DeliveryTimeoutError,
    Generation,
    Producer,
    Security,
    TopicPartition,
    UndeliveredError,
)


async def lists(cluster: Cluster) -> None:
    kohort.client.Nonsense(cluster)  # wrong


async def work(generation: Generation, partition: TopicPartition, database: str) -> None:
    async for batch in generation.records(partition):
        print(database, [record.value for record in batch])
        await generation.commit({partition: batch.next_offset})


async def consume() -> None:
    config = ClientConfig(bootstrap="localhost:9092", security=Security(protocol="SSL"))
    ClientConfig(bootstrap_servers="localhost:9092")  # wrong
    async with ConsumerGroup("g", topics=["orders"], session_timeout_ms=6_000) as group:
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(work, partition, "orders.db")
                    generation.start(work, partition, database="orders.db", name="second")
                    generation.start(work, partition)  # wrong
                    generation.start(work, partition, 5)  # wrong
        await group.run_until_signal(work, "orders.db")
        await group.run_until_signal(work)  # wrong
    ConsumerGroup("g", topics=["orders"], sesion_timeout_ms=6_000)  # wrong
    ConsumerGroup("g", topics=["orders"], session_timeout_ms="6 s")  # wrong
    ConsumerGroup("g", topics=["orders"], start_offset="begin")  # wrong
    Consumer(config, auto_offset_reset="begin")  # wrong


async def produce(config: ClientConfig) -> None:
    try:
        async with Producer(config, linger_ms=5) as producer:
            delivery = await producer.send("orders", b"value")
            print((await delivery).offset)
            await producer.send("orders", "value")  # wrong
        Producer(config, linger=5)  # wrong
    except (UndeliveredError, DeliveryTimeoutError) as error:
        print(error)
    async with Cluster(config) as cluster:
        print(len((await Admin(cluster).list_groups()).groups))
