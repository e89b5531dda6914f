"""Producer ids are reserved in blocks, each of which is given once."""

import pytest

from kohort.errors import KafkaError
from kohort.server.controller.producer_id_control import BLOCK_SIZE, MAX_ID, ProducerIdControl
from kohort.server.metadata import MetadataImage, ProducerIdsRecord


def image(end: int = 0) -> MetadataImage:
    made = MetadataImage()
    made.replay(ProducerIdsRecord(end))
    return made


def test_blocks_follow_one_another() -> None:
    control = ProducerIdControl(image())
    assert control.next_block() == (range(BLOCK_SIZE), ProducerIdsRecord(BLOCK_SIZE))
    assert control.next_block() == (
        range(BLOCK_SIZE, 2 * BLOCK_SIZE),
        ProducerIdsRecord(2 * BLOCK_SIZE),
    )


def test_the_first_block_is_behind_all_that_were_logged() -> None:
    ids, _ = ProducerIdControl(image(2 * BLOCK_SIZE)).next_block()
    assert ids.start == 2 * BLOCK_SIZE


def test_a_block_of_another_node_is_left_out() -> None:
    control = ProducerIdControl(image())
    control.reserved(BLOCK_SIZE)
    ids, _ = control.next_block()
    assert ids.start == BLOCK_SIZE


def test_a_block_that_was_not_logged_is_not_given_again() -> None:
    control = ProducerIdControl(image())
    refused, _ = control.next_block()
    ids, _ = control.next_block()
    assert not set(ids) & set(refused)


def test_the_last_producer_id() -> None:
    control = ProducerIdControl(image(MAX_ID - 1))
    assert control.next_block() == (range(MAX_ID - 1, MAX_ID), ProducerIdsRecord(MAX_ID))
    with pytest.raises(KafkaError):
        control.next_block()
