"""A generation as a scope: what its end means for the tasks in it."""

import asyncio

import pytest

from client.group.simulated import FOREVER, App, simulated, until
from kohort.client.group.group import GroupClosedError
from kohort.client.group_errors import GenerationEndedError
from kohort.client.membership.events import End
from kohort.errors import KohortError
from kohort.types import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(4)]


async def two_members(world, work=None, **options):
    """One that has all partitions; and one that joins. Back when the first one is being revoked."""
    first = App(world, work, **options)
    await first.assigned(4)
    generation = first.generation
    second = App(world, **options)
    await until(lambda: generation.end is not None)
    return first, second, generation


# --- what it is ---


@simulated()
async def test_a_generation_has_its_id_protocol_leader_and_assignment(world):
    app = App(world)
    await app.assigned(4)
    generation = app.generation
    assert (generation.id, generation.protocol, generation.is_leader, generation.end) == (
        1,
        "range",
        True,
        None,
    )
    assert generation.member_id == app.group.member_id
    assert sorted(generation.assignment) == sorted(generation.added) == ORDERS
    assert generation.kept == generation.revoked == ()
    assert "id=1 partitions=4" in repr(generation)
    await app.stop()


@simulated()
async def test_records_are_consumed_from_the_committed_offset(world):
    world.produce(100)
    first = App(world)
    await until(lambda: world.committed() == dict(zip(ORDERS, world.topics["orders"], strict=True)))
    await first.stop()
    world.produce(40)
    second = App(world)
    await until(lambda: world.committed() == dict(zip(ORDERS, world.topics["orders"], strict=True)))
    await second.stop()
    ranges = sorted(each[:3] for each in first.consumed + second.consumed)
    for tp in ORDERS:
        mine = [each for each in ranges if each[0] == tp]
        assert [each[1] for each in mine] == [0, *[each[2] for each in mine[:-1]]]


@pytest.mark.parametrize(
    ("start", "expected"), [("first", 0), ("last", 25), ("earliest", 0), ("latest", 25)]
)
@simulated(topics={"orders": 1})
async def test_without_a_committed_offset_it_starts_where_it_is_told(world, start, expected):
    world.produce(25)
    app = App(world, start_offset=start)
    await app.assigned(1)
    assert (app.generation.start_offset(ORDERS[0]), app.generation.committed(ORDERS[0])) == (
        expected,
        None,
    )
    await app.stop()


@simulated(topics={"orders": 1})
async def test_without_a_committed_offset_none_is_an_error_that_tells_what_to_do(world):
    app = App(world, start_offset="none")
    with pytest.raises(KohortError, match=r"no offset for orders-0.*kohort groups reset"):
        await app.task


# --- revoked ---


@simulated()
async def test_revoked_work_finishes_and_commits(world):
    world.produce(200)
    finished = []

    async def work(generation, partition):
        async for batch in generation.records(partition):
            await asyncio.sleep(4)
            await generation.commit({partition: batch.next_offset})
            finished.append((partition, batch.next_offset, generation.end))

    first, second, _ = await two_members(world, work)
    await first.assigned(2)
    revoked = [each for each in finished if each[2] is End.REVOKED]
    assert len(revoked) == 4
    assert {
        tp: offset for tp, offset, _ in revoked
    }.items() <= world.committed().items() or second.consumed
    for tp, offset, _ in revoked:
        assert second.generation.start_offset(tp) == offset if tp in second.assignment else True
    await asyncio.gather(first.stop(), second.stop())


@simulated()
async def test_tasks_that_do_not_return_are_cancelled_after_the_drain_timeout(world):
    ends = []

    async def work(generation, partition):
        try:
            await asyncio.sleep(FOREVER)
        finally:
            ends.append((world.now, generation.end))

    first, second, generation = await two_members(world, work, drain_timeout_ms=7_000)
    began = world.now
    await first.assigned(2)
    assert len(ends) == 4
    assert all(
        at - began == pytest.approx(7_000, abs=100) and end is End.REVOKED for at, end in ends
    )
    assert generation.end is End.REVOKED
    await asyncio.gather(first.stop(), second.stop())


@simulated()
async def test_the_body_is_cancelled_too_and_the_loop_goes_on(world):
    async def body(generation):
        if generation.id == 1:
            await asyncio.sleep(FOREVER)

    first = App(world, body=body, drain_timeout_ms=7_000)
    await until(lambda: first.generations)
    second = App(world)
    await first.assigned(2)
    assert [generation.id for generation in first.generations] == [1, 2]
    await asyncio.gather(first.stop(), second.stop())


@simulated()
async def test_a_body_that_looks_at_the_end_is_not_cancelled(world):
    seen = []

    async def body(generation):
        seen.append(await generation.ending())

    first = App(world, body=body)
    await until(lambda: first.generations)
    second = App(world)
    await until(lambda: len(first.generations) == 2)
    assert seen == [End.REVOKED]
    await asyncio.gather(first.stop(), second.stop())
    assert seen == [End.REVOKED, End.CLOSED]


@simulated()
async def test_a_task_that_swallows_its_cancellation_is_cancelled_again(world):
    ends = []

    async def work(generation, partition):
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            await asyncio.sleep(FOREVER)
        finally:
            ends.append(partition)

    first, second, _ = await two_members(world, work, drain_timeout_ms=5_000)
    await first.assigned(2)
    assert len(ends) == 4
    await asyncio.gather(first.stop(), second.stop())


@simulated()
async def test_one_generation_at_a_time(world):
    inside = []

    async def body(generation):
        inside.append(generation.id)
        assert len(inside) == 1
        with pytest.raises(KohortError, match="leave the generation"):
            await first.group.next()
        await generation.ending()
        inside.remove(generation.id)

    first = App(world, body=body)
    others = []
    for _ in range(3):
        await asyncio.sleep(20)
        others.append(App(world))
    await asyncio.sleep(20)
    await asyncio.gather(first.stop(), *(other.stop() for other in others))
    ids = [generation.id for generation in first.generations]
    assert ids == sorted(set(ids))
    assert len(ids) >= 4


# --- lost ---


@simulated()
async def test_lost_work_is_cancelled_at_once_and_may_not_commit(world):
    cancelled = []

    async def work(generation, partition):
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            if generation.end is not End.LOST:
                raise
            cancelled.append((world.now, generation.end))
            with pytest.raises(GenerationEndedError, match=r"lost.*no heartbeat got a response"):
                await generation.commit({partition: 1})
            raise

    app = App(world, work)
    await app.assigned(4)
    app.group.sim.reachable.clear()
    await until(lambda: cancelled)
    assert 20_000 < world.now < 31_000
    assert {end for _, end in cancelled} == {End.LOST}
    assert app.generation.end is End.LOST
    member_id = app.group.member_id
    app.group.sim.reachable.set()
    await app.assigned(4)
    assert app.sent("join_group")[-1][1]["member_id"] in (member_id, app.group.member_id)
    assert world.committed() == {}
    await app.stop()


@simulated()
async def test_an_outage_shorter_than_the_session_ends_nothing(world):
    app = App(world)
    await app.assigned(4)
    world.is_up = False
    await asyncio.sleep(20)
    world.is_up = True
    await asyncio.sleep(60)
    assert [generation.end for generation in app.generations] == [None]
    await app.stop()


# --- closed ---


@simulated()
async def test_stopping_drains_commits_and_leaves(world):
    world.produce(100)
    app = App(world)
    await app.assigned(4)
    await app.stop()
    assert {end for _, end in app.ended} == {End.CLOSED}
    ((_, fields),) = app.sent("leave_group")
    assert fields["members"][0]["reason"] == "the application stops"
    assert world.coordinator.bench.shard.groups["g"].sessions == {}
    with pytest.raises(GroupClosedError):
        await app.group.next()


@simulated()
async def test_a_cancelled_application_leaves_too(world):
    app = App(world)
    await app.assigned(4)
    app.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await app.task
    assert len(app.sent("leave_group")) == 1
    assert len(app.ended) == 4


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@simulated()
async def test_a_member_cancelled_at_any_moment_leaves_its_partitions_to_the_next(
    world, protocol, again
):
    """Nothing of it runs on, and the next one has all partitions."""
    for after_ms in range(0, 120, 4):
        world.produce(10)
        app = App(world, protocol=protocol)
        await asyncio.sleep(after_ms / 1_000)
        app.task.cancel()
        if again:
            await asyncio.sleep(0.001)
            app.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await app.task
    await asyncio.sleep(1)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    last = App(world, protocol=protocol)
    await last.assigned(4)
    await until(lambda: sum(world.committed().values()) == 300)
    assert len(world.coordinator.bench.shard.groups["g"].sessions) == 1
    await last.stop()


@simulated()
async def test_a_killed_one_does_not(world):
    app = App(world)
    await app.assigned(4)
    app.kill()
    with pytest.raises(asyncio.CancelledError):
        await app.task
    assert len(world.coordinator.bench.shard.groups["g"].sessions) == 1


@pytest.mark.parametrize("where", ["scope", "task"])
@simulated()
async def test_closing_inside_the_own_generation_is_an_error_that_tells_what_to_do(world, where):
    async def close(_):
        with pytest.raises(KohortError, match=r"call group.stop\(\) instead"):
            await group.close()
        group.stop()

    async with world.member() as group, await group.next() as generation:
        if where == "scope":
            await close(generation)
        else:
            generation.start(close)


@simulated()
async def test_a_close_that_is_cancelled_leaves_and_leaves_nothing_behind(world):
    async def work(generation, partition):
        await asyncio.sleep(FOREVER)

    app = App(world, work)
    await app.assigned(4)
    closing = world.loop.create_task(app.group.close())
    await asyncio.sleep(1)
    began = world.now
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await app.task
    assert world.now - began < 1_000
    assert len(app.sent("leave_group")) == 1
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("g ")] == []


# --- failing ---


@simulated()
async def test_an_exception_in_a_task_ends_the_generation_and_comes_out(world):
    cancelled = []

    async def work(generation, partition):
        if partition.partition == 2:
            await asyncio.sleep(1)
            raise LookupError("no such order")
        try:
            await asyncio.sleep(FOREVER)
        finally:
            cancelled.append(generation.end)

    app = App(world, work)
    with pytest.raises(ExceptionGroup) as raised:
        await app.task
    assert [repr(error) for error in raised.value.exceptions] == ["LookupError('no such order')"]
    assert cancelled == [End.CLOSED] * 3
    assert len(app.sent("leave_group")) == 1


@simulated()
async def test_an_exception_in_the_body_comes_out_as_it_is(world):
    async def body(generation):
        generation.start(wait)
        raise LookupError("no such order")

    async def wait(generation):
        await asyncio.sleep(FOREVER)

    app = App(world, body=body)
    with pytest.raises(LookupError, match="no such order"):
        await app.task


@simulated()
async def test_both_come_out_together(world):
    async def body(generation):
        generation.start(fail)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raise LookupError("body")

    async def fail(generation):
        raise ValueError("task")

    app = App(world, body=body)
    with pytest.raises(ExceptionGroup) as raised:
        await app.task
    assert {str(error) for error in raised.value.exceptions} == {"body", "task"}


@simulated()
async def test_after_a_failure_the_next_generation_can_be_asked_for(world):
    async def fail(generation, partition):
        raise ValueError(partition)

    async with world.member() as group:
        first = await group.next()
        with pytest.raises(ExceptionGroup):
            async with first:
                first.start(fail, ORDERS[0])
        await asyncio.sleep(5)
        assert world.coordinator.rebalances == 1
        second = await group.next()
        assert second.member_id == first.member_id
        assert len(second.assignment) == 4
        group.stop()
        async with second:
            pass


# --- starting ---


@simulated()
async def test_tasks_need_the_scope(world):
    async with world.member() as group:
        generation = await group.next()
        with pytest.raises(KohortError, match="async with generation"):
            generation.start(asyncio.sleep, ORDERS[0])


@simulated()
async def test_only_assigned_partitions_can_be_worked_on(world):
    async def body(generation):
        other = TopicPartition("orders", 99)
        for use in (
            generation.records,
            generation.position,
            generation.lag,
            generation.pause,
            generation.start_offset,
        ):
            with pytest.raises(GenerationEndedError, match="orders-99 is not assigned"):
                use(other)
        with pytest.raises(GenerationEndedError):
            generation.start(app.consume, other)
        with pytest.raises(GenerationEndedError):
            await generation.commit({other: 1})
        app.group.stop()

    app = App(world, body=body)
    await app.task


@simulated()
async def test_no_task_is_started_in_an_ended_generation(world):
    async def body(generation):
        app.group.stop()
        await generation.ending()

    app = App(world, body=body)
    await app.task
    assert app.ended == []


@simulated()
async def test_tasks_without_a_partition_end_with_the_generation(world):
    ends = []

    async def background(generation, name):
        try:
            ends.append((name, await generation.ending()))
            await asyncio.sleep(FOREVER)
        finally:
            ends.append((name, "cancelled"))

    async def body(generation):
        generation.start(background, "b")

    app = App(world, body=body, drain_timeout_ms=2_000)
    await app.assigned(4)
    await app.stop()
    assert ends == [("b", End.CLOSED), ("b", "cancelled")]


# --- flow ---


@simulated(topics={"orders": 1})
async def test_pause_resume_seek_position_and_lag(world):
    world.produce(50)
    offsets = []

    async def work(generation, partition):
        generation.pause(partition)
        world.loop.call_later(10, generation.resume, partition)
        assert (generation.position(partition), generation.lag(partition)) == (0, 50)
        generation.seek(partition, 40)
        offsets.extend([(world.now, batch.first) async for batch in generation.records(partition)])

    app = App(world, work)
    await until(lambda: app.generations and app.generation.position(ORDERS[0]) == 50)
    assert app.generation.lag(ORDERS[0]) == 0
    await app.stop()
    assert offsets[0][1] == 40
    assert offsets[0][0] > 10_000
