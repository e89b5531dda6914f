"""Fetches of tasks from replicas (KIP-392), against brokers that name one. No Spark is needed."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from client.fake_cluster import HANG_UP, FakeCluster
from client.fetch.test_faults import Log
from kohort.columnar import kernels, machine_code
from kohort.errors import KohortError
from kohort.spark import fetching
from kohort.spark.options import parse_read
from kohort.spark.ranges import OffsetRange

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
