"""Ids for producers."""

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.server.topics.producer_ids import BLOCK, MAX_ID, ProducerIdManager


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
