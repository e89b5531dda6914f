"""Reading from the follower that the leader names, since it is in our rack (KIP-392)."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from client.fake_cluster import HANG_UP, FakeCluster
from client.fetch.test_faults import Log
from kohort.client.cluster.cluster import Cluster
from kohort.client.fetch.fetcher import Fetcher
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

TP = TopicPartition("orders", 0)
LEADER, FOLLOWER = 0, 1


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(nodes=2, topics={"orders": 1}) as cluster:
        cluster.lead("orders", 0, node=LEADER, epoch=1)
        yield cluster


@pytest.fixture
def log(fake: FakeCluster) -> Log:
    """The follower has it; the leader names the follower to whoever is in its rack."""
    made = Log(fake)

    def refer(request: SimpleNamespace) -> Any:
        assert request.body.rack_id == "b"
        return made.answer(
            request.body, request.version, lambda _: {"preferred_read_replica": FOLLOWER}
        )

    fake.brokers[FOLLOWER].on("fetch", made.fetch)
    fake.brokers[LEADER].on("fetch", refer)
    return made


async def offsets(fetcher: Fetcher, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        batch = await fetcher.next(TP, max_wait_ms=5_000)
        assert batch is not None
        found += [record.offset for record in batch.records]
    return found


async def test_the_preferred_replica_is_read(fake: FakeCluster, log: Log) -> None:
    async with Cluster(fake.config()) as cluster, Fetcher(cluster, rack="b") as fetcher:
        fetcher.add(TP, 0)
        assert await offsets(fetcher, 3) == [0, 1, 2]
        log.end = 5
        assert await offsets(fetcher, 2) == [3, 4]
    assert len(fake.brokers[LEADER].asked("fetch")) <= 2  # and the end of its session
    assert len(fake.brokers[FOLLOWER].asked("fetch")) >= 2


@pytest.mark.parametrize(
    "trouble", [ErrorCode.offset_out_of_range, ErrorCode.not_leader_or_follower, None]
)
async def test_an_error_of_a_follower_returns_to_the_leader(
    fake: FakeCluster, log: Log, trouble: ErrorCode | None
) -> None:
    def refuse(request: SimpleNamespace) -> Any:
        fake.brokers[LEADER].on("fetch", log.fetch)  # does not name it again
        if trouble is None:
            return HANG_UP
        return log.answer(request.body, request.version, lambda _: {"error_code": trouble})

    fake.brokers[FOLLOWER].on("fetch", refuse)
    async with (
        Cluster(fake.config()) as cluster,
        Fetcher(cluster, rack="b", out_of_range="error") as fetcher,
    ):
        fetcher.add(TP, 0)
        assert await offsets(fetcher, 3) == [0, 1, 2]
    assert len(fake.brokers[FOLLOWER].asked("fetch")) == 1


async def test_the_leader_is_read_again_after_a_while(fake: FakeCluster, log: Log) -> None:
    """The follower may have fallen behind, or another one be nearer by now."""
    async with (
        Cluster(fake.config(metadata_max_age_ms=50)) as cluster,
        Fetcher(cluster, rack="b") as fetcher,
    ):
        fetcher.add(TP, 0)
        await offsets(fetcher, 3)
        fake.brokers[LEADER].on("fetch", log.fetch)
        asked = len(fake.brokers[LEADER].asked("fetch"))
        while len(fake.brokers[LEADER].asked("fetch")) == asked:
            log.end += 1
            await offsets(fetcher, 1)
