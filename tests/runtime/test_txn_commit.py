"""Offsets of transactions in `__consumer_offsets`: batches of their producers, and markers."""

import asyncio

import pytest

from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator_common import partition_for
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.log.memory import memory_log
from kohort.protocol.batches import (
    CONTROL,
    TRANSACTIONAL,
    read_header,
    read_marker,
)
from kohort.runtime.group_log import read_records
from kohort.runtime.log_reading import read_batches
from kohort.testing.bench import Bench
from kohort.types import TopicPartition
from runtime.fake_log import FakeLog
from runtime.served import Served, answer, serving
from runtime.virtual_time import virtual_time
from waiting import turns

T0, T1 = ("t", 0), ("t", 1)
NOW = 1_700_000_000_000


def errors(call):
    return [error.name for _, error in call.response.results]


def marker(served, producer_id=1, *, producer_epoch=0, partition=0, commit=True):
    """The end of a transaction, as the transaction coordinator has it written."""
    return served.groups.complete_transaction(
        *(partition, producer_id, producer_epoch),
        commit=commit,
        coordinator_epoch=2,
        transaction_version=0,
    )


async def refusal(written):
    with pytest.raises(KafkaError) as caught:
        await written
    return caught.value.code.name


async def fetched(served, *partitions, stable=False):
    offsets = (await answer(served.fetch("g", *partitions, require_stable=stable))).offsets
    return [each.error.name if each.error else each.offset for each in offsets]


def kinds(log):
    """Attributes, producer, records of each batch."""
    headers = map(read_header, log.batches)
    return [
        (header.attributes, header.producer_id, header.base_sequence, header.record_count)
        for header in headers
    ]


def entries(log):
    return [entry for part in read_records(read_batches(log)) for entry in part]


def state(log):
    return Bench(log=entries(log)).shard.logged_state()


# --- batches and markers ---


@virtual_time
async def test_each_request_is_a_batch_of_its_producer():
    log = FakeLog()
    async with serving(log) as served:
        calls = [
            served.commit("g", {T0: 1}),
            served.txn_commit("g", {T0: 5, T1: 6, ("u", 0): 7}, producer_id=7),
            served.txn_commit("g", {T0: 8}, producer_id=7),
            served.commit("h", {T0: 2}),
        ]
        for call in calls:
            await answer(call)
    assert kinds(log) == [
        (0, -1, -1, 1),
        (TRANSACTIONAL, 7, -1, 3),
        (TRANSACTIONAL, 7, -1, 1),
        (0, -1, -1, 1),
    ]


@virtual_time
async def test_a_marker_makes_offsets_visible_and_is_logged():
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.txn_commit("g", {T0: 5}))
        assert await fetched(served, T0) == [-1]
        await marker(served)
        assert await fetched(served, T0, stable=True) == [5]
    assert kinds(log)[-1] == (TRANSACTIONAL | CONTROL, 1, -1, 1)
    assert read_marker(log.batches[-1]) == (True, 2)


@virtual_time
async def test_an_abort_marker_drops_them():
    async with serving() as served:
        await answer(served.commit("g", {T0: 1}))
        await answer(served.txn_commit("g", {T0: 5}))
        assert await fetched(served, T0, stable=True) == ["unstable_offset_commit"]
        await marker(served, commit=False)
        assert await fetched(served, T0, stable=True) == [1]


@virtual_time
async def test_requests_of_one_turn_are_logged_in_their_order():
    log = FakeLog()
    async with serving(log) as served:
        calls = [served.txn_commit("g", {T0: 5}), served.commit("g", {T0: 9})]
        ended = asyncio.ensure_future(marker(served))
        await ended
        assert [errors(call) for call in calls] == [["none"], ["none"]]
        assert await fetched(served, T0) == [9]
        live = served.groups.group("g").offsets
        assert state(log)["g"][1] == dict(live)


@virtual_time
async def test_the_marker_goes_to_the_partition_of_the_group():
    logs = [FakeLog(number) for number in range(3)]
    async with serving(*logs) as served:
        await answer(served.txn_commit("g", {T0: 5}))
        assert served.groups.partition_of("g").partition == partition_for("g", 3)
        await marker(served, partition=partition_for("g", 3))
        assert await fetched(served, T0) == [5]
        for number in (-1, 3):
            written = marker(served, partition=number)
            assert await refusal(written) == "unknown_topic_or_partition"


@virtual_time
async def test_a_shard_is_loaded_with_pending_offsets_and_what_their_markers_decided():
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.txn_commit("g", {T0: 5}, producer_id=1))
        with_metadata = OffsetToCommit("t", 1, 6, metadata="some")
        await answer(served.txn_commit("g", {T1: with_metadata}, producer_id=2))
        await answer(served.txn_commit("g", {("t", 2): 7}, producer_id=3))
        await marker(served, 2)
        await marker(served, 3, commit=False)
    async with serving(log) as again:
        partitions = T0, T1, ("t", 2)
        assert await fetched(again, *partitions, stable=True) == ["unstable_offset_commit", 6, -1]
        await marker(again, 1)
        assert await fetched(again, *partitions, stable=True) == [5, 6, -1]


@virtual_time
async def test_every_prefix_of_the_log_has_all_of_a_transaction_or_nothing():
    log = FakeLog()
    async with serving(log) as served:
        for number in range(3):
            await answer(served.txn_commit("g", {("t", number): 5, ("u", number): 6}))
        await marker(served)
    batches = log.batches
    for count in range(len(batches) + 1):
        cut = FakeLog()
        for batch in batches[:count]:
            cut.append(batch, NOW)
        offsets = state(cut)["g"][1] if count else {}
        assert len(offsets) == (6 if count == len(batches) else 0)


# --- verification ---


@virtual_time
async def test_the_guard_of_the_verification_goes_to_the_log():
    log = FakeLog()
    async with serving(log) as served:
        guard = served.groups.begin_verification("g", 7, 0)
        await answer(served.txn_commit("g", {T0: 5}, producer_id=7, verified=guard))
        assert log.verified == [guard]
        log.ongoing.add((7, 0))
        assert served.groups.begin_verification("g", 7, 0) is None
        assert served.groups.begin_verification("g", 7, 1) is not None


# --- errors ---


PRODUCER_REFUSED = ["invalid_producer_epoch", "invalid_txn_state"]


@pytest.mark.parametrize("code", PRODUCER_REFUSED)
@virtual_time
async def test_a_producer_that_the_log_refuses_leaves_the_shard_as_it_is(code):
    log = FakeLog()
    async with serving(log) as served:
        before = served.commit("g", {T0: 1})
        log.refused = KafkaError(ErrorCode[code])
        refused = served.txn_commit("g", {T0: 5})
        after = served.commit("g", {T1: 2})
        await answer(after)
        assert [errors(call) for call in (before, refused, after)] == [["none"], [code], ["none"]]
        assert await fetched(served, T0, T1, stable=True) == [1, 2]


@pytest.mark.parametrize("code", [*PRODUCER_REFUSED, "transaction_coordinator_fenced"])
@virtual_time
async def test_a_marker_that_the_log_refuses_ends_nothing(code):
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.txn_commit("g", {T0: 5}))
        log.refused = KafkaError(ErrorCode[code])
        assert await refusal(marker(served)) == code
        assert await fetched(served, T0, stable=True) == ["unstable_offset_commit"]


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (OSError(28, "No space left on device"), "not_coordinator"),
        (KafkaError(ErrorCode.not_enough_replicas), "coordinator_not_available"),
        (KafkaError(ErrorCode.record_list_too_large), "unknown_server_error"),
    ],
)
@virtual_time
async def test_a_failed_append_drops_the_shard_and_what_was_decided_before(failure, error):
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.txn_commit("g", {T0: 5}))
        log.refused = failure
        committing = served.commit("g", {T0: 9}), served.txn_commit("g", {T1: 6})
        ended = asyncio.ensure_future(marker(served))
        await turns()
        assert errors(committing[0]) == ["not_coordinator"]
        assert errors(committing[1]) == [error]
        assert await refusal(ended) == "not_leader_or_follower"
        log.refused = None
        await asyncio.sleep(6)
        assert await fetched(served, T0, T1, stable=True) == ["unstable_offset_commit", -1]
        await marker(served)
        assert (await fetched(served, T0))[0] in (5, 9)
        assert state(log)["g"][1] == dict(served.groups.group("g").offsets)


@virtual_time
async def test_a_marker_whose_append_failed_can_be_written_again():
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.txn_commit("g", {T0: 5}))
        log.failure = OSError("disk full")
        assert await refusal(marker(served)) == "not_leader_or_follower"
        log.failure = None
        assert await refusal(marker(served)) == "not_leader_or_follower"
        await asyncio.sleep(6)
        await marker(served)
        assert await fetched(served, T0, stable=True) == [5]


@virtual_time
async def test_a_shard_that_is_loading_refuses_both():
    served = Served([FakeLog()])
    commit = served.txn_commit("g", {T0: 5})
    assert errors(commit) == ["coordinator_load_in_progress"]
    assert await refusal(marker(served)) == "not_leader_or_follower"
    served.groups.start()
    await served.groups.loaded()
    await served.groups.close()
    assert errors(served.txn_commit("g", {T0: 5})) == ["not_coordinator"]
    assert await refusal(marker(served)) == "not_leader_or_follower"


# --- durability ---


@virtual_time
async def test_under_fsync_both_wait_for_the_disk():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        first = served.commit("g", {T0: 1})
        await turns()
        commit = served.txn_commit("g", {T0: 5})
        ended = asyncio.ensure_future(marker(served))
        await turns(4)
        assert len(log.batches) == 3
        assert first.parked
        assert commit.parked
        assert not ended.done()
        log.undurable.set_result(None)
        await ended
        assert errors(first) == errors(commit) == ["none"]


@virtual_time
async def test_a_marker_that_did_not_become_durable_is_to_be_written_again():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        ended = asyncio.ensure_future(marker(served))
        await turns()
        log.undurable.set_exception(OSError("I/O error"))
        assert await refusal(ended) == "not_leader_or_follower"


@virtual_time
async def test_closing_answers_what_is_in_the_log():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        commit = served.txn_commit("g", {T0: 5})
        await turns()
        another = served.txn_commit("g", {T0: 6})
        closing = asyncio.ensure_future(served.groups.close())
        await turns()
        log.undurable.set_result(None)
        await closing
        assert errors(commit) == errors(another) == ["none"]


@virtual_time
async def test_a_caller_that_is_cancelled_leaves_the_marker():
    async with serving() as served:
        await answer(served.txn_commit("g", {T0: 5}))
        ended = asyncio.ensure_future(marker(served))
        await asyncio.sleep(0)
        ended.cancel()
        await turns()
        assert await fetched(served, T0, stable=True) == [5]


# --- on a log that knows its producers ---


SMALL_SEGMENTS = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=300, min_cleanable_dirty_ratio=0.0
)


def real_log():
    return memory_log(TopicPartition("__consumer_offsets", 0), SMALL_SEGMENTS)


@virtual_time
async def test_an_older_epoch_is_refused_and_a_newer_one_accepted():
    log = real_log()
    async with serving(log) as served:
        await answer(served.txn_commit("g", {T0: 5}, producer_epoch=3))
        await marker(served, producer_epoch=4, commit=False)
        zombie = served.txn_commit("g", {T0: 6}, producer_epoch=3)
        assert [error.name for _, error in (await answer(zombie)).results] == [
            "invalid_producer_epoch"
        ]
        assert await refusal(marker(served, producer_epoch=3)) == "invalid_producer_epoch"
        assert log.last_stable_offset == log.end_offset
        await answer(served.txn_commit("g", {T0: 7}, producer_epoch=4))
        await marker(served, producer_epoch=4)
        assert await fetched(served, T0, stable=True) == [7]


@virtual_time
async def test_a_commit_whose_transaction_ended_since_it_was_verified_is_refused():
    log = real_log()
    async with serving(log) as served:
        guard = served.groups.begin_verification("g", 1, 0)
        await marker(served)
        late = served.txn_commit("g", {T0: 5}, verified=guard)
        assert [error.name for _, error in (await answer(late)).results] == ["invalid_txn_state"]
        assert log.last_stable_offset == log.end_offset


@virtual_time
async def test_an_open_transaction_is_known_to_the_log():
    async with serving(real_log()) as served:
        guard = served.groups.begin_verification("g", 1, 0)
        await answer(served.txn_commit("g", {T0: 5}, verified=guard))
        assert served.groups.begin_verification("g", 1, 0) is None
        assert served.groups.begin_verification("g", 1, 1) is not None
        await marker(served)
        assert served.groups.begin_verification("g", 1, 0) is not None


@virtual_time
async def test_compaction_keeps_what_transactions_committed_and_what_they_left():
    log = real_log()
    async with serving(log) as served:
        for round_ in range(10):
            producer = 1 + round_ % 3
            await answer(served.commit("g", {T0: round_, ("plain", 0): round_}))
            await answer(served.txn_commit("g", {T0: 100 + round_, T1: 200 + round_}))
            other = {T1: 300 + round_, ("u", round_ % 4): round_}
            await answer(served.txn_commit("g", other, producer_id=1 + producer))
            await marker(served, 1, commit=bool(round_ % 2))
            await marker(served, 1 + producer, commit=bool(round_ % 3))
        await answer(served.txn_commit("g", {T0: 999, ("open", 0): 999}, producer_id=9))
        await answer(served.commit("g", {T1: 1_000}))
        live = state(log)
        group = served.groups.group("g")
        assert live["g"][1:] == (dict(group.offsets), group.offsets.pending.state())
        size = log.size
        while await log.compact(NOW):
            pass
        assert log.size < size
        assert state(log) == live
    async with serving(log) as again:
        await marker(again, 9)
        assert await fetched(again, T0, T1, ("open", 0), stable=True) == [999, 1_000, 999]
