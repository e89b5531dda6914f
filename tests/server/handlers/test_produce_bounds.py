"""Produce requests that cost much: other requests wait for none of them."""

import asyncio
import gc
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from kohort.cli.serve import reduce_garbage_collection
from kohort.errors import ErrorCode
from kohort.protocol.batch_format import HEADER_SIZE, read_header
from kohort.protocol.batch_writing import recompress
from kohort.protocol.batches import AbandonedError, Codec, Effort, Rules, build, validate
from kohort.protocol.records import Record, encode
from kohort.server.refused_batches import MAX_SENDERS
from server.faulty_logs import LostLog
from server.handlers.bench import START, HandlerBench, batch_of
from turns import BOUND_MS, longest_turn_ms


def bomb(mebibytes: int, codec: Codec = Codec.ZSTD) -> bytes:
    """A batch, small for what it holds: very many records."""
    count, content = tiny_records(mebibytes)
    header = read_header(build([Record(None, b"", (), START)]))
    many = header._replace(record_count=count, last_offset_delta=count - 1)
    return recompress(many, content, codec)


@cache
def tiny_records(mebibytes: int) -> tuple[int, bytes]:
    """(number, bytes) of records that together take so much."""
    one = encode(Record(None, None, (), START), 1 << 20, START)
    count = mebibytes * 1024 * 1024 // len(one)
    records = np.tile(np.frombuffer(one, np.uint8), (count, 1))
    deltas = np.arange(count) << 1
    # Varints of four bytes, also of small numbers: all records have one length.
    for at in range(4):
        records[:, 3 + at] = deltas >> 7 * at & 127 | (128 if at < 3 else 0)
    return count, records.tobytes()


def numbered(count: int) -> bytes:
    """A batch of small records without keys."""
    return build([Record(None, None, (), START)] * count, codec=Codec.ZSTD)


def data(batches: dict[int, bytes], topic: str) -> dict[str, Any]:
    partitions = [{"index": index, "records": records} for index, records in batches.items()]
    return {
        "acks": -1,
        "timeout_ms": 1_000,
        "topic_data": [{"name": topic, "partition_data": partitions}],
    }


@pytest.mark.parametrize(
    ("codec", "mebibytes"), [(Codec.ZSTD, 4), (Codec.GZIP, 16), (Codec.LZ4, 4)]
)
async def test_a_bomb_of_tiny_records_is_validated_beside_the_loop(
    bench: HandlerBench, topic: str, codec: Codec, mebibytes: int
) -> None:
    """Records of 4 MiB take too long to look at in the loop, and 16 MiB to inflate by GZIP."""
    await bench.controller.topics.alter(topic, lambda _: {"max.message.bytes": str(32 << 20)})
    batch = bomb(mebibytes, codec)
    worst, response = await longest_turn_ms(bench.ask("produce", 9, **data({0: batch}, topic)))
    (result,) = response.responses[0].partition_responses
    assert (result.error_code, result.base_offset) == (ErrorCode.none, 0)
    assert worst < BOUND_MS


@pytest.mark.parametrize(("topic_name", "acks"), [("unknown", -1), ("orders", 7)])
async def test_very_many_partitions_take_many_turns(
    bench: HandlerBench, topic: str, topic_name: str, acks: int
) -> None:
    partitions = dict.fromkeys(range(100_000), b"")
    exchange, task = bench.begin("produce", 9, **data(partitions, topic_name) | {"acks": acks})
    assert task is not None
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    (results,) = exchange.outcome.responses
    assert len(results.partition_responses) == len(partitions)
    assert turns >= 5


async def test_the_decompressed_size_of_a_request_is_bounded(topic: str) -> None:
    bench = HandlerBench(produce_inflated_max_bytes=5 * 1024 * 1024)
    bench.controller.topics.create("orders", 3)
    batch = bomb(2)
    response = await bench.ask("produce", 9, **data({0: batch, 1: batch, 2: batch}, topic))
    results = response.responses[0].partition_responses
    assert [result.error_code for result in results] == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.message_too_large,
    ]


async def test_a_heavy_batch_is_refused_as_a_light_one_is(bench: HandlerBench, topic: str) -> None:
    bench.controller.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    batch = numbered(10_000)
    response = await bench.ask("produce", 9, **data({0: batch}, "compacted"))
    (result,) = response.responses[0].partition_responses
    assert result.error_code == ErrorCode.invalid_record
    assert len(result.record_errors) == 1_000
    assert result.error_message == "10000 of 10000 records are refused"
    broken = bytearray(bomb(4))
    broken[HEADER_SIZE + 20] ^= 1
    response = await bench.ask("produce", 9, **data({0: bytes(broken)}, topic))
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.corrupt_message


async def test_batches_of_one_request_keep_their_order(bench: HandlerBench, topic: str) -> None:
    heavy, light = bomb(4), build([Record(b"k", b"v", (), START)])
    request = data({}, topic)
    request["topic_data"][0]["partition_data"] = [
        {"index": 0, "records": records} for records in (light, heavy, light)
    ]
    response = await bench.ask("produce", 9, **request)
    results = response.responses[0].partition_responses
    count = read_header(heavy).record_count
    assert [result.base_offset for result in results] == [0, 1, 1 + count]


async def test_many_batches_give_way(bench: HandlerBench, topic: str) -> None:
    records = [Record(b"k", b"v" * 100, (), START)] * 5_000
    batch = build(records, codec=Codec.GZIP)
    request = data({}, topic)
    request["topic_data"][0]["partition_data"] = [
        {"index": index % 3, "records": batch} for index in range(200)
    ]
    worst, response = await longest_turn_ms(bench.ask("produce", 9, **request))
    results = response.responses[0].partition_responses
    assert {result.error_code for result in results} == {ErrorCode.none}
    assert worst < BOUND_MS


@pytest.fixture
def collected_seldom() -> Iterator[None]:
    """The garbage collector as `kohort serve` has it."""
    thresholds = gc.get_threshold()
    reduce_garbage_collection()
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("collected_seldom")
async def test_very_many_batches_that_do_not_become_durable() -> None:
    bench = HandlerBench(durability="fsync")
    topic = bench.controller.topics.create("orders", 1)
    lost: Any = LostLog(*topic.partitions)
    topic.partitions = (lost,)
    request = data({}, "orders")
    request["topic_data"][0]["partition_data"] = [
        {"index": 0, "records": batch_of(b"", producer_id=each, producer_epoch=0, base_sequence=0)}
        for each in range(100_000)
    ]
    worst, _ = await longest_turn_ms(bench.handling("produce", 9, **request))
    assert len(bench.refused_batches) == MAX_SENDERS
    assert worst < BOUND_MS


def test_an_abandoned_validation_ends() -> None:
    effort = Effort()
    effort.abandoned = True
    with pytest.raises(AbandonedError):
        validate(numbered(2_000), Rules(compacted=True), START, effort=effort)
