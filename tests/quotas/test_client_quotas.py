"""Which quota holds for a client, who shares it, and how long a client waits."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.quotas import (
    CONSUMER_BYTE_RATE,
    EMPTY,
    PRODUCER_BYTE_RATE,
    ClientQuotas,
    QuotaTable,
    quota_entity,
)
from kohort.quotas.client_quotas import MAX_SHARES
from kohort.types import Instant

NOW = Instant(5_000)
USER_ALICE = quota_entity([("user", "alice")])
ANY_CLIENT = quota_entity([("client-id", None)])


def quotas_of(*several):
    table = QuotaTable()
    for parts, key, bound in several:
        table.replace(quota_entity(parts), {key: bound})
    return ClientQuotas(table)


NAMES = st.sampled_from(["a", "b"])
PLACES = st.fixed_dictionaries(
    {}, optional={"user": st.none() | NAMES, "client-id": st.none() | NAMES}
).filter(bool)
RANKS = [(1, 1), (1, 2), (1, 0), (2, 1), (2, 2), (2, 0), (0, 1), (0, 2)]
"""From the most specific: 1 by the name, 2 by default, 0 not named."""


@given(st.lists(st.tuples(PLACES, st.floats(1, 9)), max_size=9), NAMES, NAMES)
def test_the_most_specific_quota_counts(several, user, client_id):
    quotas = quotas_of(*((place.items(), PRODUCER_BYTE_RATE, bound) for place, bound in several))

    def rank(place):
        ranks = []
        for kind, name in (("user", user), ("client-id", client_id)):
            if kind not in place:
                ranks.append(0)
            elif place[kind] is None:
                ranks.append(2)
            else:
                ranks.append(1 if place[kind] == name else None)
        return tuple(ranks)

    last = {tuple(sorted(place.items())): (rank(place), bound) for place, bound in several}
    fitting = {rank: bound for rank, bound in last.values() if rank in RANKS}
    limit = quotas.table.limit(PRODUCER_BYTE_RATE, user, client_id)
    if not fitting:
        assert limit is None
    else:
        assert limit.bound == fitting[min(fitting, key=RANKS.index)]


def test_clients_of_a_user_share_the_users_quota():
    quotas = quotas_of(([("user", "alice")], PRODUCER_BYTE_RATE, 1_000))
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "alice", "c1", 10_000, NOW) == 0
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "alice", "c2", 1_000, NOW) == 1_000
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "bob", "c2", 50_000, NOW) == 0


def test_a_default_is_one_for_each():
    quotas = quotas_of(([("client-id", None)], CONSUMER_BYTE_RATE, 1_000))
    assert quotas.throttle_ms(CONSUMER_BYTE_RATE, "u", "c1", 20_000, NOW) == 10_000
    assert quotas.throttle_ms(CONSUMER_BYTE_RATE, "v", "c1", 0, NOW) == 10_000
    assert quotas.throttle_ms(CONSUMER_BYTE_RATE, "u", "c2", 10_000, NOW) == 0


def test_a_changed_quota_counts_earlier_use():
    quotas = quotas_of(([("user", "alice")], PRODUCER_BYTE_RATE, 1_000))
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "alice", "c", 10_000, NOW) == 0
    quotas.table.replace(USER_ALICE, {PRODUCER_BYTE_RATE: 500})
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "alice", "c", 0, NOW) == 10_000
    quotas.table.replace(USER_ALICE, EMPTY)
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "alice", "c", 10**9, NOW) == 0
    assert not quotas.table.has(PRODUCER_BYTE_RATE)


def test_request_time_waits_a_second_at_most():
    quotas = quotas_of(([("client-id", "c")], "request_percentage", 1.0))
    assert quotas.request_throttle_ms("u", "c", 0.05, NOW) == 0
    assert quotas.request_throttle_ms("u", "c", 0.051, NOW) == 100
    assert quotas.request_throttle_ms("u", "c", 9.0, NOW) == 1_000


def test_a_fetch_has_ten_seconds_of_the_quota():
    quotas = quotas_of(([("client-id", "c")], CONSUMER_BYTE_RATE, 1_000))
    assert quotas.largest_fetch("u", "c") == 10_000
    assert quotas.largest_fetch("u", "other") is None


def test_partitions_of_strict_requests_are_refused_while_tokens_are_owed():
    quotas = quotas_of(([("client-id", "c")], "controller_mutation_rate", 1.0))
    quota = quotas.mutations("u", "c", strict=True)
    assert [quota.admits(10, NOW), quota.admits(10, NOW)] == [True, True]
    assert quota.throttle_ms(NOW) == 0
    assert not quota.admits(1, NOW)
    assert quota.throttle_ms(NOW) == 9_000
    assert quotas.mutations("u", "c", strict=True).admits(1, Instant(NOW + 9_000))


def test_partitions_of_older_requests_are_admitted_and_waited_for():
    quotas = quotas_of(([("client-id", "c")], "controller_mutation_rate", 1.0))
    quota = quotas.mutations("u", "c", strict=False)
    assert quota.admits(20, NOW)
    assert quota.admits(1, NOW)
    assert quota.throttle_ms(NOW) == 10_000
    assert quotas.mutations("u", "other", strict=False) is None


def test_connection_rates_apply_by_ip_address():
    quotas = quotas_of(
        ([("ip", None)], "connection_creation_rate", 5.0),
        ([("ip", "::1")], "connection_creation_rate", 50.0),
    )
    assert quotas.table.connection_rate("::1") == 50.0
    assert quotas.table.connection_rate("127.0.0.1") == 5.0
    quotas.table.replace(quota_entity([("ip", None)]), EMPTY)
    assert quotas.table.connection_rate("127.0.0.1") is None


def test_an_address_is_the_same_in_every_spelling():
    quotas = quotas_of(([("ip", "::1")], "connection_creation_rate", 50.0))
    assert quotas.table.connection_rate("0:0:0:0:0:0:0:1") == 50.0
    quotas.table.replace(quota_entity([("ip", "0:0::1")]), EMPTY)
    assert quotas.table.connection_rate("0:0:0:0:0:0:0:1") is None


@pytest.mark.parametrize("bound", [5e-324, 1e-300])
def test_a_quota_of_nearly_nothing_is_a_wait_without_end(bound):
    quotas = quotas_of(([("user", "alice")], "request_percentage", bound))
    assert quotas.request_throttle_ms("alice", "c", 1.0, NOW) == 1_000
    quotas = quotas_of(([("user", "alice")], "controller_mutation_rate", bound))
    quota = quotas.mutations("alice", "c", strict=False)
    assert quota.admits(9, NOW)
    assert quota.throttle_ms(NOW) == 2**63 - 1


@pytest.mark.parametrize("long", ["user", "client-id"])
def test_long_names_take_no_more_memory_than_short_ones(long):
    """Clients choose their ids, and whoever issues tokens their names."""
    quotas = quotas_of(([("user", None), ("client-id", None)], PRODUCER_BYTE_RATE, 1))
    size = 30_000
    tracemalloc.start()
    try:
        for number in range(200):
            name = f"{number:0{size}}"
            names = (name, "c") if long == "user" else ("u", name)
            assert quotas.throttle_ms(PRODUCER_BYTE_RATE, *names, 20, NOW) > 0
            assert quotas.throttle_ms(PRODUCER_BYTE_RATE, *names, 20, NOW) > 20_000
        assert tracemalloc.get_traced_memory()[0] < 200 * size / 10
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_whatever_client_ids_come():
    quotas = quotas_of(([("client-id", None)], PRODUCER_BYTE_RATE, 1))
    for number in range(MAX_SHARES + 10):
        quotas.throttle_ms(PRODUCER_BYTE_RATE, "u", str(number), 1_000, NOW)
    last = str(MAX_SHARES + 9)
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "u", last, 0, NOW) > 0
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "u", "0", 0, NOW) == 0


def test_the_use_of_idle_clients_is_forgotten_first():
    quotas = quotas_of(([("client-id", None)], PRODUCER_BYTE_RATE, 1))
    quotas.throttle_ms(PRODUCER_BYTE_RATE, "u", "busy", 1_000, Instant(NOW + 60_000))
    for number in range(MAX_SHARES - 5):
        quotas.throttle_ms(PRODUCER_BYTE_RATE, "u", str(number), 1_000, NOW)
    later = Instant(NOW + 60_000)
    for number in range(10):
        quotas.throttle_ms(PRODUCER_BYTE_RATE, "u", f"x{number}", 1_000, later)
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "u", "busy", 0, later) > 0


@pytest.mark.parametrize("key", [CONSUMER_BYTE_RATE, "controller_mutation_rate"])
def test_many_client_ids_do_not_have_the_use_of_a_user_forgotten(key):
    """Each request may have another client id: ten thousand come in a second."""
    quotas = quotas_of(
        ([("user", "alice")], PRODUCER_BYTE_RATE, 1_000),
        ([("client-id", None)], CONSUMER_BYTE_RATE, 1),
        ([("user", None), ("client-id", None)], "controller_mutation_rate", 1),
    )
    wait = quotas.throttle_ms(PRODUCER_BYTE_RATE, "alice", "c", 50_000, NOW)
    assert wait > 0
    for number in range(2 * MAX_SHARES):
        if key == CONSUMER_BYTE_RATE:
            quotas.throttle_ms(key, "alice", str(number), 1_000, NOW)
        else:
            quotas.mutations("alice", str(number), strict=True).admits(100, NOW)
    assert quotas.throttle_ms(PRODUCER_BYTE_RATE, "alice", "c", 0, NOW) == wait


def test_the_use_of_many_users_is_bounded():
    quotas = quotas_of(([("user", None)], PRODUCER_BYTE_RATE, 1))
    tracemalloc.start()
    try:
        for number in range(5 * MAX_SHARES):
            quotas.throttle_ms(PRODUCER_BYTE_RATE, str(number), "c", 1_000, NOW)
        assert tracemalloc.get_traced_memory()[0] < MAX_SHARES * 2_000
    finally:
        tracemalloc.stop()


def test_many_users_do_not_have_the_use_of_one_with_a_long_name_forgotten():
    """As a certificate gives it: the key of its use is a digest, which has no quota itself."""
    long = "CN=" + "x" * 300
    key = "controller_mutation_rate"
    quotas = quotas_of(([("user", long)], key, 1), ([("user", None)], key, 1_000))
    quotas.mutations(long, "c", strict=True).admits(100, NOW)
    assert not quotas.mutations(long, "c", strict=True).admits(1, NOW)
    for number in range(2_000):
        quotas.mutations(str(number), "c", strict=True).admits(1, Instant(NOW + 1_000))
    assert not quotas.mutations(long, "c", strict=True).admits(1, Instant(NOW + 2_000))
