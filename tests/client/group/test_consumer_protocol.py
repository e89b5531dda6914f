"""A group in the consumer protocol (KIP-848): partitions come and go one by one."""

import asyncio

import pytest

from client.group.simulated import App, simulated, until
from kohort.client.group_errors import GenerationEndedError, GroupError
from kohort.client.membership.events import End
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(4)]
CONSUMER = {"protocol": "consumer"}


async def stop(*apps):
    await asyncio.gather(*(app.stop() for app in apps))


async def two_members(world, work=None, **options):
    first = App(world, work, **CONSUMER, **options)
    await first.assigned(4)
    second = App(world, work, **CONSUMER, **options)
    await until(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
    return first, second


def requests(app, api):
    return [fields for _, name, fields in app.group.sim.requests if name == api]


@simulated()
async def test_partitions_move_one_by_one_and_tasks_of_kept_ones_run_on(world):
    began, ended = [], []

    async def work(generation, partition):
        began.append(partition)
        try:
            await generation.ending()
        finally:
            ended.append((partition, generation.end))

    first, second = await two_members(world, work)
    assert sorted(began) == sorted([*ORDERS, *second.assignment])
    assert sorted(ended) == [(tp, End.REVOKED) for tp in sorted(second.assignment)]
    kept = first.generation
    assert (set(kept.kept), kept.added) == (set(first.assignment), ())
    await stop(second)
    await first.assigned(4)
    await stop(first)


@simulated()
async def test_records_are_handed_over_without_a_duplicate(world):
    world.produce(400)
    first, second = await two_members(world)
    world.produce(400)
    await until(lambda: sum(world.committed().values()) == 800)
    await stop(second)
    await first.assigned(4)
    world.produce(100)
    await until(lambda: sum(world.committed().values()) == 900)
    await stop(first)
    seen = [
        (tp, offset)
        for app in (first, second)
        for tp, start, end, _ in app.consumed
        for offset in range(start, end)
    ]
    assert len(seen) == len(set(seen)) == 900


@simulated()
async def test_commits_and_offset_fetches_carry_member_and_epoch(world):
    world.produce(40)
    app = App(world, **CONSUMER)
    await app.assigned(4)
    await until(lambda: sum(world.committed().values()) == 40)
    (fetched,) = requests(app, "offset_fetch")[0]["groups"]
    commit = requests(app, "offset_commit")[0]
    member_id = app.group.member_id
    assert (fetched["member_id"], fetched["member_epoch"]) == (member_id, 2)
    assert (commit["member_id"], commit["generation_id_or_member_epoch"]) == (member_id, 2)
    assert len(member_id) == 36
    await stop(app)


@simulated()
async def test_a_commit_for_a_transaction_carries_the_epoch_of_now(world):
    first, second = await two_members(world)
    for app in (first, second):
        epoch = app.group.generation_id
        mine = app.assignment[0]
        owner, _ = app.generation.to_commit({mine: 1})
        assert (owner.member_id, owner.generation_id) == (app.group.member_id, epoch)
    await stop(first, second)


@simulated()
async def test_a_static_member_that_returns_has_its_partitions_at_once(world):
    app = App(world, instance_id="i", **CONSUMER)
    await app.assigned(4)
    other = App(world, **CONSUMER)
    await until(lambda: len(other.assignment) == 2)
    mine, epochs = app.assignment, world.coordinator.rebalances
    await stop(app)
    again = App(world, instance_id="i", **CONSUMER)
    await until(lambda: again.assignment == mine)
    assert world.coordinator.rebalances == epochs
    await stop(again, other)


@simulated()
async def test_a_second_member_of_an_instance_is_refused(world):
    app = App(world, instance_id="i", **CONSUMER)
    await app.assigned(4)
    with pytest.raises(GroupError, match="UNRELEASED_INSTANCE_ID"):
        async with world.member(instance_id="i", **CONSUMER) as group:
            await group.next()
    await stop(app)


@simulated()
async def test_a_fenced_member_cannot_commit_and_comes_back(world):
    errors = []

    async def work(generation, partition):
        try:
            await generation.ending()
        finally:
            if generation.end is End.LOST:
                try:
                    await generation.commit({partition: 1})
                except GenerationEndedError as error:
                    errors.append(error)

    app = App(world, work, **CONSUMER)
    await app.assigned(4)
    group = world.coordinator.bench.consumer_group()
    (member_id,) = group.members
    await world.coordinator.ask("consumer_heartbeat", "g", member_id, -1)
    await until(lambda: len(errors) == 4)
    await app.assigned(4)
    assert list(group.members) == [member_id]
    await stop(app)


@simulated()
async def test_a_deleted_topic_that_was_recreated_is_read_from_its_beginning(world):
    world.produce(40)
    app = App(world, **CONSUMER)
    await app.assigned(4)
    await until(lambda: sum(world.committed().values()) == 40)
    world.delete_topic("orders")
    await until(lambda: app.assignment == ())
    world.create_topic("orders", 2)
    world.produce(10)
    await app.assigned(2)
    await until(lambda: sum(world.committed().values()) == 10)
    await stop(app)


@simulated()
async def test_a_subscription_that_changes_moves_the_member(world):
    world.create_topic("other", 2)
    app = App(world, topics=["orders"], **CONSUMER)
    await app.assigned(4)
    app.group.subscribe(["other"])
    await app.assigned(2)
    assert {tp.topic for tp in app.assignment} == {"other"}
    await stop(app)


@simulated()
async def test_an_unknown_assignor_of_the_coordinator_ends_the_membership(world):
    with pytest.raises(GroupError, match="UNSUPPORTED_ASSIGNOR") as raised:
        async with world.member(remote_assignor="mine", **CONSUMER) as group:
            await group.next()
    assert raised.value.code is ErrorCode.unsupported_assignor
