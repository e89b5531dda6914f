"""Where records go: the same partition as with Java's producer."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kohort.client.produce.partitioner import (
    Sticky,
    murmur2,
    murmur2_partitioner,
    partitioner_of,
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_as_in_java(data: bytes, expected: int) -> None:
    """The values that Kafka's own UtilsTest has."""
    assert murmur2(data) == expected & 0xFFFFFFFF


@given(st.binary(max_size=300))
def test_murmur2_as_in_another_library(data: bytes) -> None:
    assert murmur2(data) == kafka_python_murmur2(data) & 0xFFFFFFFF


def test_a_key_has_its_partition_and_no_key_has_none() -> None:
    assert murmur2_partitioner("orders", b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10
    assert murmur2_partitioner("orders", None, 10) is None
    assert murmur2_partitioner("orders", b"", 10) is not None


def test_partitions_in_turn() -> None:
    in_turn = partitioner_of("round_robin")
    assert [in_turn("a", b"k", 3) for _ in range(5)] == [0, 1, 2, 0, 1]
    assert in_turn("b", None, 3) == 0
    assert partitioner_of("random")("a", b"k", 3) is None


def test_records_without_a_key_stay_until_a_batch_is_full() -> None:
    sticky = Sticky(1000, random.Random(1).choice)
    went = [sticky.next(100, range(4)) for _ in range(400)]
    runs = [went[start : start + 10] for start in range(0, 400, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in itertools.pairwise(runs))
    assert min(Counter(went).values()) > 50


def test_a_partition_without_a_leader_is_left_at_once() -> None:
    sticky = Sticky(1000)
    first = sticky.next(10, [0, 1, 2])
    others = [each for each in range(3) if each != first]
    assert sticky.next(10, others) in others
    assert sticky.next(10, [first]) == first
