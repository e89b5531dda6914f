"""What each request gets in each state of a transactional id, by Kafka 4.4's tables."""

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import TransactionState
from kohort.transactions.shard import NEVER_MS
from kohort.transactions.transitions import LAST_EPOCH
from transactions.bench import ORDERS, TransactionBench

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

OK = ErrorCode.none
INVALID = ErrorCode.invalid_txn_state
FENCED = ErrorCode.producer_fenced
WAIT = ErrorCode.concurrent_transactions
MAPPING = ErrorCode.invalid_producer_id_mapping

IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
ENDING = (PREPARE_COMMIT, PREPARE_ABORT)


@pytest.fixture
def bench():
    return TransactionBench()


def exhausted(bench, epoch=LAST_EPOCH):
    """The producer of an id at the last epoch."""
    _, producer_id, _ = bench.init()
    value = bench.metadata()._replace(producer_epoch=epoch)
    bench.log[-1] = bench.log[-1]._replace(value=value)
    bench.restart()
    return producer_id, epoch


def no_producer_id():
    raise KafkaError(ErrorCode.coordinator_load_in_progress)


# --- InitProducerId ---


def test_an_unknown_id_gets_a_new_producer_id(bench):
    assert bench.init() == (OK, 1_000, 0)
    assert bench.init("other") == (OK, 1_001, 0)
    assert bench.init("known before", producer=(7, 5)) == (OK, 1_002, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(bench, timeout_ms):
    assert bench.init(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout
    assert not bench.log


@pytest.mark.parametrize("state", IDLE)
def test_a_new_producer_gets_the_next_epoch(bench, state):
    producer_id, epoch = bench.bring_to(state)
    assert bench.init(timeout_ms=5) == (OK, producer_id, epoch + 1)
    assert bench.metadata().state is EMPTY
    assert bench.metadata().timeout_ms == 5
    assert bench.init(producer=(producer_id, epoch)).error is FENCED


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_with_the_current_epoch_gets_the_next_one_and_may_ask_again(bench, state):
    producer_id, epoch = bench.bring_to(state)
    for _ in range(2):
        assert bench.init(producer=(producer_id, epoch)) == (OK, producer_id, epoch + 1)
    assert bench.init(producer=(producer_id, epoch + 1)) == (OK, producer_id, epoch + 2)
    assert bench.init(producer=(producer_id, epoch)).error is FENCED


@pytest.mark.parametrize("state", [*IDLE, ONGOING, *ENDING])
def test_a_producer_with_another_id_is_fenced(bench, state):
    _, epoch = bench.bring_to(state)
    if state in ENDING:  # it may be the next id: see EndTxn v5 at the last epoch
        assert bench.init(producer=(7, epoch)).error is WAIT
        bench.write_markers()
    assert bench.init(producer=(7, epoch)).error is FENCED


@pytest.mark.parametrize("state", ENDING)
def test_a_producer_waits_while_a_transaction_ends(bench, state):
    producer = bench.bring_to(state)
    assert bench.init().error is WAIT
    assert bench.init(producer=producer).error is WAIT


def test_a_new_producer_aborts_the_open_transaction(bench):
    producer_id, epoch = bench.bring_to(ONGOING)
    assert bench.init() == (WAIT, -1, -1)
    assert bench.metadata().state is PREPARE_ABORT
    assert bench.init().error is WAIT
    (markers,) = bench.write_markers()
    assert markers == ("t", producer_id, epoch + 1, False, 2, ORDERS)
    assert bench.init() == (OK, producer_id, epoch + 2)
    assert bench.end((producer_id, epoch)).error is FENCED


def test_a_producer_that_aborts_its_own_open_transaction_goes_on_at_the_next_epoch(bench):
    producer_id, epoch = bench.bring_to(ONGOING)
    assert bench.init(producer=(producer_id, epoch)).error is WAIT
    bench.write_markers()
    assert bench.init(producer=(producer_id, epoch)) == (OK, producer_id, epoch + 1)


def test_a_stale_producer_does_not_abort_the_transaction_of_its_successor(bench):
    producer_id, epoch = bench.bring_to(EMPTY)
    bench.init()
    bench.add((producer_id, epoch + 1))
    assert bench.init(producer=(producer_id, epoch)).error is FENCED
    assert bench.metadata().state is ONGOING


@pytest.mark.parametrize("knows", [False, True])
def test_a_producer_whose_epochs_are_used_up_gets_another_id(bench, knows):
    old = exhausted(bench)
    assert bench.init(producer=old if knows else (-1, -1)) == (OK, 1_001, 0)
    assert bench.metadata().previous_producer_id == old[0]
    if knows:
        assert bench.init(producer=old) == (OK, 1_001, 0)


# --- AddPartitionsToTxn ---


@pytest.mark.parametrize("state", IDLE)
def test_the_first_partitions_begin_a_transaction(bench, state):
    producer = bench.bring_to(state)
    bench.advance(10)
    assert bench.add(producer) is OK
    assert bench.metadata() == bench.metadata()._replace(
        state=ONGOING, partitions=ORDERS, start=bench.timestamp, last_update=bench.timestamp
    )


def test_further_partitions_join_the_transaction(bench):
    producer = bench.bring_to(ONGOING)
    start = bench.metadata().start
    bench.advance(10)
    assert bench.add(producer, {"orders": frozenset({1, 2}), "flights": frozenset({7})}) is OK
    assert bench.metadata().partitions == {
        "orders": frozenset({0, 1, 2}),
        "flights": frozenset({7}),
    }
    assert bench.metadata().start == start


def test_partitions_that_are_in_the_transaction_need_no_record(bench):
    producer = bench.bring_to(ONGOING)
    logged = len(bench.log)
    assert bench.add(producer, {"orders": frozenset({1})}) is OK
    assert len(bench.log) == logged


@pytest.mark.parametrize(
    ("state", "producer", "error"),
    [
        *((state, (1_000, 0), WAIT) for state in ENDING),
        *((state, (7, 0), MAPPING) for state in (EMPTY, ONGOING)),
        *((state, (1_000, epoch), FENCED) for state in (EMPTY, ONGOING) for epoch in (-1, 1)),
    ],
)
def test_partitions_of_others_are_refused(bench, state, producer, error):
    bench.bring_to(state)
    assert bench.add(producer) is error
    assert bench.verify(producer).error is error


@pytest.mark.parametrize("state", ENDING)
def test_partitions_of_another_id_wait_for_the_markers(bench, state):
    """It may be the next id: see EndTxn v5 at the last epoch."""
    bench.bring_to(state)
    assert bench.add((7, 0)) is WAIT
    assert bench.verify((7, 0)).error is MAPPING
    bench.write_markers()
    assert bench.add((7, 0)) is MAPPING


def test_partitions_of_an_unknown_id_are_refused(bench):
    assert bench.add((1_000, 0)) is MAPPING
    assert bench.verify((1_000, 0)).error is MAPPING


def test_partitions_of_the_empty_id_are_refused(bench):
    assert bench.add((1_000, 0), name="") is ErrorCode.invalid_request
    assert bench.verify((1_000, 0), name="").error is ErrorCode.invalid_request


def test_verification_names_the_partitions_that_are_missing(bench):
    producer = bench.bring_to(ONGOING)
    assert bench.verify(producer) == (OK, {})
    wanted = {"orders": frozenset({1, 2}), "flights": frozenset({0})}
    assert bench.verify(producer, wanted) == (
        OK, {"orders": frozenset({2}), "flights": frozenset({0})}
    )  # fmt: skip


def test_a_transaction_whose_record_is_too_large_gets_no_more_partitions():
    bench = TransactionBench(TransactionCoordinatorConfig(max_record_bytes=1_000))
    producer = bench.bring_to(ONGOING)
    assert bench.add(producer, {"many": frozenset(range(1_000))}) is ErrorCode.unknown_server_error
    assert bench.metadata().partitions == ORDERS


# --- EndTxn ---

END_V0 = {
    EMPTY: (INVALID, INVALID),
    ONGOING: (OK, OK),
    PREPARE_COMMIT: (WAIT, INVALID),
    PREPARE_ABORT: (INVALID, WAIT),
    COMPLETE_COMMIT: (OK, INVALID),
    COMPLETE_ABORT: (INVALID, OK),
}
END_V5 = {
    EMPTY: (INVALID, OK),
    ONGOING: (OK, OK),
    PREPARE_COMMIT: (FENCED, FENCED),
    PREPARE_ABORT: (FENCED, FENCED),
    COMPLETE_COMMIT: (INVALID, OK),
    COMPLETE_ABORT: (INVALID, OK),
}
RETRIED_V5 = {
    PREPARE_COMMIT: (WAIT, INVALID),
    PREPARE_ABORT: (INVALID, WAIT),
    COMPLETE_COMMIT: (OK, INVALID),
    COMPLETE_ABORT: (INVALID, OK),
}


def cells(table):
    return [
        (state, commit, row[0 if commit else 1])
        for state, row in table.items()
        for commit in (True, False)
    ]


@pytest.mark.parametrize(("state", "commit", "error"), cells(END_V0))
def test_end_txn_before_v5_keeps_the_epoch(bench, state, commit, error):
    producer = bench.bring_to(state)
    logged = len(bench.log)
    assert bench.end(producer, commit).error is error
    assert len(bench.log) == logged + (state is ONGOING)
    assert bench.producer() == producer


@pytest.mark.parametrize(("state", "commit", "error"), cells(END_V5))
def test_end_v5_by_the_current_epoch(bench, state, commit, error):
    bench.bring_to(state, v5=True)
    producer_id, epoch = bench.producer()
    response = bench.end((producer_id, epoch), commit, v5=True)
    if error is OK:
        assert response == (OK, producer_id, epoch + 1)
        assert bench.metadata().state is (PREPARE_COMMIT if commit else PREPARE_ABORT)
        bench.write_markers()
        assert bench.metadata().state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
        assert bench.producer() == (producer_id, epoch + 1)
    else:
        assert response == (error, -1, -1)


@pytest.mark.parametrize(("state", "commit", "error"), cells(RETRIED_V5))
def test_end_v5_by_the_epoch_before(bench, state, commit, error):
    producer = bench.bring_to(state, v5=True)
    response = bench.end(producer, commit, v5=True)
    assert response == ((OK, *bench.producer()) if error is OK else (error, -1, -1))


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", [EMPTY, ONGOING])
def test_end_v5_by_an_old_epoch(bench, state, commit):
    producer_id, epoch = bench.bring_to(EMPTY)
    bench.init()
    if state is ONGOING:
        bench.add((producer_id, epoch + 1))
    assert bench.end((producer_id, epoch), commit, v5=True).error is FENCED


@pytest.mark.parametrize("v5", [False, True])
def test_end_by_others_is_refused(bench, v5):
    assert bench.end((1_000, 0), v5=v5).error is MAPPING
    producer_id, epoch = bench.bring_to(ONGOING)
    assert bench.end((7, epoch), v5=v5).error is MAPPING
    for wrong in (epoch - 2, epoch + 1):
        assert bench.end((producer_id, wrong), v5=v5).error is FENCED


@pytest.mark.parametrize("v5", [False, True])
def test_markers_have_the_epoch_of_the_end(bench, v5):
    producer_id, epoch = bench.bring_to(PREPARE_COMMIT, v5=v5)
    expected = ("t", producer_id, epoch + 1, True, 2) if v5 else ("t", producer_id, epoch, True, 0)
    assert bench.write_markers() == [(*expected, ORDERS)]
    assert bench.metadata().partitions == {}
    assert bench.metadata().start == bench.timestamp


def test_the_end_at_the_last_epoch_brings_another_producer_id(bench):
    old = exhausted(bench)
    bench.add(old, client_version=2)
    assert bench.end(old, v5=True) == (OK, 1_001, 0)
    assert bench.producer() == (old[0], LAST_EPOCH + 1)
    assert bench.metadata().next_producer_id == 1_001
    assert bench.end(old, v5=True).error is WAIT
    assert bench.write_markers()[0][:3] == ("t", old[0], LAST_EPOCH + 1)
    assert bench.producer() == (1_001, 0)
    assert bench.metadata().previous_producer_id == old[0]
    assert bench.end(old, v5=True) == (OK, 1_001, 0)
    assert bench.add((1_001, 0), client_version=2) is OK


def test_the_next_producer_id_waits_for_the_markers_of_the_last_epoch(bench):
    old = exhausted(bench)
    bench.add(old, client_version=2)
    response = bench.end(old, v5=True)
    new = response.producer_id, response.producer_epoch
    assert bench.add(new, client_version=2) is WAIT
    # As Kafka does, which looks at ids before it looks for markers that are yet to be written.
    aborted = bench.end(new, v5=True, commit=False)
    assert aborted.error is ErrorCode.invalid_producer_id_mapping
    bench.write_markers()
    assert bench.end(new, v5=True, commit=False) == (OK, new[0], 1)
    bench.write_markers()
    assert bench.add((new[0], 1), client_version=2) is OK


def test_an_abort_at_the_last_epoch_brings_another_producer_id(bench):
    old = exhausted(bench)
    bench.add(old)
    assert bench.init().error is WAIT
    bench.write_markers()
    assert bench.init(producer=old) == (OK, 1_001, 0)


# --- timeout and expiry ---


@pytest.mark.parametrize("reloaded", [False, True])
def test_a_transaction_is_aborted_after_its_timeout(bench, reloaded):
    producer_id, epoch = bench.bring_to(ONGOING, v5=True)
    bench.advance(59_999)
    if reloaded:
        bench.restart()
    assert bench.metadata().state is ONGOING
    bench.advance(1)
    assert bench.metadata().state is PREPARE_ABORT
    bench.write_markers()
    assert bench.producer() == (producer_id, epoch + 1)


@pytest.fixture
def late(bench):
    """A producer whose transaction has timed out."""
    producer = bench.bring_to(ONGOING, v5=True)
    bench.advance(60_000)
    bench.write_markers()
    return producer


def test_a_late_producer_is_fenced(bench, late):
    following = (late[0], late[1] + 1)
    assert bench.add(late) is FENCED
    assert bench.end(late).error is FENCED
    assert bench.end(late, v5=True).error is INVALID
    assert bench.end(late, commit=False, v5=True) == (OK, *following)
    assert bench.init(producer=late) == (OK, *following)


def test_a_transaction_that_ended_does_not_time_out(bench):
    bench.bring_to(COMPLETE_COMMIT)
    assert not len(bench.timers)


def test_the_next_transaction_has_the_whole_timeout(bench):
    producer = bench.bring_to(ONGOING)
    bench.advance(50_000)
    bench.end(producer)
    bench.write_markers()
    bench.add(producer)
    bench.advance(59_999)
    assert bench.metadata().state is ONGOING
    bench.advance(1)
    assert bench.metadata().state is PREPARE_ABORT


def test_the_largest_timeout_never_passes():
    bench = TransactionBench(TransactionCoordinatorConfig(max_timeout_ms=NEVER_MS))
    _, *producer = bench.init(timeout_ms=NEVER_MS)
    bench.add(producer)
    bench.advance(NEVER_MS + 1)
    assert bench.metadata().state is ONGOING


def test_a_clock_that_was_set_back_does_not_lengthen_a_timeout(bench):
    bench.bring_to(ONGOING)
    bench.now -= 3_000_000
    bench.restart()
    bench.advance(60_000)
    assert bench.metadata().state is PREPARE_ABORT


@pytest.mark.parametrize("state", IDLE)
def test_an_idle_id_expires(bench, state):
    producer = bench.bring_to(state)
    bench.advance(7 * 86_400_000 - 1)
    assert not bench.expire()
    bench.advance(1)
    assert bench.expire() == (("t", None),)
    assert bench.describe().error is ErrorCode.transactional_id_not_found
    assert bench.end(producer).error is MAPPING
    assert bench.init(producer=producer) == (OK, 1_001, 0)


@pytest.mark.parametrize("state", [ONGOING, *ENDING])
def test_an_id_with_a_transaction_does_not_expire(bench, state):
    bench.bring_to(state)
    bench.now += 8 * 86_400_000
    assert not bench.expire()


def test_a_timeout_without_a_producer_id_is_tried_again(bench):
    old = exhausted(bench)
    bench.add(old)
    bench.new_producer_id = no_producer_id
    bench.restart()
    assert bench.init().error is ErrorCode.coordinator_load_in_progress
    bench.advance(60_000)
    assert bench.metadata().state is ONGOING
    assert len(bench.timers) == 1


# --- loading ---


@pytest.mark.parametrize("state", ENDING)
def test_an_end_that_had_begun_goes_on_after_a_restart(bench, state):
    bench.bring_to(state)
    (before,) = bench.unfinished
    bench.restart()
    assert bench.write_markers() == [before]
    assert bench.metadata().state in (COMPLETE_COMMIT, COMPLETE_ABORT)


def test_markers_of_an_earlier_transaction_complete_nothing(bench):
    producer = bench.bring_to(PREPARE_COMMIT, v5=True)
    (late,) = bench.unfinished
    bench.write_markers()
    assert bench.add(bench.producer(), client_version=2) is OK
    bench.end(bench.producer(), v5=True)
    bench.unfinished = [late]
    bench.write_markers()
    assert bench.metadata().state is PREPARE_COMMIT
    assert producer != bench.producer()


def test_a_description_has_the_metadata_of_the_transaction(bench):
    bench.bring_to(ONGOING)
    assert bench.describe() == (OK, bench.metadata())
    assert bench.describe("unknown").error is ErrorCode.transactional_id_not_found
