"""A teller of the bank, with our own client. `teller.py` says what that is.

Some transactions have a time limit that is over at a random moment, and some requests that end
transactions or commit their offsets are lost, or their responses are, with the connection. The
teller goes on by `transaction.outcome`, as docs/client.md says.
"""

import asyncio
import random
import sys
from contextlib import suppress
from typing import Any

from kohort.client import (
    BrokerUnreachableError,
    ClientConfig,
    CommitUnknownError,
    Consumer,
    GroupMetadata,
    Producer,
    Record,
    TopicPartition,
    TransactionAbortedError,
    TransactionOutcome,
)
from kohort.client.net import Connection

LIMITED_SHARE = 0.3
"""Transactions with a time limit."""
LIMITS_S = (0.0, 0.03)
LOST_SHARE = 0.05
"""Requests that are lost, and as many responses."""
LOST = ("end_txn", "txn_offset_commit", "produce")


async def main(address: str, number: str, timeout_ms: str, group: str, pause_ms: str) -> None:
    lose_messages()
    config = ClientConfig(bootstrap=address)
    writing = {"transactional_id": f"teller-{number}", "transaction_timeout_ms": int(timeout_ms)}
    reading = {"group_id": group, "isolation_level": "read_committed"}
    async with Producer(config, **writing) as producer, Consumer(config, **reading) as consumer:
        await consumer.assign([TopicPartition("orders", int(number))])
        async for order in consumer:
            if order.offset % 5 == 0:
                await is_carried_out(producer, order, group, abort=True)
            while not await is_carried_out(producer, order, group):
                pass
            print(order.offset, flush=True)
            await asyncio.sleep(int(pause_ms) / 1000)


async def is_carried_out(
    producer: Producer, order: Record, group: str, *, abort: bool = False
) -> bool:
    """Whether the transfer is committed. Raises ProducerFencedError."""
    limit_s = random.uniform(*LIMITS_S) if random.random() < LIMITED_SHARE else None
    transaction = producer.transaction()
    with suppress(TimeoutError, TransactionAbortedError, CommitUnknownError):
        async with asyncio.timeout(limit_s):
            await transfer(producer, transaction, order, group, abort=abort)
    while transaction.outcome is TransactionOutcome.UNKNOWN:
        with suppress(TransactionAbortedError, CommitUnknownError):
            await transaction.commit()
    return transaction.outcome is TransactionOutcome.COMMITTED


async def transfer(
    producer: Producer, transaction: Any, order: Record, group: str, *, abort: bool
) -> None:
    source, to, amount = order.value.split()
    key = b"%d-%d" % (order.partition, order.offset)
    async with transaction:
        await producer.send("accounts", b"-" + amount, key=key, partition=int(source))
        await producer.send("accounts", amount, key=key, partition=int(to))
        await transaction.commit_offsets(
            {TopicPartition(order.topic, order.partition): order.offset + 1},
            GroupMetadata(group_id=group),
        )
        if abort:
            await transaction.abort()


def lose_messages() -> None:
    """Have connections break before or after some requests."""
    submit = Connection.submit

    async def faulty(connection: Connection, wire: Any, *body: Any, **options: Any) -> Any:
        fate = random.random() if wire.api in LOST else 1.0
        if fate < LOST_SHARE:
            raise connection.fail(BrokerUnreachableError("the request is lost"))
        response = await submit(connection, wire, *body, **options)
        if fate < 2 * LOST_SHARE:
            raise connection.fail(BrokerUnreachableError("the response is lost"))
        return response

    Connection.submit = faulty  # type: ignore[method-assign]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
