"""What clients make a shard keep, and what of it is bounded."""

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.result import SessionExpires
from kohort.coordinator.shard import Shard
from kohort.coordinator_common import Cancel
from kohort.errors import ErrorCode
from kohort.server.config import Config, group_coordinator_config
from kohort.testing.bench import Bench


def errors(call):
    return {error for _, error in call.response.results}


def test_a_commit_too_large_for_a_batch_is_refused_alone():
    """Each of its records has the group's id."""
    bench = Bench(GroupCoordinatorConfig(max_commit_bytes=100_000))
    group = "g" * 30_000
    call = bench.commit(group, {("t", n): n for n in range(4)})
    assert errors(call) == {ErrorCode.unknown_server_error}
    assert call.result.records == ()
    assert errors(bench.commit(group, {("t", n): n for n in range(3)})) == {ErrorCode.none}
    assert errors(bench.commit("g", {("t", n): n for n in range(500)})) == {ErrorCode.none}


def test_the_limit_of_a_commit_counts_bytes():
    bench = Bench(GroupCoordinatorConfig(max_commit_bytes=100_000))
    assert errors(bench.commit("ä" * 9_000, {("t", n): n for n in range(3)})) == {ErrorCode.none}
    assert errors(bench.commit("ä" * 9_000, {("t", n): n for n in range(4)})) == {
        ErrorCode.unknown_server_error
    }


def test_the_oldest_pending_ids_are_forgotten_first():
    bench = Bench(GroupCoordinatorConfig(max_pending_bytes=100_000))
    calls = [bench.join("g", client_id=str(n) * 9_000) for n in range(10)]
    ids = [call.response.member_id for call in calls]
    pending = bench.group().pending
    assert 3 < len(pending) < 6
    assert list(pending) == ids[-len(pending) :]
    forgotten = ids[: -len(pending)]
    cancelled = {t.key for call in calls for t in call.result.timers if isinstance(t, Cancel)}
    assert cancelled == {SessionExpires("g", member_id) for member_id in forgotten}
    assert bench.join("g", ids[0]).response.error is ErrorCode.unknown_member_id
    assert bench.join("g", ids[-1]).parked


def test_a_forgotten_pending_id_holds_up_no_rebalance():
    bench = Bench(GroupCoordinatorConfig(max_pending_bytes=100_000, initial_rebalance_delay_ms=0))
    (leader,) = bench.stable()
    bench.join("g", client_id="slow", connection="c1")
    rejoined = bench.join("g", leader)
    assert rejoined.parked
    for n in range(12):
        bench.join("other", client_id=str(n % 10) * 9_000, connection=f"c{n}")
    assert not rejoined.parked


def test_members_of_a_large_group_that_start_at_once_all_get_in():
    bench = Bench(group_coordinator_config(Config({})))
    ids = [bench.join("g", connection=f"c{n}").response.member_id for n in range(2_000)]
    assert len(set(ids)) == 2_000
    for number, member_id in enumerate(ids):
        assert bench.join("g", member_id, connection=f"c{number}").parked
    assert bench.shard.pending_bytes == 0


def test_ids_that_have_joined_or_left_or_expired_take_no_memory():
    bench = Bench(GroupCoordinatorConfig(max_pending_bytes=40_000, initial_rebalance_delay_ms=0))
    waiting = bench.join("g", client_id="waiting").response.member_id
    size = bench.shard.pending_bytes
    assert size > 1_000
    for n in range(10):
        member_id = bench.join("h", client_id=str(n) * 9_000).response.member_id
        bench.join("h", member_id, client_id=str(n) * 9_000)
        assert bench.shard.pending_bytes == size
    left = bench.join("g", client_id="left").response.member_id
    bench.leave("g", left)
    assert bench.shard.pending_bytes == size
    assert list(bench.group().pending) == [waiting]
    bench.advance(60_000)
    assert bench.shard.pending_bytes == 0


def test_a_partition_has_what_others_leave_of_the_memory_but_some_of_its_own():
    taken = 0
    config = GroupCoordinatorConfig(max_pending_bytes=100_000, min_pending_bytes=30_000)
    bench = Bench(config)
    bench.shard = Shard(config, bench.topics, lambda: taken + bench.shard.pending_bytes)

    def pending() -> int:
        for n in range(10):
            bench.join("g", client_id=str(n) * 9_000)
        return len(bench.group().pending)

    assert pending() == 5
    taken = 50_000
    assert pending() == 2
    taken = 1_000_000
    assert pending() == 1
