"""Fetch responses read in place: as kio reads them, and nothing but MalformedError for what is
none.
"""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client.fetch.response import VERSIONS, read_fetch_response
from kohort.protocol.building import response
from kohort.protocol.framing import MalformedError
from kohort.protocol.writing import encode

IDS = st.uuids().filter(lambda each: each.int)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.fixed_dictionaries(
    {
        "partition_index": st.integers(0, 2**31 - 1),
        "error_code": st.sampled_from([0, 1, 6, 74, 100]),
        "high_watermark": INT64,
        "last_stable_offset": INT64,
        "log_start_offset": INT64,
        "aborted_transactions": st.none()
        | st.lists(
            st.fixed_dictionaries({"producer_id": INT64, "first_offset": INT64}), max_size=3
        ),
        "records": st.none() | st.binary(max_size=200) | st.integers(100, 20_000).map(bytes),
        "diverging_epoch": st.sampled_from([{}, {"epoch": 3, "end_offset": 17}]),
        "current_leader": st.sampled_from([{}, {"leader_id": 2, "leader_epoch": 9}]),
    }
)
TOPICS = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.text(max_size=20),
            "topic_id": IDS,
            "partitions": st.lists(PARTITIONS, max_size=3),
        }
    ),
    max_size=3,
)


def fields(topics: list[dict[str, Any]], version: int) -> dict[str, Any]:
    """What building takes; tags only where the version has them."""
    left_out = set() if version >= 12 else {"diverging_epoch", "current_leader"}
    return {
        "error_code": 71 if version >= 7 else 0,
        "session_id": 12345,
        "responses": [
            topic
            | {
                "partitions": [
                    {k: v for k, v in partition.items() if k not in left_out}
                    for partition in topic["partitions"]
                ]
            }
            for topic in topics
        ],
    }


@given(st.integers(*VERSIONS), TOPICS, st.integers(0, 9))
def test_responses_written_by_kio_are_read(
    version: int, topics: list[dict[str, Any]], at: int
) -> None:
    made = response(1, version, **fields(topics, version))
    answer = read_fetch_response(bytes(at) + encode(made), version, at)
    if version >= 7:
        assert (answer.error, answer.session_id) == (71, 12345)
    expected = [(topic, partition) for topic in made.responses for partition in topic.partitions]
    assert len(answer.partitions) == len(expected)
    for told, (topic, each) in zip(answer.partitions, expected, strict=True):
        assert told.topic == (topic.topic_id if version >= 13 else topic.topic)
        assert told[1:5] == (
            each.partition_index,
            each.error_code,
            each.high_watermark,
            each.last_stable_offset,
        )
        assert told.log_start_offset == (each.log_start_offset if version >= 5 else -1)
        aborted = each.aborted_transactions or ()
        assert told.aborted == tuple((one.producer_id, one.first_offset) for one in aborted)
        assert bytes(told.records) == (each.records or b"")
        diverging = getattr(each, "diverging_epoch", None)
        assert told.diverging == ((3, 17) if diverging and diverging.epoch == 3 else None)


def test_records_are_views_of_the_frame() -> None:
    topic = {
        "topic": "orders",
        "topic_id": UUID(int=1),
        "partitions": [{"partition_index": 0, "records": b"abc" * 50}],
    }
    frame = bytearray(encode(response(1, 17, responses=[topic])))
    (told,) = read_fetch_response(frame, 17, 0).partitions
    assert told.records.obj is frame


@given(st.integers(*VERSIONS), st.binary(max_size=300))
def test_any_bytes_are_read_or_malformed(version: int, data: bytes) -> None:
    try:
        read_fetch_response(data, version, 0)
    except MalformedError:
        pass


@given(st.integers(*VERSIONS), TOPICS, st.data())
def test_a_truncated_response_is_malformed(
    version: int, topics: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = encode(response(1, version, **fields(topics, version)))
    cut = data.draw(st.integers(0, len(whole) - 1))
    try:
        answer = read_fetch_response(whole[:cut], version, 0)
    except MalformedError:
        return
    # Only tags that nobody reads may be missing.
    assert len(answer.partitions) == sum(len(topic["partitions"]) for topic in topics)


@pytest.mark.parametrize("version", range(VERSIONS[0], VERSIONS[1] + 1))
def test_a_false_count_is_malformed(version: int) -> None:
    count = b"\xff\xff\xff\xff\x0f" if version >= 12 else b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedError):
        read_fetch_response(bytes(10 if version >= 7 else 4) + count + bytes(100), version, 0)
