"""Plain values into requests of every version, and responses back into plain values."""

import datetime
import io
import struct
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from kohort_conformance import newer_messages
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


TOPIC = uuid.UUID(int=(1 << 64) + 2)
PARTITION = {"partition_index": 3, "committed_offset": 4, "committed_leader_epoch": 5}
SOFTWARE = {"client_software_name": "k", "client_software_version": "1"}


@pytest.mark.parametrize(
    ("api", "version", "values", "body"),
    [
        ("ApiVersions", 5, SOFTWARE, "026b023100ffffffff00"),
        ("ApiVersions", 5, {**SOFTWARE, "cluster_id": "c", "node_id": 7}, "026b023102630000000700"),
        (
            "TxnOffsetCommit",
            6,
            {
                "transactional_id": "t",
                "group_id": "g",
                "producer_id": 8,
                "producer_epoch": 9,
                "generation_id_or_member_epoch": 6,
                "generation_id": 6,
                "member_id": "i",
                "topics": [
                    {"topic_id": TOPIC, "partitions": [{**PARTITION, "committed_metadata": "m"}]}
                ],
            },
            "02740267000000000000000800090000000602690002000000000000000100000000000000020200000003"
            "000000000000000400000005026d000000",
        ),
        ("DeleteGroups", 3, {"groups_names": ["g", "h"]}, "030267026800"),
    ],
)
def test_requests_that_kio_does_not_know_are_those_of_kafkas_classes(
    api: str, version: int, values: dict[str, Any], body: str
) -> None:
    """The bytes are what the classes in kafka-clients-4.4.0.jar write."""
    frame = encode_request(api, version, values, 7, "me")
    assert frame[13:].hex() == body


@pytest.mark.parametrize(
    ("api", "version", "body", "fields"),
    [
        (
            "ApiVersions",
            5,
            "00810200120000000500000000000101080000000000000003",
            {
                "error_code": "REBOOTSTRAP_REQUIRED (129)",
                "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 5}],
                "throttle_time": 0,
                "supported_features": [],
                "finalized_features_epoch": 3,
                "finalized_features": [],
                "zk_migration_ready": False,
            },
        ),
        (
            "TxnOffsetCommit",
            6,
            "0000000000020000000000000001000000000000000202000000030064000000",
            {
                "throttle_time": 0,
                "topics": [
                    {
                        "topic_id": str(TOPIC),
                        "partitions": [
                            {"partition_index": 3, "error_code": "UNKNOWN_TOPIC_ID (100)"}
                        ],
                    }
                ],
            },
        ),
        (
            "DeleteGroups",
            3,
            "00000000000302670044036e6f0002680000000000",
            {
                "throttle_time": 0,
                "results": [
                    {
                        "group_id": "g",
                        "error_code": "NON_EMPTY_GROUP (68)",
                        "error_message": "no",
                    },
                    {"group_id": "h", "error_code": "NONE (0)", "error_message": None},
                ],
            },
        ),
    ],
)
def test_responses_that_kio_does_not_know_are_those_of_kafkas_classes(
    api: str, version: int, body: str, fields: dict[str, Any]
) -> None:
    assert decode_response(api, version, bytes.fromhex(f"00000001{body}")) == fields


def test_kio_does_not_know_the_messages_that_are_defined_here() -> None:
    """Remove a class from `newer_messages.py` once kio has it."""
    newer = [(api, version) for api, version, _ in newer_messages.NEWER]
    assert [one for one in newer if one[1] in schema_name_map[one[0]]] == []


def test_names_of_a_version_that_kio_does_not_know_are_dropped_from_the_others() -> None:
    asked = decoded("ApiVersions", 3, **SOFTWARE, cluster_id="c", node_id=7)
    assert asked.client_software_name == "k"
    assert not hasattr(asked, "cluster_id")
