"""Fetch sessions: what is sent of what is wanted, by the rules of KIP-227."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client.fetch.session import FetchSessionHandler, RequestedPartition
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

A, B, C = (TopicPartition("orders", index) for index in range(3))
ID = UUID(int=7)


def at(offset: int, topic_id: UUID = ID) -> RequestedPartition:
    return RequestedPartition(topic_id, offset, 0, 1000)


def begun(wanted: dict[TopicPartition, RequestedPartition]) -> FetchSessionHandler:
    session = FetchSessionHandler()
    session.request(wanted)
    session.handle_response(0, 77)
    return session


def test_the_first_request_is_full_and_opens_a_session() -> None:
    request = FetchSessionHandler().request({A: at(1), B: at(2)})
    assert request == (0, 0, {A: at(1), B: at(2)}, {})


def test_later_requests_have_only_changes() -> None:
    session = begun({A: at(1), B: at(2)})
    assert session.request({A: at(5), B: at(2), C: at(0)}) == (77, 1, {A: at(5), C: at(0)}, {})
    session.handle_response(0, 77)
    assert session.request({C: at(0)}) == (77, 2, {}, {A: at(5), B: at(2)})


def test_a_recreated_topic_is_removed_and_added() -> None:
    session = begun({A: at(1)})
    new = at(0, UUID(int=8))
    assert session.request({A: new}) == (77, 1, {A: new}, {A: at(1)})


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.fetch_session_id_not_found, 0),
        (ErrorCode.invalid_fetch_session_epoch, 77),
        (ErrorCode.fetch_session_topic_id_error, 77),
        (ErrorCode.unknown_server_error, 77),
    ],
)
def test_the_request_after_an_error_is_full(error: ErrorCode, session_id: int) -> None:
    session = begun({A: at(1)})
    session.request({A: at(2)})
    session.handle_response(error, 0)
    # With its id it also closes the session that the broker may still have.
    assert session.request({A: at(2)}) == (session_id, 0, {A: at(2)}, {})


def test_a_request_without_response_is_followed_by_a_full_one() -> None:
    session = begun({A: at(1)})
    session.request({A: at(2), B: at(3)})
    session.handle_error()
    assert session.request({A: at(2), B: at(3)}) == (77, 0, {A: at(2), B: at(3)}, {})


def test_a_broker_without_room_for_sessions_gets_full_requests() -> None:
    session = FetchSessionHandler()
    for offset in range(3):
        assert session.request({A: at(offset)}) == (0, 0, {A: at(offset)}, {})
        session.handle_response(0, 0)
    assert session.final() is None


def test_epoch_1_follows_the_largest() -> None:
    session = FetchSessionHandler(max_epoch=2)
    epochs = []
    for _ in range(4):
        epochs.append(session.request({A: at(1)}).epoch)
        session.handle_response(0, 77)
    assert epochs == [0, 1, 2, 1]


def test_the_final_request_closes_the_session() -> None:
    assert begun({A: at(1)}).final() == (77, -1, {}, {})


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 3).map(at)),
            st.sampled_from(["ok", "lost", "failed", "no answer"]),
        ),
        max_size=20,
    )
)
def test_the_session_of_the_broker_has_the_requested_partitions(
    steps: list[tuple[dict[TopicPartition, RequestedPartition], str]],
) -> None:
    """Whatever goes wrong: a broker that does as KIP-227 says fetches exactly what is wanted."""
    session, remembered, epoch = FetchSessionHandler(), None, 0
    for wanted, outcome in steps:
        request = session.request(wanted)
        if request.epoch == 0:
            remembered, epoch = dict(request.changed), 1
        else:
            assert remembered is not None
            assert request.epoch == epoch
            epoch += 1
            remembered = {
                tp: asked for tp, asked in remembered.items() if tp not in request.removed
            } | request.changed
        assert remembered == wanted
        match outcome:
            case "ok":
                session.handle_response(0, 77)
            case "lost":
                session.handle_response(ErrorCode.fetch_session_id_not_found, 0)
            case "failed":
                session.handle_response(ErrorCode.invalid_fetch_session_epoch, 0)
            case _:
                session.handle_error()


def test_fields_have_topic_names_or_ids() -> None:
    request = FetchSessionHandler().request({A: at(1), B: at(2)})
    by_id, by_name = request.fields(by_id=True), request.fields(by_id=False)
    assert [topic["topic_id"] for topic in by_id["topics"]] == [ID]
    assert [topic["topic"] for topic in by_name["topics"]] == ["orders"]
    assert [partition["fetch_offset"] for partition in by_name["topics"][0]["partitions"]] == [1, 2]
