"""A cluster's metadata, leaders and coordinators, and what happens when brokers are not there."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from client.fake_cluster import HANG, HANG_UP, FakeBroker, FakeCluster
from kohort.client.cluster.cluster import Cluster, Leader
from kohort.client.config import ClientConfig
from kohort.client.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClientClosedError,
    GaveUpError,
    RebootstrapRequiredError,
)
from kohort.client.net.connections import Connections
from kohort.client.security import Security
from kohort.errors import ErrorCode, KafkaError
from kohort.server.broker import Broker
from kohort.types import TopicPartition

TP = TopicPartition("orders", 0)
NO_NODE = {"node_id": -1, "host": "", "port": -1}


async def test_metadata_of_a_kohort_server(broker: Broker, cluster: Cluster) -> None:
    broker.controller.topics.create("orders", 3)
    metadata = await cluster.metadata(["orders", "nowhere"])
    orders, nowhere = metadata.topics["orders"], metadata.topics["nowhere"]
    assert [partition.index for partition in orders.partitions] == [0, 1, 2]
    assert orders.id is not None
    assert nowhere.error is ErrorCode.unknown_topic_or_partition
    assert metadata.brokers[broker.node_id].port == broker.address.port
    assert metadata.cluster_id == broker.cluster_id
    assert "orders" in (await cluster.metadata()).topics
    assert (await cluster.metadata([])).topics == {}
    for error in (ErrorCode.unknown_topic_or_partition, ErrorCode.none):
        made = await cluster.metadata(["made"], allow_auto_create=True)
        assert made.topics["made"].error is error


@pytest.mark.parametrize("version", range(4, 14))
async def test_metadata_of_every_version(version: int) -> None:
    async with FakeCluster(topics={"orders": 2}) as fake:
        fake.brokers[0].versions["metadata"] = (0, version)
        async with Cluster(fake.config()) as cluster:
            topic = (await cluster.metadata(["orders"])).topics["orders"]
            assert [partition.leader for partition in topic.partitions] == [0, 0]
            assert (topic.id is not None) == (version >= 10)
            assert [partition.leader_epoch for partition in topic.partitions] == (
                [0, 0] if version >= 7 else [-1, -1]
            )


async def test_a_leader_is_requested_once_until_it_is_stale() -> None:
    async with (
        FakeCluster(nodes=2, topics={"orders": 2}) as fake,
        Cluster(fake.config()) as cluster,
    ):
        assert await cluster.leader(TP) == Leader(0, 0)
        assert await cluster.leader(TopicPartition("orders", 1)) == Leader(1, 0)
        fake.lead("orders", 0, node=1, epoch=1)
        assert await cluster.leader(TP) == Leader(0, 0)
        assert len(fake.asked("metadata")) == 1
        cluster.stale("orders")
        assert await cluster.leader(TP) == Leader(1, 1)


async def test_metadata_older_than_its_max_age_is_requested_again() -> None:
    async with (
        FakeCluster(topics={"orders": 1}) as fake,
        Cluster(fake.config(metadata_max_age_ms=20)) as cluster,
    ):
        await cluster.leader(TP)
        fake.lead("orders", 0, node=0, epoch=1)
        await asyncio.sleep(0.03)
        assert (await cluster.leader(TP)).epoch == 1


async def test_leaders_needed_at_the_same_time_share_a_request() -> None:
    async with (
        FakeCluster(topics={f"t{n}": 1 for n in range(20)}) as fake,
        Cluster(fake.config()) as cluster,
    ):
        await asyncio.gather(*(cluster.leader(TopicPartition(f"t{n}", 0)) for n in range(20)))
        assert [len(request.topics) for request in fake.asked("metadata")] == [20]


async def test_a_leader_of_an_older_epoch_is_ignored() -> None:
    async with (
        FakeCluster(nodes=2, topics={"orders": 1}) as fake,
        Cluster(fake.config()) as cluster,
    ):
        fake.lead("orders", 0, node=1, epoch=7)
        assert await cluster.leader(TP) == Leader(1, 7)
        fake.lead("orders", 0, node=0, epoch=6)
        cluster.stale("orders")
        assert await cluster.leader(TP) == Leader(1, 7)
        # But of a recreated topic everything is.
        fake.topics["orders"].id = uuid4()
        cluster.stale("orders")
        assert await cluster.leader(TP) == Leader(0, 6)


async def test_a_missing_leader_is_requested_until_it_is_elected() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake, Cluster(fake.config()) as cluster:
        fake.lead("orders", 0, node=-1, epoch=0)
        wanted = asyncio.create_task(cluster.leader(TP))
        await asyncio.sleep(0.02)
        assert not wanted.done()
        fake.lead("orders", 0, node=0, epoch=1)
        assert await wanted == Leader(0, 1)


async def test_a_leader_missing_for_too_long_is_an_error_with_the_attempts() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake, Cluster(fake.config()) as cluster:
        fake.lead("orders", 0, node=-1, epoch=0)
        with pytest.raises(
            GaveUpError, match=(r"leader of orders-0: gave up after \d+ attempts.*LEADER_NOT_AV")
        ) as info:
            await cluster.leader(TP, timeout_ms=50)
        assert info.value.code is ErrorCode.leader_not_available
        with pytest.raises(GaveUpError, match=r"UNKNOWN_TOPIC_OR_PARTITION: topic nowhere"):
            await cluster.leader(TopicPartition("nowhere", 0), timeout_ms=50)
        with pytest.raises(GaveUpError, match=r"orders-5: the topic has 1 partitions"):
            await cluster.leader(TopicPartition("orders", 5), timeout_ms=50)


async def test_an_error_that_is_not_retriable_is_raised_at_once() -> None:
    async with FakeCluster(topics={}) as fake, Cluster(fake.config()) as cluster:
        answer = fake.metadata
        refused = {"error_code": 29, "name": "orders", "topic_id": None}
        fake.on("metadata", lambda request: answer(request.body) | {"topics": [refused]})
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: topic orders"):
            await cluster.leader(TP)
        assert len(fake.asked("metadata")) == 1


# Brokers that are not there


async def test_every_bootstrap_server_is_tried() -> None:
    async with FakeCluster(nodes=3, topics={"orders": 1}) as fake:
        await fake.brokers[0].stop()
        fake.brokers[1].on("api_versions", lambda _request: HANG_UP)
        async with Cluster(fake.config()) as cluster:
            assert "orders" in (await cluster.metadata()).topics
            assert fake.brokers[2].asked("metadata")


async def test_unreachable_bootstrap_servers_are_all_named() -> None:
    async with FakeCluster(nodes=3) as fake:
        for broker in fake.brokers:
            await broker.stop()
        async with Cluster(fake.config(default_api_timeout_ms=60)) as cluster:
            with pytest.raises(GaveUpError) as info:
                await cluster.metadata()
            for broker in fake.brokers:
                assert broker.address in str(info.value)
            assert "advertised listeners" in str(info.value)
            with pytest.raises(BrokerUnreachableError, match="no broker could be reached"):
                await cluster.any_connection()


async def test_a_unix_socket_is_named_as_configured(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    async with Cluster(ClientConfig(bootstrap=address, default_api_timeout_ms=20)) as cluster:
        with pytest.raises(GaveUpError, match=f"^metadata from {re.escape(address)}: "):
            await cluster.metadata()


async def test_an_unreachable_broker_is_logged_at_a_limited_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeCluster() as fake:
        broker = fake.brokers[0]
        await broker.stop()
        config = fake.config(
            default_api_timeout_ms=25_000, retry_backoff_ms=1_000, retry_backoff_max_ms=1_000
        )
        async with Cluster(config) as cluster:
            with pytest.raises(BrokerUnreachableError):
                await cluster.any_connection()
            away = f"broker unreachable, retrying: {broker.address}: Connection refused"
            assert caplog.messages == [away]
            with pytest.raises(GaveUpError, match="Connection refused"):
                await cluster.metadata()
            assert caplog.messages == [away] * 3  # every 10 s
            await broker.start()
            await cluster.metadata()
            assert caplog.messages[3:] == [f"broker reachable again: {broker.address}"]
            assert {record.levelname for record in caplog.records} == {"WARNING"}


async def test_a_wrong_security_protocol_is_not_retried() -> None:
    sasl = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="p")
    async with FakeCluster() as fake, Cluster(fake.config(security=sasl)) as cluster:
        del fake.brokers[0].versions["sasl_handshake"]
        with pytest.raises(AuthenticationError, match="no SASL"):
            await cluster.metadata()
        assert fake.brokers[0].connections == 1


async def test_a_bootstrap_server_that_hangs_does_not_delay_the_next() -> None:
    async with FakeCluster(nodes=2, topics={"orders": 1}) as fake:
        fake.brokers[0].on("api_versions", lambda _request: HANG)
        config = fake.config(
            bootstrap=[broker.address for broker in fake.brokers],
            socket_connection_setup_timeout_ms=120_000,
            default_api_timeout_ms=60_000,
        )
        async with Cluster(
            config, connections=Connections(config, next_broker_interval_s=0.02)
        ) as cluster:
            await cluster.metadata()
            assert fake.brokers[1].asked("metadata")


async def test_a_hanging_broker_is_replaced_by_another() -> None:
    async with FakeCluster(nodes=2, topics={"orders": 1}) as fake:
        fake.brokers[0].on("metadata", lambda _request: HANG)
        async with Cluster(fake.config(request_timeout_ms=30)) as cluster:
            await cluster.metadata()
            assert len(fake.brokers[0].asked("metadata")) == 1


async def test_a_broker_that_moved_is_found_at_its_new_address() -> None:
    async with (
        FakeCluster(nodes=2, topics={"orders": 2}) as fake,
        Cluster(fake.config()) as cluster,
    ):
        node = (await cluster.leader(TopicPartition("orders", 1))).node_id
        first = await cluster.connection(node, "fetch")
        await fake.brokers[1].stop()
        fake.brokers[1].port = 0
        await fake.brokers[1].start()
        await asyncio.sleep(0.01)
        second = await cluster.connection(node, "fetch")
        assert first.closed
        assert second.address == ("127.0.0.1", fake.brokers[1].port)


async def test_when_no_broker_is_reachable_the_bootstrap_servers_are_used() -> None:
    async with FakeCluster(nodes=3, topics={"orders": 1}) as fake:
        fake.alive = fake.brokers[1:2]
        async with Cluster(fake.config(bootstrap=fake.brokers[0].address)) as cluster:
            await cluster.metadata()
            assert set(cluster.brokers) == {1}
            await fake.brokers[1].stop()
            fake.brokers[0].hang_up()
            fake.alive = fake.brokers[2:]
            await asyncio.sleep(0.01)
            await cluster.metadata()
            assert set(cluster.brokers) == {2}


async def test_rebootstrap_required_restarts_from_the_bootstrap_servers() -> None:
    async with (
        FakeCluster(nodes=2, topics={"orders": 1}) as fake,
        Cluster(fake.config()) as cluster,
    ):
        await cluster.metadata()
        plain = fake.metadata
        answers = iter([{"error_code": 129}])
        fake.on("metadata", lambda request: plain(request.body) | next(answers, {}))
        before = sum(broker.connections for broker in fake.brokers)
        await cluster.metadata()
        assert sum(broker.connections for broker in fake.brokers) > before


def expected(broker: FakeBroker) -> list[tuple[str | None, int]]:
    """The (cluster, node) in each ApiVersions request."""
    return [(each.cluster_id, each.node_id) for each in broker.asked("api_versions")]


async def test_a_known_node_is_told_which_one_is_expected() -> None:
    """KIP-1242: a bootstrap server is not, because nothing is known of it yet."""
    async with FakeCluster(nodes=2) as fake, Cluster(fake.config()) as cluster:
        await cluster.metadata()
        for node_id, broker in enumerate(fake.brokers):
            await cluster.connection(node_id, "other")
            assert expected(broker)[-1] == ("fake", node_id)
        first = [expected(broker)[0] for broker in fake.brokers if len(expected(broker)) > 1]
        assert first == [(None, -1)]


@pytest.mark.parametrize(
    "options",
    [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}],
    ids=lambda options: next(iter(options)),
)
async def test_a_known_node_is_not_told_if_an_option_forbids_it(options: dict[str, Any]) -> None:
    async with FakeCluster() as fake, Cluster(fake.config(**options)) as cluster:
        await cluster.metadata()
        await cluster.connection(0, "other")
        assert expected(fake.brokers[0]) == [(None, -1)] * 2


async def test_a_broker_before_4_4_is_asked_without_the_expected_node() -> None:
    async with FakeCluster() as fake, Cluster(fake.config()) as cluster:
        fake.brokers[0].versions["api_versions"] = (0, 4)
        await cluster.metadata()
        await cluster.connection(0, "other")
        assert fake.brokers[0].connections == 2
        assert {type(each).__version__ for each in fake.brokers[0].asked("api_versions")} == {4}


@pytest.mark.parametrize("leads_to", ["a node of another cluster", "another node of the cluster"])
async def test_a_node_at_the_address_of_another_has_the_client_rebootstrap(leads_to: str) -> None:
    async with FakeCluster(nodes=2, topics={"orders": 2}) as fake:
        bootstrap = fake.brokers[0].address
        async with Cluster(fake.config(bootstrap=bootstrap)) as cluster:
            await cluster.metadata(["orders"])
            held = await cluster.connection(0)
            cluster._coordinators[0, "g"] = 1
            if leads_to == "a node of another cluster":
                fake.id = "another"
            else:
                fake.brokers.reverse()
                for node_id, broker in enumerate(fake.brokers):
                    broker.node_id = node_id
                fake.alive = fake.brokers
            assert (await cluster.connection(1, "other")).address[1] == fake.brokers[1].port
            assert held.closed
            assert cluster._coordinators == {}
            assert cluster.cached_topic("orders") is None
            leader = await cluster.leader(TopicPartition("orders", 1))
            assert leader.node_id == 1
            assert not (await cluster.connection(0)).closed


async def test_a_lookup_that_meets_another_node_starts_from_the_bootstrap_servers() -> None:
    async with FakeCluster(nodes=2) as fake, Cluster(fake.config()) as cluster:
        await cluster.metadata()
        fake.id = "another"
        for broker in fake.brokers:
            broker.hang_up()
        await asyncio.sleep(0.01)
        with pytest.raises(RebootstrapRequiredError, match="of cluster fake"):
            await cluster.any_connection()
        assert not cluster.brokers
        metadata = await cluster.metadata()
        assert metadata.cluster_id == "another"


async def test_a_node_that_is_always_the_wrong_one_is_an_error_in_the_end() -> None:
    """As behind a load balancer: `metadata.cluster.check.enable` is for that."""
    async with FakeCluster() as fake:
        fake.brokers[0].on(
            "api_versions",
            lambda request: (
                {"error_code": 129}
                if request.body.cluster_id
                else {"api_keys": fake.brokers[0]._api_keys()}
            ),
        )
        async with Cluster(fake.config()) as cluster:
            await cluster.metadata()
            with pytest.raises(
                RebootstrapRequiredError, match=r"metadata\.cluster\.check\.enable=false"
            ):
                await cluster.connection(0, "other")
        async with Cluster(fake.config(metadata_cluster_check_enable=False)) as cluster:
            await cluster.metadata()
            await cluster.connection(0, "other")


async def test_a_connection_that_opens_during_a_rebootstrap_is_not_used() -> None:
    """It leads to a node of the metadata that proved wrong."""
    async with FakeCluster(nodes=3) as fake:
        bootstrap = fake.brokers[0].address
        async with Cluster(fake.config(bootstrap=bootstrap)) as cluster:
            await cluster.metadata()
            answer = fake.brokers[2]._api_versions
            may_open = asyncio.Event()

            async def slow(request: SimpleNamespace) -> dict[str, Any]:
                answered = answer(request)
                await may_open.wait()
                return answered

            fake.brokers[2].on("api_versions", slow)
            opening = asyncio.create_task(
                cluster._connections.get((2, ""), cluster.brokers[2].address)
            )
            await asyncio.sleep(0.01)
            fake.id = "another"
            fake.alive = fake.brokers[:2]
            await cluster.connection(1, "other")
            may_open.set()
            with pytest.raises(BrokerUnreachableError, match="restarts from the bootstrap servers"):
                await opening
            assert {key for key, each in cluster._connections._open.items() if not each.closed} == {
                (("127.0.0.1", fake.brokers[0].port), ""),
                (1, "other"),
            }


async def test_a_connection_that_waits_to_be_opened_expects_the_node_that_was_named() -> None:
    """Between the rebootstrap and its metadata no cluster is known."""
    async with FakeCluster(nodes=2) as fake, Cluster(fake.config()) as cluster:
        await cluster.metadata()
        fake.id = "another"
        opening = asyncio.create_task(cluster._connections.get((1, ""), cluster.brokers[1].address))
        await asyncio.sleep(0)
        cluster._connections.restart()
        with pytest.raises(BrokerUnreachableError):
            await opening
        assert expected(fake.brokers[1])[-1] == ("fake", 1)


async def test_refusals_of_the_metadata_of_before_are_no_reason_for_another_rebootstrap() -> None:
    async with FakeCluster(nodes=2) as fake:
        bootstrap = fake.brokers[0].address
        async with Cluster(fake.config(bootstrap=bootstrap)) as cluster:
            await cluster.metadata()
            answer = fake.brokers[1]._api_versions
            is_late, may_refuse = asyncio.Event(), asyncio.Event()

            async def refused_late(request: SimpleNamespace) -> dict[str, Any]:
                answered = answer(request)
                if answered.get("error_code"):
                    if is_late.is_set():
                        await may_refuse.wait()
                    is_late.set()
                return answered

            fake.brokers[1].on("api_versions", refused_late)
            fake.id = "another"
            first, second = (
                asyncio.create_task(cluster.connection(1, purpose)) for purpose in ("a", "b")
            )
            connection = await first
            may_refuse.set()
            await asyncio.wait((second,))
            assert not connection.closed
            assert not (await cluster.connection(1, "b")).closed
            assert len(fake.brokers[0].asked("metadata")) <= 3


async def test_leaders_of_another_cluster_are_known_whatever_their_epoch() -> None:
    """Brokers before 2.8 have no topic ids, by which a topic would be another one."""
    async with FakeCluster(nodes=2, topics={"orders": 1}) as fake:
        fake.brokers[0].versions["metadata"] = fake.brokers[1].versions["metadata"] = (0, 9)
        fake.lead("orders", 0, node=1, epoch=7)
        async with Cluster(fake.config(bootstrap=fake.brokers[0].address)) as cluster:
            assert await cluster.leader(TP) == Leader(1, 7)
            fake.id = "another"
            fake.alive = fake.brokers[:1]
            fake.lead("orders", 0, node=0, epoch=0)
            cluster.stale("orders")
            assert await cluster.leader(TP) == Leader(0, 0)


async def test_without_metadata_for_the_trigger_time_all_brokers_are_forgotten() -> None:
    """`metadata.recovery.rebootstrap.trigger.ms` (KIP-1102)."""
    async with (
        FakeCluster(nodes=2) as fake,
        Cluster(fake.config(metadata_recovery_rebootstrap_trigger_ms=50)) as cluster,
    ):
        await cluster.metadata()
        plain = fake.metadata
        fake.on("metadata", {"brokers": [], "topics": []})
        with pytest.raises(BrokerUnreachableError):
            await cluster.request_metadata(())
        assert set(cluster.brokers) == {0, 1}
        await asyncio.sleep(0.06)
        with pytest.raises(BrokerUnreachableError):
            await cluster.request_metadata(())
        assert not cluster.brokers
        fake.on("metadata", lambda request: plain(request.body))
        await cluster.metadata()
        assert set(cluster.brokers) == {0, 1}


async def test_without_recovery_the_bootstrap_servers_are_only_for_the_start() -> None:
    async with FakeCluster(nodes=2) as fake:
        fake.alive = fake.brokers[1:]
        options = {
            "bootstrap": fake.brokers[0].address,
            "metadata_recovery_strategy": "none",
            "metadata_recovery_rebootstrap_trigger_ms": 0,
        }
        async with Cluster(fake.config(**options)) as cluster:
            await cluster.metadata()
            await fake.brokers[1].stop()
            fake.brokers[0].hang_up()
            await asyncio.sleep(0.01)
            before = fake.brokers[0].connections
            with pytest.raises(BrokerUnreachableError):
                await cluster.request_metadata(())
            assert fake.brokers[0].connections == before
            assert set(cluster.brokers) == {1}


async def test_each_purpose_has_its_own_connection() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake, Cluster(fake.config()) as cluster:
        await cluster.metadata()
        one, again, other = [await cluster.connection(0, purpose) for purpose in ("a", "a", "b")]
        assert one is again
        assert one is not other
        many = await asyncio.gather(*(cluster.connection(0, "c") for _ in range(5)))
        assert len(set(many)) == 1
        await cluster.release("c")
        assert many[0].closed
        assert not one.closed


async def test_a_broken_connection_is_reopened() -> None:
    async with FakeCluster(topics={"orders": 1}) as fake, Cluster(fake.config()) as cluster:
        await cluster.metadata()
        first = await cluster.connection(0)
        fake.brokers[0].hang_up()
        await asyncio.sleep(0.01)
        assert first.closed
        assert not (await cluster.connection(0)).closed


async def test_a_node_outside_the_cluster_is_an_error() -> None:
    async with FakeCluster(nodes=2) as fake, Cluster(fake.config()) as cluster:
        with pytest.raises(
            BrokerUnreachableError, match=(r"broker 9 is not in the cluster; its brokers are 0, 1")
        ):
            await cluster.connection(9)


async def test_a_closed_cluster_opens_no_connection() -> None:
    async with FakeCluster() as fake:
        async with Cluster(fake.config()) as cluster:
            await cluster.metadata()
        for call in (cluster.metadata(), cluster.leader(TP), cluster.coordinator("billing")):
            with pytest.raises(ClientClosedError, match="the client is closed"):
                await call


# Coordinators


@pytest.mark.parametrize("version", range(7))
async def test_coordinators_of_every_version(version: int) -> None:
    async with FakeCluster(nodes=2) as fake:
        for broker in fake.brokers:
            broker.versions["find_coordinator"] = (0, version)
        fake.coordinator = 1
        async with Cluster(fake.config()) as cluster:
            assert await cluster.coordinators(["a", "b"]) == {"a": 1, "b": 1}
            assert len(fake.asked("find_coordinator")) == (1 if version >= 4 else 2)


async def test_a_coordinator_that_moved_is_requested_again() -> None:
    async with FakeCluster(nodes=2) as fake, Cluster(fake.config()) as cluster:
        first = await cluster.coordinator("g", "heartbeat")
        assert await cluster.coordinator("g", "heartbeat") is first
        assert await cluster.coordinator("g", "commit") is not first
        assert len(fake.asked("find_coordinator")) == 1
        fake.coordinator = 1
        cluster.coordinator_moved("g")
        assert (await cluster.coordinator("g", "heartbeat")).address[1] == fake.brokers[1].port


async def test_an_unreachable_coordinator_is_requested_again() -> None:
    async with FakeCluster(nodes=2) as fake, Cluster(fake.config()) as cluster:
        await cluster.coordinator("g")
        await fake.brokers[0].stop()
        fake.coordinator = 1
        await asyncio.sleep(0.01)
        assert (await cluster.coordinator("g")).address[1] == fake.brokers[1].port


async def test_a_coordinator_missing_for_too_long_is_an_error() -> None:
    async with FakeCluster() as fake:
        fake.on("find_coordinator", lambda request: {"coordinators": [
            NO_NODE | {"key": key, "error_code": 15, "error_message": "not yet"}
            for key in request.body.coordinator_keys
        ]})  # fmt: skip
        async with Cluster(fake.config(default_api_timeout_ms=50)) as cluster:
            with pytest.raises(
                GaveUpError,
                match=(r"coordinator of group 'g': gave up.*COORDINATOR_NOT_AVAILABLE: not"),
            ):
                await cluster.coordinator("g")


async def test_a_group_without_authorization_is_an_error_at_once() -> None:
    async with FakeCluster() as fake, Cluster(fake.config()) as cluster:
        fake.on("find_coordinator", {"coordinators": [
            NO_NODE | {"key": "g", "error_code": 30, "error_message": None}
        ]})  # fmt: skip
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await cluster.coordinator("g")
        assert len(fake.asked("find_coordinator")) == 1


async def test_release_closes_a_connection_that_is_being_opened() -> None:
    """Whoever asked for it is gone: nobody would close it."""
    async with FakeCluster() as fake, Cluster(fake.config()) as cluster:
        await cluster.metadata()
        asked = asyncio.Event()

        def hang(_request: object) -> object:
            asked.set()
            return HANG

        fake.brokers[0].on("api_versions", hang)
        asking = asyncio.ensure_future(cluster.connection(0, "fetch 1"))
        await asked.wait()
        asking.cancel()
        await cluster.release("fetch 1")
        assert "fetch 1" not in cluster.purposes


@pytest.mark.parametrize("api", ["api_versions", "metadata"])
async def test_closing_a_client_raises_in_waiting_calls_instead_of_cancelling(api: str) -> None:
    async with FakeCluster(topics={"orders": 1}) as fake:
        asked = asyncio.Event()

        def hang(_request: object) -> object:
            asked.set()
            return HANG

        fake.brokers[0].on(api, hang)
        cluster = Cluster(fake.config())
        waits = [
            asyncio.create_task(each)
            for each in (cluster.leader(TP), cluster.metadata(), cluster.connection(0))
        ]
        await asked.wait()
        await cluster.close()
        for each in waits:
            with pytest.raises((ClientClosedError, BrokerUnreachableError), match="closed"):
                await each
