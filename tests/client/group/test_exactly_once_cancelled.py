"""A time limit at every await of an exactly-once block, with a server that answers, is late, or
dies in between. The application is written as docs/client.md says. A reader of committed records
gets each result once.
"""

import asyncio
from typing import Any

import pytest

from client.group.test_exactly_once import during, ended, run, totals
from kohort.client import (
    BrokerUnreachableError,
    ClientConfig,
    Generation,
    Producer,
    TopicPartition,
    TransactionError,
    TransactionOutcome,
)
from kohort.server.broker import Broker

RECORDS = 3


@pytest.fixture(autouse=True)
async def orders(broker: Broker, config: ClientConfig) -> None:
    broker.topics.create("orders", 1)
    broker.topics.create("totals", 1)
    async with Producer(config) as producer:
        for number in range(RECORDS):
            await producer.send_and_wait("orders", b"%d" % number)


class Faults:
    """Disturbs the first request of an API, and tells when it is sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api: str, how: str) -> None:
        self.met = asyncio.Event()
        from kohort.client.net import Connection

        send = Connection.send

        async def faulty(connection: Connection, name: str, /, **fields: Any) -> Any:
            is_first = name == api and not self.met.is_set()
            if is_first:
                self.met.set()
            if is_first and how == "lost request":
                raise BrokerUnreachableError("the request is lost")
            response = await send(connection, name, **fields)
            if is_first and how == "lost response":
                raise BrokerUnreachableError("the response is lost")
            if is_first and how == "late response":
                await asyncio.sleep(0.5)
            if is_first and how == "response too late":
                await asyncio.sleep(3)  # longer than `max_block_ms`
            return response

        monkeypatch.setattr(Connection, "send", faulty)


@pytest.mark.parametrize(
    "how", ["response", "late response", "response too late", "lost request", "lost response"]
)
@pytest.mark.parametrize("api", ["none", "txn_offset_commit", "end_txn"])
@pytest.mark.parametrize("turns", range(0, 16, 2))
async def test_each_record_counts_once(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch, how: str, api: str, turns: int
) -> None:
    done = asyncio.Event()
    outcomes: list[TransactionOutcome | None] = []

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            transaction = generation.exactly_once(producer, batch)
            try:
                async with asyncio.timeout(None) as limit:
                    if not outcomes:
                        cuts.append(asyncio.create_task(end_after(turns, limit)))
                    async with transaction:
                        for record in batch:
                            await producer.send("totals", record.value)
            except (TimeoutError, TransactionError):
                pass
            for cut in cuts:
                cut.cancel()
            outcomes.append(transaction.outcome)
            if batch.next_offset == RECORDS and transaction.outcome is COMMITTED:
                done.set()
            elif transaction.outcome is TransactionOutcome.UNKNOWN:
                async with producer.transaction(wait=True):  # settles it
                    pass
                if transaction.outcome is COMMITTED and batch.next_offset == RECORDS:
                    done.set()

    cuts: list[asyncio.Task[None]] = []

    async def end_after(count: int, limit: asyncio.Timeout) -> None:
        """The time limit is over so many turns of the loop after the request, or the beginning."""
        if api != "none":
            await faults.met.wait()
        for _ in range(count):
            await asyncio.sleep(0)
        limit.reschedule(asyncio.get_running_loop().time())

    async with Producer(
        config, transactional_id="totals-1", linger_ms=0, max_block_ms=1_000
    ) as producer:
        faults = Faults(monkeypatch, api, how)
        owner = asyncio.create_task(run(config, "a", work, producer))
        async with asyncio.timeout(600):
            await during(owner, done.wait())
        await ended(owner)
    if api != "end_txn":
        assert outcomes[0] in (TransactionOutcome.ABORTED, COMMITTED)
    elif how == "response too late":
        assert outcomes[0] is TransactionOutcome.UNKNOWN
    else:
        assert outcomes[0] is COMMITTED
    assert await totals(config) == [b"%d" % number for number in range(RECORDS)]


COMMITTED = TransactionOutcome.COMMITTED
