"""A teller of the bank that is a member of a group, with each front end of our own client:
`python member_teller.py asyncio|blocking|trio ADDRESS NUMBER TIMEOUT GROUP PAUSE PROTOCOL`.

The members share the partitions of `shared-orders`, whose orders are those that `teller.py` tells
of. A transaction has the orders of a batch and, by the member and its generation, the offset behind
it; some are aborted, and some have a time limit that is over at a random moment. PAUSE is inside
the transaction, where partitions are revoked and lost. The teller goes on as docs/client.md says,
prints "PARTITION OFFSET" of the last order of each batch that it knows to be committed, and leaves
on SIGTERM.
"""

import asyncio
import logging
import random
import sys
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple

import trio
from kohort_teller import (  # type: ignore[import-not-found]  # beside this script
    LIMITED_SHARE,
    LIMITS_S,
    lose_messages,
)

from kohort import client
from kohort.client import (
    CommitUnknownError,
    GenerationEndedError,
    TransactionAbortedError,
    TransactionOutcome,
    sync,
)

TOPIC = "shared-orders"
ABORTED_SHARE = 0.1
SESSION_TIMEOUT_MS = 3_000
"""Less than the longest suspension."""
BATCH_BYTES = 250
"""A batch has a few orders, so that members go on for long, and often end one."""
COMMITTED = TransactionOutcome.COMMITTED


class Options(NamedTuple):
    """Of the producer, of the group, and of the work."""

    writing: dict[str, Any]
    group: str
    reading: dict[str, Any]
    pause_s: float


class Post(NamedTuple):
    """One of the two records of a transfer, with the name of the order as its key."""

    partition: int
    amount: bytes
    key: bytes


def posts(batch: Any) -> list[Post]:
    logging.info("%s from %d", batch.topic_partition, batch.first_offset)
    found = []
    for order in batch:
        source, to, amount = order.value.split()
        key = b"m%d-%d" % (order.partition, order.offset)
        found += [Post(int(source), b"-" + amount, key), Post(int(to), amount, key)]
    return found


def limit_s() -> float | None:
    return random.uniform(*LIMITS_S) if random.random() < LIMITED_SHARE else None


def report(batch: Any) -> None:
    print(batch.topic_partition.partition, batch.next_offset - 1, flush=True)


# --- asyncio


async def serve(options: Options) -> None:
    async with (
        client.Producer(**options.writing) as producer,
        client.ConsumerGroup(options.group, topics=[TOPIC], **options.reading) as group,
    ):
        group.stop_on()
        async for generation in group:
            async with generation:
                for each in generation.assignment:
                    generation.start(work, each, producer, options.pause_s)


async def work(generation: Any, partition: Any, producer: Any, pause_s: float) -> None:
    async for batch in generation.records(partition):
        transaction = generation.exactly_once(producer, batch)
        with suppress(TimeoutError, TransactionAbortedError, CommitUnknownError):
            async with asyncio.timeout(limit_s()), transaction as opened:
                for each in posts(batch):
                    await producer.send(
                        "accounts", each.amount, key=each.key, partition=each.partition
                    )
                await asyncio.sleep(pause_s)
                if random.random() < ABORTED_SHARE:
                    await opened.abort()
        if transaction.outcome is COMMITTED:
            report(batch)


# --- without an event loop


def carry_out(producer: Any, group: Any, batch: Any, pause_s: float) -> bool:
    """Whether the batch is committed; otherwise it comes again if the member keeps it."""
    here = batch.topic_partition
    transaction = producer.transaction()
    with suppress(TransactionAbortedError, GenerationEndedError, CommitUnknownError), transaction:
        for each in posts(batch):
            producer.send("accounts", each.amount, key=each.key, partition=each.partition)
        time.sleep(pause_s)
        if random.random() < ABORTED_SHARE:
            transaction.abort()
        else:
            transaction.commit_offsets({here: batch.next_offset}, group.generation)
    while transaction.outcome is TransactionOutcome.UNKNOWN:
        with suppress(TransactionAbortedError, CommitUnknownError):
            transaction.commit()
    return transaction.outcome is COMMITTED


def read_again(group: Any, batch: Any) -> None:
    with suppress(GenerationEndedError):  # others have the partition, and read the batch
        group.seek(batch.topic_partition, batch.first_offset)


def opened(options: Options, stack: ExitStack) -> tuple[Any, Any]:
    producer = stack.enter_context(sync.Producer(**options.writing))
    group = sync.ConsumerGroup(options.group, topics=[TOPIC], **options.reading)
    return producer, stack.enter_context(group)


def serve_blocking(options: Options) -> None:
    with ExitStack() as stack:
        producer, group = opened(options, stack)
        group.stop_on()
        for batch in group:
            if carry_out(producer, group, batch, options.pause_s):
                report(batch)
            else:
                read_again(group, batch)


async def serve_under_trio(options: Options) -> None:
    in_thread = trio.to_thread.run_sync
    with ExitStack() as stack:
        producer, group = await in_thread(opened, options, stack)
        group.stop_on()
        while (batch := await in_thread(partial(next, group, None))) is not None:
            is_committed = False
            limit = limit_s()
            with trio.move_on_after(float("inf") if limit is None else limit):
                # A thread is not cancelled: the limit counts before it.
                is_committed = await in_thread(carry_out, producer, group, batch, options.pause_s)
            if is_committed:
                report(batch)
            else:
                await in_thread(read_again, group, batch)


def main(
    front: str,
    address: str,
    number: str,
    timeout_ms: str,
    group: str,
    pause_ms: str,
    protocol: str,
) -> None:
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    logging.getLogger("kohort.client.transactions").setLevel(logging.DEBUG)
    lose_messages()
    options = Options(
        {
            "bootstrap": address,
            "transactional_id": f"teller-{number}",
            "transaction_timeout_ms": int(timeout_ms),
        },
        group,
        {
            "bootstrap": address,
            "protocol": protocol,
            "isolation_level": "read_committed",
            "max_partition_fetch_bytes": BATCH_BYTES,
            "heartbeat_interval_ms": SESSION_TIMEOUT_MS // 6,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
        },
        int(pause_ms) / 1000,
    )
    if front == "asyncio":
        asyncio.run(serve(options))
    elif front == "trio":
        trio.run(serve_under_trio, options)
    else:
        serve_blocking(options)


if __name__ == "__main__":
    main(*sys.argv[1:])
