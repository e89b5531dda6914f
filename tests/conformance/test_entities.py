"""Plain values into requests of every version, and responses back into plain values."""

import datetime
import io
import struct
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from kohort_conformance.entities import (
    UndecodableResponseError,
    build,
    decode_response,
    encode_request,
    plain,
    request_class,
    response_class,
)


def decoded(api: str, version: int, **values: Any) -> Any:
    """The request as a server reads it."""
    cls = request_class(api, version)
    frame = encode_request(api, version, values, 7, "me")
    header, size = entity_reader(cls.__header_schema__)(frame, 0)
    assert (header.correlation_id, header.client_id, header.request_api_version) == (
        7,
        "me",
        version,
    )
    entity, rest = entity_reader(cls)(frame, size)
    assert size + rest == len(frame)
    return entity


@pytest.mark.parametrize("version", range(10))
def test_one_set_of_values_serves_every_version(version: int) -> None:
    join = decoded(
        "JoinGroup",
        version,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout=20_000,
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"m"}],
        reason="because",
    )
    assert join.session_timeout == datetime.timedelta(seconds=10)
    assert join.protocols[0].metadata == b"m"
    assert getattr(join, "group_instance_id", "i") == "i"
    assert getattr(join, "reason", "because") == "because"


def test_omitted_fields_are_zero_empty_or_the_default() -> None:
    commit = decoded("OffsetCommit", 9)
    assert (commit.group_id, commit.member_id, commit.topics) == ("", "", ())
    assert (commit.generation_id_or_member_epoch, commit.group_instance_id) == (-1, None)


def test_a_name_of_no_version_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="generation in any version"):
        encode_request("Heartbeat", 4, {"generation": 3}, 1, None)
    with pytest.raises(ValueError, match="ofset"):
        build(
            request_class("OffsetCommit", 9),
            {"topics": [{"name": "t", "partitions": [{"ofset": 1}]}]},
        )


def response(api: str, version: int, **values: Any) -> bytes:
    cls = response_class(api, version)
    with io.BytesIO() as out:
        out.write(
            struct.pack(">i", 1) + (b"\0" if cls.__flexible__ and api != "ApiVersions" else b"")
        )
        entity_writer(cls)(out, build(cls, values))
        return out.getvalue()


def test_an_answer_becomes_plain_values() -> None:
    frame = response("Heartbeat", 4, error_code=ErrorCode.rebalance_in_progress, throttle_time=5)
    assert decode_response("Heartbeat", 4, frame) == {
        "throttle_time": 5,
        "error_code": "REBALANCE_IN_PROGRESS (27)",
    }


def test_a_time_that_there_is_not_is_minus_one() -> None:
    empty = {"error_code": ErrorCode.none, "transaction_start_time": -1}
    frame = response("DescribeTransactions", 0, transaction_states=[empty])
    fields: Any = decode_response("DescribeTransactions", 0, frame)
    [state] = fields["transaction_states"]
    assert state["transaction_start_time"] == -1


def test_bytes_behind_an_answer_are_told() -> None:
    frame = response("Heartbeat", 0, error_code=ErrorCode.none) + b"xy"
    assert decode_response("Heartbeat", 0, frame) == {"error_code": "NONE (0)", "trailing_bytes": 2}


@pytest.mark.parametrize("cut", range(4, 10))
def test_an_answer_that_ends_too_early_is_undecodable(cut: int) -> None:
    frame = response("JoinGroup", 5, error_code=ErrorCode.none, member_id="m", leader="m")
    with pytest.raises(UndecodableResponseError):
        decode_response("JoinGroup", 5, frame[:cut])


def test_plain_values_of_every_kind() -> None:
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    values = (
        None,
        True,
        "s",
        b"\x01",
        uuid.UUID(int=7),
        moment,
        datetime.timedelta(milliseconds=-1),
        ErrorCode.none,
    )
    assert plain(values) == [
        None, True, "s", "01", "00000000-0000-0000-0000-000000000007",
        1_704_067_200_000, -1, "NONE (0)",
    ]  # fmt: skip
