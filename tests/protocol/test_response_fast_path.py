"""Packed responses, byte for byte what kio writes."""

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.apis import BY_NAME
from kohort.protocol.messages import encode, frame_head, response
from kohort.protocol.packing import pack_int32
from protocol.wire_entities import name_of


def versions(name: str) -> pytest.MarkDecorator:
    api = BY_NAME[name]
    cases = [(api.key, version) for version in range(api.min_version, api.max_version + 1)]
    return pytest.mark.parametrize("case", cases, ids=name_of)


TOPIC_ID = UUID("84176e6c-7b33-4061-89b0-e281970c9d08")
few = settings(max_examples=examples(15), database=None)
errors = st.sampled_from(ErrorCode)
texts = st.text(max_size=5) | st.just("x" * 200)
blobs = st.binary(max_size=5) | st.just(bytes(200))
names = st.none() | texts


@pytest.mark.parametrize("version", [0, 1])
def test_a_steady_consumer_group_heartbeat_is_encoded_as_by_kio(version: int) -> None:
    full = response(68, version, member_id="mé", member_epoch=7, heartbeat_interval=5_000)
    body = response_fast_path.steady_heartbeat("mé", 7, 5_000)
    assert body == encode(full)
    before_id, behind_id = response_fast_path.steady_heartbeat_frame("mé", 7, 5_000)
    assert before_id + pack_int32(9) + behind_id == frame_head(68, version, 9, len(body)) + body


@versions("heartbeat")
@pytest.mark.parametrize(
    "error", [ErrorCode.none, ErrorCode.unknown_server_error, ErrorCode.rebalance_in_progress]
)
def test_a_heartbeat_response_is_encoded_as_by_kio(case, error: ErrorCode) -> None:
    assert response_fast_path.heartbeat(case[1], error) == encode(response(*case, error_code=error))


def test_the_throttle_time_goes_before_the_error() -> None:
    assert response_fast_path.heartbeat(0, 27) == b"\0\x1b"
    assert response_fast_path.heartbeat(1, 27) == b"\0\0\0\0\0\x1b"


@versions("sync_group")
@few
@given(error=errors, protocol_type=names, protocol_name=names, assignment=blobs)
def test_a_sync_group_response_is_encoded_as_by_kio(
    case, error: ErrorCode, protocol_type, protocol_name, assignment: bytes
) -> None:
    assert response_fast_path.sync_group(
        case[1], error, protocol_type, protocol_name, assignment
    ) == encode(
        response(
            *case,
            error_code=error,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignment=assignment,
        )
    )


@versions("join_group")
@few
@given(
    error=errors,
    generation=st.integers(-1, 2**31 - 1),
    protocol_type=names,
    protocol_name=names,
    leader=texts,
    skip=st.booleans(),
    member_id=texts,
    members=st.lists(st.tuples(texts, names, blobs), max_size=3)
    | st.just([("m", None, b"x")] * 200),
)
def test_a_join_group_response_is_encoded_as_by_kio(
    case, error, generation, protocol_type, protocol_name, leader, skip, member_id, members
) -> None:
    version = case[1]
    pieces = response_fast_path.join_group(
        version,
        error=error,
        generation=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader=leader,
        skip_assignment=skip,
        member_id=member_id,
        members=members,
    )
    assert b"".join(pieces) == encode(
        response(
            *case,
            error_code=error,
            generation_id=generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name if version >= 7 else protocol_name or "",
            leader=leader,
            skip_assignment=skip,
            member_id=member_id,
            members=[
                {"member_id": m, "group_instance_id": i, "metadata": b} for m, i, b in members
            ],
        )
    )


@versions("offset_commit")
@few
@given(
    st.lists(
        st.tuples(
            texts,
            st.none() | st.uuids(),
            st.lists(st.tuples(st.integers(0, 2**31 - 1), errors), max_size=3),
        ),
        max_size=3,
    )
    | st.just([("t", UUID(int=1), [(partition, ErrorCode.none) for partition in range(300)])])
)
def test_an_offset_commit_response_is_encoded_as_by_kio(case, topics) -> None:
    expected = response(
        *case,
        topics=[
            {
                "name": name,
                "topic_id": topic_id,
                "partitions": [
                    {"partition_index": index, "error_code": error} for index, error in partitions
                ],
            }
            for name, topic_id, partitions in topics
        ],
    )
    assert response_fast_path.offset_commit(case[1], topics) == encode(expected)


@pytest.mark.parametrize("version", range(7))
def test_a_txn_offset_commit_response_is_encoded_as_by_kio(version: int) -> None:
    partitions = [(0, ErrorCode.none), (7, ErrorCode.illegal_generation)]
    topics = [("orders", UUID(int=3), partitions), ("", None, [])]
    expected = response(
        *(28, version),
        topics=[
            {
                "name": name,
                "topic_id": topic_id,
                "partitions": [
                    {"partition_index": index, "error_code": error} for index, error in found
                ],
            }
            for name, topic_id, found in topics
        ],
    )
    assert response_fast_path.txn_offset_commit(version, topics) == encode(expected)


@pytest.mark.parametrize("version", [8, 9, 10])
@few
@given(
    error=errors,
    topics=st.lists(
        st.tuples(texts, st.uuids(), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3)),
        max_size=3,
    )
    | st.just([("t", TOPIC_ID, range(300))]),
)
def test_offset_commit_with_one_error_for_all(version: int, error: ErrorCode, topics) -> None:
    columns = [
        (topic_id.bytes if version >= 10 else name.encode(), parts, ())
        for name, topic_id, parts in topics
    ]
    rows = [
        (name, topic_id, [(partition, error) for partition in parts])
        for name, topic_id, parts in topics
    ]
    assert response_fast_path.offset_commit_columns(
        version, columns, error
    ) == response_fast_path.offset_commit(version, rows)
