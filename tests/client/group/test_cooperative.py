"""Cooperative rebalancing (KIP-429): what stays is not interrupted."""

import asyncio
import itertools

import pytest

from client.group.simulated import FOREVER, App, simulated, until
from kohort.client.membership.events import End
from kohort.errors import KohortError
from kohort.types import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(4)]
COOPERATIVE = {"assignors": ["cooperative-sticky"]}


async def two_members(world, work=None, **options):
    """One that had all partitions, and another one that took over half of them. Back when both are
    stable.
    """
    first = App(world, work, **COOPERATIVE, **options)
    await first.assigned(4)
    second = App(world, work, **COOPERATIVE, **options)
    await until(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
    return first, second


async def stop(*apps):
    await asyncio.gather(*(app.stop() for app in apps))


@simulated()
async def test_tasks_of_kept_partitions_run_on(world):
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
    await stop(first, second)
    assert sorted(tp for tp, end in ended if end is End.CLOSED) == ORDERS


@simulated()
async def test_a_generation_lists_kept_added_and_revoked_partitions(world):
    first, second = await two_members(world)
    kept = first.generations[1]
    assert (set(kept.kept), kept.added) == (set(first.assignment), ())
    assert set(kept.revoked) == set(second.assignment)
    assert set(second.generation.added) == set(second.assignment)
    await stop(second)
    await first.assigned(4)
    assert (set(first.generation.added), first.generation.revoked) == (
        set(second.generations[-1].assignment),
        (),
    )
    await stop(first)


@simulated()
async def test_a_task_of_a_kept_partition_sees_the_current_generation(world):
    given = {}

    async def work(generation, partition):
        given[partition] = generation
        await generation.ending()

    first = App(world, work, **COOPERATIVE)
    await first.assigned(4)
    views = dict(given)
    second = App(world, **COOPERATIVE)
    await until(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
    for partition in first.assignment:
        assert views[partition].id == first.generation.id > 1
        assert views[partition].end is None
        assert set(views[partition].assignment) == set(first.assignment)
    for partition in second.assignment:
        assert views[partition].end is End.REVOKED
    await stop(first, second)


@simulated()
async def test_processing_never_stops_for_a_rebalance(world):
    times = []

    async def work(generation, partition):
        async for batch in generation.records(partition):
            times.append((partition, world.now))
            await generation.commit({partition: batch.next_offset})

    async def load():
        while True:
            world.produce(20)
            await asyncio.sleep(0.2)

    loading = world.loop.create_task(load())
    first, second = await two_members(world, work)
    await stop(second)
    await first.assigned(4)
    loading.cancel()
    for partition in set(first.generations[2].assignment):
        mine = [at for tp, at in times if tp == partition]
        assert max(b - a for a, b in itertools.pairwise(mine)) < 1_500
    await stop(first)


@simulated()
async def test_commits_of_kept_partitions_carry_the_new_generation(world):
    world.produce(500)

    async def work(generation, partition):
        async for batch in generation.records(partition):
            await asyncio.sleep(0.5)
            await generation.commit({partition: batch.next_offset})

    first, second = await two_members(world, work)
    await asyncio.sleep(5)
    generations = {
        fields["generation_id_or_member_epoch"] for _, fields in first.sent("offset_commit")
    }
    assert {1, first.generation.id} <= generations
    assert (
        first.sent("offset_commit")[-1][1]["generation_id_or_member_epoch"] == first.generation.id
    )
    await stop(first, second)


@simulated()
async def test_a_commit_waits_while_the_group_syncs(world):
    """REBALANCE_IN_PROGRESS: the coordinator takes none between join and sync. The caller notices
    nothing.
    """
    results = []

    async def work(generation, partition):
        for offset in itertools.count():
            if generation.end is not None:
                return
            await generation.commit({partition: offset})
            results.append((world.now, generation.id))
            await asyncio.sleep(0.002)

    first = App(world, work, **COOPERATIVE)
    await first.assigned(4)
    apps = [first]
    for _ in range(2):
        apps.append(App(world, **COOPERATIVE))
        await asyncio.sleep(10)
    assert {generation for _, generation in results} >= {1, first.generation.id}
    await stop(*apps)


@simulated()
async def test_another_function_is_started_beside_the_one_that_runs_on(world):
    began = []

    async def one(generation, partition):
        began.append(("one", partition))
        await generation.ending()

    async def other(generation, partition):
        began.append(("other", partition))
        await generation.ending()

    async def body(generation):
        if generation.id > 1:
            for partition in generation.assignment:
                generation.start(other, partition, name="other")

    first = App(world, one, body, **COOPERATIVE)
    await first.assigned(4)
    second = App(world, **COOPERATIVE)
    await until(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
    for partition in first.assignment:
        assert began.count(("one", partition)) == 1
        assert began.count(("other", partition)) == 1
    await stop(first, second)


@simulated()
async def test_a_second_task_of_a_partition_needs_a_name(world):
    began = []

    async def work(generation, partition, **kwargs):
        began.append(kwargs)
        await generation.ending()

    async with world.member(**COOPERATIVE) as group, await group.next() as generation:
        generation.start(work, ORDERS[0], name="second", number=2)
        generation.start(work, ORDERS[0], number=1)
        with pytest.raises(KohortError, match=r"orders-0 has a task already.*name=\.\.\."):
            generation.start(work, ORDERS[0])
        with pytest.raises(KohortError, match="has a task called 'second' already"):
            generation.start(work, ORDERS[0], name="second")
        await asyncio.sleep(1)
        group.stop()
    assert began == [{"number": 2}, {"number": 1}]


@simulated()
async def test_a_lambda_of_a_kept_partition_is_not_started_again(world):
    began = []

    async def work(generation, partition):
        began.append(partition)
        await generation.ending()

    async def body(generation):
        for partition in generation.assignment:
            generation.start(lambda *args: work(*args), partition, name="own")

    first = App(world, body=body, **COOPERATIVE)
    await first.assigned(4)
    second = App(world, **COOPERATIVE)
    await until(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
    assert sorted(began) == ORDERS
    await stop(first, second)


@simulated()
async def test_a_second_reader_of_a_partition_is_an_error(world):
    async def read(generation, partition):
        async for _ in generation.records(partition):
            pass

    async def body(generation):
        generation.start(read, ORDERS[0], name="another")

    app = App(world, read, body, **COOPERATIVE)
    with pytest.raises(ExceptionGroup) as raised:
        await app.task
    assert "orders-0 is read by the task" in str(raised.value.exceptions[0])


@simulated()
async def test_a_task_that_ended_by_itself_is_started_again_in_the_next_generation(world):
    began = []

    async def work(generation, partition):
        began.append((generation.id, partition))

    first = App(world, work, **COOPERATIVE)
    await first.assigned(4)
    second = App(world, **COOPERATIVE)
    await until(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
    for partition in first.assignment:
        assert len([each for each in began if each[1] == partition]) == len(first.generations)
    await stop(first, second)


@simulated()
async def test_tasks_without_a_partition_end_with_each_generation(world):
    ends = []

    async def background(generation):
        ends.append((generation.id, await generation.ending()))

    async def body(generation):
        generation.start(background)

    first = App(world, body=body, **COOPERATIVE)
    await first.assigned(4)
    second = App(world, **COOPERATIVE)
    await until(lambda: len(first.assignment) == 2 and len(second.assignment) == 2)
    await stop(first, second)
    assert ends[0] == (1, End.REVOKED)
    assert [generation for generation, _ in ends] == [each.id for each in first.generations]


@simulated()
async def test_the_next_owner_starts_behind_what_was_drained(world):
    world.produce(300)

    async def work(generation, partition):
        async for batch in generation.records(partition):
            first.consumed.append((partition, batch.first, batch.next_offset, generation.id))
            await asyncio.sleep(2.5)
            await generation.commit({partition: batch.next_offset})

    first = App(world, work, **COOPERATIVE)
    await first.assigned(4)
    second = App(world, **COOPERATIVE)
    await until(lambda: len(second.assignment) == 2)
    for partition in second.assignment:
        last = max(next_ for tp, _, next_, _ in first.consumed if tp == partition)
        assert second.generation.start_offset(partition) == last
    await stop(first, second)


@simulated()
async def test_an_error_of_a_kept_task_is_raised_and_ends_the_member(world):
    async def work(generation, partition):
        await until(lambda: generation.id > 1)
        raise ValueError(partition)

    first = App(world, work, **COOPERATIVE)
    await first.assigned(4)
    second = App(world, **COOPERATIVE)
    with pytest.raises(ExceptionGroup, match="errors in tasks"):
        await first.task
    await second.assigned(4)
    await stop(second)


@simulated()
async def test_all_is_lost_together(world):
    ends = []

    async def work(generation, partition):
        try:
            await asyncio.sleep(FOREVER)
        finally:
            ends.append(generation.end)

    first, second = await two_members(world, work)
    ends.clear()
    first.group.sim.reachable.clear()
    await until(lambda: len(ends) == 2)
    assert ends == [End.LOST] * 2
    first.group.sim.reachable.set()
    await until(lambda: len(first.assignment) == 2 and first.generation.added)
    assert set(first.generation.kept) == set()
    await stop(first, second)


@simulated()
async def test_eager_and_cooperative_assignors_together_are_eager(world):
    app = App(world, assignors=["range", "cooperative-sticky"])
    await app.assigned(4)
    second = App(world, assignors=["cooperative-sticky", "range"])
    await until(lambda: len(app.assignment) == 2 and len(second.assignment) == 2)
    assert app.generations[1].kept == ()
    await stop(app, second)
