"""Commits in columns: decided as any other, answered once logged, refused when the shard fails or
is not there.
"""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.committed import CommittedOffsets
from kohort.coordinator.records import (
    OffsetCommits,
    OffsetCommitValue,
    decode,
    encode,
    pack_offset,
    pack_offsets,
)
from kohort.coordinator.requests import Committer
from kohort.testing.bench import Bench
from kohort.types import TopicPartition
from runtime.fake_log import FakeLog
from runtime.served import answer, serving
from runtime.virtual_time import virtual_time
from waiting import turns

T0 = ("t", 0)
TOPIC_ID = bytes(range(16))
int64s, int32s = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)


def position(offset, leader_epoch=-1):
    return offset.to_bytes(8, "big", signed=True) + leader_epoch.to_bytes(4, "big", signed=True)


def columns(*offsets, topic="t"):
    """Offsets for the first partitions of a topic."""
    return [(topic, TOPIC_ID, tuple(range(len(offsets))), tuple(map(position, offsets)))]


def commit(served, *offsets, group="g", generation=-1, member_id="", version=9):
    """The list that the answer is put into."""
    answers = []
    served.groups.commit(
        answers.append, Committer(group, generation, member_id, None), version, columns(*offsets)
    )
    return answers


# --- values ---


@given(st.lists(st.tuples(int64s, int32s), min_size=1, max_size=5), int64s, st.uuids())
def test_values_packed_together_are_those_packed_one_by_one(offsets, now, topic_id):
    values = [
        OffsetCommitValue(offset, epoch, "", now, topic_id=topic_id) for offset, epoch in offsets
    ]
    assert list(pack_offsets([position(*each) for each in offsets], now, topic_id.bytes)) == [
        pack_offset(*value) for value in values
    ]


def test_columns_are_read_as_rows():
    commits = OffsetCommits(
        "g", "t", (4, 5), pack_offsets([position(1, 2), position(3)], 6, TOPIC_ID)
    )
    rows = commits.rows()
    assert [(row.key, row.value.offset, row.value.leader_epoch) for row in rows] == [
        (("g", "t", 4), 1, 2),
        (("g", "t", 5), 3, -1),
    ]
    assert [decode(*encode(row)) for row in rows] == rows


# --- the mapping ---


def test_committed_offsets_are_a_mapping():
    offsets = CommittedOffsets()
    assert not offsets
    value = OffsetCommitValue(7, 3, "note", 5)
    offsets.store("t", (0, 1), (pack_offset(*value), pack_offset(*value._replace(offset=8))))
    offsets.store("u", (1,), (pack_offset(*value),))
    assert offsets
    assert dict(offsets) == {("t", 0): value, ("t", 1): value._replace(offset=8), ("u", 1): value}
    assert (
        len(offsets),
        offsets.get(TopicPartition("t", 2)),
        offsets.get(TopicPartition("v", 0)),
    ) == (3, None, None)
    assert TopicPartition("t", 1) in offsets
    assert TopicPartition("v", 1) not in offsets
    with pytest.raises(KeyError):
        offsets[TopicPartition("v", 1)]
    for topic, partition in (("t", 0), ("t", 1), ("t", 1), ("v", 0), ("u", 1)):
        offsets.discard(topic, partition)
    assert not offsets


# --- what is decided ---


def test_a_member_that_commits_is_heard_of():
    bench = Bench()
    (member,) = bench.stable(session_timeout_ms=10_000)
    bench.advance(6_000)
    decided = bench.shard.commit(
        Committer("g", 1, member, None), 9, columns(7), bench.now, bench.timestamp
    )
    assert [row.value.offset for commits in decided for row in commits.rows()] == [7]
    bench.advance(6_000)
    assert member in bench.group().sessions


@pytest.mark.parametrize(
    ("committer", "version", "error"),
    [
        (Committer("g", 1, "nobody", None), 9, "unknown_member_id"),
        (Committer("g", -1, "", None), 9, "unknown_member_id"),
        (Committer("other", 3, "m", None), 9, "group_id_not_found"),
        (Committer("other", 3, "m", None), 8, "illegal_generation"),
    ],
)
def test_a_commit_that_is_refused_is_one_error(committer, version, error):
    bench = Bench()
    bench.stable()
    assert (
        bench.shard.commit(committer, version, columns(7), bench.now, bench.timestamp).name == error
    )
    assert "other" not in bench.shard.groups


# --- answers and appends ---


@virtual_time
async def test_an_answer_waits_for_the_append():
    log = FakeLog()
    async with serving(log) as served:
        answers = commit(served, 7, 8)
        assert (answers, log.batches) == ([], [])
        await turns()
        assert [error.name for error in answers] == ["none"]
        assert [decode(*pair).value.offset for pair in log.records()[0]] == [7, 8]
    async with serving(log) as again:
        assert [o.offset for o in again.fetch("g", T0, ("t", 1)).response.offsets] == [7, 8]


@virtual_time
async def test_all_shards_append_at_the_end_of_the_turn():
    logs = [FakeLog(number) for number in range(3)]
    async with serving(*logs) as served:
        answers = [commit(served, n, group=f"g{n}") for n in range(9)]
        assert not any(answers)
        await turns()
        assert [error.name for (error,) in answers] == ["none"] * 9
        assert [len(log.batches) for log in logs] == [1, 1, 1]


@virtual_time
async def test_answers_leave_in_the_order_of_the_decisions():
    async with serving() as served:
        order = []
        groups = served.groups
        groups.commit(
            lambda error: order.append(error.name), Committer("g", -1, "", None), 9, columns(7)
        )
        groups.commit(
            lambda error: order.append(error.name), Committer("h", 1, "m", None), 9, columns(7)
        )
        served.fetch("g", T0)
        assert order == []
        await turns()
        assert order == ["none", "group_id_not_found"]


@virtual_time
async def test_a_refusal_with_nothing_to_log_before_it_is_given_at_once():
    async with serving() as served:
        assert [error.name for error in commit(served, 7, generation=1)] == ["group_id_not_found"]


@virtual_time
async def test_under_fsync_an_answer_waits_for_the_disk():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        first = commit(served, 7)
        await turns(5)
        second = commit(served, 8)
        assert (len(log.batches), first, second) == (1, [], [])
        log.undurable.set_result(None)
        await turns(5)
        assert [error.name for error in first + second] == ["none", "none"]


# --- failures ---


@virtual_time
async def test_under_fsync_requests_that_a_response_brings_are_answered():
    async with serving(waits_for_disk=True) as served:
        later = []
        served.groups.commit(
            lambda _: later.extend(commit(served, n) for n in (2, 3)),
            Committer("g", -1, "", None),
            9,
            columns(1),
        )
        await turns(9)
        assert [[error.name for error in answers] for answers in later] == [["none"], ["none"]]


@virtual_time
async def test_a_failed_append_is_answered_and_forgotten():
    log = FakeLog()
    async with serving(log) as served:
        await answer(served.commit("g", {T0: 1}))
        log.failure = OSError("disk full")
        committed, refused = commit(served, 7), commit(served, 7, generation=1)
        await turns()
        unavailable = "not_coordinator"
        assert [error.name for error in committed + refused + commit(served, 8)] == [
            unavailable
        ] * 3
        log.failure = None
        await asyncio.sleep(6)
        assert served.fetch("g", T0).response.offsets[0].offset == 1


@virtual_time
async def test_a_disk_that_fails_is_told_to_all_who_wait():
    log = FakeLog()
    async with serving(log, waits_for_disk=True) as served:
        log.undurable = asyncio.get_running_loop().create_future()
        first = commit(served, 7)
        await turns(5)
        second = commit(served, 8)
        log.undurable.set_exception(OSError("input/output error"))
        await turns(5)
        assert [error.name for error in first + second] == ["not_coordinator"] * 2
        log.undurable = None


@virtual_time
async def test_a_bug_drops_the_shard_and_answers_all(monkeypatch):
    async with serving() as served:
        waiting = commit(served, 7)
        monkeypatch.setattr(served.groups._hosts[0].shard, "commit", lambda *_: 1 / 0)
        assert [error.name for error in commit(served, 8) + waiting] == ["not_coordinator"] * 2
        await turns()
        assert len(waiting) == 1


@virtual_time
async def test_closing_logs_and_answers_what_is_decided():
    log = FakeLog()
    async with serving(log) as served:
        waiting = commit(served, 7)
        await served.groups.close()
        assert [error.name for error in waiting + commit(served, 8)] == ["none", "not_coordinator"]
        assert len(log.batches) == 1


@virtual_time
@pytest.mark.parametrize("repeated", [False, True])
async def test_due_timers_wait_while_commits_come(repeated):
    async with serving() as served:
        (member_id,) = await served.settled(session_timeout_ms=6_000)
        committer = Committer("other", -1, "", None)
        groups = served.groups
        commit = groups.committing(committer.group) if repeated else groups.commit
        deadline = groups.group("g").sessions[member_id].deadline
        await asyncio.sleep((deadline - served.clock.now() - 1) / 1_000)
        for offset in range(20):
            commit(lambda _: None, committer, 8, columns(offset))
            await asyncio.sleep(0.000_5)
        assert served.clock.now() > deadline
        assert served.heartbeat("g", member_id, 1).error == "none"
