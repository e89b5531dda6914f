"""Values of wrong types, given to public methods: the error says what to give."""

from collections.abc import Callable
from typing import Any

import pytest

from kohort.client import (
    EARLIEST,
    LATEST,
    Admin,
    ClientConfig,
    Cluster,
    ConfigError,
    Consumer,
    ConsumerGroup,
    NotAssignedError,
)
from kohort.client.fetch import Fetcher
from kohort.client.group_metadata import GroupMetadata
from kohort.server.broker import Broker
from kohort.types import GroupId, TopicPartition

FIRST = TopicPartition("orders", 0)
G = GroupId("g")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda a: a.commit(G, {("orders", 0): 5}), "a TopicPartition expected"),
        (lambda a: a.commit(G, [FIRST]), "offsets: a mapping of TopicPartition to an offset"),
        (lambda a: a.commit(G, {FIRST: "5"}), "is not an offset"),
        (lambda a: a.describe_groups("g"), r"groups: a list of names.* write \['g'\]"),
        (lambda a: a.delete_groups("g"), "groups: a list of names"),
        (lambda a: a.committed("g"), "groups: a list of names"),
        (lambda a: a.committed(["g"], FIRST), "a list of partitions expected"),
        (lambda a: a.remove_members(G, members="m"), "members: a list of names"),
        (lambda a: a.delete_offsets(G, ["orders"]), "a TopicPartition expected"),
        (lambda a: a.list_offsets([FIRST]), "offsets: a mapping of TopicPartition"),
        (lambda a: a.partition_lags(G, ["orders"]), "a TopicPartition expected"),
        (lambda a: a.ends(FIRST), "a list of partitions expected"),
        (lambda a: a.describe_topics("orders"), "topics: a list of names"),
        (lambda a: a.delete_records([FIRST]), "offsets: a mapping of TopicPartition"),
        (lambda a: a.describe_scram_users("u"), "users: a list of names"),
        (lambda a: a.describe_transactions("t"), "transactional_ids: a list of names"),
    ],
)
async def test_wrong_types_given_to_admin_raise_what_is_expected(
    cluster: Cluster, call: Callable[[Any], Any], told: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        await call(Admin(cluster))


async def test_offsets_are_committed_as_ints_too(broker: Broker, cluster: Cluster) -> None:
    broker.controller.topics.create("orders", 1)
    admin = Admin(cluster)
    assert await admin.commit(G, {FIRST: 5}) == {FIRST: None}
    committed = (await admin.committed([G]))[G]
    assert isinstance(committed, dict)
    assert committed[FIRST].offset == 5


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda c: c.assign_topics(["orders"]), r"topic \['orders'\]: a str expected, as assign_"),
        (lambda c: c.partitions_for(["orders"]), "a str expected"),
        (lambda c: c.assign("orders"), "a TopicPartition expected"),
        (lambda c: c.assign(FIRST), "a TopicPartition expected"),
        (lambda c: c.assign([["orders", 0]]), "a TopicPartition expected"),
        (lambda c: c.commit([FIRST]), "offsets: a mapping of TopicPartition"),
        (lambda c: c.commit(5), "offsets: a mapping of TopicPartition"),
        (lambda c: c.end_offsets(FIRST), "a TopicPartition expected"),
        (lambda c: c.offsets_for_times([FIRST]), "offsets: a mapping of TopicPartition"),
        (lambda c: c.read_to([FIRST]), "offsets: a mapping of TopicPartition"),
    ],
)
async def test_wrong_types_given_to_consumer_raise_what_is_expected(
    cluster: Cluster, call: Callable[[Any], Any], told: str
) -> None:
    consumer = Consumer(cluster, group_id="g")
    with pytest.raises(TypeError, match=told):
        await call(consumer)


async def test_wrong_types_given_to_generations_and_fetchers_raise_what_is_expected(
    broker: Broker, config: ClientConfig
) -> None:
    broker.controller.topics.create("orders", 1)
    wrong: Any
    async with (
        ConsumerGroup("g", topics=["orders"], cluster=config) as group,
        await group.next() as generation,
    ):
        for wrong in (5, [FIRST], FIRST):
            with pytest.raises(TypeError, match="offsets: a mapping of TopicPartition"):
                await generation.commit(wrong)
        group.stop()
    for wrong in (5, [FIRST]):
        with pytest.raises(TypeError, match="offsets: a mapping of TopicPartition"):
            GroupMetadata(group_id="g").to_commit(wrong)
    wrong = config
    with pytest.raises(ConfigError, match="a Fetcher reads over an open Cluster"):
        Fetcher(wrong)


def whole(offset: str) -> Any:
    return pytest.raises(ValueError, match=f"orders-0: .*{offset}.* a whole number from 0 on")


@pytest.mark.parametrize("nonsense", ["5", None, 1.5, True, -7, 1 << 63])
async def test_an_invalid_offset_does_not_move_the_position(
    broker: Broker, cluster: Cluster, nonsense: Any
) -> None:
    broker.controller.topics.create("orders", 1)
    async with Consumer(cluster) as consumer, Fetcher(cluster) as fetcher:
        await consumer.assign({FIRST: 3})
        fetcher.add(FIRST, 3)
        with whole(nonsense):
            await consumer.assign({FIRST: nonsense})
        for seek in (consumer.seek, fetcher.seek, fetcher.add):
            with whole(nonsense):
                seek(FIRST, nonsense)
        for go_to in (consumer.read_to, fetcher.assign):
            with whole(nonsense):
                go_to({FIRST: nonsense})
        assert consumer.position(FIRST) == fetcher.position(FIRST) == 3


async def test_a_member_does_not_seek_to_what_is_no_offset(
    broker: Broker, cluster: Cluster
) -> None:
    broker.controller.topics.create("orders", 1)
    async with (
        ConsumerGroup("g", topics=["orders"], cluster=cluster) as group,
        await group.next() as generation,
    ):
        for nonsense in ("5", None, 1.5, -7, 1 << 63):
            with whole(str(nonsense)):
                generation.seek(FIRST, nonsense)  # type: ignore[arg-type]
        generation.seek(FIRST, EARLIEST)
        generation.seek(FIRST, LATEST)
        group.stop()


async def test_an_error_of_an_unassigned_partition_says_to_assign_it(
    broker: Broker, cluster: Cluster
) -> None:
    broker.controller.topics.create("orders", 1)
    async with Consumer(cluster) as consumer:
        with pytest.raises(NotAssignedError, match="assign it to the Consumer"):
            consumer.seek(FIRST, 0)
