"""Work on very many committed offsets: how long the loop waits, and what a crash leaves to do."""

import asyncio

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommits,
    TransactionalOffsets,
    pack_offset,
)
from kohort.coordinator.requests import DeleteGroup, OffsetToCommit, TxnOffsetCommit
from kohort.errors import ErrorCode
from kohort.log.base import LogConfig
from kohort.log.memory import memory_log
from kohort.runtime.group_log import append_records, append_transactional
from kohort.runtime.groups import Groups
from kohort.types import Timestamp, TopicPartition
from runtime.fake_log import FakeLog
from runtime.served import answer, serving
from runtime.virtual_time import LoopClock, virtual_time
from turns import BOUND_MS, longest_turn_ms

VALUE = pack_offset(7, -1, "", 0)


def many(topics, partitions, group="g"):
    """Commits of so many partitions of each topic."""
    return [OffsetCommits(group, name, range(partitions), [VALUE] * partitions) for name in topics]


def log_of(commits):
    log = memory_log(TopicPartition("__consumer_offsets", 0), LogConfig())
    for commit in commits:
        append_records(log, [(commit,)], Timestamp(0))
    return log


def log_with_pending(commits):
    """A log with these commits in one open transaction."""
    log = log_of([])
    for commit in commits:
        append_pending(log, commit)
    return log


def append_pending(log, commit):
    guard = log.begin_verification(1, 0, -1, Timestamp(0), tv2=False)
    append_transactional(log, [TransactionalOffsets(1, 0, commit)], guard, Timestamp(0))


async def loaded(log):
    groups = Groups([log], GroupCoordinatorConfig(), LoopClock())
    groups.start()
    await groups.loaded()
    return groups


async def forgotten(groups, *names):
    tasks = groups.topics_deleted(names)
    if tasks:
        await asyncio.wait(tasks)


async def test_the_offsets_of_a_deleted_topic():
    log = log_of(many(["t", "u"], 50_000))
    groups = await loaded(log)
    worst, _ = await longest_turn_ms(forgotten(groups, "t"))
    print(f"{worst:.0f} ms")
    assert list(groups.group("g").offsets.topics) == ["u"]
    await groups.close()
    again = await loaded(log)
    assert list(again.group("g").offsets.topics) == ["u"]
    await again.close()
    assert worst < BOUND_MS


async def test_the_offsets_of_a_deleted_topic_in_very_many_groups():
    log = log_of([commit for n in range(20_000) for commit in many(["t"], 2, f"g{n}")])
    groups = await loaded(log)
    worst, _ = await longest_turn_ms(forgotten(groups, "t"))
    print(f"{worst:.0f} ms")
    assert not list(groups.groups())
    await groups.close()
    assert worst < BOUND_MS


async def test_a_crash_in_the_middle():
    log = log_of(many(["t"], 5_000))
    groups = await loaded(log)
    (task,) = groups.topics_deleted(["t"])
    for _ in range(4):
        await asyncio.sleep(0)
    task.cancel()  # as if it were killed here
    again = await loaded(log)
    assert 0 < len(again.group("g").offsets) < 5_000
    await forgotten(again, "t")
    assert again.group("g") is None
    assert not list((await loaded(log)).groups())


@virtual_time
async def test_a_storage_that_fails_in_the_middle():
    log = FakeLog()
    append_records(log, [many(["t"], 5_000), many(["u"], 1)], Timestamp(0))
    async with serving(log) as served:
        (task,) = served.groups.topics_deleted(["t"])
        await asyncio.sleep(0)
        log.failure = OSError(28, "No space left on device")
        await task
        log.failure = None
        await asyncio.sleep(10)
        assert list(served.groups.group("g").offsets.topics) == ["u"]
    async with serving(log) as again:
        assert list(again.groups.group("g").offsets.topics) == ["u"]


@virtual_time
async def test_topics_that_are_deleted_while_it_goes_on():
    log = FakeLog()
    append_records(log, [many(["t", "u"], 5_000), many(["v"], 1)], Timestamp(0))
    async with serving(log) as served:
        (task,) = served.groups.topics_deleted(["t"])
        assert served.groups.topics_deleted(["u"]) == [task]
        await task
        assert list(served.groups.group("g").offsets.topics) == ["v"]


async def test_loading_many_commits_and_tombstones_takes_short_turns():
    log = log_of(many(["t"], 40_000))
    tombstones = [OffsetCommitRecord(OffsetCommitKey("g", "t", n), None) for n in range(30_000)]
    append_records(log, [tombstones], Timestamp(0))
    worst, groups = await longest_turn_ms(loaded(log))
    print(f"{worst:.0f} ms")
    assert len(groups.group("g").offsets) == 10_000
    await groups.close()
    assert worst < BOUND_MS


async def deleted(groups, group):
    responded = asyncio.get_running_loop().create_future()
    groups.submit(DeleteGroup(on_response=responded.set_result, group=group))
    return await responded


async def test_the_deletion_of_a_group():
    log = log_of(many(["t", "u"], 20_000))
    groups = await loaded(log)
    worst, response = await longest_turn_ms(deleted(groups, "g"))
    print(f"{worst:.0f} ms")
    assert response.error is ErrorCode.none
    assert groups.group("g") is None
    await groups.close()
    assert not list((await loaded(log)).groups())
    assert worst < BOUND_MS


@virtual_time
async def test_a_group_that_is_made_again_while_the_former_is_deleted():
    log = FakeLog()
    append_records(log, [many(["t"], 5_000)], Timestamp(0))
    async with serving(log) as served:
        deleting = asyncio.ensure_future(deleted(served.groups, "g"))
        await asyncio.sleep(0)
        assert served.groups.group("g") is None
        committed = served.commit("g", {("t", 10): 99, ("t", 4_999): 98})
        assert (await deleting).error is ErrorCode.none
        assert (await answer(committed)).results[0][1] is ErrorCode.none
    async with serving(log) as again:
        offsets = again.groups.group("g").offsets
        assert {partition.partition: value.offset for partition, value in offsets.items()} == {
            10: 99,
            4_999: 98,
        }


@virtual_time
async def test_a_deletion_that_the_storage_refuses_in_the_middle():
    log = FakeLog()
    append_records(log, [many(["t"], 5_000)], Timestamp(0))
    async with serving(log) as served:
        deleting = asyncio.ensure_future(deleted(served.groups, "g"))
        for _ in range(10):
            if len(log.batches) < 3:
                await asyncio.sleep(0)
        log.failure = OSError(28, "No space left on device")
        assert (await deleting).error is ErrorCode.not_coordinator
        log.failure = None
        await asyncio.sleep(10)
        assert 0 < len(served.groups.group("g").offsets) < 5_000
        assert (await deleted(served.groups, "g")).error is ErrorCode.none
    async with serving(log) as again:
        assert not list(again.groups.groups())


async def test_the_expiry_of_a_group():
    log = log_of(many(["t", "u"], 20_000))
    groups = Groups([log], GroupCoordinatorConfig(), LoopClock(), expiration_interval_ms=1)
    groups.start()
    await groups.loaded()

    async def expired():
        for _ in range(1_000_000):
            if groups.group("g") is None:
                return
            await asyncio.sleep(0)
        raise AssertionError("it does not expire")

    worst, _ = await longest_turn_ms(expired())
    print(f"{worst:.0f} ms")
    await groups.close()
    assert not list((await loaded(log)).groups())
    assert worst < BOUND_MS


# --- transactions ---


def ended(groups):
    return groups.complete_transaction(
        0, 1, 0, commit=True, coordinator_epoch=0, transaction_version=0
    )


async def test_the_end_of_the_largest_transaction():
    groups = await loaded(log_with_pending(many([f"t{n}" for n in range(100)], 1_000)))
    worst, _ = await longest_turn_ms(ended(groups))
    print(f"{worst:.0f} ms")
    assert len(groups.group("g").offsets) == 100_000
    await groups.close()
    assert worst < BOUND_MS


async def test_the_end_of_a_transaction_of_very_many_groups():
    commits = [commit for n in range(1_000) for commit in many(["t"], 1, f"g{n}")]
    groups = await loaded(log_with_pending(commits))
    worst, _ = await longest_turn_ms(ended(groups))
    print(f"{worst:.0f} ms")
    assert all(len(group.offsets) == 1 for group in groups.groups())
    await groups.close()
    assert worst < BOUND_MS


async def committed_in_transaction(groups, offsets):
    responded = asyncio.get_running_loop().create_future()
    groups.submit(
        TxnOffsetCommit(
            on_response=responded.set_result,
            version=6,
            group="g",
            producer_id=1,
            producer_epoch=0,
            generation=-1,
            member_id="",
            instance_id=None,
            offsets=offsets,
            verified=groups.begin_verification("g", 1, 0),
        )
    )
    return await responded


async def test_the_largest_commit_in_a_transaction():
    groups = await loaded(log_of([]))
    offsets = tuple(OffsetToCommit("t", number, number) for number in range(15_000))
    worst, response = await longest_turn_ms(committed_in_transaction(groups, offsets))
    print(f"{worst:.0f} ms")
    assert {error for _, error in response.results} == {ErrorCode.none}
    await groups.close()
    assert worst < BOUND_MS


async def test_loading_large_transactions():
    log = log_with_pending(many(["t"], 15_000))
    end = {"commit": True, "coordinator_epoch": 0, "transaction_version": 0}
    log.append_marker(1, 0, timestamp=0, **end)
    for commit in many(["t", "u"], 15_000):
        append_pending(log, commit)
    log.append_marker(1, 0, timestamp=0, **end)
    worst, groups = await longest_turn_ms(loaded(log))
    print(f"{worst:.0f} ms")
    assert len(groups.group("g").offsets) == 30_000
    assert groups.group("g").offsets.pending is None
    await groups.close()
    assert worst < BOUND_MS


async def test_the_deletion_of_a_group_with_pending_offsets():
    log = log_with_pending(many([f"t{n}" for n in range(8)], 10_000))
    append_records(log, [many(["t0"], 10_000)], Timestamp(0))
    groups = await loaded(log)
    worst, response = await longest_turn_ms(deleted(groups, "g"))
    print(f"{worst:.0f} ms")
    assert response.error is ErrorCode.none
    assert groups.group("g") is None
    await ended(groups)
    await groups.close()
    assert not list((await loaded(log)).groups())
    assert worst < BOUND_MS


@virtual_time
async def test_a_commit_in_a_transaction_waits_for_the_deletion_of_the_former_group():
    log = FakeLog()
    append_records(log, [many(["t"], 5_000)], Timestamp(0))
    async with serving(log) as served:
        deleting = asyncio.ensure_future(deleted(served.groups, "g"))
        await asyncio.sleep(0)
        early = await answer(served.txn_commit("g", {("t", 10): 99}))
        assert early.results[0][1] is ErrorCode.coordinator_load_in_progress
        await deleting
        again = await answer(served.txn_commit("g", {("t", 10): 99}))
        assert again.results[0][1] is ErrorCode.none
