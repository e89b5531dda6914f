"""Commits: how many requests, what is tried again, what is told to whom."""

import asyncio

import pytest

from client.group.simulated import FOREVER, App, simulated, until
from client.group.world import ANSWERS
from kohort.client.group_errors import CommitError, GenerationEndedError, GroupError
from kohort.client.membership.events import End
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(4)]


async def in_generation(world, do, **options):
    """Run `do(generation)` in the first generation of a member, and then leave; returns what it
    returns.
    """
    result = []

    async def body(generation):
        if not result:
            result.append(await do(generation))
            app.group.stop()

    app = App(world, idle, body, **options)
    await app.task
    return app, result[0]


async def idle(generation, partition):
    await generation.ending()


def answering(monkeypatch, *codes, api="offset_commit"):
    """The next commits are answered these codes in every partition, those after them as usual."""
    usual = ANSWERS[api]
    left = list(codes)

    async def answer(coordinator, connection, fields):
        told = await usual(coordinator, connection, fields)
        if left:
            code = left.pop(0)
            for topic in told.topics:
                for partition in topic.partitions:
                    partition.error_code = code
        return told

    monkeypatch.setitem(ANSWERS, api, answer)
    return left


@simulated()
async def test_concurrent_commits_share_a_request(world):
    async def do(generation):
        await asyncio.gather(
            *(
                generation.commit({tp: offset})
                for offset in range(50)
                for tp in generation.assignment
            )
        )

    app, _ = await in_generation(world, do)
    assert len(app.sent("offset_commit")) <= 2
    assert world.committed() == dict.fromkeys(ORDERS, 49)


@simulated()
async def test_metadata_and_leader_epoch_are_sent(world):
    async def do(generation):
        await generation.commit(
            {ORDERS[0]: OffsetAndMetadata(offset=7, leader_epoch=3, metadata="by hand")}
        )

    await in_generation(world, do)
    committed = world.coordinator.bench.shard.groups["g"].offsets[ORDERS[0]]
    assert (committed.offset, committed.leader_epoch, committed.metadata) == (7, 3, "by hand")


@simulated()
async def test_the_epoch_of_a_batch_goes_with_its_end(world):
    world.produce(100)
    app = App(world)
    await until(lambda: len(world.committed()) == 4)
    _, fields = app.sent("offset_commit")[-1]
    assert {
        partition["committed_leader_epoch"]
        for topic in fields["topics"]
        for partition in topic["partitions"]
    } == {0}
    await app.stop()


@simulated()
async def test_errors_are_told_by_partition(world):
    async def do(generation):
        with pytest.raises(CommitError, match="orders-1: OFFSET_METADATA_TOO_LARGE") as raised:
            await generation.commit(
                {ORDERS[0]: 1, ORDERS[1]: OffsetAndMetadata(offset=1, metadata="x" * 5_000)}
            )
        return raised.value.errors

    _, errors = await in_generation(world, do)
    assert {tp: error.code for tp, error in errors.items()} == {
        ORDERS[1]: ErrorCode.offset_metadata_too_large
    }
    assert world.committed() == {ORDERS[0]: 1}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.rebalance_in_progress,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    ],
)
@simulated()
async def test_a_commit_is_retried_after_a_retriable_error(world, code, monkeypatch):
    left = answering(monkeypatch, code, code)

    async def do(generation):
        await generation.commit({ORDERS[0]: 5})

    await in_generation(world, do)
    assert (left, world.committed()) == ([], {ORDERS[0]: 5})


@simulated()
async def test_a_commit_is_retried_for_a_minute_only(world, monkeypatch):
    answering(monkeypatch, *[ErrorCode.coordinator_load_in_progress] * 1_000)

    async def do(generation):
        began = world.now
        with pytest.raises(CommitError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await generation.commit({ORDERS[0]: 5})
        return world.now - began

    _, took = await in_generation(world, do)
    assert 60_000 <= took <= 63_000


@pytest.mark.parametrize(
    "code", [ErrorCode.invalid_commit_offset_size, ErrorCode.topic_authorization_failed]
)
@simulated()
async def test_an_error_of_a_partition_is_raised_without_a_retry(world, code, monkeypatch):
    answering(monkeypatch, code)

    async def do(generation):
        with pytest.raises(CommitError, match=code.name.upper()):
            await generation.commit({ORDERS[0]: 5})
        return generation.end

    app, end = await in_generation(world, do)
    assert end is None
    assert len(app.sent("offset_commit")) == 1


@pytest.mark.parametrize("code", [ErrorCode.unknown_member_id, ErrorCode.illegal_generation])
@simulated()
async def test_a_commit_that_is_fenced_ends_the_generation(world, code, monkeypatch):
    answering(monkeypatch, code)
    ends = []

    async def work(generation, partition):
        try:
            if generation.id == 1 and partition == ORDERS[0]:
                await generation.commit({partition: 5})
            await asyncio.sleep(FOREVER)
        finally:
            ends.append(generation.end)

    app = App(world, work, drain_timeout_ms=0)
    await until(lambda: len(app.generations) == 2)
    assert ends == [End.LOST] * 4
    await app.stop()


@pytest.mark.parametrize(
    "code", [ErrorCode.fenced_instance_id, ErrorCode.group_authorization_failed]
)
@simulated()
async def test_a_commit_that_is_refused_for_good_ends_the_membership(world, code, monkeypatch):
    answering(monkeypatch, code)

    async def work(generation, partition):
        await generation.commit({partition: 5})

    app = App(world, work)
    with pytest.raises(GroupError, match=code.name.upper()):
        await app.task


@simulated()
async def test_a_lost_partition_is_not_even_asked_about(world):
    async def work(generation, partition):
        try:
            await asyncio.sleep(FOREVER)
        finally:
            if generation.end is End.LOST:
                with pytest.raises(GenerationEndedError, match="stop working on it"):
                    await generation.commit({partition: 5})

    app = App(world, work, drain_timeout_ms=0)
    await app.assigned(4)
    app.group.sim.reachable.clear()
    await until(lambda: app.generation.end is End.LOST)
    await asyncio.sleep(1)
    assert app.sent("offset_commit") == []
    app.group.sim.reachable.set()
    await app.stop()


@simulated()
async def test_after_the_generation_nothing_is_committed(world):
    async with world.member() as group:
        generation = await group.next()
        async with generation:
            await generation.commit({ORDERS[0]: 5})
            group.stop()
        with pytest.raises(GenerationEndedError, match="closed"):
            await generation.commit({ORDERS[0]: 6})
    assert world.committed() == {ORDERS[0]: 5}


# --- commit_interval_ms ---


@simulated()
async def test_commits_with_an_interval_return_at_once_and_share_a_request(world):
    async def do(generation):
        began = world.now
        for offset in range(100):
            await generation.commit(dict.fromkeys(ORDERS, offset))
        took = world.now - began
        await asyncio.sleep(1.1)
        return took, world.committed()

    app, (took, committed) = await in_generation(world, do, commit_interval_ms=1_000)
    assert (took, committed) == (0, dict.fromkeys(ORDERS, 99))
    assert len(app.sent("offset_commit")) == 1


@simulated()
async def test_offsets_waiting_for_the_commit_interval_are_committed_on_leaving(world):
    async def do(generation):
        await generation.commit({ORDERS[0]: 7})

    await in_generation(world, do, commit_interval_ms=3_600_000)
    assert world.committed() == {ORDERS[0]: 7}


@simulated()
async def test_offsets_waiting_for_the_commit_interval_are_committed_on_revocation(world):
    async def work(generation, partition):
        await generation.ending()
        await generation.commit({partition: 7})

    first = App(world, work, commit_interval_ms=3_600_000)
    await first.assigned(4)
    second = App(world)
    await second.assigned(2)
    assert [second.generation.start_offset(tp) for tp in second.assignment] == [7, 7]
    await asyncio.gather(first.stop(), second.stop())


@simulated()
async def test_a_commit_that_is_under_way_is_waited_for_before_the_member_leaves(
    world, monkeypatch
):
    usual = ANSWERS["offset_commit"]

    async def slow(coordinator, connection, fields):
        await asyncio.sleep(0.5)
        return await usual(coordinator, connection, fields)

    monkeypatch.setitem(ANSWERS, "offset_commit", slow)

    async def body(generation):
        await generation.commit({ORDERS[0]: 7})
        # the interval's: nothing is left to be committed
        await until(lambda: app.sent("offset_commit"))
        app.group.stop()

    app = App(world, idle, body, commit_interval_ms=1_000)
    await app.task
    assert world.committed() == {ORDERS[0]: 7}


@simulated()
async def test_one_may_wait_all_the_same(world):
    async def do(generation):
        await generation.commit({ORDERS[0]: 7}, wait=True)
        return world.committed()

    _, committed = await in_generation(world, do, commit_interval_ms=3_600_000)
    assert committed == {ORDERS[0]: 7}


@simulated()
async def test_an_interval_that_fails_is_told_and_tried_again(world, monkeypatch):
    told = []
    left = answering(monkeypatch, *[ErrorCode.coordinator_load_in_progress] * 100)

    async def do(generation):
        await generation.commit({ORDERS[0]: 7})
        await asyncio.sleep(70)
        left.clear()
        await asyncio.sleep(2)

    await in_generation(world, do, commit_interval_ms=1_000, on_event=told.append)
    assert any(event.what == "commit failed" for event in told)
    assert world.committed() == {ORDERS[0]: 7}


# --- requests ---


@simulated()
async def test_a_retention_is_sent(world):
    async def do(generation):
        await generation.commit({ORDERS[0]: 1})

    app, _ = await in_generation(world, do, retention_ms=60_000)
    assert app.sent("offset_commit")[0][1]["retention_time_ms"] == 60_000


@simulated()
async def test_a_commit_does_not_wait_for_a_parked_join(world):
    """They are on connections of their own."""
    times = []

    async def work(generation, partition):
        while generation.end is None:
            began = world.now
            await generation.commit({partition: world.now})
            times.append(world.now - began)
            await asyncio.sleep(0.2)

    options = {"assignors": ["cooperative-sticky"], "rebalance_timeout_ms": 60_000}
    first = App(world, work, **options)
    await first.assigned(4)
    silent = App(world, idle, **options)
    await until(lambda: len(silent.generations) > 1)
    silent.group.sim.reachable.clear()  # everybody waits for its join
    third = App(world, idle, **options)
    joins = len(first.sent("join_group"))
    await until(lambda: len(first.sent("join_group")) > joins)
    times.clear()
    await asyncio.sleep(5)
    assert len(times) > 20
    assert max(times) < 100
    silent.kill()
    await asyncio.gather(first.stop(), third.stop())


# --- faults of our own ---


@simulated()
async def test_a_fault_of_the_client_is_told_to_who_commits_and_ends_there(world, monkeypatch):
    async def broken(*_, **__):
        raise ZeroDivisionError("by no offset")

    async def do(generation):
        with monkeypatch.context() as patch:
            patch.setitem(ANSWERS, "offset_commit", broken)
            with pytest.raises(CommitError, match=r"bug in the client.*by no offset"):
                await generation.commit({ORDERS[0]: 1})
        await generation.commit({ORDERS[0]: 2})

    await in_generation(world, do)
    assert world.committed() == {ORDERS[0]: 2}


# --- what is no offset ---


@pytest.mark.parametrize(
    "wrong",
    [
        -7,
        2**63,
        "12",
        1.5,
        True,
        OffsetAndMetadata(offset=-1),
        OffsetAndMetadata(offset=1, leader_epoch=2**31),
        OffsetAndMetadata(offset=1, metadata="\ud800"),
        OffsetAndMetadata(offset=1, metadata=b"bytes"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("interval_ms", [0, 1_000])
@simulated()
async def test_an_invalid_offset_is_refused_before_a_request_is_sent(world, wrong, interval_ms):
    async def do(generation):
        with pytest.raises(ValueError, match="orders-1"):
            await generation.commit({ORDERS[0]: 3, ORDERS[1]: wrong})
        await generation.commit({ORDERS[2]: 4})

    await in_generation(world, do, commit_interval_ms=interval_ms)
    assert world.committed() == {ORDERS[2]: 4}


# --- auto-commit ---


@simulated(topics={"orders": 1})
async def test_auto_commit_commits_what_the_iteration_has_moved_past(world):
    world.produce(100)
    begun = []

    async def work(generation, partition):
        async for batch in generation.records(partition):
            begun.append(batch)
            await asyncio.sleep(2)

    app = App(world, work, enable_auto_commit=True, auto_commit_interval_ms=3_000)
    await until(lambda: world.committed())
    assert world.committed() == {ORDERS[0]: begun[-1].first}
    assert len(app.sent("offset_commit")) == 1
    await until(lambda: len(begun) == 6)
    await app.stop()
    assert world.committed() == {ORDERS[0]: begun[-1].next_offset}


@simulated(topics={"orders": 1})
async def test_auto_commit_does_not_commit_a_batch_whose_work_was_cut_off(world):
    world.produce(10)
    begun = []

    async def work(generation, partition):
        async for batch in generation.records(partition):
            begun.append(batch)
            await asyncio.sleep(FOREVER)

    app = App(world, work, enable_auto_commit=True, drain_timeout_ms=1_000)
    await until(lambda: begun)
    await app.stop()
    assert world.committed() == {}
