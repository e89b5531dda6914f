"""What clients make a shard keep, and what of it is bounded."""

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.result import Cancel, SessionExpires
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench


def errors(call):
    return {error for _, error in call.response.results}


def test_a_commit_too_large_for_a_batch_is_refused_alone():
    """Each of its records has the group's id."""
    bench = Bench(GroupCoordinatorConfig(max_commit_bytes=100_000))
    group = "g" * 30_000
    call = bench.commit(group, {("t", n): n for n in range(4)})
    assert errors(call) == {ErrorCode.invalid_commit_offset_size}
    assert call.result.records == ()
    assert errors(bench.commit(group, {("t", n): n for n in range(3)})) == {ErrorCode.none}
    assert errors(bench.commit("g", {("t", n): n for n in range(500)})) == {ErrorCode.none}


def test_the_limit_of_a_commit_counts_bytes():
    bench = Bench(GroupCoordinatorConfig(max_commit_bytes=100_000))
    assert errors(bench.commit("ä" * 9_000, {("t", n): n for n in range(3)})) == {ErrorCode.none}
    assert errors(bench.commit("ä" * 9_000, {("t", n): n for n in range(4)})) == {
        ErrorCode.invalid_commit_offset_size
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
