"""The rules of sticky and cooperative-sticky, by example, and their user data."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assignors import Assignor, assignor, without_racks
from kohort.assignors.user_data import decode_generation, decode_previous, encode_previous

from .groups import OWNED, member, owning, partitions, rejoining, shown

STICKY, COOPERATIVE = assignor("sticky"), assignor("cooperative-sticky")
both = pytest.mark.parametrize("of", [STICKY, COOPERATIVE], ids=lambda of: of.name)


def final(of: Assignor, topics, members) -> dict[str, str]:
    """The assignment once revoked partitions are given out."""
    first = of.assign(topics, members)
    return shown(of.assign(topics, rejoining(of, members, first, generation=9)))


@both
def test_a_first_assignment_spreads_each_topic(of: Assignor) -> None:
    assigned = of.assign(without_racks({"t": 4, "u": 2}), [member("a", "tu"), member("b", "tu")])
    assert shown(assigned) == {"a": "t0 t2 u0", "b": "t1 t3 u1"}


@both
def test_a_remaining_member_keeps_its_partitions_and_gets_those_of_a_former_one(
    of: Assignor,
) -> None:
    a = owning(of, member("a", "t"), partitions("t0 t3"))
    b = owning(of, member("b", "t"), partitions("t1 t4"))
    assert final(of, without_racks({"t": 6}), [a, b]) == {"a": "t0 t2 t3", "b": "t1 t4 t5"}


@both
def test_a_joining_member_gets_its_share_and_no_more_partitions_move(of: Assignor) -> None:
    a = owning(of, member("a", "tu"), partitions("t0 t1 t2 u0"))
    b = owning(of, member("b", "tu"), partitions("t3 u1 u2 u3"))
    assert final(of, without_racks({"t": 4, "u": 4}), [a, b, member("c", "tu")]) == {
        "a": "t0 t1 u0",
        "b": "t3 u1 u2",
        "c": "t2 u3",
    }


@both
def test_a_partition_is_not_kept_after_unsubscribing(of: Assignor) -> None:
    a = owning(of, member("a", "u"), partitions("t0 u0"))
    assert final(of, without_racks({"t": 1, "u": 1}), [a, member("b", "tu")]) == {
        "a": "u0",
        "b": "t0",
    }


@both
def test_deleted_partitions_are_not_kept(of: Assignor) -> None:
    a = owning(of, member("a", "t"), partitions("t0 t7 u0"))
    assert final(of, without_racks({"t": 1}), [a]) == {"a": "t0"}


@both
def test_the_newest_generation_is_believed(of: Assignor) -> None:
    late = owning(of, member("a", "t"), partitions("t0 t1"), generation=3)
    a = owning(of, member("b", "t"), partitions("t0"), generation=4)
    c = owning(of, member("c", "t"), partitions("t2 t3"), generation=4)
    assert final(of, without_racks({"t": 4}), [late, a, c]) == {"a": "t1", "b": "t0", "c": "t2 t3"}


@both
def test_an_old_claim_counts_where_there_is_no_newer_one(of: Assignor) -> None:
    late = owning(of, member("b", "t"), partitions("t0"), generation=1)
    a = owning(of, member("a", "t"), partitions("t1"), generation=7)
    assert final(of, without_racks({"t": 2}), [a, late]) == {"a": "t1", "b": "t0"}


@both
def test_two_claims_of_one_generation_are_both_void(of: Assignor) -> None:
    a = owning(of, member("a", "t"), partitions("t0 t1"), generation=4)
    b = owning(of, member("b", "t"), partitions("t1 t2"), generation=4)
    c = owning(of, member("c", "t"), partitions("t1"), generation=3)
    topics = without_racks({"t": 3})
    assert final(of, topics, [a, b, c]) == {"a": "t0", "b": "t2", "c": "t1"}
    if of is COOPERATIVE:
        assert shown(of.assign(topics, [a, b, c])) == {"a": "t0", "b": "t2", "c": ""}, (
            "all of them have to revoke it"
        )


@both
def test_a_member_reads_in_its_rack_where_loads_allow(of: Assignor) -> None:
    a = owning(of, member("a", "t", rack="x"), partitions("t1"))
    b = owning(of, member("b", "t", rack="y"), partitions("t0"))
    assert final(of, {"t": [frozenset("x"), frozenset("y")]}, [a, b]) == {"a": "t0", "b": "t1"}
    assert final(of, {"t": [frozenset("x"), frozenset("x")]}, [a, b]) == {"a": "t1", "b": "t0"}, (
        "no gain in moving"
    )


def test_cooperative_gives_nobody_what_another_still_owns() -> None:
    topics = without_racks({"t": 4})
    a, b = owning(COOPERATIVE, member("a", "t"), partitions("t0 t1 t2 t3")), member("b", "t")
    first = COOPERATIVE.assign(topics, [a, b])
    assert shown(first) == {"a": "t0 t1", "b": ""}
    second = COOPERATIVE.assign(topics, rejoining(COOPERATIVE, [a, b], first, generation=2))
    assert shown(second) == {"a": "t0 t1", "b": "t2 t3"}


def test_cooperative_takes_the_generation_from_user_data_of_older_members() -> None:
    """Before subscription v2 it is nowhere else."""
    old, new = partitions("t0"), partitions("t0 t1")
    a = replace(owning(COOPERATIVE, member("a", "t"), old, 3), generation=-1)
    b = replace(owning(COOPERATIVE, member("b", "t"), new, 4), generation=-1)
    assert final(COOPERATIVE, without_racks({"t": 3}), [a, b]) == {"a": "t2", "b": "t0 t1"}


def test_sticky_trusts_user_data_only() -> None:
    """It is eager: what the subscription says is owned has been revoked."""
    a = replace(member("a", "t"), owned_partitions=partitions("t1"), generation=1)
    assert shown(STICKY.assign(without_racks({"t": 2}), [a, member("b", "t")])) == {
        "a": "t0",
        "b": "t1",
    }


def test_a_first_subscription_has_no_past() -> None:
    assert STICKY.subscription_user_data((), -1) is None
    assert COOPERATIVE.subscription_user_data((), -1) == struct.pack(">i", -1)
    assert STICKY.subscription_user_data((), 4) == struct.pack(">ii", 0, 4), (
        "it was assigned nothing in generation 4"
    )


@given(OWNED, st.integers(-1, 2**31 - 1))
def test_user_data_survives(owned, generation: int) -> None:
    data = encode_previous(owned, generation)
    read, of = decode_previous(data)
    assert sorted(read) == sorted(owned)
    assert of == generation
    assert decode_previous(data[:-4]) == (read, -1), "v0"


@given(st.binary(max_size=40))
def test_other_user_data_is_no_past(data: bytes) -> None:
    owned, _ = decode_previous(data)
    assert all(isinstance(partition, int) for _, partition in owned)
    assert isinstance(decode_generation(data), int)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        struct.pack(">ihi", 2**31 - 1, -6, 0),  # names of negative length, for ever
        struct.pack(">ihi", 1, 0, -1),
        struct.pack(">ihi", 1, 0, 2**31 - 1),
        b"\0\0\0\1\0\1\xff\0\0\0\0",
        b"something else",
    ],
)
def test_user_data_that_cannot_be_read(data: bytes | None) -> None:
    assert decode_previous(data) == ((), -1)
