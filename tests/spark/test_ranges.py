"""Offset ranges, and offsets as Spark writes them. No Spark is needed."""

import itertools
import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.errors import ConfigError
from kohort.spark.positions import (
    batch_start,
    from_spark,
    recreated,
    to_spark,
    topic_id,
    topic_ids,
    validate_partitions,
    without_topics,
)
from kohort.spark.ranges import OffsetRange, limited, ranges, split
from kohort.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
partitions = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 12))
spans = st.dictionaries(
    partitions, st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=8
)


def ends(found):
    return {tp: (start, start + size) for tp, (start, size) in found.items()}


class TestAsSparkWritesThem:
    @given(st.dictionaries(partitions, st.integers(0, 2**50)))
    def test_offsets_survive_the_way_to_spark_and_back(self, positions):
        assert from_spark(to_spark(positions)) == positions

    def test_offsets_for_spark_are_sorted_by_partition_number(self):
        found = to_spark(
            {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
        )
        assert list(found) == ["a", "b"]
        assert list(found["b"]) == ["9", "10"]

    def test_members_say_where_a_batch_begins(self):
        offset = {"@begin": {"a": {"1": 50}}, "a": {"0": 60, "1": 70}}
        assert from_spark(offset) == {A0: 60, A1: 70}
        assert batch_start(offset) == {A1: 50}
        assert batch_start({"a": {"0": 60}}) == {}

    def test_offsets_for_spark_have_topic_ids_beside_them(self):
        offset = to_spark({A1: 70, A0: 60, B0: 1}, {"b": "y", "a": "x"})
        assert json.dumps(offset) == (
            '{"@ids": {"a": "x", "b": "y"}, "a": {"0": 60, "1": 70}, "b": {"0": 1}}'
        )
        assert from_spark(offset) == {A0: 60, A1: 70, B0: 1}
        assert topic_ids(offset) == {"a": "x", "b": "y"}
        assert topic_ids({"a": {"0": 60}}) == topic_ids(None) == {}

    def test_an_id_is_shown_as_kafkas_tools_do(self):
        """`Uuid.toString()` of Apache Kafka 4.4."""
        shown = topic_id(UUID("d225db67-6bda-4ace-aa5f-22cc057d25ef"))
        assert shown == "0iXbZ2vaSs6qXyLMBX0l7w"
        assert topic_id(None) is None

    def test_a_topic_is_another_one_by_its_id(self):
        before = {"a": "x", "b": "y", "c": "z"}
        assert recreated(before, {"a": "x", "b": "other", "d": "new"}) == {"b"}
        assert without_topics({A0: 1, B0: 2}, {"b"}) == {A0: 1}

    def test_no_offsets_of_spark_are_no_positions(self):
        assert from_spark(None) == from_spark({}) == {}


class TestSplitting:
    def test_ranges_are_planned_for_partitions_with_records_only(self):
        assert ranges({A0: 3, A1: 5, B0: 1}, {A0: 7, A1: 5}, {"a": "x"}) == [
            OffsetRange("a", 0, 3, 7, "x")
        ]

    @given(spans, st.none() | st.integers(1, 40), st.none() | st.integers(1, 10**6))
    def test_split_ranges_have_each_offset_once(self, found, min_partitions, max_records):
        span = ends(found)
        whole = ranges(
            {tp: at for tp, (at, _) in span.items()},
            {tp: end for tp, (_, end) in span.items()},
            {"a": "x"},
        )
        if max_records is not None:
            max_records = max(max_records, sum(each.size for each in whole) // 50 + 1)
        parts = split(whole, min_partitions, max_records)
        assert all(part.size > 0 for part in parts)
        for each in whole:
            mine = [
                part
                for part in parts
                if (part.topic, part.partition) == (each.topic, each.partition)
            ]
            assert mine[0].start == each.start
            assert mine[-1].end == each.end
            assert {part.topic_id for part in mine} == {each.topic_id}
            assert all(one.end == other.start for one, other in itertools.pairwise(mine))
        if max_records is not None:
            assert all(part.size <= max_records for part in parts)

    def test_large_ranges_get_more_tasks(self):
        parts = split([OffsetRange("a", 0, 0, 900), OffsetRange("a", 1, 0, 100)], 10, None)
        assert len(parts) == 10
        assert [part.partition for part in parts].count(1) == 1

    @pytest.mark.parametrize(
        ("sizes", "min_partitions", "parts"),
        [
            ([8], 5, [1, 1, 2, 2, 2]),
            ([5, 5], 3, [2, 3, 2, 3]),  # one and a half tasks each: rounded up
            ([10, 1], 3, [5, 5, 1]),
            ([100, 1, 1], 2, [100, 1, 1]),
            ([3, 3, 2], 4, [1, 2, 1, 2, 2]),
        ],
    )
    def test_ranges_are_split_as_by_spark(self, sizes, min_partitions, parts):
        whole = [OffsetRange("a", at, 100, 100 + size) for at, size in enumerate(sizes)]
        assert [each.size for each in split(whole, min_partitions, None)] == parts

    def test_a_range_is_split_into_no_more_parts_than_records(self):
        assert len(split([OffsetRange("a", 0, 0, 3)], 10, None)) == 3


class TestLimit:
    @given(spans, st.integers(1, 10**6))
    def test_a_limit_is_exceeded_by_one_record_per_partition_at_most(self, found, limit):
        start = {tp: at for tp, (at, _) in ends(found).items()}
        end = {tp: at for tp, (_, at) in ends(found).items()}
        got = limited(limit, start, end)
        assert all(start[tp] <= got[tp] <= end[tp] for tp in end)
        assert sum(got[tp] - start[tp] for tp in end) <= limit + len(end)

    @given(spans, st.integers(1, 1000))
    def test_every_partition_moves_on(self, found, limit):
        start = {tp: at for tp, (at, _) in ends(found).items()}
        end = {tp: at for tp, (_, at) in ends(found).items()}
        got = limited(limit, start, end)
        assert all(got[tp] > start[tp] for tp in end if end[tp] > start[tp])

    def test_each_gets_its_share(self):
        assert limited(100, {A0: 0, A1: 0}, {A0: 900, A1: 100}) == {A0: 90, A1: 10}


class TestPartitionsOfAnOption:
    def test_all_of_them_are_needed(self):
        with pytest.raises(ConfigError, match="option startingOffsets has no offset for a-1"):
            validate_partitions("startingOffsets", [A0], [A0, A1])

    def test_an_offset_of_another_partition_is_refused(self):
        with pytest.raises(
            ConfigError,
            match=("option startingOffsets names b-0, which is not read or does not exist"),
        ):
            validate_partitions("startingOffsets", [A0, B0], [A0])
