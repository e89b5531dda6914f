"""Values that are taken out of a transcript: those in which two correct servers may differ."""

from typing import Any
from uuid import UUID

from kohort_conformance.transcript import Transcript

A, B = "a-11111111-2222-4333-8444-555555555555", "b-99999999-2222-4333-8444-555555555555"


def normalised(*responses: Any, sent: Any = ()) -> list[Any]:
    """Answers as steps of one transcript, normalised; `sent` went out before all of them."""
    transcript = Transcript("-run1")
    transcript.sent(sent)
    for number, response in enumerate(responses):
        transcript.heard(response)
        transcript.record(f"step {number}", response)
    return [step["answer"] for step in transcript.normalised()]


def test_member_ids_become_labels_by_first_appearance() -> None:
    first, second = normalised({"member_id": B, "leader": A}, {"member_id": A})
    assert first == {"member_id": "<member 1>", "leader": "<member 2>"}
    assert second == {"member_id": "<member 2>"}


def test_values_made_up_by_the_scenario_are_echoed_unchanged() -> None:
    assert normalised({"member_id": "nobody"}, sent={"member_id": "nobody"}) == [
        {"member_id": "nobody"}
    ]
    assert normalised({"member_id": ""}) == [{"member_id": ""}]


def test_an_id_that_was_heard_stays_a_label_when_it_is_sent() -> None:
    transcript = Transcript("-run1")
    transcript.heard({"member_id": A})
    transcript.sent({"member_id": A})
    transcript.record("leave", {"member_id": A})
    assert transcript.normalised()[0]["answer"] == {"member_id": "<member 1>"}


def test_a_producer_id_that_equals_another_number_of_the_scenario_is_a_label() -> None:
    transcript = Transcript("-run1")
    transcript.sent({"partition_index": 7})
    transcript.heard({"producer_id": 7})
    transcript.sent({"producer_id": 7})
    transcript.record("describe", {"producer_id": 7, "partition_index": 7})
    [step] = transcript.normalised()
    assert step["answer"] == {"producer_id": "<producer 1>", "partition_index": 7}


def test_producers_in_no_order_are_sorted_by_what_is_known_of_them() -> None:
    empty, ongoing = (
        {"producer_id": number, "transaction_state": state}
        for number, state in ((1_001, "Empty"), (999, "Ongoing"))
    )
    [told] = normalised({"transaction_states": [ongoing, empty]})
    assert told["transaction_states"] == [
        {"producer_id": "<producer 1>", "transaction_state": "Empty"},
        {"producer_id": "<producer 2>", "transaction_state": "Ongoing"},
    ]


def test_nodes_addresses_and_topic_ids() -> None:
    topic = "12345678-1234-1234-1234-123456789012"
    [told] = normalised(
        {
            "node_id": 1,
            "host": "h",
            "port": 9092,
            "rack": None,
            "cluster_id": "x",
            "topic_id": topic,
            "isr_nodes": [1],
        }
    )
    assert told == {
        "node_id": "<node>",
        "host": "<host>",
        "port": "<port>",
        "rack": None,
        "cluster_id": "<cluster>",
        "topic_id": "<topic id 1>",
        "isr_nodes": ["<node>"],
    }


def test_no_node_no_address_no_id_stay_what_they_are() -> None:
    nothing = {
        "node_id": -1,
        "host": "",
        "port": -1,
        "topic_id": None,
        "producer_id": -1,
        "session_id": 0,
    }
    assert normalised(nothing) == [nothing]


def test_times_near_the_present_and_only_those() -> None:
    [told] = normalised(
        {"timestamp": 1_795_000_000_000, "offset": 2**63 - 1, "base_timestamp": 1_000}
    )
    assert told == {"timestamp": "<time>", "offset": 2**63 - 1, "base_timestamp": 1_000}


def test_texts_for_humans_by_whether_there_is_one() -> None:
    assert normalised({"error_message": "no!"}, {"error_message": None}, {"error_message": ""}) == [
        {"error_message": "<text>"},
        {"error_message": None},
        {"error_message": ""},
    ]


def test_names_lose_the_runs_suffix_and_throttling_is_left_out() -> None:
    assert normalised({"group_id": "joining.x-group-run1", "throttle_time": 3}) == [
        {"group_id": "joining.x-group"}
    ]


def test_members_are_sorted_by_what_is_theirs_not_by_their_ids() -> None:
    one, two = {"member_id": B, "metadata": "01"}, {"member_id": A, "metadata": "02"}
    for members in ([one, two], [two, one]):
        assert normalised({"members": members}) == [
            {
                "members": [
                    {"member_id": "<member 1>", "metadata": "01"},
                    {"member_id": "<member 2>", "metadata": "02"},
                ]
            }
        ]


def test_the_order_of_partitions_counts() -> None:
    listed = {"partitions": [{"partition_index": 2}, {"partition_index": 0}]}
    assert normalised(listed) == [listed]


def test_partitions_of_an_assignment_are_a_set() -> None:
    assert normalised({"partitions": [5, 2, 10]}) == [{"partitions": [2, 5, 10]}]


def test_topics_of_an_assignment_are_sorted_by_the_labels_that_they_have() -> None:
    ids = [UUID(int=number) for number in (9, 3, 5)]
    named = [{"topic_id": str(one)} for one in ids]
    listed = [{"topic_id": str(one), "partitions": [0]} for one in reversed(ids)]
    [_, told] = normalised({"topics": named}, {"topic_partitions": listed})
    assert told == {
        "topic_partitions": [
            {"topic_id": f"<topic id {number}>", "partitions": [0]} for number in (1, 2, 3)
        ]
    }


def test_members_are_sorted_whatever_the_order_of_lists_within_them() -> None:
    def member(client: str, *topics: str) -> dict[str, Any]:
        return {"assignment": {"topic_partitions": [*topics]}, "client_id": client}

    one, two = member("one", "t", "u"), member("two", "u", "t")
    for members in ([one, two], [two, one]):
        [told] = normalised({"members": members})
        assert [each["client_id"] for each in told["members"]] == ["one", "two"]


def test_names_of_the_run_are_taken_out_of_bytes_too() -> None:
    subscription = b"\x00\x05topic-run1\x00".hex()
    assert normalised({"metadata": subscription}) == [{"metadata": b"\x00\x05topic\x00".hex()}]


def test_booleans_are_no_numbers() -> None:
    assert normalised({"is_internal": True, "offset": 1}) == [{"is_internal": True, "offset": 1}]


def test_an_outcome_is_kept() -> None:
    transcript = Transcript("-run1")
    transcript.record_outcome("a: Heartbeat v4", "connection closed")
    assert transcript.normalised() == [{"step": "a: Heartbeat v4", "outcome": "connection closed"}]
