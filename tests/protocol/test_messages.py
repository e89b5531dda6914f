"""Requests of every version in, responses of every version out."""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import ErrorCode
from kohort.protocol import building
from kohort.protocol.apis import APIS, BY_NAME
from kohort.protocol.bounds_check import bounds_check, has_arrays
from kohort.protocol.framing import MalformedError
from kohort.protocol.lenient_decoding import MAX_ELEMENTS, MAX_PATCHES, normalized
from kohort.protocol.message_classes import load_request_schema, load_response_schema
from kohort.protocol.messages import (
    decode_large_request,
    decode_request,
    encode,
    frame_head,
    has_few_elements,
    read_header,
    request,
    response,
)
from kohort.protocol.packing import MAX_STRING
from kohort.protocol.reading import reader
from protocol.wire_entities import VERSIONS, name_of, requests

HEARTBEAT, METADATA, PRODUCE = (
    BY_NAME["heartbeat"].key,
    BY_NAME["metadata"].key,
    BY_NAME["produce"].key,
)
each_version = pytest.mark.parametrize("case", VERSIONS, ids=name_of)


def framed(api_key: int, version: int, rest: bytes, correlation_id: int = 7) -> bytes:
    content = struct.pack(">hhi", api_key, version, correlation_id) + rest
    return struct.pack(">i", len(content)) + content


# Headers


def test_header_v1_and_v2() -> None:
    data = framed(HEARTBEAT, 3, b"\0\x03abcbody")
    assert read_header(data) == (HEARTBEAT, 3, 7, "abc", len(data) - 4)
    data = framed(HEARTBEAT, 4, b"\0\x03abc\0body")
    assert read_header(data) == (HEARTBEAT, 4, 7, "abc", len(data) - 4)


def test_header_without_client_id() -> None:
    assert read_header(framed(HEARTBEAT, 4, b"\xff\xff\0body", correlation_id=-5))[2:4] == (-5, "")
    # any negative length, as in Kafka
    assert read_header(framed(HEARTBEAT, 4, b"\xff\xf0\0body"))[3] == ""
    assert read_header(framed(HEARTBEAT, 4, b"\0\1\xff\0body"))[3] == "\ufffd"


def test_header_tags_are_passed_over_whatever_they_are() -> None:
    data = framed(HEARTBEAT, 4, b"\0\x01a" + b"\x03\x09\x02xy\x01\0\x01\x01z" + b"body")
    assert data[read_header(data)[-1] :] == b"body"


@pytest.mark.parametrize(
    "data",
    [
        framed(HEARTBEAT, 4, b"\0\x03ab"),  # client id longer than the frame
        framed(HEARTBEAT, 4, b"\0\0"),  # no tags where tags must be
        framed(HEARTBEAT, 4, b"\0\0\x02\x01\x01a"),  # one tag of two
        framed(HEARTBEAT, 4, b"\0\0\xff\xff\xff\xff\x07"),  # 2^31 tags
        framed(HEARTBEAT, 4, b"\0\0\xff\xff\xff\xff\xff\xff"),
        framed(HEARTBEAT, 4, b"")[:9],
        framed(HEARTBEAT, 5, b"\0\0\0"),
        framed(HEARTBEAT, -1, b"\0\0"),
        framed(PRODUCE, 2, b"\0\0"),  # advertised, but not served
        framed(999, 0, b"\0\0"),
        framed(18, 99, b"\xff\xff"),
        framed(-1, 0, b"\0\0"),
        b"\0\0\0\0",
    ],
)
def test_bytes_that_are_no_header_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read_header(data)


@pytest.mark.parametrize("version", [-1, 5, 99])
def test_api_versions_of_any_version_has_a_header(version: int) -> None:
    rest = b"\xff\xff" + (b"\0" if version > 2 else b"") + b"whatever"
    assert read_header(framed(18, version, rest))[:3] == (18, version, 7)


# Requests


@each_version
@settings(max_examples=examples(3), derandomize=True, database=None)
@given(st.data())
def test_requests_survive_the_wire(case: tuple[int, int], data: st.DataObject) -> None:
    entity = data.draw(requests(*case))
    encoded = encode(entity)
    assert decode_request(*case, encoded) == entity
    assert decode_request(*case, b"in front" + encoded + b"behind", 8) == entity


@each_version
@settings(max_examples=examples(2), derandomize=True, database=None)
@given(st.data())
def test_a_request_cut_short_is_refused(case: tuple[int, int], data: st.DataObject) -> None:
    encoded = encode(data.draw(requests(*case)))
    for cut in range(max(0, len(encoded) - 40), len(encoded)):
        with pytest.raises(MalformedError):
            decode_request(*case, encoded[:cut])


@pytest.mark.parametrize("case", [c for c in VERSIONS if APIS[c[0]].flexible(c[1])], ids=name_of)
@settings(max_examples=examples(2), derandomize=True, database=None)
@given(st.data())
def test_unknown_tags_are_ignored(case: tuple[int, int], data: st.DataObject) -> None:
    entity = data.draw(requests(*case))
    tags = b"\x03\xc8\x01\x02xy\x7f\0\xc8\x01\x01z"  # tags 200, 127, 200: descending, and one twice
    encoded = encode(entity)
    if encoded[-1:] == b"\0":  # no known tag at the end
        assert decode_request(*case, encoded[:-1] + tags) == entity


def test_unknown_tags_deep_inside() -> None:
    committed = (
        b"\0\0\0\x05" + b"\0" * 7 + b"\x09" + b"\xff\xff\xff\xff" + b"\0" + b"\x01\x63\x03abc"
    )
    topic = b"\x02t" + b"\x02" + committed + b"\x02\x05\0\x06\x01q"
    body = b"\x02g\0\0\0\x01\x02m\0" + b"\x02" + topic + b"\x01\x07\x01x"
    decoded = decode_request(8, 8, body + b"trailing")
    partition = decoded.topics[0].partitions[0]
    assert (
        partition.partition_index,
        partition.committed_offset,
        partition.committed_metadata,
    ) == (5, 9, None)


def test_known_tags_stay_where_unknown_ones_go() -> None:
    known = request(
        1, 17, topics=[], cluster_id="c1", replica_state={"replica_id": 3, "replica_epoch": 4}
    )
    front = encode(request(1, 17, topics=[]))[:-1]
    section = encode(known)[len(front) :]
    assert section[0] == 2
    mixed = front + b"\x04" + b"\x63\x02no" + section[1:] + b"\x64\x01n"
    assert decode_request(1, 17, mixed) == known


def test_a_known_tag_twice_counts_as_the_last() -> None:
    front = encode(request(1, 12, topics=[]))[:-1]
    assert (
        decode_request(1, 12, front + b"\x02" + b"\x00\x02\x02a" + b"\x00\x02\x02b").cluster_id
        == "b"
    )


@pytest.mark.parametrize("version", [0, 4])
def test_text_that_is_not_utf8_is_read_as_java_reads_it(version: int) -> None:
    latin = "grün".encode("latin-1")
    if version == 0:
        body = b"\0\4" + latin + b"\0\0\0\1" + b"\0\1\xff"
    else:
        body = b"\5" + latin + b"\0\0\0\1" + b"\2\xff" + b"\0\0"
    heartbeat = decode_request(HEARTBEAT, version, body + b"trailing")
    assert (heartbeat.group_id, heartbeat.generation_id, heartbeat.member_id) == (
        "gr\ufffdn",
        1,
        "\ufffd",
    )


def test_bytes_are_never_taken_for_text() -> None:
    join = request(
        11,
        9,
        group_id="g",
        member_id="",
        protocol_type="c",
        protocols=[{"name": "n", "metadata": b"\xff\xfe"}],
    )
    assert (
        decode_request(11, 9, encode(join)[:-1] + b"\x01\x63\x01x").protocols[0].metadata
        == b"\xff\xfe"
    )


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63)])
def test_a_retention_for_ever_is_a_long_one(milliseconds: int) -> None:
    body = legacy("g") + b"\0\0\0\1" + legacy("m") + struct.pack(">q", milliseconds) + b"\0\0\0\0"
    days = decode_request(8, 2, body).retention_time.days
    assert days > 100_000_000 if milliseconds > 0 else days < -100_000_000


def legacy(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (
            "join_group",
            0,
            legacy("g") + b"\0\0\0\1" + legacy("") + legacy("c") + b"\x7f\xff\xff\xff",
        ),
        (
            "join_group",
            0,
            legacy("g") + b"\0\0\0\1" + legacy("") + legacy("c") + b"\xff\xff\xff\xff",
        ),
        ("join_group", 0, legacy("g") + b"\0\0\0\1" + legacy("") + legacy("c") + b"\x80\0\0\0"),
        (
            "join_group",
            0,
            legacy("g") + b"\0\0\0\1" + legacy("") + legacy("c") + b"\0\0\0\1\0\1r\x7f\xff\xff\xff",
        ),
        (
            "join_group",
            0,
            legacy("g") + b"\0\0\0\1" + legacy("") + legacy("c") + b"\0\0\0\1\0\1r\xff\xff\xff\xff",
        ),
        ("metadata", 12, b"\xff\xff\xff\xff\x7f"),  # kio ends the process at this one
        ("metadata", 12, b"\xff\xff\xff\xff\x07"),
        ("metadata", 12, b"\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("offset_fetch", 7, b"\x02g\x02\x02t\xff\xff\xff\xff\x07"),
        ("offset_fetch", 1, legacy("g") + b"\xff\xff\xff\xff"),  # null where v1 has no null
        ("describe_groups", 0, b"\xff\xff\xff\xff"),
        ("heartbeat", 0, b"\xff\xff\0\0\0\1" + legacy("m")),  # null group id
        ("heartbeat", 0, b"\xff\xf0\0\0\0\1" + legacy("m")),
        ("heartbeat", 0, b"\x7f\xff\0\0\0\1" + legacy("m")),
        ("heartbeat", 4, b"\xff\xff\xff\xff\xff\x01"),
        ("heartbeat", 4, b"\x02g\0\0\0\1\x02m\0\xff\xff\xff\xff\x07"),  # 2^31 tags
        # more than it has
        ("heartbeat", 4, b"\x02g\0\0\0\1\x02m\0" + b"\xc0\x96\xb1\x02" + b"\x07\0" * 50_000),
        (
            "heartbeat",
            4,
            b"\x02g\0\0\0\1\x02m\0" + b"\x80\x40" + b"\x07\0" * (2 * MAX_PATCHES),
        ),  # as many as it has, too many
        # a tag longer than the frame
        ("heartbeat", 4, b"\x02g\0\0\0\1\x02m\0\x01\x07\xff\xff\xff\xff\x07"),
        ("heartbeat", 0, b""),
    ],
)
def test_lengths_and_counts_that_cannot_be(api: str, version: int, body: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_request(BY_NAME[api].key, version, body)


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("heartbeat", 4, lambda text: {"group_id": text}),
        ("join_group", 9, lambda text: {"group_id": text}),
        ("metadata", 9, lambda text: {"topics": [{"name": text}]}),
        ("describe_groups", 5, lambda text: {"groups": [text]}),
    ],
)
def test_longer_strings_than_kafka_reads(
    api: str, version: int, fields: Callable[[str], dict[str, Any]]
) -> None:
    key = BY_NAME[api].key
    longest = request(key, version, **fields("x" * MAX_STRING))
    too_long = encode(request(key, version, **fields("x" * (MAX_STRING + 1))))
    for decode in (decode_request, decode_large_request):
        assert decode(key, version, encode(longest), 0) == longest
        with pytest.raises(MalformedError):
            decode(key, version, too_long, 0)


def test_elements_are_counted_up_to_a_limit() -> None:
    partitions = [{"index": 0, "records": b"r"}] * 9
    topics = [{"name": "t", "partition_data": partitions}]
    body = encode(request(PRODUCE, 9, topic_data=topics))
    assert has_few_elements(PRODUCE, 9, body, 0, 10)
    assert not has_few_elements(PRODUCE, 9, body, 0, 9)
    assert not has_few_elements(PRODUCE, 9, body[:-5], 0, 10)


def test_a_flood_of_elements_is_refused() -> None:
    with pytest.raises(MalformedError):
        decode_request(METADATA, 1, struct.pack(">i", 2_000_000) + bytes(4_000_000))
    topics = (legacy("t") + struct.pack(">i", 1_000) + bytes(4_000)) * 1_100
    with pytest.raises(MalformedError):  # in many arrays, each of them small
        decode_request(9, 1, legacy("g") + struct.pack(">i", 1_100) + topics)


@settings(max_examples=examples(300), database=None)
@given(st.sampled_from(VERSIONS), st.binary(max_size=60))
def test_no_bytes_raise_anything_else(case: tuple[int, int], body: bytes) -> None:
    try:
        decoded = decode_request(*case, body)
    except MalformedError:
        return
    assert type(decoded) is load_request_schema(*case)


@settings(max_examples=examples(100), database=None)
@given(st.data(), st.sampled_from(VERSIONS))
def test_no_damage_raises_anything_else(data: st.DataObject, case: tuple[int, int]) -> None:
    encoded = bytearray(encode(data.draw(requests(*case))))
    for _ in range(data.draw(st.integers(1, 3))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(
                st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
            )
    try:
        decode_request(*case, bytes(encoded))
    except MalformedError:
        pass


@settings(max_examples=examples(200), database=None)
@given(
    st.data(),
    # Not when the tests are collected: it loads the modules of all requests.
    st.deferred(
        lambda: st.sampled_from([c for c in VERSIONS if has_arrays(load_request_schema(*c))])
    ),
)
def test_the_quick_walk_lets_nothing_pass_that_the_careful_one_does_not(
    data: st.DataObject, case: tuple[int, int]
) -> None:
    encoded = bytearray(encode(data.draw(requests(*case))))
    for _ in range(data.draw(st.integers(0, 3))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(
                st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
            )
    quick = bounds_check(load_request_schema(*case))
    try:
        all_is_well = quick(bytes(encoded), 0, MAX_ELEMENTS)
    except (IndexError, MalformedError):
        return
    if all_is_well:
        # does not raise: every count and length can be
        normalized(load_request_schema(*case), bytes(encoded))


# Responses


NEVER_THROTTLED = {
    BY_NAME[name].key
    for name in ("describe_quorum", "sasl_authenticate", "sasl_handshake", "write_txn_markers")
}


@pytest.mark.parametrize("case", [c for c in VERSIONS if c[0] not in NEVER_THROTTLED], ids=name_of)
def test_a_response_of_no_values_has_the_schemas_defaults(case: tuple[int, int]) -> None:
    assert encode(response(*case)) == encode(response(*case, throttle_time_ms=0))


def test_fields_of_other_versions_are_dropped() -> None:
    topics = [
        {
            "name": "t",
            "topic_id": UUID(int=5),
            "partitions": [{"partition_index": 1, "error_code": 22}],
        }
    ]
    by_name = response(8, 9, topics=topics).topics[0]
    by_id = response(8, 10, topics=topics).topics[0]
    assert (by_name.name, hasattr(by_name, "topic_id")) == ("t", False)
    assert (by_id.topic_id, hasattr(by_id, "name")) == (UUID(int=5), False)
    assert by_id.partitions[0].error_code is ErrorCode.illegal_generation


def test_a_name_that_no_version_has_is_a_bug() -> None:
    with pytest.raises(TypeError, match="generation"):
        response(11, 9, generation=3)
    with pytest.raises(TypeError, match="errorcode"):
        response(
            8, 9, topics=[{"name": "t", "partitions": [{"partition_index": 1, "errorcode": 0}]}]
        )


def test_a_field_of_another_version_loads_no_more_than_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = []

    def load(api_key: int, version: int) -> Any:
        loaded.append(version)
        return load_request_schema(api_key, version)

    monkeypatch.setattr(building, "load_request_schema", load)
    building._is_of_another_version.cache_clear()
    request(BY_NAME["offset_fetch"].key, 10, groups=(), require_stable=True)
    assert set(loaded) == {10}
    request(BY_NAME["offset_fetch"].key, 10, groups=(), topics=())
    assert set(loaded) == {10, 9, 8, 7}


def test_durations_and_timestamps_are_milliseconds() -> None:
    assert response(12, 1, throttle_time_ms=1500).throttle_time == timedelta(seconds=1.5)
    assert response(12, 1, throttle_time=20).throttle_time == timedelta(milliseconds=20)
    assert response(12, 1, throttle_time=timedelta(1)).throttle_time == timedelta(1)
    partition = {"index": 0, "error_code": 0, "log_append_time_ms": 1_700_000_000_123}
    built = response(0, 9, responses=[{"name": "t", "partition_responses": [partition]}])
    assert built.responses[0].partition_responses[0].log_append_time == datetime(
        2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC
    )
    partition["log_append_time_ms"] = -1
    built = response(0, 9, responses=[{"name": "t", "partition_responses": [partition]}])
    assert built.responses[0].partition_responses[0].log_append_time is None


def test_any_iterable_is_an_array_and_none_is_null() -> None:
    built = response(11, 5, members=({"member_id": name, "metadata": b""} for name in "ab"))
    assert [member.member_id for member in built.members] == ["a", "b"]
    assert response(75, 0, next_cursor=None).next_cursor is None
    assert (
        response(
            75, 0, next_cursor={"topic_name": "t", "partition_index": 3}
        ).next_cursor.partition_index
        == 3
    )
    assert response(75, 0, topics=response(75, 0).topics) == response(75, 0)


def test_a_response_frame_begins_with_size_and_correlation_id() -> None:
    assert frame_head(HEARTBEAT, 3, 9, 4) == b"\0\0\0\x08\0\0\0\x09"
    assert frame_head(HEARTBEAT, 4, 9, 4) == b"\0\0\0\x09\0\0\0\x09\0"
    assert frame_head(18, 4, 9, 4) == b"\0\0\0\x08\0\0\0\x09"  # ApiVersions never has header tags
    assert frame_head(HEARTBEAT, 0, -1, 0) == b"\0\0\0\x04\xff\xff\xff\xff"


def test_a_time_that_stands_for_none_is_read() -> None:
    """A transactional id without a transaction has -1 as its start; kio refuses it."""
    state = {
        "transactional_id": "shop",
        "transaction_state": "Empty",
        "transaction_timeout_ms": 60_000,
        "transaction_start_time": datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=1),
        "producer_id": 7,
        "producer_epoch": 0,
        "topics": (),
    }
    body = encode(response(65, 0, transaction_states=[state]))
    (found,) = reader(load_response_schema(65, 0))(body, 0).transaction_states
    assert found.transaction_start_time.timestamp() == 0
    assert (found.transactional_id, found.producer_id) == ("shop", 7)


def test_an_error_code_of_a_later_release_is_an_unknown_server_error() -> None:
    """GROUP_DELETION_FAILED of Kafka 4.4, which kio does not have; Java reads it so too."""
    body = encode(response(42, 2, results=[{"group_id": "g", "error_code": 68}]))
    body = body.replace(b"\0\x44", b"\0\x86")
    (found,) = reader(load_response_schema(42, 2))(body, 0).results
    assert (found.group_id, found.error_code) == ("g", ErrorCode.unknown_server_error)
