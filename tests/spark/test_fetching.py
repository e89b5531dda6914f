"""Fetches of tasks: from replicas (KIP-392), and of damaged batches. No Spark is needed."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from client.fake_cluster import HANG_UP, FakeCluster
from client.fetch.test_faults import Log
from kohort.columnar import kernels, machine_code
from kohort.errors import KohortError
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.spark import fetching
from kohort.spark.damaged_responses import DamagedLogError
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange
from segments.files import NOW, batch
from spark.served_log import ServedLog, changed

LEADER, FOLLOWER = 0, 1


@pytest.mark.parametrize("works", [True, False])
async def test_the_replica_in_the_rack_is_read_and_else_the_leader(works):
    """A replica that fails is not asked again, and the leader then without a rack."""
    async with FakeCluster(nodes=2, topics={"orders": 1}) as fake:
        fake.lead("orders", 0, node=LEADER, epoch=1)
        log = Log(fake)

        def refer(request: SimpleNamespace) -> Any:
            if not request.body.rack_id:
                return log.fetch(request)
            return log.answer(
                request.body, request.version, lambda _: {"preferred_read_replica": FOLLOWER}
            )

        fake.brokers[LEADER].on("fetch", refer)
        fake.brokers[FOLLOWER].on("fetch", log.fetch if works else lambda _: HANG_UP)
        options = parse_read(
            {"kafka.bootstrap.servers": fake.brokers[LEADER].address, "subscribe": "orders",
             "kafka.client.rack": "b"},
            streaming=False,
        )  # fmt: skip
        wanted = OffsetRange("orders", 0, 0, 3)
        batches = await asyncio.to_thread(lambda: list(fetching.read(options, wanted)))
        assert [at for batch in batches for at in batch["offset"].to_pylist()] == [0, 1, 2]
        racks = [request.rack_id for request in fake.brokers[LEADER].asked("fetch")]
        assert racks == (["b"] if works else ["b", ""])
        assert len(fake.brokers[FOLLOWER].asked("fetch")) == 1


async def test_a_fetch_is_given_up_after_its_own_time_limit():
    """`kafkaConsumer.pollTimeoutMs`, instead of the minute that other requests have."""
    async with FakeCluster(topics={"orders": 1}) as fake:
        fake.on("fetch", lambda _: HANG_UP)
        options = parse_read(
            {"kafka.bootstrap.servers": fake.brokers[0].address, "subscribe": "orders",
             "kafkaConsumer.pollTimeoutMs": "300"},
            streaming=False,
        )  # fmt: skip
        with pytest.raises(KohortError, match=r"orders-0.* gave up after .* in 0\.\d s"):
            await asyncio.to_thread(list, fetching.read(options, OffsetRange("orders", 0, 0, 3)))


async def test_machine_code_is_loaded_in_the_thread_of_the_task(monkeypatch):
    """The event loop has heartbeats to send: kernels that changed take a minute to compile."""
    load, threads = machine_code.addresses, []

    def addresses():
        threads.append(threading.current_thread())
        return load()

    def task():
        list(fetching.read(options, OffsetRange("orders", 0, 0, 3)))
        return threading.current_thread()

    monkeypatch.setattr(machine_code, "addresses", addresses)
    vars(kernels.scan).pop("_machine_code", None)  # as in a new process
    async with FakeCluster(topics={"orders": 1}) as fake:
        fake.on("fetch", Log(fake).fetch)
        options = parse_read(
            {"kafka.bootstrap.servers": fake.brokers[0].address, "subscribe": "orders"},
            streaming=False,
        )
        thread = await asyncio.to_thread(task)
        assert threads[0] is thread


def damaged_options(address: str, **more: str) -> Any:
    options = {
        "kafka.bootstrap.servers": address, "subscribe": "orders",
        "includeBatchFields": "true", "damagedBatches": "rows", "maxInflatedBatchBytes": "2000",
    }  # fmt: skip
    return parse_read(options | more, streaming=False)


LARGE = batches.build(
    [Record(None, bytes(4096), (), NOW)] * 2, base_offset=2, codec=batches.Codec.GZIP
)
DAMAGED = {
    "value": changed(batch(2), 70, 0xFF),
    "compression type": changed(batch(2), 22, 7, is_confirmed=True),
    "size after decompression": LARGE,
    "number of offsets, too high": changed(batch(2), 23, 0x40),
    "number of offsets, too low": changed(batch(2), 26, 0),
    "base offset, too high": changed(batch(2), 6, 1),
    "base offset, too low": changed(batch(2), 0, 0x80),
    "count": changed(batch(2), 60, 9, is_confirmed=True),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED.keys())
async def test_a_damaged_batch_of_a_broker_becomes_a_row_and_the_next_one_is_read(damaged):
    async with FakeCluster(topics={"orders": 1}) as fake:
        fake.on("fetch", ServedLog(fake, batch(0), damaged, batch(4), batch(6), end=8).fetch)
        options = damaged_options(fake.brokers[0].address)
        reading = fetching.read(options, OffsetRange("orders", 0, 0, 8))
        found = await asyncio.to_thread(list, reading)
    rows = [row for each in found for row in each.to_pylist()]
    (lost,) = [row for row in rows if row["control"] == "damaged"]
    assert (lost["key"], lost["offset"]) == (None, 2)
    assert lost["value"].startswith(b"orders-0: ")
    assert b"; lost are offsets from 2 to below " in lost["value"]
    whole = [(row["offset"], row["value"]) for row in rows if row["control"] is None]
    assert whole == [(offset, b"v%d" % offset) for offset in (0, 1, 4, 5, 6, 7)]


async def test_damaged_batches_are_rows_wherever_a_read_begins():
    log = batch(0), DAMAGED["value"], batch(4), changed(batch(6), 70, 0xFF)
    async with FakeCluster(topics={"orders": 1}) as fake:
        fake.on("fetch", ServedLog(fake, *log, end=8).fetch)
        options = damaged_options(fake.brokers[0].address)
        for start, end, lost in ((1, 8, [2, 6]), (2, 4, [2]), (3, 5, [3]), (4, 6, []), (7, 8, [7])):
            reading = fetching.read(options, OffsetRange("orders", 0, start, end))
            found = await asyncio.to_thread(list, reading)
            rows = [row for each in found for row in each.to_pylist()]
            assert [row["offset"] for row in rows if row["control"] == "damaged"] == lost
            whole = [row["offset"] for row in rows if row["control"] is None]
            assert whole == [at for at in (0, 1, 4, 5) if start <= at < end]


@pytest.mark.parametrize(
    "damaged",
    [changed(batch(2), 16, 1), changed(batch(2), 8, 0xFF)],
    ids=["magic", "size"],
)
async def test_bytes_of_a_broker_that_are_no_batch_are_an_error_with_their_offset(damaged):
    async with FakeCluster(topics={"orders": 1}) as fake:
        log = ServedLog(fake, end=8)
        log.records = lambda offset: (batch(0) if offset < 2 else b"") + damaged + batch(4)
        fake.on("fetch", log.fetch)
        options = damaged_options(fake.brokers[0].address)
        reading, found = fetching.read(options, OffsetRange("orders", 0, 0, 8)), []

        def read() -> None:
            for each in reading:
                found.extend(each["offset"].to_pylist())

        with pytest.raises(DamagedLogError, match="orders-0 has no record batch at offset 2"):
            await asyncio.to_thread(read)
        assert found == [0, 1]
