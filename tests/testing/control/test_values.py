"""Values of verbs as JSON: none is changed on its way, and wrong ones are named."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from effort import examples
from kohort.coordinator.journal import Cause
from kohort.testing.control.values import (
    InvalidValueError,
    component_schemas,
    decode,
    encode,
    schema_of,
)
from kohort.testing.embedded.group_state import GroupRebalance, GroupState, Member
from kohort.testing.embedded.topic_records import TopicRecord
from kohort.types import TopicPartition

TOPICS = st.text(min_size=1, max_size=8)
NUMBERS = st.integers(0, 2**31 - 1)
PARTITIONS = st.builds(TopicPartition, TOPICS, NUMBERS)
TEXTS = st.text(max_size=8)
BYTES = st.none() | st.binary(max_size=8)
RECORDS = st.builds(
    TopicRecord,
    topic=TOPICS,
    partition=NUMBERS,
    offset=st.integers(0),
    timestamp=st.integers(-1),
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(TEXTS, BYTES), max_size=2).map(tuple),
)
REBALANCES = st.builds(
    GroupRebalance,
    generation=st.integers(-1),
    causes=st.lists(st.builds(Cause, TEXTS, TEXTS, TEXTS, TEXTS), max_size=2).map(tuple),
    outcome=TEXTS,
    duration_ms=st.integers(0),
    members=st.lists(TEXTS, max_size=2).map(tuple),
    awaited=st.lists(TEXTS, max_size=2).map(tuple),
)
MEMBERS = st.builds(
    Member,
    member_id=TEXTS,
    client_id=TEXTS,
    instance_id=st.none() | TEXTS,
    assignment=st.lists(PARTITIONS, max_size=2).map(tuple),
)
OFFSETS = st.dictionaries(st.tuples(TOPICS, NUMBERS), st.integers(0), max_size=3)
GROUPS = st.builds(
    GroupState,
    group=TEXTS,
    type=TEXTS,
    state=TEXTS,
    generation=st.integers(-1),
    members=st.lists(MEMBERS, max_size=2).map(tuple),
    committed=OFFSETS,
    rebalances=st.lists(REBALANCES, max_size=2).map(tuple),
    explanation=TEXTS,
)
VALUES = st.one_of(
    st.tuples(st.just(GroupState), GROUPS),
    st.tuples(st.just(list[TopicRecord]), st.lists(RECORDS, max_size=2)),
    st.tuples(st.just(Mapping[tuple[str, int], int]), OFFSETS),
    st.tuples(st.just(Sequence[bytes | None]), st.lists(BYTES, max_size=3)),
    st.tuples(st.just(float), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(str | None), st.none() | TEXTS),
)


@given(VALUES)
@settings(max_examples=examples(100))
def test_a_value_is_the_same_after_its_way_through_json(typed: tuple[Any, Any]) -> None:
    kind, value = typed
    sent = json.loads(json.dumps(encode(value)))
    assert decode(kind, sent, "value") == value
    document = {**schema_of(kind), "components": {"schemas": component_schemas(kind)}}
    Draft202012Validator(document).validate(sent)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (int, "1", "partitions: expected an integer, not '1'"),
        (int, True, "partitions: expected an integer, not True"),
        (float, float("nan"), "partitions: expected a number, not nan"),
        (float, float("inf"), "partitions: expected a number, not inf"),
        (bytes, "paid!", "partitions: expected bytes in base64, not 'paid!'"),
        (bytes, 1, "partitions: expected bytes in base64, not 1"),
        (Sequence[int], [0, None], "partitions[1]: expected an integer, not None"),
        (tuple[str, bytes | None], ["a"], "partitions: expected an array of 2, not ['a']"),
        (Mapping[str, str], {"a": 1}, "partitions.a: expected a string, not 1"),
        (
            Mapping[tuple[str, int], int],
            {"orders": 1},
            "partitions: expected TOPIC-PARTITION such as \"orders-0\", not 'orders'",
        ),
        (TopicRecord, {"topic": 1}, "partitions.topic: expected a string, not 1"),
    ],
)
def test_the_place_of_a_wrong_value_is_named(kind: Any, value: object, text: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        decode(kind, value, "partitions")
    assert str(refused.value) == text
