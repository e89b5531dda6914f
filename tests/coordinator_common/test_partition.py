"""Which partition of `__consumer_offsets` a group lies in; the values are Java's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator_common import partition_for
from kohort.coordinator_common.partition import java_hash_code


@pytest.mark.parametrize(
    ("text", "code", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("orders", -1_008_770_331, 31),
        ("é", 233, 33),
        ("\U0001f600", 1_772_899, 49),
        ("group-\U0001f600-x", -1_358_452_452, 2),
        ("connect-cluster", 1_440_343_063, 13),
        ("polygenelubricants", -(2**31), 0),
    ],
)
def test_the_hash_code_and_its_partition_of_50_are_javas(text, code, partition):
    """The last one is Integer.MIN_VALUE, whose absolute value Java has not: Kafka's Utils.abs makes
    it 0.
    """
    assert java_hash_code(text) == code
    assert partition_for(text, 50) == partition


@given(text=st.text(), partitions=st.integers(1, 1_000))
def test_every_group_has_a_partition(text, partitions):
    assert 0 <= partition_for(text, partitions) < partitions


@given(text=st.text(), character=st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
def test_each_utf16_unit_counts_31_times_what_is_before(text, character):
    assert (
        java_hash_code(text + character) - 31 * java_hash_code(text) - ord(character)
    ) % 2**32 == 0
