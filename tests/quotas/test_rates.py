"""Rates and tokens measure as Apache Kafka's do."""

import pytest

from kohort.quotas import Rate, TokenBucket
from kohort.quotas.rates import Windows
from kohort.types import Instant

WINDOWS = Windows()


def at(ms):
    return Instant(1_000_000 + ms)


def test_ten_seconds_of_the_quota_may_come_at_once():
    rate = Rate(WINDOWS)
    rate.record(10_000, at(0))
    assert rate.throttle_ms(1_000, at(0)) == 0
    rate.record(1_000, at(0))
    assert rate.throttle_ms(1_000, at(0)) == 1_000


def test_after_the_wait_the_rate_is_the_quota():
    rate = Rate(WINDOWS)
    rate.record(25_000, at(0))
    wait = rate.throttle_ms(1_000, at(0))
    assert wait == 15_000
    assert rate.throttle_ms(1_000, at(wait)) == 0


def test_windows_of_a_rate_slide():
    rate = Rate(WINDOWS)
    for second in range(11):
        rate.record(1_000, at(second * 1_000))
    assert rate.throttle_ms(1_100, at(10_000)) == 0
    assert rate.throttle_ms(1_000, at(10_999)) == 1
    assert rate.throttle_ms(1_000, at(11_000)) == 0


def test_a_value_is_taken_back():
    rate = Rate(WINDOWS)
    rate.record(50_000, at(0))
    rate.record(-50_000, at(0))
    assert rate.throttle_ms(1, at(0)) == 0


def test_a_rate_is_idle_when_nothing_counts_any_more():
    rate = Rate(WINDOWS)
    assert rate.is_idle(at(0))
    rate.record(1, at(0))
    assert not rate.is_idle(at(10_999))
    assert rate.is_idle(at(11_000))


@pytest.mark.parametrize(("spent", "wait"), [(11, 0), (20, 9_000)])
def test_tokens_of_eleven_windows_may_be_spent_at_once(spent, wait):
    bucket = TokenBucket(WINDOWS, 1.0, at(0))
    bucket.spend(spent, 1.0, at(0))
    assert bucket.throttle_ms(1.0, at(0)) == wait


def test_tokens_come_back():
    bucket = TokenBucket(WINDOWS, 2.0, at(0))
    bucket.spend(24, 2.0, at(0))
    assert bucket.throttle_ms(2.0, at(500)) == 500
    assert not bucket.is_idle(at(11_999))
    assert bucket.is_idle(at(12_000))
