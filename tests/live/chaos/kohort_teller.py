"""A teller of the bank, with our own client. `teller.py` says what that is.

It goes on after errors by which a transaction is aborted for sure.
"""

import asyncio
import sys
from contextlib import suppress

from kohort.client import (
    ClientConfig,
    Consumer,
    GroupMetadata,
    Producer,
    Record,
    TopicPartition,
    TransactionAbortedError,
)


async def main(address: str, number: str, timeout_ms: str, group: str, pause_ms: str) -> None:
    config = ClientConfig(bootstrap=address)
    writing = {"transactional_id": f"teller-{number}", "transaction_timeout_ms": int(timeout_ms)}
    reading = {"group_id": group, "isolation_level": "read_committed"}
    async with Producer(config, **writing) as producer, Consumer(config, **reading) as consumer:
        await consumer.assign([TopicPartition("orders", int(number))])
        async for order in consumer:
            if order.offset % 5 == 0:
                with suppress(TransactionAbortedError):
                    await transfer(producer, order, group, abort=True)
            while not await is_carried_out(producer, order, group):
                pass
            print(order.offset, flush=True)
            await asyncio.sleep(int(pause_ms) / 1000)


async def is_carried_out(producer: Producer, order: Record, group: str) -> bool:
    try:
        await transfer(producer, order, group)
    except TransactionAbortedError:
        return False
    return True


async def transfer(producer: Producer, order: Record, group: str, abort: bool = False) -> None:
    source, to, amount = order.value.split()
    key = b"%d-%d" % (order.partition, order.offset)
    async with producer.transaction() as transaction:
        await producer.send("accounts", b"-" + amount, key=key, partition=int(source))
        await producer.send("accounts", amount, key=key, partition=int(to))
        await transaction.commit_offsets(
            {TopicPartition(order.topic, order.partition): order.offset + 1},
            GroupMetadata(group_id=group),
        )
        if abort:
            await transaction.abort()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
