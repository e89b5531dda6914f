"""What keeps a node out of a cluster, and what it is told."""

import logging
import re

import pytest

from kohort.cluster import DuplicateNodeIdError, Endpoint, NodeRegistered
from kohort.errors import KohortError
from kohort.log.memory_cluster import MemoryStorage
from kohort.server.cluster.join_checks import ensure_reachable, warn_of_other_counts
from kohort.server.config import Config
from kohort.server.controller import coordinator_topics
from kohort.server.logging import fields
from kohort.server.metadata_log import SharedMetadataLog
from kohort.types import Timestamp
from server.cluster.nodes_bench import SharedCluster

HERE, THERE = "here", "there"


def endpoints(*hosts: str) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(f"L{at}", host, 9092) for at, host in enumerate(hosts))


def node(machine: str | None, *hosts: str) -> NodeRegistered:
    return NodeRegistered(7, 1, endpoints(*hosts), Timestamp(0), machine=machine)


@pytest.mark.parametrize(
    ("hosts", "other"),
    [
        (["127.0.0.1"], node(HERE, "127.0.0.1")),
        (["127.0.0.1"], node(HERE, "10.0.0.1")),
        (["10.0.0.2"], node(THERE, "10.0.0.1")),
        (["kohort.example"], node(THERE, "localhost.example")),
        (["127.0.0.1"], node(None, "10.0.0.1")),
    ],
)
def test_nodes_that_reach_each_other(hosts: list[str], other: NodeRegistered) -> None:
    ensure_reachable(endpoints(*hosts), HERE, [other], "L0")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST.", "::1"])
def test_an_address_of_one_machine_is_refused_when_there_are_two(host: str) -> None:
    own = r"^advertised\.listeners: L1://.*:9092 can be reached on this machine only, and node 7"
    with pytest.raises(KohortError, match=own):
        ensure_reachable(endpoints("10.0.0.2", host), HERE, [node(THERE, "10.0.0.1")], "L1")
    with pytest.raises(KohortError, match=r"^node 7 .* is on another machine and advertises L0://"):
        ensure_reachable(endpoints("10.0.0.2"), HERE, [node(THERE, host)], "L0")


def test_a_listener_may_be_for_the_clients_of_one_machine(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    others = [node(THERE, "10.0.0.1", "localhost"), node("elsewhere", "10.0.0.3", "localhost")]
    ensure_reachable(endpoints("10.0.0.2", "localhost"), HERE, others, "L0")
    (record,) = caplog.records
    assert vars(record).items() >= fields(listeners=["L1://localhost:9092"]).items()


async def test_a_node_that_others_cannot_reach_does_not_start() -> None:
    async with SharedCluster(1) as cluster:
        other = MemoryStorage(cluster.shared, 7)
        session = await other.claim()
        registered = NodeRegistered(
            7, session, endpoints("10.0.0.1"), cluster.clock.timestamp(), machine=THERE
        )
        await SharedMetadataLog(other, cluster.clock.timestamp).decide(lambda: [registered])
        with pytest.raises(KohortError, match="can be reached on this machine only"):
            await cluster.start(2)
        assert cluster.shared.rows[2].lease_until <= cluster.clock.timestamp()
        await other.release()
        await cluster.start(2)


async def test_a_node_id_that_is_taken_is_refused_with_the_address_of_the_other() -> None:
    async with SharedCluster(1) as cluster:
        await cluster.leaders("__consumer_offsets")
        where = re.escape(f"at PLAINTEXT://{cluster.brokers[1].address}")
        cluster._ports.clear()  # it listens elsewhere
        with pytest.raises(
            DuplicateNodeIdError, match=rf"^another process {where} serves as node 1"
        ):
            await cluster.start(1)


def test_settings_that_the_cluster_has_otherwise_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    there = coordinator_topics(Config())
    warn_of_other_counts(Config(), there)
    assert not caplog.records
    warn_of_other_counts(Config({"offsets.topic.num.partitions": "3"}), there)
    (record,) = caplog.records
    told = fields(topic="__consumer_offsets", cluster=50, settings=3)
    assert vars(record).items() >= told.items()
