"""Responses of a replay beside those of the recording: what counts, and what a server chooses."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.protocol.batches import Record, build, iterate
from kohort.protocol.building import request, response
from kohort.protocol.message_classes import API_KEYS
from kohort.recording.differences import differing
from kohort.recording.id_mapping import IdMapping

NOW = 1_790_000_000_000


def join_response(**values: Any) -> Any:
    return response(API_KEYS["join_group"], 9, **values)


def fields(
    mapping: IdMapping, api: str, version: int, recorded: Any, live: Any, **of_request: Any
) -> list[str]:
    """Paths of the fields that differ."""
    sent = request(API_KEYS[api], version, **of_request)
    one = response(API_KEYS[api], version, **recorded)
    other = response(API_KEYS[api], version, **live)
    return [path for path, _, _ in differing(one, other, mapping, sent)]


def translated(mapping: IdMapping, api: str, version: int, **values: Any) -> Any:
    return mapping.translated(request(API_KEYS[api], version, **values))


JOINED = {
    "generation_id": 1,
    "protocol_name": "range",
    "leader": "a-1",
    "member_id": "a-1",
    "members": [
        {"member_id": "a-1", "metadata": b"a"},
        {"member_id": "b-1", "metadata": b"b"},
    ],
}


def test_member_ids_that_the_server_chose_are_mapped() -> None:
    mapping = IdMapping()
    live = {
        **JOINED,
        "leader": "a-2",
        "member_id": "a-2",
        "members": [
            {"member_id": "b-2", "metadata": b"b"},
            {"member_id": "a-2", "metadata": b"a"},
        ],
    }
    assert fields(mapping, "join_group", 9, JOINED, live, group_id="billing") == []
    sent = translated(
        mapping,
        "sync_group",
        5,
        group_id="billing",
        member_id="a-1",
        assignments=[{"member_id": "b-1", "assignment": b"x"}],
    )
    assert (sent.member_id, sent.assignments[0].member_id) == ("a-2", "b-2")


def test_one_id_cannot_stand_for_two() -> None:
    mapping = IdMapping()
    assert fields(mapping, "join_group", 9, {"member_id": "a-1"}, {"member_id": "x"}) == []
    assert fields(mapping, "join_group", 9, {"member_id": "b-1"}, {"member_id": "x"}) == [
        "member_id"
    ]
    assert fields(mapping, "join_group", 9, {"member_id": "a-1"}, {"member_id": "y"}) == [
        "member_id"
    ]


def test_an_id_that_the_client_chose_has_to_come_back() -> None:
    mapping = IdMapping()
    assert translated(mapping, "consumer_group_heartbeat", 1, member_id="own").member_id == "own"
    heartbeat = {"member_id": "own"}, {"member_id": "other"}
    assert fields(mapping, "consumer_group_heartbeat", 1, *heartbeat) == ["member_id"]


def test_an_id_against_none_is_a_difference() -> None:
    assert fields(IdMapping(), "join_group", 9, {"member_id": "a-1"}, {"member_id": ""}) == [
        "member_id"
    ]


@settings(max_examples=examples(60))
@given(
    ids=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz")), max_size=12),
)
def test_the_mapping_stays_one_to_one(ids: list[tuple[str, str]]) -> None:
    mapping = IdMapping()
    agreed: dict[str, str] = {}
    for recorded, live in ids:
        matches = mapping.ids_match("member id", recorded, live)
        fits = agreed.get(recorded) == live or (
            recorded not in agreed and live not in agreed.values()
        )
        assert matches == fits
        if matches:
            agreed[recorded] = live
    assert all(mapping.live_id("member id", recorded) == live for recorded, live in agreed.items())


def test_a_generation_keeps_its_distance() -> None:
    mapping = IdMapping()

    def joins(recorded: int, live: int) -> list[str]:
        return fields(
            mapping,
            "join_group",
            9,
            {"generation_id": recorded},
            {"generation_id": live},
            group_id="billing",
        )

    assert joins(7, 2) == []
    assert joins(8, 3) == []
    assert joins(9, 5) == ["generation_id"]
    commit = translated(
        mapping, "offset_commit", 9, group_id="billing", generation_id_or_member_epoch=8
    )
    assert commit.generation_id_or_member_epoch == 3
    other = translated(mapping, "heartbeat", 4, group_id="shipping", generation_id=8)
    assert other.generation_id == 8


def test_a_group_that_was_new_has_to_be_new() -> None:
    answers = {"generation_id": 1}, {"generation_id": 4}
    assert fields(IdMapping(), "join_group", 9, *answers, group_id="billing") == ["generation_id"]


def test_producer_ids_are_mapped_in_requests_and_batches() -> None:
    mapping = IdMapping()
    answers = (
        {"producer_id": 4_000, "producer_epoch": 7},
        {"producer_id": 2, "producer_epoch": 3},
    )
    assert fields(mapping, "init_producer_id", 5, *answers) == []
    batch = build(
        [Record(b"k", b"v", (), NOW)], producer_id=4_000, producer_epoch=7, base_sequence=5
    )
    sent = translated(
        mapping,
        "produce",
        9,
        topic_data=[{"name": "orders", "partition_data": [{"index": 0, "records": batch}]}],
    )
    records = sent.topic_data[0].partition_data[0].records
    expected = build(
        [Record(b"k", b"v", (), NOW)], producer_id=2, producer_epoch=3, base_sequence=5
    )
    assert records == expected
    ended = translated(mapping, "end_txn", 5, producer_id=4_000, producer_epoch=8)
    assert (ended.producer_id, ended.producer_epoch) == (2, 4)


def test_topic_ids_are_mapped() -> None:
    mapping = IdMapping()
    one, other = UUID(int=11), UUID(int=12)
    answers = (
        {"topics": [{"name": "orders", "topic_id": one}]},
        {"topics": [{"name": "orders", "topic_id": other}]},
    )
    assert fields(mapping, "metadata", 12, *answers) == []
    assert translated(mapping, "fetch", 13, topics=[{"topic_id": one}]).topics[0].topic_id == other


def test_leader_epochs_are_not_sent_once_they_differ() -> None:
    mapping = IdMapping()
    partition = {"partition": 0, "current_leader_epoch": 0}
    asked = {"topics": [{"topic": "orders", "partitions": [partition]}]}

    def sent() -> int:
        epoch: int = (
            translated(mapping, "fetch", 12, **asked).topics[0].partitions[0].current_leader_epoch
        )
        return epoch

    assert sent() == 0
    answers = [
        {"topics": [{"name": "orders", "partitions": [{"leader_epoch": epoch}]}]}
        for epoch in (0, 5)
    ]
    assert fields(mapping, "metadata", 9, *answers) == []
    assert sent() == -1


def test_the_expected_node_is_not_sent() -> None:
    sent = translated(IdMapping(), "api_versions", 5, cluster_id="theirs", node_id=3)
    assert (sent.cluster_id, sent.node_id) == (None, -1)


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ({"throttle_time_ms": 5}, {"throttle_time_ms": 0}),
        (
            {"brokers": [{"node_id": 1, "host": "a", "port": 1}], "controller_id": 1},
            {"brokers": [], "controller_id": 7},
        ),
        ({"cluster_id": "a"}, {"cluster_id": "b"}),
        (
            {"topics": [{"name": "a"}, {"name": "b"}]},
            {"topics": [{"name": "b"}, {"name": "a"}]},
        ),
        (
            {"topics": [{"name": "a", "partitions": [{"leader_id": 1, "isr_nodes": [1, 2]}]}]},
            {"topics": [{"name": "a", "partitions": [{"leader_id": 5, "isr_nodes": [5]}]}]},
        ),
    ],
)
def test_machines_load_and_order_do_not_count(recorded: Any, live: Any) -> None:
    assert fields(IdMapping(), "metadata", 9, recorded, live) == []


@pytest.mark.parametrize(
    ("recorded", "live", "path"),
    [
        (
            {"topics": [{"name": "a", "error_code": 0}]},
            {"topics": [{"name": "a", "error_code": 3}]},
            "topics[a].error_code",
        ),
        ({"topics": [{"name": "a"}]}, {"topics": []}, "topics[a]"),
        ({"topics": []}, {"topics": [{"name": "a"}]}, "topics[a]"),
        (
            {"topics": [{"name": "a", "partitions": [{"leader_id": 1}]}]},
            {"topics": [{"name": "a", "partitions": [{"leader_id": -1}]}]},
            "topics[a].partitions[0].leader_id",
        ),
    ],
)
def test_another_behaviour_is_a_difference(recorded: Any, live: Any, path: str) -> None:
    assert fields(IdMapping(), "metadata", 9, recorded, live) == [path]


def fetched(*batches: bytes) -> dict[str, Any]:
    partition = {"partition_index": 0, "records": b"".join(batches)}
    return {"responses": [{"topic": "orders", "partitions": [partition]}]}


def test_records_are_compared_whatever_their_batches() -> None:
    first, second = Record(b"k", b"1", (), NOW), Record(b"k", b"2", (), NOW + 5)
    together = build([first, second])
    apart = build([first]), build([second], base_offset=1)
    assert fields(IdMapping(), "fetch", 12, fetched(together), fetched(*apart)) == []
    later = build([first._replace(timestamp=NOW + 10**6), second])
    assert fields(IdMapping(), "fetch", 12, fetched(together), fetched(later)) == []


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (Record(b"k", b"other", (), NOW), "records[0]"),
        (Record(b"other", b"1", (), NOW), "records[0]"),
        (Record(b"k", b"1", (("h", b""),), NOW), "records[0]"),
        (Record(b"k", b"1", (), 77), "records[0]"),
    ],
)
def test_another_record_is_a_difference(record: Record, place: str) -> None:
    recorded, live = (fetched(build([each])) for each in (Record(b"k", b"1", (), NOW), record))
    (path,) = fields(IdMapping(), "fetch", 12, recorded, live)
    assert path.endswith(place)


def test_a_translated_batch_stays_valid() -> None:
    mapping = IdMapping()
    mapping.ids_match("producer id", 7, 8)
    batch = build([Record(b"k", b"v", (), NOW)], producer_id=7, producer_epoch=0, base_sequence=0)
    partition = {"index": 0, "records": batch + batch}
    sent = translated(
        mapping, "produce", 9, topic_data=[{"name": "orders", "partition_data": [partition]}]
    )
    records = sent.topic_data[0].partition_data[0].records
    assert [header.producer_id for _, header in iterate(records)] == [8, 8]
