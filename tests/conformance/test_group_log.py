"""Records of `__consumer_offsets` as scenarios compare them: keys and values of each type."""

import struct
from typing import Any
from uuid import UUID

import pytest

from kohort_conformance.group_log import decode

TOPIC = UUID(int=7)
NO_TAGS = b"\0"


def key(kind: int, *parts: str) -> bytes:
    texts = (struct.pack(">h", len(part)) + part.encode() for part in ("group", *parts))
    return struct.pack(">h", kind) + b"".join(texts)


def compact(text: str | None) -> bytes:
    return b"\0" if text is None else bytes([len(text) + 1]) + text.encode()


def numbers(code: str, *values: int) -> bytes:
    return struct.pack(f">{code}", *values)


def tagged(value: bytes) -> bytes:
    """One tag, of number 0."""
    return bytes([1, 0, len(value)]) + value


def value_of(kind: int, *parts: str, value: bytes) -> Any:
    told = decode(key(kind, *parts), numbers("h", 0) + value)
    assert told is not None
    return told["value"]


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 7, 8, 16])
def test_a_tombstone_says_what_it_deletes(kind: int) -> None:
    second = ("m",) if kind in (5, 7, 8, 16) else ()
    told = decode(key(kind, *second), None)
    assert told is not None
    assert told["value"] is None
    assert [value for value in told.values() if value is not None][1:] == ["group", *second]


def test_other_types_are_not_compared() -> None:
    assert decode(key(10), None) is None


@pytest.mark.parametrize(("kind", "name"), [(3, "metadata_hash"), (6, "assignment_time")])
def test_a_tag_that_is_left_out_is_zero(kind: int, name: str) -> None:
    plain = value_of(kind, value=numbers("i", 5) + NO_TAGS)
    assert plain == {"epoch": 5, name: 0}
    full = value_of(kind, value=numbers("i", 5) + tagged(numbers("q", -9)))
    assert full == {"epoch": 5, name: -9}


def member(classic: bytes) -> bytes:
    return b"".join(
        (
            compact(None),
            compact("r"),
            compact("client"),
            compact("/host"),
            b"\2" + compact("t"),
            compact(""),
            numbers("i", 1_000),
            compact(None),
            classic,
        )
    )


@pytest.mark.parametrize(
    ("tag", "classic"),
    [
        (NO_TAGS, "(absent)"),
        (tagged(b"\0"), None),
        (tagged(b"\1\2"), "02"),
    ],
)
def test_a_member_and_what_it_says_as_a_classic_one(tag: bytes, classic: str | None) -> None:
    assert value_of(5, "m", value=member(tag)) == {
        "instance_id": None,
        "rack": "r",
        "client_id": "client",
        "client_host": "/host",
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": "",
        "rebalance_timeout": 1_000,
        "server_assignor": None,
        "classic": classic,
    }


def test_partitions_are_sorted_with_their_epochs() -> None:
    topic = TOPIC.bytes + b"\3" + numbers("ii", 5, 2) + tagged(b"\3" + numbers("ii", 4, 3))
    value = numbers("iib", 4, 3, 0) + b"\2" + topic + b"\1" + NO_TAGS
    assert value_of(8, "m", value=value) == {
        "member_epoch": 4,
        "previous_member_epoch": 3,
        "state": 0,
        "assigned_partitions": [{"topic_id": str(TOPIC), "partitions_at_epochs": [[2, 3], [5, 4]]}],
        "partitions_pending_revocation": [],
    }


def test_a_target_has_no_epochs() -> None:
    topic = TOPIC.bytes + b"\2" + numbers("i", 1) + NO_TAGS
    assert value_of(7, "m", value=b"\2" + topic + NO_TAGS) == {
        "topic_partitions": [{"topic_id": str(TOPIC), "partitions": [1]}]
    }


def test_bytes_left_over_are_told() -> None:
    told = value_of(3, value=numbers("i", 5) + NO_TAGS + b"\7")
    assert told["trailing_bytes"] == "07"
