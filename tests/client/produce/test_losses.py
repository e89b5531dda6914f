"""Failed batches that nobody asked about, as far as they are remembered."""

import logging

import pytest

from kohort.client.produce import losses
from kohort.client.produce.batch import ProduceBatch
from kohort.client.produce.losses import Losses
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.compression import Codec
from kohort.types import TopicPartition

ORDERS = TopicPartition("orders", 0)


def failed(number: int, *, is_raised: bool = False) -> ProduceBatch:
    batch = ProduceBatch(ORDERS, number, Codec.NONE, 0.0, 1_000)
    delivery = batch.append(None, b"value", (), 1_000)
    batch.close()
    batch.fail(KafkaError(ErrorCode.invalid_record, f"batch {number}"))
    if is_raised:
        assert delivery.exception() is not None
    return batch


async def test_the_oldest_of_too_many_is_logged_unless_it_was_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    remembered = Losses()
    remembered.add(failed(1, is_raised=True))
    remembered.add(failed(2))
    for _ in range(losses._MAX_BATCHES - 2):
        remembered.add(failed(3))
    assert not caplog.messages
    remembered.add(failed(4))
    assert not caplog.messages
    remembered.add(failed(5))
    (message,) = caplog.messages
    assert "first error: INVALID_RECORD: batch 2" in message
