"""What a shard is after its log was replayed, what it answers while it loads, and what a failed
append does.
"""

import asyncio
from dataclasses import replace

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from kohort.coordinator.result import SessionExpires
from kohort.errors import ErrorCode, KafkaError
from kohort.log.remote_log import RemoteLog
from kohort.protocol.batches import CONTROL, Record, build, pack
from kohort.runtime.group_log import append_records, read_records
from kohort.runtime.log_reading import read_batches
from kohort.testing.bench import Bench
from runtime.fake_log import FakeLog
from runtime.served import Served, answer, serving
from runtime.virtual_time import virtual_time
from waiting import turns

T0 = ("t", 0)
NOW = 1_700_000_000_000


def group_record(group="g", members=1, generation=3):
    """A synced generation, as it is logged."""
    ids = [f"m{n}" for n in range(members)]
    synced = tuple(
        MemberMetadata(
            member_id, None, "client", "/127.0.0.1", 60_000, 10_000, b"s", member_id.encode()
        )
        for member_id in ids
    )
    return GroupMetadataRecord(
        GroupMetadataKey(group),
        GroupMetadataValue("consumer", generation, "range", ids[0], NOW, synced),
    )


def log_of(*records):
    log = FakeLog()
    append_records(log, [records], NOW)
    return log


# --- what is left of a group ---


def test_a_group_with_members_is_stable_in_its_generation_with_every_session_restarted():
    bench = Bench(log=[group_record(members=2)])
    assert bench.state() is State.STABLE
    assert {key: bench.timer(key) for key in bench.timers} == {
        SessionExpires("g", "m0"): 10_000,
        SessionExpires("g", "m1"): 10_000,
    }
    assert bench.heartbeat("g", "m0", 3).error == "none"
    assert bench.sync("g", "m1", 3).response.assignment == b"m1"


def test_a_group_without_members_has_no_timer():
    empty = GroupMetadataValue("consumer", 4, None, None, NOW, ())
    bench = Bench(log=[group_record(members=2), GroupMetadataRecord(GroupMetadataKey("g"), empty)])
    assert bench.state() is State.EMPTY
    assert list(bench.timers) == []


def test_a_generation_that_was_handed_out_and_never_synced_is_lost(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    bench.join("g", follower)
    bench.restart()
    assert bench.heartbeat("g", leader, 2).error == "illegal_generation"
    assert bench.sync("g", leader, 2).error == "illegal_generation"
    bench.join("g", leader)
    assert bench.join("g", follower, protocols={"range": b"new"}).response.generation == 2


def test_a_round_that_was_under_way_is_forgotten_with_its_newcomers_and_pending_ids(bench):
    leader, _ = bench.stable(members=2)
    pending = bench.join().response.member_id
    newcomer = bench.handshake().request.member_id
    bench.join("g", leader)
    bench.restart()
    assert bench.state() is State.STABLE
    assert bench.join("g", pending).error == "unknown_member_id"
    assert bench.join("g", newcomer).error == "unknown_member_id"
    assert bench.heartbeat("g", leader, 1).error == "none"


def test_a_missing_sync_is_forgotten(bench):
    joins = [
        bench.handshake(rebalance_timeout_ms=5_000, session_timeout_ms=60_000) for _ in range(2)
    ]
    bench.advance(0)
    bench.sync("g", joins[0].response.leader, 1)
    bench.restart()
    bench.advance(5_000)
    assert bench.state() is State.STABLE


def test_a_group_over_capacity_is_rebalanced():
    bench = Bench(
        GroupCoordinatorConfig(initial_rebalance_delay_ms=0, max_size=2),
        log=[group_record(members=3)],
    )
    assert bench.state() is State.PREPARING_REBALANCE
    assert bench.heartbeat("g", "m0", 3).error == "rebalance_in_progress"
    joins = [bench.join("g", f"m{n}") for n in range(2)]
    assert bench.join("g", "m2").error == "group_max_size_reached"
    assert [call.response.generation for call in joins] == [4, 4]


def test_a_tombstone_unmakes_what_was_logged_before(bench):
    (member_id,) = bench.stable()
    bench.commit("g", {T0: 1}, member_id=member_id, generation=1)
    bench.leave("g", member_id)
    bench.delete("g")
    bench.restart()
    assert bench.state() is State.DEAD


def test_tombstones_of_what_never_was_change_nothing():
    tombstone = GroupMetadataRecord(GroupMetadataKey("g"), None)
    assert Bench(log=[tombstone, tombstone]).state() is State.DEAD


def test_static_members_keep_their_instance(bench):
    bench.join(instance_id="i")
    bench.advance(0)
    bench.sync("g", "i-0001", 1)
    bench.restart()
    assert bench.heartbeat("g", "other", 1, instance_id="i").error == "fenced_instance_id"
    assert bench.join(instance_id="i").response.skip_assignment


def test_an_unchanged_follower_goes_on_without_a_rebalance(bench):
    _, follower = bench.stable(members=2)
    bench.restart()
    assert bench.join("g", follower).response.generation == 1


# --- while it loads ---


def large_log(partition=0):
    """40 groups in 4 MB, which take several turns to load."""
    log = FakeLog(partition)
    for n in range(40):
        value = group_record(str(n)).value
        large = value._replace(members=(value.members[0]._replace(assignment=bytes(100_000)),))
        append_records(log, [[GroupMetadataRecord(GroupMetadataKey(str(n)), large)]], NOW)
    return log


# OffsetFetch is answered 16 instead of 15, which old consumers do not retry (§1.7).
UNAVAILABLE = {
    "join": "not_coordinator",
    "sync": "not_coordinator",
    "heartbeat": "not_coordinator",
    "leave": "not_coordinator",
    "commit": "not_coordinator",
    "fetch": "not_coordinator",
    "describe": "not_coordinator",
    "delete": "not_coordinator",
    "delete offsets": "not_coordinator",
}


def every_request(served):
    """One call of every kind, with its error."""
    commit = served.commit("g", {T0: 1})
    return {
        "join": served.join().error,
        "sync": served.sync("g", "m0", 3).error,
        "heartbeat": served.heartbeat("g", "m0", 3).error,
        "leave": served.leave("g", "m0").error,
        "commit": commit.response.results[0][1].name,
        "fetch": served.fetch("g", T0).error,
        "describe": served.describe("g").error,
        "delete": served.delete("g").error,
        "delete offsets": served.delete_offsets("g", T0).error,
    }


@virtual_time
async def test_while_it_loads_everything_is_14_but_heartbeats_are_fine():
    served = Served([log_of(group_record())])
    served.groups.start()
    assert every_request(served) == {
        **dict.fromkeys(UNAVAILABLE, "coordinator_load_in_progress"),
        "heartbeat": "none",
    }
    assert served.list_groups().error == "coordinator_load_in_progress"
    assert not served.groups.is_loaded
    await served.groups.loaded()
    assert served.groups.is_loaded
    assert served.heartbeat("g", "whoever", 99).error == "unknown_member_id"
    assert served.heartbeat("g", "m0", 3).error == "none"
    assert served.list_groups().error == "none"
    await served.groups.close()


@virtual_time
async def test_loading_gives_way_to_others():
    served = Served([large_log()])
    served.groups.start()
    seen = []
    for _ in range(40):
        await asyncio.sleep(0)
        seen.append(len(list(served.groups.groups())))
    assert seen[-1] == 40
    assert len({count for count in seen if 0 < count < 40}) >= 2
    await served.groups.close()


@virtual_time
async def test_a_connection_that_closes_during_loading_does_no_harm():
    served = Served([log_of(group_record())])
    served.groups.start()
    served.groups.connection_closed(1)
    await served.groups.loaded()
    assert served.heartbeat("g", "m0", 3).error == "none"
    await served.groups.close()


@virtual_time
async def test_the_offsets_of_a_topic_that_is_deleted_during_loading_go_too():
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.commit("g", {T0: 7, ("u", 0): 8}))
    served = Served([log])
    served.groups.start()
    served.groups.topics_deleted(["t"])
    await served.groups.loaded()
    assert [
        offset.topic for offset in (await answer(served.fetch("g", everything=True))).offsets
    ] == ["u"]
    assert (await answer(served.commit("g", {T0: 9}))).results[0][1].name == "none"
    await served.groups.close()
    async with serving(log) as again:
        assert again.fetch("g", T0).response.offsets[0].offset == 9


@virtual_time
async def test_a_shard_that_cannot_be_loaded_keeps_no_other_from_loading(monkeypatch):
    logs = [FakeLog(n) for n in range(50)]
    monkeypatch.setattr(logs[0], "read", lambda *_, **__: 1 / 0)  # what no code of ours does
    logs[0].end_offset = 1
    async with serving(*logs) as served:
        assert served.groups.statistics()["shards"] == {"failed": 1, "active": 49}


@virtual_time
async def test_the_smallest_shards_are_loaded_first_and_serve_while_others_load():
    served = Served([FakeLog(0), large_log(1), *(FakeLog(n) for n in range(2, 50))])
    served.groups.start()
    await turns()
    assert served.groups.statistics()["shards"] == {"active": 49, "loading": 1}
    assert served.heartbeat("polygenelubricants", "m", 1).error == "unknown_member_id"
    assert served.list_groups().error == "coordinator_load_in_progress"
    await served.groups.loaded()
    await served.groups.close()


@virtual_time
async def test_markers_and_records_of_other_protocols_are_passed_over():
    log = log_of(group_record())
    marker = Record(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", (), NOW, 0)
    log.append(build([marker], attributes=CONTROL), NOW)
    log.append(pack([(b"\x00\x0a\x00\x01g", b"\x00\x00\x00\x00\x00\x02\x00")], NOW), NOW)
    async with serving(log) as served:
        assert served.heartbeat("g", "m0", 3).error == "none"


# --- a log that cannot be loaded ---


BAD = {
    "no key": [(None, b"value")],
    "a value of the future": [(b"\x00\x02\x00\x01g", b"\x00\x09")],
    "half a key": [(b"\x00", None)],
}


@pytest.mark.parametrize("pairs", BAD.values(), ids=BAD)
@virtual_time
async def test_a_log_with_a_corrupt_record_is_not_served_in_part(pairs):
    log = log_of(group_record("before"))
    log.append(pack(pairs, NOW), NOW)
    append_records(log, [[group_record("after")]], NOW)
    async with serving(log) as served:
        assert every_request(served) == UNAVAILABLE
        assert served.groups.statistics()["shards"] == {"failed": 1}


@virtual_time
async def test_a_log_that_cannot_be_read_is_tried_again():
    log = log_of(group_record())
    broken = log.batches
    log.batches = [broken[0][:16] + b"\x01" + broken[0][17:]]  # no batch of this format
    async with serving(log) as served:
        assert served.heartbeat("g", "m0", 3).error == "not_coordinator"
        await asyncio.sleep(12)
        assert served.groups.statistics()["shards"] == {"failed": 1}
        log.batches = broken
        await asyncio.sleep(5)
        assert served.heartbeat("g", "m0", 3).error == "none"


# --- a failed append ---


FAILURES = [OSError("disk full"), KafkaError(ErrorCode.kafka_storage_error), ValueError("a bug")]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@virtual_time
async def test_a_failed_append_answers_15_to_everyone_and_serves_what_was_logged(failure):
    log = FakeLog()
    async with serving(log) as served:
        leader, follower = await served.settled(members=2)
        await answer(served.commit("g", {T0: 7}, member_id=leader, generation=1))
        logged = len(log.batches)
        parked = served.join("g", leader)
        log.failure = failure
        failing = [
            served.commit("g", {T0: 8}, member_id=follower, generation=1),
            served.commit("h", {T0: 9}),
        ]
        waiting = served.fetch("g", T0)
        await turns()
        assert [call.response.results[0][1].name for call in failing] == ["not_coordinator"] * 2
        assert [parked.error, waiting.error] == ["not_coordinator", "not_coordinator"]
        assert every_request(served) == UNAVAILABLE
        log.failure = None
        await asyncio.sleep(6)
        assert served.fetch("g", T0).response.offsets[0].offset == 7
        assert served.fetch("h", T0).response.offsets[0].offset == -1
        assert len(log.batches) == logged
        assert served.heartbeat("g", follower, 1).error == "none"
        assert str(served.groups.group("g").state) == "Stable"


@virtual_time
async def test_a_sync_that_could_not_be_logged_leaves_the_generation_before():
    log = FakeLog()
    async with serving(log) as served:
        leader, follower = await served.settled(members=2)
        joins = [served.join("g", leader), served.join("g", follower)]
        await answer(joins[0])
        log.failure = OSError("disk full")
        syncs = [served.sync("g", follower, 2), served.sync("g", leader, 2, {leader: b"all"})]
        await turns()
        assert [call.error for call in syncs] == ["not_coordinator"] * 2
        log.failure = None
        await asyncio.sleep(6)
        assert served.heartbeat("g", leader, 2).error == "illegal_generation"
        assert served.sync("g", leader, 1).response.assignment == leader.encode()
        assert [entry.generation for entry in served.groups.journal("g")] == [1]


@virtual_time
async def test_a_static_restart_that_could_not_be_logged_is_undone():
    """§1.2: on write failure the change is rolled back."""
    log = FakeLog()
    async with serving(log) as served:
        joining = served.join(instance_id="i")
        old = (await answer(joining)).member_id
        await answer(served.sync("g", old, 1))
        log.failure = OSError("disk full")
        again = served.join(instance_id="i")
        await turns()
        assert again.error == "not_coordinator"
        log.failure = None
        await asyncio.sleep(6)
        assert served.heartbeat("g", old, 1, instance_id="i").error == "none"


@virtual_time
async def test_a_failed_fsync_is_a_failed_append():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        committing = served.commit("g", {T0: 7})
        await turns()
        later = served.commit("g", {T0: 8})
        log.undurable.set_exception(OSError("lost the disk"))
        await turns(4)
        assert [call.response.results[0][1].name for call in (committing, later)] == [
            "not_coordinator"
        ] * 2
        log.undurable = None
        await asyncio.sleep(6)
        # it was in the log, so it may be served
        assert served.fetch("g", T0).response.offsets[0].offset == 7


@virtual_time
async def test_one_shards_failure_is_no_others():
    logs = [FakeLog(n) for n in range(50)]
    async with serving(*logs) as served:
        for log in logs[1:]:
            log.failure = OSError("disk full")
        fine, failing = (
            served.commit("polygenelubricants", {T0: 1}),
            served.commit("orders", {T0: 1}),
        )
        await turns()
        assert fine.response.results[0][1].name == "none"
        assert failing.response.results[0][1].name == "not_coordinator"
        assert served.groups.statistics()["shards"] == {"active": 49, "failed": 1}
        assert served.list_groups().error == "coordinator_load_in_progress"


@virtual_time
async def test_closing_a_failed_shard_is_closing():
    log = FakeLog()
    async with serving(log) as served:
        log.failure = OSError("disk full")
        committing = served.commit("g", {T0: 1})
        await turns()
        await served.groups.close()
        assert committing.response.results[0][1].name == "not_coordinator"
        await asyncio.sleep(20)
        assert served.groups.statistics()["shards"] == {"closed": 1}


@virtual_time
async def test_a_failure_while_closing_is_answered_15():
    log = FakeLog()
    async with serving(log) as served:
        committing = served.commit("g", {T0: 1})
        log.failure = OSError("disk full")
        await served.groups.close()
        assert committing.response.results[0][1].name == "not_coordinator"


@virtual_time
async def test_timers_of_a_dropped_shard_never_reach_its_successor():
    """The join phase that was under way would end at 60 s; another one runs by then, of 300 s."""
    log = FakeLog()
    async with serving(log) as served:
        slow = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 60_000}
        leader, follower = await served.settled(members=2, **slow)
        parked = served.join("g", leader, **slow)
        log.failure = OSError("disk full")
        served.commit("g", {T0: 1}, member_id=follower, generation=1)
        await turns()
        assert parked.error == "not_coordinator"
        log.failure = None
        await asyncio.sleep(10)
        slower = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 300_000}
        joining = served.join("g", leader, **slower)
        await asyncio.sleep(100)
        assert joining.parked
        await asyncio.sleep(200.1)  # timers give way to requests for a moment
        assert joining.response.generation == 2


@virtual_time
async def test_sessions_start_anew_with_the_successor():
    log = FakeLog()
    async with serving(log) as served:
        (member_id,) = await served.settled(session_timeout_ms=10_000)
        await asyncio.sleep(5)
        log.failure = OSError("disk full")
        served.commit("h", {T0: 1})
        await turns()
        log.failure = None
        await asyncio.sleep(14)
        assert served.heartbeat("g", member_id, 1).error == "none"
        await asyncio.sleep(11)
        assert served.heartbeat("g", member_id, 1).error == "unknown_member_id"


@virtual_time
async def test_a_decision_that_raises_drops_the_shard_and_answers_everyone(monkeypatch):
    log = FakeLog()
    async with serving(log) as served:
        (member_id,) = await served.settled()
        # what no code of ours does
        served.groups.group("g").sessions[member_id].session_timeout_ms = None
        beating = served.heartbeat("g", member_id, 1)
        assert beating.error == "not_coordinator"
        await asyncio.sleep(6)
        assert served.heartbeat("g", member_id, 1).error == "none"


@virtual_time
async def test_a_shard_that_was_dropped_while_it_waited_for_the_disk_is_loaded_once(monkeypatch):
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        (member_id,) = await served.settled()
        log.undurable = asyncio.get_running_loop().create_future()
        committing = served.commit("h", {T0: 7})
        await turns()
        served.groups.group("g").sessions[member_id].session_timeout_ms = None
        assert served.heartbeat("g", member_id, 1).error == "not_coordinator"
        reads = []
        monkeypatch.setattr(
            log,
            "read",
            lambda *args, **options: reads.append(args) or FakeLog.read(log, *args, **options),
        )
        log.undurable.set_exception(OSError("lost the disk"))
        await turns(4)
        log.undurable = None
        await asyncio.sleep(11)
        assert served.heartbeat("g", member_id, 1).error == "none"
        assert len(committing.responses) == 1
        assert len(reads) == 1


@pytest.mark.parametrize("waits_for_disk", [False, True])
@virtual_time
async def test_an_answer_whose_taker_fails_the_shard_is_followed_by_no_other(waits_for_disk):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    async with serving(waits_for_disk=waits_for_disk) as served:
        (member_id,) = await served.settled()

        def send_the_next(_):
            served.groups.group("g").sessions[member_id].session_timeout_ms = None
            served.heartbeat("g", member_id, 1)

        first = served.commit("h", {T0: 7})
        served.groups.submit(replace(first.request, on_response=send_the_next))
        last = served.commit("h", {T0: 8})
        await turns(6)
        assert [len(call.responses) for call in (first, last)] == [1, 1]
        assert last.response.results[0][1].name == "not_coordinator"
    assert reported == []


@virtual_time
async def test_a_request_is_answered_once_however_it_ends():
    log = FakeLog()
    async with serving(log) as served:
        leader, follower = await served.settled(members=2)
        calls = [served.join("g", leader)]
        log.failure = OSError("disk full")
        calls += [served.commit("g", {T0: n}, member_id=follower, generation=1) for n in range(3)]
        calls.append(served.fetch("g", T0))
        await turns()
        log.failure = None
        await asyncio.sleep(6)
        calls.append(served.join("g", leader))
        calls.append(served.commit("g", {T0: 4}, member_id=follower, generation=1))
        await served.groups.close()
        assert [len(call.responses) for call in calls] == [1] * len(calls)


def test_the_bytes_of_a_log_make_the_state_that_its_records_made(bench):
    leader, follower = bench.stable(members=2)
    bench.commit("g", {T0: 7, ("t", 1): 8}, member_id=leader, generation=1)
    bench.delete_offsets("g", ("t", 1))
    bench.leave("g", follower)
    bench.commit("h", {T0: 1})
    bench.delete("h")
    loaded = Bench(
        log=[record for part in read_records(read_batches(log_of(*bench.log))) for record in part]
    )
    assert loaded.shard.logged_state() == bench.shard.logged_state()


@pytest.mark.parametrize(
    ("failure", "refused"),
    [
        (OSError(28, "No space left on device"), "not_coordinator"),
        (KafkaError(ErrorCode.kafka_storage_error), "not_coordinator"),
        (KafkaError(ErrorCode.not_leader_or_follower), "not_coordinator"),
        (KafkaError(ErrorCode.not_enough_replicas), "coordinator_not_available"),
        (KafkaError(ErrorCode.unknown_topic_or_partition), "coordinator_not_available"),
        (KafkaError(ErrorCode.record_list_too_large), "unknown_server_error"),
        (KafkaError(ErrorCode.message_too_large), "unknown_server_error"),
    ],
)
@virtual_time
async def test_a_failed_append_is_told_as_kafka_tells_it(failure, refused):
    """CoordinatorOperationExceptionHelper; who waits for another request is told to look again."""
    log = FakeLog()
    async with serving(log) as served:
        leader, _ = await served.settled(members=2)
        parked = served.join("g", leader)
        await turns()
        log.failure = failure
        committing = served.commit("h", {T0: 7})
        await turns()
        assert committing.response.results[0][1].name == refused
        assert parked.error == "not_coordinator"


@virtual_time
async def test_a_log_that_gives_nothing_below_its_end_fails_its_shard(monkeypatch, caplog):
    log = FakeLog()
    log.end_offset = 5
    async with serving(log) as served:
        await turns(4)
        assert served.heartbeat("g", "m", 1).error == "not_coordinator"
    assert "holds nothing from offset 0 on" in caplog.text


# --- a partition that moves ---


def elsewhere(log):
    return RemoteLog(log.topic_partition, log.config)


@virtual_time
async def test_a_shard_that_moves_away_ends_what_waits_and_refuses_the_rest():
    async with serving() as served:
        member_id, _ = await served.settled(members=2)
        joining = served.join("g", member_id)
        assert joining.parked
        served.groups.log_reopened(elsewhere(served.logs[0]))
        await turns()
        for call in (joining, served.join("g")):
            assert call.response.error is ErrorCode.not_coordinator
        assert served.groups.heartbeat("g", 1, member_id, None) is ErrorCode.not_coordinator
        assert served.groups.statistics()["shards"] == {"elsewhere": 1}
        assert served.groups.is_loaded
        assert not list(served.groups.groups())


@virtual_time
async def test_a_shard_that_comes_back_is_loaded_from_its_log():
    async with serving() as served:
        (member_id,) = await served.settled()
        log = served.logs[0]
        served.groups.log_reopened(elsewhere(log))
        served.groups.log_reopened(log)
        assert served.groups.statistics()["shards"] == {"loading": 1}
        await turns(4)
        assert served.groups.heartbeat("g", 1, member_id, None) is ErrorCode.none


@virtual_time
async def test_a_shard_that_moves_away_while_it_loads_does_not_serve():
    log = log_of(group_record())
    served = Served((log,))
    served.groups.start()
    await asyncio.sleep(0)
    served.groups.log_reopened(elsewhere(log))
    await turns(5)
    assert served.groups.statistics()["shards"] == {"elsewhere": 1}
    assert served.groups.heartbeat("g", 3, "m0", None) is ErrorCode.not_coordinator
    await served.groups.close()


@virtual_time
async def test_a_shard_that_is_elsewhere_from_the_start_needs_no_loading():
    log = log_of(group_record())
    async with serving(elsewhere(log)) as served:
        assert served.groups.is_loaded
        assert served.groups.heartbeat("g", 3, "m0", None) is ErrorCode.not_coordinator


@virtual_time
async def test_offsets_of_topics_that_were_deleted_while_a_shard_was_elsewhere_stay():
    """Its leader has deleted those that had to go. These are of a new topic of that name."""
    log = FakeLog()
    async with serving(log) as leader, serving(elsewhere(log)) as served:
        served.groups.topics_deleted(["t"])
        await answer(leader.commit("g", {T0: 7}))
        served.groups.log_reopened(log)
        await turns(4)
        assert served.groups.group("g").offsets[T0].offset == 7
