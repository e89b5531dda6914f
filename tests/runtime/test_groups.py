"""Shards on an event loop: one append per turn, answers once appended, timers, and what `Groups`
tells.
"""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from kohort.coordinator import jobs
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.target import MAX_IMMEDIATE_SIZE
from kohort.coordinator.journal import Cause
from kohort.coordinator.offsets import offset_tombstone
from kohort.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    decode,
    encode,
)
from kohort.coordinator.shard import Shard
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.coordinator_common import partition_for
from kohort.protocol.batches import decode_records
from kohort.runtime import group_host
from kohort.runtime.clock import SystemClock
from kohort.runtime.group_log import append_records, read_records
from kohort.runtime.log_reading import read_batches
from kohort.types import TopicPartition
from runtime.fake_log import FakeLog
from runtime.served import RELOAD_AFTER_S, answer, serving
from runtime.virtual_time import virtual_time
from waiting import turns

T0 = ("t", 0)


def logged(log):
    """The records of each batch."""
    return [[decode(key, value) for key, value in batch] for batch in log.records()]


# --- answers and appends ---


@virtual_time
async def test_an_answer_waits_for_the_append():
    log = FakeLog()
    async with serving(log) as served:
        committing = served.commit("g", {T0: 7})
        assert committing.parked
        assert log.batches == []
        await turns()
        assert committing.response.results[0][1].name == "none"
        assert [record.value.offset for (record,) in logged(log)] == [7]


@virtual_time
async def test_all_requests_of_one_turn_share_one_append():
    log = FakeLog()
    async with serving(log) as served:
        calls = [served.commit(f"g{n}", {T0: n}) for n in range(5)]
        await turns()
        assert len(log.batches) == 1
        assert [record.value.offset for record in logged(log)[0]] == [0, 1, 2, 3, 4]
        assert not any(call.parked for call in calls)
        await answer(served.commit("g", {T0: 1}))
        assert len(log.batches) == 2


@virtual_time
async def test_an_answer_that_tells_of_what_is_not_logged_yet_waits_too():
    async with serving() as served:
        served.commit("g", {T0: 7})
        fetching = served.fetch("g", T0)
        beating = served.heartbeat("other", "m", 1)
        assert fetching.parked
        assert beating.parked
        await turns()
        assert fetching.response.offsets[0].offset == 7
        assert beating.error == "unknown_member_id"


@virtual_time
async def test_an_answer_with_nothing_to_log_is_given_at_once():
    async with serving() as served:
        assert served.heartbeat("g", "m", 1).error == "unknown_member_id"
        assert served.fetch("g", T0).response.offsets[0].offset == -1


@virtual_time
async def test_answers_leave_in_the_order_of_the_decisions():
    order = []
    async with serving() as served:
        for n in range(5):
            what = served.commit("g", {T0: n}) if n % 2 else served.fetch("g", T0)
            served.groups.submit(replace(what.request, on_response=lambda _, n=n: order.append(n)))
        await turns()
        assert order == [0, 1, 2, 3, 4]


@virtual_time
async def test_the_log_is_loaded_as_it_was_served():
    log = FakeLog()
    async with serving(log) as served:
        leader, follower = await served.settled(members=2)
        await answer(served.commit("g", {T0: 7}, member_id=leader, generation=1))
        state = served.groups.group("g").logged
    async with serving(log) as again:
        assert again.groups.group("g").logged == state
        assert again.heartbeat("g", follower, 1).error == "none"
        assert again.fetch("g", T0).response.offsets[0].offset == 7


# --- the group log ---


def records(group, count, size=10):
    value = OffsetCommitValue(1, -1, "x" * size, 2)
    return [OffsetCommitRecord(OffsetCommitKey(group, "t", p), value) for p in range(count)]


def test_decisions_are_split_over_batches_only_between_events():
    log = FakeLog()
    append_records(log, [records("a", 60, 4_000), records("b", 100, 4_000), records("c", 1)], 0)
    assert [{record.key.group for record in batch} for batch in logged(log)] == [{"a", "b"}, {"c"}]


def test_no_records_are_no_batch():
    log = FakeLog()
    append_records(log, [], 0)
    append_records(log, [()], 0)
    assert log.batches == []


def test_a_log_is_read_some_batches_at_a_time():
    log = FakeLog()
    for group in range(5):
        append_records(log, [records(str(group), 120, 4_000)], 0)
    parts = list(read_records(read_batches(log)))
    assert len(parts) > 1
    assert [record for part in parts for record in part] == [
        r for g in range(5) for r in records(str(g), 120, 4_000)
    ]


def test_an_empty_log_is_read_at_once():
    assert list(read_records(read_batches(FakeLog()))) == []


def test_batches_carry_the_time():
    log = FakeLog()
    append_records(log, [records("g", 1)], 123)
    assert [record.timestamp for record in decode_records(log.batches[0])] == [123]


# --- fsync ---


@virtual_time
async def test_under_fsync_an_answer_waits_for_the_disk():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        committing = served.commit("g", {T0: 7})
        await turns(5)
        assert len(log.batches) == 1
        assert committing.parked
        log.undurable.set_result(None)
        await turns(5)
        assert committing.response.results[0][1].name == "none"


@virtual_time
async def test_under_fsync_what_comes_meanwhile_shares_the_next_append():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        first_write, second_write = (asyncio.get_running_loop().create_future() for _ in range(2))
        log.undurable = first_write
        first = served.commit("g", {T0: 1})
        await turns()
        later = [served.commit("g", {T0: n}) for n in (2, 3)]
        fetching = served.fetch("g", T0)
        await turns(5)
        assert len(log.batches) == 1
        log.undurable = second_write
        first_write.set_result(None)
        await turns(5)
        assert not first.parked
        assert [len(batch) for batch in log.records()] == [1, 2]
        assert fetching.parked
        second_write.set_result(None)
        await turns(5)
        assert fetching.response.offsets[0].offset == 3
        assert not any(call.parked for call in later)


@virtual_time
async def test_appends_are_timed_until_the_disk_has_them(monkeypatch):
    log = FakeLog()
    monkeypatch.setattr(group_host, "perf_counter", asyncio.get_running_loop().time)
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        served.commit("g", {T0: 7})
        asyncio.get_running_loop().call_later(0.02, log.undurable.set_result, None)
        await asyncio.sleep(0.1)
        counts = dict(served.groups.appends.buckets())
        assert (counts["0.01"], counts["0.025"], counts["+Inf"]) == (0, 1, 1)


# --- closing ---


@virtual_time
async def test_closing_answers_not_coordinator_to_whoever_is_parked():
    async with serving() as served:
        leader, follower = await served.settled(members=2)
        joining = served.join("g", leader)
        await turns()
        await served.groups.close()
        assert joining.error == "not_coordinator"
        for call in (
            served.join(),
            served.sync("g", follower, 2),
            served.heartbeat("g", follower, 2),
            served.delete("g"),
        ):
            assert call.error == "not_coordinator"
        assert served.list_groups().error != "none"


@virtual_time
async def test_closing_logs_and_answers_what_is_decided():
    log = FakeLog()
    async with serving(log) as served:
        committing = served.commit("g", {T0: 7})
        await served.groups.close()
        assert committing.response.results[0][1].name == "none"
        assert len(log.batches) == 1


@virtual_time
async def test_closing_waits_for_the_disk():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        first = served.commit("g", {T0: 1})
        await turns()
        second = served.commit("g", {T0: 2})
        asyncio.get_running_loop().call_later(1, log.undurable.set_result, None)
        await served.groups.close()
        assert [call.response.results[0][1].name for call in (first, second)] == ["none", "none"]
        assert [record.value.offset for batch in logged(log) for record in batch] == [1, 2]


@virtual_time
async def test_closing_twice_is_closing_once():
    async with serving() as served:
        await served.groups.close()


# --- heartbeats ---


@virtual_time
async def test_a_bug_met_by_a_heartbeat_drops_the_shard_and_not_a_connection(monkeypatch):
    async with serving() as served:
        leader, follower = await served.settled(members=2)
        joining = served.join("g", leader)
        assert joining.parked
        with monkeypatch.context() as broken:
            broken.setattr(Shard, "heartbeat", lambda *_: 1 // 0)
            assert served.groups.heartbeat("g", 1, follower, None).name == "not_coordinator"
        assert joining.error == "not_coordinator"
        assert served.groups.heartbeat("g", 1, follower, None).name == "not_coordinator"
        await asyncio.sleep(RELOAD_AFTER_S + 0.1)
        assert served.groups.heartbeat("g", 1, follower, None).name == "none"


# --- timers ---


@virtual_time
async def test_a_session_ends_on_the_loops_time():
    async with serving() as served:
        (member_id,) = await served.settled(session_timeout_ms=6_000)
        await asyncio.sleep(5.9)
        assert member_id in served.groups.group("g").sessions
        await asyncio.sleep(0.2)
        assert member_id not in served.groups.group("g").sessions


@virtual_time
async def test_an_earlier_timer_is_not_late_because_a_later_one_was_set_first():
    async with serving() as served:
        await served.settled("late", session_timeout_ms=60_000)
        await served.settled("early", session_timeout_ms=6_000)
        await asyncio.sleep(6.1)
        assert str(served.groups.group("early").state) == "Empty"
        assert str(served.groups.group("late").state) == "Stable"


@virtual_time
async def test_a_heartbeat_keeps_the_session_on_the_loops_time():
    async with serving() as served:
        (member_id,) = await served.settled(session_timeout_ms=6_000)
        for _ in range(5):
            await asyncio.sleep(5)
            assert served.heartbeat("g", member_id, 1).error == "none"


@virtual_time
async def test_the_initial_delay_ends_on_the_loops_time():
    async with serving(config=GroupCoordinatorConfig(initial_rebalance_delay_ms=3_000)) as served:
        joining = served.join(version=3)
        await asyncio.sleep(2.9)
        assert joining.parked
        await asyncio.sleep(0.2)
        assert joining.response.generation == 1


@virtual_time
async def test_a_timer_in_one_shard_leaves_the_others_alone():
    logs = [FakeLog(n) for n in range(50)]
    async with serving(*logs) as served:
        (a,) = await served.settled("a", session_timeout_ms=6_000)
        (b,) = await served.settled("b", session_timeout_ms=60_000)
        assert partition_for("a", 50) != partition_for("b", 50)
        await asyncio.sleep(7)
        assert a not in served.groups.group("a").sessions
        assert b in served.groups.group("b").sessions


@virtual_time
async def test_expiry_is_checked_again_and_again():
    config = GroupCoordinatorConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=90_000)
    async with serving(config=config, expiration_interval_ms=60_000) as served:
        await answer(served.commit("g", {T0: 7}))
        await asyncio.sleep(61)
        assert served.fetch("g", T0).response.offsets[0].offset == 7
        await asyncio.sleep(60)
        assert served.groups.group("g") is None


def test_the_clock_of_deadlines_never_runs_backwards():
    clock = SystemClock()
    times = [clock.now() for _ in range(1_000)]
    assert times == sorted(times)


def test_the_wall_clock_is_read_each_time(monkeypatch):
    clock = SystemClock()
    began = clock.now()
    for ahead_s in (0, 7_200, -7_200):
        monkeypatch.setattr("time.time_ns", lambda at=ahead_s: (1_700_000_000 + at) * 10**9)
        assert clock.timestamp() == (1_700_000_000 + ahead_s) * 1_000
    assert clock.now() - began < 60_000


JUMPS_MS = [-10 * 365 * 86_400_000, -7_200_000, 7_200_000, 10 * 365 * 86_400_000]


@pytest.mark.parametrize("ahead_ms", JUMPS_MS)
@virtual_time
async def test_a_jump_of_the_wall_clock_moves_no_deadline(ahead_ms):
    async with serving() as served:
        (member_id,) = await served.settled(session_timeout_ms=6_000)
        served.clock.ahead_ms = ahead_ms
        await asyncio.sleep(5.5)
        assert served.heartbeat("g", member_id, 1).error == "none"
        await asyncio.sleep(5.5)
        assert member_id in served.groups.group("g").sessions
        await asyncio.sleep(1)
        assert member_id not in served.groups.group("g").sessions


@pytest.mark.parametrize("ahead_ms", JUMPS_MS)
@virtual_time
async def test_logged_records_are_dated_by_the_wall_clock(ahead_ms):
    async with serving() as served:
        await answer(served.commit("before", {T0: 1}))
        served.clock.ahead_ms = ahead_ms
        await answer(served.commit("after", {T0: 1}))
        dates = [
            served.groups.group(name).offsets[T0].commit_timestamp for name in ("before", "after")
        ]
        assert abs(dates[1] - dates[0] - ahead_ms) < 1_000
        await served.settled("journal")
        (entry,) = served.groups.journal("journal")
        assert abs(entry.started - dates[1]) < 10_000
        assert 0 <= entry.join_ms + entry.sync_ms < 10_000


# --- many shards ---


@virtual_time
async def test_a_group_lies_in_its_own_partition():
    logs = [FakeLog(n) for n in range(50)]
    async with serving(*logs) as served:
        for group in ("orders", "connect-cluster", "polygenelubricants"):
            await answer(served.commit(group, {T0: 1}))
        assert [n for n, log in enumerate(logs) if log.batches] == [0, 13, 31]


@virtual_time
async def test_groups_of_all_shards_are_listed():
    async with serving(*(FakeLog(n) for n in range(50))) as served:
        for n in range(20):
            served.commit(f"g{n}", {T0: 1})
        (member_id,) = await served.settled("live")
        names = {"live", *(f"g{n}" for n in range(20))}
        assert {group.group for group in served.list_groups().response.groups} == names
        assert [group.group for group in served.list_groups(states=["STABLE"]).response.groups] == [
            "live"
        ]
        assert {group.id for group in served.groups.groups()} == names
        assert member_id in served.groups.group("live").sessions
        assert served.groups.group("none") is None


@virtual_time
async def test_the_offsets_of_deleted_topics_go_in_every_shard():
    logs = [FakeLog(n) for n in range(50)]
    async with serving(*logs) as served:
        for group in ("a", "b"):
            await answer(served.commit(group, {T0: 1, ("u", 0): 2}))
        served.groups.topics_deleted(["t", "other"])
        await turns()
        for group in ("a", "b"):
            last = logged(logs[partition_for(group, 50)])[-1]
            assert last == [offset_tombstone(group, TopicPartition("t", 0))]


@virtual_time
async def test_offsets_of_a_deleted_topic_go_although_the_storage_failed_meanwhile():
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.commit("g", {T0: 1, ("u", 0): 2}))
        log.failure = OSError(28, "No space left on device")
        served.groups.topics_deleted(["t"])
        await turns()
        log.failure = None
        await asyncio.sleep(10)  # it is loaded again meanwhile
        assert logged(log)[-1] == [offset_tombstone("g", TopicPartition("t", 0))]
        served.groups.topics_deleted(["u"])
        await turns()
        assert logged(log)[-1] == [offset_tombstone("g", TopicPartition("u", 0))]


@virtual_time
async def test_a_closed_connection_is_told_to_every_shard():
    async with serving(*(FakeLog(n) for n in range(50))) as served:
        waiting = []
        for group in ("a", "b"):
            (member_id,) = await served.settled(group)
            await answer(served.join(group, connection=7))
            waiting.append(served.join(group, member_id))
        await turns(5)
        assert all(call.parked for call in waiting)
        served.groups.connection_closed(7)
        await turns(5)
        assert [call.response.generation for call in waiting] == [2, 2]


# --- what is told ---


@virtual_time
async def test_the_journal_of_a_group_is_kept_and_told():
    told = []
    async with serving() as served:
        served.groups.on_rebalance.append(told.append)
        (member_id,) = await served.settled(client_id="web", reason="start")
        (entry,) = served.groups.journal("g")
        assert (entry.generation, entry.outcome) == (1, "stable")
        assert entry.causes == (Cause("joined", member_id, "web", "start"),)
        assert told == [entry]
        await answer(served.leave("g", member_id))
        assert [entry.outcome for entry in served.groups.journal("g")] == ["stable", "empty"]
        assert served.groups.journal("other") == ()


@virtual_time
async def test_a_rebalance_is_told_once_it_is_logged():
    log = FakeLog()
    async with serving(log) as served:
        joining = served.join(version=3)
        await answer(joining)
        served.sync("g", joining.response.member_id, 1)
        assert served.groups.journal("g") == ()
        await turns()
        assert len(served.groups.journal("g")) == 1


@virtual_time
async def test_the_journal_keeps_the_latest_hundred_rebalances():
    async with serving() as served:
        for _ in range(60):
            (member_id,) = await served.settled()
            await answer(served.leave("g", member_id))
        kept = served.groups.journal("g")
        assert len(kept) == 100
        assert kept[-1].generation == served.groups.group("g").generation == 120


@virtual_time
async def test_statistics_count_over_all_shards():
    logs = [FakeLog(n) for n in range(50)]
    async with serving(*logs) as served:
        leader, _ = await served.settled("live", members=2)
        await answer(served.join("live"))
        served.join("live", leader)
        await answer(served.commit("simple", {T0: 1, ("t", 1): 2}))
        statistics = served.groups.statistics()
        assert statistics["groups"] == {
            ("classic", "PreparingRebalance"): 1,
            ("classic", "Empty"): 1,
        }
        assert statistics["shards"] == {"active": 50}
        counted = {name: statistics[name] for name in ("members", "pending", "parked", "offsets")}
        assert counted == {"members": 2, "pending": 1, "parked": 1, "offsets": 2}
        assert statistics["timers"] >= 4


def test_appended_records_have_kafkas_schema():
    log = FakeLog()
    (record,) = records("g", 1)
    append_records(log, [[record]], 0)
    assert log.records() == [[encode(record)]]


# --- work in the background ---


@virtual_time
async def test_a_target_that_cannot_be_computed_is_logged_once_and_tried_again(monkeypatch, caplog):
    def broken(*_, **__):
        raise ZeroDivisionError

    topics = FixedTopics([TopicImage("t", UUID(int=1), 2 * MAX_IMMEDIATE_SIZE)], 1)
    async with serving(topics=topics) as served:
        with monkeypatch.context() as patch:
            patch.setattr(jobs, "assign", broken)
            served.consumer_heartbeat("g", "A", 0, topics=["t"])
            errors = await beats(served, 5)
        assert errors == ["none", "unknown_server_error", "none", "unknown_server_error", "none"]
        assert [record.getMessage() for record in caplog.records if record.exc_info] == [
            "cannot compute a target assignment of group g"
        ]
        await beats(served, 2)
        assert served.groups.group("g").target_epoch == 2
        assert served.groups.group("g").target_error is None


async def beats(served, count):
    """The errors of heartbeats two seconds apart, while no target is computed."""
    errors = []
    for _ in range(count):
        errors.append((await answer(served.consumer_heartbeat("g", "A", 1))).error.name)
        while served.groups.group("g").assigning is not None:
            await turns()
        await asyncio.sleep(2)
    return errors
