"""Names of topics, and ids for producers."""

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.server.topics.names import ClaimedNames, validate_creatable, validate_name
from kohort.server.topics.producer_ids import BLOCK, MAX_ID, ProducerIdManager


@pytest.mark.parametrize(
    "name", ["a", "a.b", "_x", "__consumer_offsets", "A-1_b.C", "x" * 249, "...", "-"]
)
def test_legal(name: str) -> None:
    validate_creatable(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        (
            "a b",
            "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            "é",
            "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            "a/b",
            "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            "a\n",
            "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
    ],
)
def test_illegal(name: str, why: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_name(name)
    assert caught.value.code is ErrorCode.invalid_topic_exception
    assert caught.value.message == f"Topic name is invalid: {why}"


def test_the_metadata_log_is_no_topic() -> None:
    with pytest.raises(
        KafkaError, match=("Creation of internal topic __cluster_metadata is prohibited")
    ):
        validate_creatable("__cluster_metadata")


def test_names_whose_metrics_collide_are_not_both_taken() -> None:
    names = ClaimedNames(is_case_insensitive=False)
    names.claim("a.b_c")
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        names.ensure_free("a.b_c")
    with pytest.raises(KafkaError, match=r"collides with existing topic: a\.b_c"):
        names.ensure_free("a_b.c")
    for free in ("a-b_c", "A.b_c"):
        names.ensure_free(free)
    names.disclaim("a.b_c")
    names.ensure_free("a_b.c")


def test_names_that_are_one_directory_are_not_both_taken() -> None:
    names = ClaimedNames(is_case_insensitive=True)
    names.claim("Orders")
    with pytest.raises(KafkaError, match="collides with existing topic: Orders"):
        names.ensure_free("orders")


def test_producer_ids_are_reserved_in_blocks_before_they_are_given() -> None:
    reserved: list[int] = []
    ids = ProducerIdManager(0, reserved.append)
    assert [ids.next() for _ in range(BLOCK)] == list(range(BLOCK))
    assert reserved == [BLOCK]
    assert ids.next() == BLOCK
    assert reserved == [BLOCK, 2 * BLOCK]
    assert ProducerIdManager(reserved[-1], reserved.append).next() == 2 * BLOCK


def test_a_reservation_that_fails_gives_no_id() -> None:
    def fail(end: int) -> None:
        raise KafkaError(ErrorCode.kafka_storage_error)

    ids = ProducerIdManager(5, fail)
    for _ in range(2):
        with pytest.raises(KafkaError):
            ids.next()


def test_the_last_producer_id() -> None:
    ids = ProducerIdManager(MAX_ID - 1, lambda end: None)
    assert ids.next() == MAX_ID - 1
    with pytest.raises(KafkaError):
        ids.next()
