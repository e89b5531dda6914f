"""Admin against a Kohort server in the process."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from client.admin.stage import at, commit, consumer_heartbeat, fill, join, tp
from client.fake_cluster import FakeCluster
from kohort.client.admin import offset_apis
from kohort.client.admin.admin import Admin
from kohort.client.admin.config_apis import ConfigEntry, ConfigResource
from kohort.client.admin.values import GroupDescription
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.errors import BrokerUnreachableError, GaveUpError
from kohort.client.net.connection import Connection
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode, KafkaError, KohortError, unless_error
from kohort.protocol.messages import response
from kohort.server.broker import Broker
from kohort.types import GroupId, InstanceId, MemberId, TopicPartition

G = GroupId("billing")
NOT_LEADER = 6


@pytest.fixture
async def admin(cluster: Cluster) -> Admin:
    """With a topic "orders" of two partitions."""
    made = Admin(cluster)
    await made.create_topic("orders", partitions=2)
    return made


async def describe(admin: Admin, group: GroupId = G) -> GroupDescription:
    described = (await admin.describe_groups([group]))[group]
    assert isinstance(described, GroupDescription)
    return described


# --- groups
# --------------------------------------------------------------------------------------------------


async def test_groups_are_listed_with_state_and_type(admin: Admin, cluster: Cluster) -> None:
    await commit(admin, "b", orders_0=0)
    await join(cluster, "a", {"orders": [0, 1]})
    listing = await admin.list_groups()
    assert [
        (group.group, group.state, group.type, group.protocol_type) for group in listing.groups
    ] == [
        ("a", "Stable", "Classic", "consumer"),
        ("b", "Empty", "Classic", ""),
    ]
    assert listing.failures == {}


async def test_groups_are_selected_in_any_case(admin: Admin, cluster: Cluster) -> None:
    await commit(admin, "b", orders_0=0)
    await join(cluster, "a", {"orders": [0]})

    async def names(**filters: list[str]) -> list[str]:
        return [group.group for group in (await admin.list_groups(**filters)).groups]

    assert await names(states=["stable"]) == ["a"]
    assert await names(states=["Empty", "Dead"]) == ["b"]
    assert await names(types=["CLASSIC"]) == ["a", "b"]
    assert await names(types=["consumer"]) == []
    assert await names(states=["empty"], types=["classic"]) == ["b"]


async def test_groups_of_a_broker_without_filters_are_filtered_by_the_client(
    admin: Admin, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ListGroups below v4 sends everything, below v5 knows no types."""
    await commit(admin, "b", orders_0=0)
    await join(cluster, "a", {"orders": [0]})
    speak(monkeypatch, "list_groups", 4)
    assert [group.group for group in (await admin.list_groups(types=["consumer"])).groups] == []
    assert [group.group for group in (await admin.list_groups(types=["classic"])).groups] == [
        "a",
        "b",
    ]


async def test_a_stable_group_is_described(admin: Admin, cluster: Cluster, broker: Broker) -> None:
    member = await join(cluster, G, {"orders": [0, 1]}, instance_id="host-1")
    described = await describe(admin)
    assert (described.state, described.protocol_type, described.assignor) == (
        "Stable",
        "consumer",
        "range",
    )
    assert described.coordinator == broker.node_id
    assert described.coordinator_address == str(broker.address)
    (told,) = described.members
    assert told.member_id == member.member_id
    assert told.instance_id == "host-1"
    assert told.client_id == "kohort"
    assert told.client_host == "/127.0.0.1"
    assert told.assignment == (tp(0), tp(1))
    assert told.topics == ("orders",)
    assert told.rack == "r1"


async def test_subscriptions_of_a_consumer_group_are_described(
    admin: Admin, cluster: Cluster
) -> None:
    await consumer_heartbeat(cluster, G, "a", 0, topics=["orders"])
    await consumer_heartbeat(cluster, G, "b", 0, topics=[], regex="ord.*")
    members = {member.member_id: member for member in (await describe(admin)).members}
    a, b = members[MemberId("a")], members[MemberId("b")]
    assert (a.topics, a.topic_regex) == (("orders",), None)
    assert (b.topics, b.topic_regex) == ((), "ord.*")


async def test_an_assignment_that_cannot_be_decoded_is_no_error(
    admin: Admin, cluster: Cluster
) -> None:
    await join(cluster, G, {"orders": [0]}, assignment=b"\xff")
    (member,) = (await describe(admin)).members
    assert member.assignment is None
    assert member.topics == ("orders",)


async def test_a_group_that_does_not_exist_is_dead(admin: Admin) -> None:
    described = await describe(admin, GroupId("nobody"))
    assert described.state == "Dead"
    assert not described.exists


async def test_many_groups_are_described_in_one_call(admin: Admin) -> None:
    groups = [GroupId(f"g{number}") for number in range(30)]
    for number, group in enumerate(groups):
        await commit(admin, group, orders_0=number)
    described = await admin.describe_groups(groups)
    assert {each.state for each in described.values() if isinstance(each, GroupDescription)} == {
        "Empty"
    }
    committed = await admin.committed(groups)
    assert [committed[group] for group in groups] == [{tp(0): at(number)} for number in range(30)]


async def test_groups_are_deleted_unless_they_have_members(admin: Admin, cluster: Cluster) -> None:
    await commit(admin, "empty", orders_0=0)
    await join(cluster, "busy", {"orders": [0]})
    deleted = await admin.delete_groups([GroupId("empty"), GroupId("busy"), GroupId("nobody")])
    assert deleted[GroupId("empty")] is None
    assert [_code(deleted[GroupId(name)]) for name in ("busy", "nobody")] == [
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
    ]
    assert [group.group for group in (await admin.list_groups()).groups] == ["busy"]


def _code(error: object) -> ErrorCode:
    assert isinstance(error, KafkaError)
    return error.code


# --- offsets
# --------------------------------------------------------------------------------------------------


def speak(monkeypatch: pytest.MonkeyPatch, api: str, version: int) -> None:
    """As against a broker that knows the API only up to that version."""
    send, said = Connection.send, Connection.version

    async def send_old(self: Connection, name: str, /, **fields: object) -> object:
        if name == api:
            fields["max_version"] = version
        return await send(self, name, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "send", send_old)
    monkeypatch.setattr(
        Connection, "version", lambda self, name: version if name == api else said(self, name)
    )


@pytest.mark.parametrize("version", range(2, 10))
async def test_committed_offsets_are_fetched_in_every_version(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """From v8 on one request asks about many groups."""
    offsets = {tp(0): OffsetAndMetadata(offset=7, leader_epoch=0, metadata="by hand"), tp(1): at(9)}
    assert await admin.commit(G, offsets) == {tp(0): None, tp(1): None}
    speak(monkeypatch, "offset_fetch", version)
    everything = await admin.committed([G, GroupId("nobody")])
    told = (
        dict(offsets)
        if version >= 5
        else {each: at(one.offset, one.metadata) for each, one in offsets.items()}
    )
    assert everything == {G: told, "nobody": {}}
    some = await admin.committed([G], [tp(1), TopicPartition("never", 0)])
    assert some == {G: {tp(1): told[tp(1)]}}


async def test_stable_offsets_are_awaited_until_a_transaction_has_ended(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit(admin, G, orders_0=3)
    fetch, unstable = offset_apis._fetch, [KafkaError(ErrorCode.unstable_offset_commit, "")] * 2

    async def fetched(*arguments: Any, **options: Any) -> Any:
        return {G: unstable.pop()} if unstable else await fetch(*arguments, **options)

    monkeypatch.setattr(offset_apis, "_fetch", fetched)
    assert await admin.committed([G], require_stable=True) == {G: {tp(0): at(3)}}
    assert not unstable


@pytest.mark.parametrize("version", range(2, 10))
async def test_offsets_are_committed_in_every_version(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    speak(monkeypatch, "offset_commit", version)
    assert await admin.commit(G, {tp(0): at(7, "m")}) == {tp(0): None}
    assert await admin.committed([G]) == {G: {tp(0): at(7, "m")}}


async def test_a_missing_partition_is_an_error_of_that_partition(admin: Admin) -> None:
    outcomes = await admin.commit(G, {tp(0): at(1), tp(5): at(1), tp(0, "never"): at(1)})
    assert outcomes[tp(0)] is None
    assert (
        _code(outcomes[tp(5)])
        is _code(outcomes[tp(0, "never")])
        is ErrorCode.unknown_topic_or_partition
    )
    assert await admin.committed([G]) == {G: {tp(0): at(1)}}


async def test_a_group_with_members_refuses_commits_from_outside(
    admin: Admin, cluster: Cluster
) -> None:
    await join(cluster, G, {"orders": [0]})
    with pytest.raises(KafkaError) as refused:
        await admin.commit(G, {tp(0): at(1), tp(1): at(1)})
    assert refused.value.code is ErrorCode.unknown_member_id
    assert await admin.committed([G]) == {G: {}}


async def test_offsets_are_deleted_unless_members_read_the_topic(
    admin: Admin, cluster: Cluster
) -> None:
    await admin.create_topic("payments", partitions=1)
    await commit(admin, G, orders_0=1, payments_0=1)
    member = await join(cluster, G, {"orders": [0, 1]})
    outcomes = await admin.delete_offsets(G, [tp(0), tp(0, "payments"), tp(0, "never")])
    assert _code(outcomes[tp(0)]) is ErrorCode.group_subscribed_to_topic
    assert outcomes[tp(0, "payments")] is None
    assert _code(outcomes[tp(0, "never")]) is ErrorCode.unknown_topic_or_partition
    await member.leave()
    assert await admin.delete_offsets(G, [tp(0)]) == {tp(0): None}
    assert await admin.committed([G]) == {G: {}}


async def test_deleting_offsets_of_an_unknown_group_is_an_error(admin: Admin) -> None:
    with pytest.raises(KafkaError) as refused:
        await admin.delete_offsets(GroupId("nobody"), [tp(0)])
    assert refused.value.code is ErrorCode.group_id_not_found


# --- lag
# --------------------------------------------------------------------------------------------------


async def test_partitions_without_a_commit_have_no_lag(admin: Admin, broker: Broker) -> None:
    fill(broker, "orders", 10, 4)
    await commit(admin, G, orders_0=3)
    partition_lags = await admin.partition_lags(G, [tp(0), tp(1)])
    assert {
        each: (partition_lag.start, partition_lag.end, partition_lag.lag)
        for each, partition_lag in partition_lags.items()
    } == {
        tp(0): (0, 10, 7),
        tp(1): (0, 4, None),
    }


async def test_records_removed_by_retention_are_no_lag(
    admin: Admin, broker: Broker, cluster: Cluster
) -> None:
    fill(broker, "orders", 10)
    await commit(admin, G, orders_0=3)
    connection = await cluster.any_connection()
    partitions = [{"partition_index": 0, "offset": 8}]
    await connection.send("delete_records", topics=[{"name": "orders", "partitions": partitions}])
    partition_lag = (await admin.partition_lags(G))[tp(0)]
    assert (partition_lag.lag, partition_lag.lost) == (2, 5)


async def test_the_lag_of_a_deleted_topic_is_unknown_at_once(
    admin: Admin, cluster: Cluster
) -> None:
    """Asking its leader would mean to wait for one until the time is up."""
    partition_lags = await admin.partition_lags(G, [tp(0, "never"), tp(7), tp(0)])
    assert [(found.start, found.lag) for found in partition_lags.values()] == [
        (None, None),
        (0, None),
        (None, None),
    ]


# --- topics
# --------------------------------------------------------------------------------------------------


async def test_topics_are_created_grown_described_and_deleted(admin: Admin) -> None:
    await admin.create_topic("payments", partitions=3, configs={"cleanup.policy": "compact"})
    with pytest.raises(KafkaError) as again:
        await admin.create_topic("payments", partitions=3)
    assert again.value.code is ErrorCode.topic_already_exists
    await admin.create_partitions("payments", 5)
    with pytest.raises(KafkaError) as fewer:
        await admin.create_partitions("payments", 4)
    assert fewer.value.code is ErrorCode.invalid_partitions
    described = await admin.describe_topics(["payments", "never"])
    assert not isinstance(described["payments"], KafkaError)
    assert len(described["payments"].partitions) == 5
    assert _code(described["never"]) is ErrorCode.unknown_topic_or_partition
    assert {"orders", "payments"} <= set(await admin.describe_topics())
    await admin.delete_topic("payments")
    assert "payments" not in await admin.describe_topics()
    with pytest.raises(KafkaError) as gone:
        await admin.delete_topic("payments")
    assert gone.value.code is ErrorCode.unknown_topic_or_partition


# --- configs, records, brokers
# --------------------------------------------------------------------------------------------------

ORDERS = ConfigResource("topic", "orders")


async def configs(admin: Admin, resource: ConfigResource = ORDERS) -> dict[str, ConfigEntry]:
    return unless_error((await admin.describe_configs([resource]))[resource])


async def test_configs_are_altered_one_by_one(admin: Admin) -> None:
    assert (await configs(admin))["retention.ms"].source == "DEFAULT_CONFIG"
    await admin.alter_configs(ORDERS, {"retention.ms": "5000", "cleanup.policy": "compact"})
    await admin.alter_configs(ORDERS, delete=["retention.ms"], append={"cleanup.policy": "delete"})
    found = await configs(admin)
    assert found["retention.ms"].source == "DEFAULT_CONFIG"
    policy = found["cleanup.policy"]
    assert (policy.value, policy.source) == ("compact,delete", "DYNAMIC_TOPIC_CONFIG")
    await admin.alter_configs(ORDERS, subtract={"cleanup.policy": "compact"})
    await admin.alter_configs(ORDERS, {"retention.ms": "7"}, validate_only=True)
    assert (await configs(admin))["cleanup.policy"].value == "delete"
    assert (await configs(admin))["retention.ms"].source == "DEFAULT_CONFIG"
    with pytest.raises(KafkaError) as refused:
        await admin.alter_configs(ORDERS, {"retention.ms": "soon"})
    assert refused.value.code is ErrorCode.invalid_config


async def test_configs_of_a_broker_and_of_missing_resources(admin: Admin, broker: Broker) -> None:
    one = ConfigResource("broker", str(broker.node_id))
    nothing = ConfigResource("topic", "never")
    found = await admin.describe_configs([one, nothing, ORDERS])
    assert "num.partitions" in unless_error(found[one])
    assert _code(found[nothing]) is ErrorCode.unknown_topic_or_partition
    assert "retention.ms" in unless_error(found[ORDERS])


async def test_a_value_that_cannot_be_sent_is_an_error(admin: Admin) -> None:
    with pytest.raises(KohortError, match="create_topics: a value cannot be sent"):
        await admin.create_topic("large", partitions=2**40)
    found = await admin.describe_groups([GroupId("\udcff")])
    assert "a value cannot be sent" in str(found[GroupId("\udcff")])


async def test_records_are_deleted(admin: Admin, broker: Broker) -> None:
    fill(broker, "orders", 3, 2)
    assert await admin.delete_records({tp(0): 1, tp(1): -1}) == {tp(0): 1, tp(1): 2}
    out_of_range = (await admin.delete_records({tp(0): 9}))[tp(0)]
    assert _code(out_of_range) is ErrorCode.offset_out_of_range


async def test_records_are_deleted_by_leaders_that_moved() -> None:
    def delete(moved: bool) -> Callable[[SimpleNamespace], dict[str, Any]]:
        def respond(request: SimpleNamespace) -> dict[str, Any]:
            if moved:
                fake.lead("orders", 0, node=1, epoch=1)
            topics = [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": partition.partition_index,
                            "low_watermark": partition.offset,
                            "error_code": NOT_LEADER if moved else 0,
                        }
                        for partition in topic.partitions
                    ],
                }
                for topic in request.body.topics
            ]
            return {"topics": topics}

        return respond

    async with (
        FakeCluster(nodes=2, topics={"orders": 2}) as fake,
        Cluster(fake.config(default_api_timeout_ms=500)) as cluster,
    ):
        fake.brokers[0].on("delete_records", delete(moved=True))
        fake.brokers[1].on("delete_records", delete(moved=False))
        found = await Admin(cluster).delete_records({tp(0): 7, tp(1): 8, TopicPartition("x", 0): 9})
    assert (found[tp(0)], found[tp(1)]) == (7, 8)
    assert _code(found[TopicPartition("x", 0)]) is ErrorCode.unknown_topic_or_partition


async def test_the_cluster_and_its_log_directories_are_described(
    admin: Admin, broker: Broker
) -> None:
    fill(broker, "orders", 3)
    described = await admin.describe_cluster()
    assert described.cluster_id == broker.cluster_id
    (directory,) = unless_error((await admin.describe_log_dirs())[broker.node_id])
    assert directory.error is None
    assert directory.sizes[tp(0)] > directory.sizes[tp(1)]


async def test_members_are_removed(admin: Admin, cluster: Cluster) -> None:
    dynamic = await join(cluster, "billing", {"orders": [0]})
    await join(cluster, "static", {"orders": [0]}, instance_id="one")
    gone = await admin.remove_members(G, members=[MemberId(dynamic.member_id), MemberId("x")])
    assert gone[dynamic.member_id] is None
    assert _code(gone["x"]) is ErrorCode.unknown_member_id
    assert await admin.remove_members(GroupId("static"), instances=[InstanceId("one")]) == {
        "one": None
    }
    assert (await describe(admin)).members == ()
    assert (await describe(admin, GroupId("static"))).members == ()


# --- what goes wrong
# -------------------------------------------------------------------------------------------------


async def test_requests_to_a_loading_coordinator_are_retried(
    admin: Admin, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = [
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    ]
    send = Connection.send

    async def send_failing(self: Connection, name: str, /, **fields: object) -> object:
        answer = await send(self, name, **fields)  # type: ignore[arg-type]
        if name == "delete_groups" and passing:
            (result,) = answer.results
            object.__setattr__(result, "error_code", passing.pop())
        return answer

    await commit(admin, G, orders_0=1)
    monkeypatch.setattr(Connection, "send", send_failing)
    deleted = await admin.delete_groups([G])
    assert passing == []
    assert _code(deleted[G]) is ErrorCode.group_id_not_found  # the first request was carried out


async def test_an_unreachable_cluster_is_an_error_with_the_attempts() -> None:
    config = ClientConfig(bootstrap="127.0.0.1:1", default_api_timeout_ms=60, retry_backoff_ms=5)
    async with Cluster(config) as nobody:
        admin = Admin(nobody)
        with pytest.raises(GaveUpError, match=r"127\.0\.0\.1:1"):
            await admin.list_groups()
        described = (await admin.describe_groups([G]))[G]
        assert isinstance(described, GaveUpError)
        assert "billing sent no response within 60 ms" in str(described)


async def test_a_broker_that_is_down_is_named_beside_the_other_results(
    admin: Admin, cluster: Cluster, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit(admin, G, orders_0=1)
    metadata, connection = cluster.metadata, cluster.connection

    async def with_another(topics: object = None, **more: object) -> object:
        told = await metadata(topics, **more)  # type: ignore[arg-type]
        told.brokers[7] = told.brokers[broker.node_id]  # type: ignore[index]
        return told

    async def down(node_id: int, purpose: str = "") -> Connection:
        if node_id == 7:
            raise BrokerUnreachableError("connection refused")
        return await connection(node_id, purpose)

    monkeypatch.setattr(cluster, "metadata", with_another)
    monkeypatch.setattr(cluster, "connection", down)
    listing = await admin.list_groups()
    assert [group.group for group in listing.groups] == [G]
    assert {node: str(error) for node, error in listing.failures.items()} == {
        7: "connection refused"
    }


async def test_an_error_of_delete_groups_has_the_text_of_the_broker(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeleteGroups v3; an older broker sends none."""
    send = Connection.send

    async def failing(connection: Connection, name: str, /, **fields: Any) -> Any:
        if name != "delete_groups":
            return await send(connection, name, **fields)
        version = connection.wire_for(name, 0, fields.get("max_version")).version
        result = {"group_id": G, "error_code": -1, "error_message": "the topology is in use"}
        return response(42, version, results=[result])

    monkeypatch.setattr(Connection, "send", failing)
    error = (await admin.delete_groups([G]))[G]
    assert isinstance(error, KafkaError)
    assert error.message == "the topology is in use"
    speak(monkeypatch, "delete_groups", 2)
    assert str((await admin.delete_groups([G]))[G]) == "UNKNOWN_SERVER_ERROR"
