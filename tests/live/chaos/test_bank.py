"""A short run of the bank, and proof that each violation would be found."""

import random

import pytest

from interop.programs import java_missing
from interop.targets import KohortServe
from live.chaos.bank import (
    SETTINGS,
    Balance,
    Bank,
    Leg,
    check_history,
    check_order,
    check_transfers,
)

OUT, IN = Leg("0-0", -5), Leg("0-0", 5)
WHOLE = {0: [(0, OUT)], 1: [(0, IN)]}


def test_a_whole_transfer_is_right():
    assert not [*check_transfers(WHOLE, {"0": 1})]


@pytest.mark.parametrize(
    ("statement", "committed", "found"),
    [
        ({0: [(0, OUT)]}, {"0": 1}, "legs"),
        ({0: [(0, OUT), (2, OUT)], 1: [(0, IN)]}, {"0": 1}, "legs"),
        (WHOLE, {"0": 2}, "not carried out"),
        (WHOLE, {"0": 0}, "not committed"),
    ],
)
def test_a_wrong_transfer_is_found(statement, committed, found):
    (violation,) = check_transfers(statement, committed)
    assert found in violation


def test_a_wrong_order_is_found():
    assert not [*check_order({0: [(0, Leg("0-9", 1)), (2, Leg("1-3", 1)), (4, Leg("0-10", 1))]})]
    assert [*check_order({0: [(0, Leg("0-10", 1)), (2, Leg("0-9", 1))]})]


def test_a_changed_history_is_found():
    assert not [*check_history(WHOLE, {0: [(0, OUT), (2, IN)], 1: [(0, IN)]})]
    assert [*check_history(WHOLE, {0: [(1, OUT)], 1: [(0, IN)]})]


def test_a_wrong_sum_is_found():
    balance = Balance()
    balance.add(0, 0, OUT)
    balance.add(1, 0, IN)
    assert (balance.balanced_reads, balance.violations) == (1, [])
    balance.add(0, 2, Leg("0-1", -7))
    balance.add(1, 2, Leg("0-1", 6))
    assert len(balance.violations) == 1


@pytest.mark.clients
def test_ten_kills_lose_no_money(tmp_path):
    if reason := java_missing():
        pytest.skip(reason)
    pytest.importorskip("trio")
    target = KohortServe(tmp_path, SETTINGS)
    try:
        outcome = Bank(target, tmp_path, kills=10, seed=random.randrange(1 << 32)).run()
    finally:
        target.stop()
    print(outcome)
    assert not outcome.violations, outcome.violations
    assert outcome.transfers
    assert outcome.aborted
