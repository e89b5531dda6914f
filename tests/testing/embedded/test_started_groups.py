"""Groups that an embedded Kafka starts with, beside real clients."""

from pathlib import Path
from typing import Any

import pytest

from kohort.client.sync import ConsumerGroup
from kohort.errors import KohortError
from kohort.testing import AsyncEmbeddedKafka, EmbeddedKafka
from testing.embedded.wire_member import WireMember, make_stable


def test_a_group_starts_with_members_generation_and_offsets(kafka: EmbeddedKafka) -> None:
    group = kafka.group("billing")
    ids = group.start(members=3, generation=7, committed={("orders", 2): 42})
    state = group.read()
    assert (state.type, state.state, state.generation) == ("classic", "Stable", 7)
    assert tuple(member.member_id for member in state.members) == ids
    assert sorted(p for member in state.members for p in member.assignment) == [
        ("orders", partition) for partition in range(4)
    ]
    assert state.committed == {("orders", 2): 42}


def test_members_of_a_started_group_expire(kafka: EmbeddedKafka) -> None:
    kafka.group("billing").start(members=2, generation=7, topics=["orders"])
    kafka.advance(45)
    state = kafka.group("billing").wait(state="Empty", members=0)
    assert state.generation == 8
    assert state.rebalances[-1].cause == "session expired"


def test_a_new_member_waits_for_the_members_of_a_started_group(kafka: EmbeddedKafka) -> None:
    first, second = kafka.group("billing").start(members=2, generation=7, topics=["orders"])
    member = WireMember(kafka.bootstrap)
    member.send_join()
    state = kafka.group("billing").wait(state="PreparingRebalance", members=3)
    assert set(state.rebalances[-1].awaited) == {first, second}
    kafka.advance(45)
    member.joined()
    assert member.generation == 8
    member.close()


def test_a_static_member_takes_its_partitions_without_a_rebalance(kafka: EmbeddedKafka) -> None:
    kafka.topic("payments", partitions=2)
    group = kafka.group("billing")
    group.start(instance_ids=["a", "b"], generation=7, topics=["payments"])
    kafka.produce("payments", b"of b", partition=1)
    with ConsumerGroup(
        "billing",
        topics=["payments"],
        bootstrap=kafka.bootstrap,
        instance_id="b",
        assignors=["range"],
    ) as client:
        assert [record.value for record in next(iter(client))] == [b"of b"]
        assert group.generation == 7
        assert group.rebalances == ()


async def test_a_consumer_group_starts_in_the_middle_of_its_reconciliation() -> None:
    async with AsyncEmbeddedKafka() as kafka:
        kafka.topic("orders", partitions=4)
        group = kafka.group("billing")
        owner, joined = group.start(
            type="consumer", members=2, generation=12, topics=["orders"], reconciling=True
        )
        state = group.read()
        assert (state.type, state.state, state.generation) == ("consumer", "Reconciling", 12)
        assert {member.member_id: len(member.assignment) for member in state.members} == {
            owner: 2,
            joined: 0,
        }
        assert f"revocation of 2 partitions of {owner} is awaited" in group.explain()
        await kafka.advance(300)
        assert group.explain() == "Empty: it has no members"


def test_other_groups_of_its_partition_stay_as_they_were(kafka: EmbeddedKafka) -> None:
    with EmbeddedKafka({"offsets.topic.num.partitions": 1}) as small:
        small.topic("orders", partitions=4)
        member = WireMember(small.bootstrap, group="shipping")
        make_stable(member)
        assert member.commit(5) == "none"
        small.group("billing").start(topics=["orders"])
        assert member.heartbeat() == "none"
        assert member.commit(6) == "none"
        assert small.group("shipping").committed == {("orders", 0): 6}
        assert small.group("shipping").generation == 1
        member.close()


def test_a_started_group_survives_a_restart(tmp_path: Path) -> None:
    with EmbeddedKafka(directory=tmp_path) as kafka:
        kafka.topic("orders", partitions=4)
        group = kafka.group("billing")
        group.start(members=3, generation=7, committed={("orders", 0): 42})
        before = group.read()
        kafka.restart()
        assert group.read() == before


def test_a_group_that_exists_is_not_started(kafka: EmbeddedKafka) -> None:
    kafka.group("billing").commit({("orders", 0): 1})
    with pytest.raises(KohortError, match="before it exists, and group billing is Empty"):
        kafka.group("billing").start(topics=["orders"])


def test_a_refused_group_leaves_nothing_behind(kafka: EmbeddedKafka) -> None:
    with pytest.raises(KohortError, match="as many partitions as members"):
        kafka.group("billing").start(
            type="consumer", members=9, topics=["orders"], reconciling=True
        )
    assert kafka.group("billing").state == "Dead"
    kafka.group("billing").start(topics=["orders"])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"members": -1}, "members: expected at least 0, not -1"),
        ({"instance_ids": ["a", "a"]}, "instance_ids: expected each name once"),
        ({"instance_ids": "a"}, "instance_ids: expected names"),
        ({"instance_ids": [""]}, "a name in instance_ids: expected a string that is not empty"),
        ({"committed": {("orders", 0): -1}}, "offset of orders-0: expected at least 0"),
        ({"committed": {"orders": 1}}, "a partition: expected a pair"),
        ({"generation": 2**31}, "generation: expected at most 2147483647"),
        ({"type": "share"}, "no type 'share'"),
        ({"session_timeout_ms": "1"}, "session_timeout_ms: expected a whole number"),
    ],
)
def test_wrong_arguments_of_a_start_are_named(
    embedded: EmbeddedKafka, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(KohortError) as error:
        embedded.group("billing").start(topics=["orders"], **fields)
    assert reason in str(error.value)
