"""The judge's own record batches: correct ones, spoiled ones, and what is told of those that come
back.
"""

from typing import Any

import pytest

from kohort.protocol import batches as kohort_batches
from kohort_conformance.batches import HEADER, BatchRecord, RecordBatch, describe, records


def one(data: bytes) -> dict[str, Any]:
    [told] = describe(data)
    assert isinstance(told, dict)
    return told


def test_a_batch_is_what_its_description_says() -> None:
    sent = RecordBatch(
        records(b"a", b"b", timestamp=5_000), producer_id=9, producer_epoch=1, base_sequence=3
    )
    told = one(sent.encode())
    assert told["crc"] == "holds"
    assert [
        told[name] for name in ("count", "last_offset_delta", "base_timestamp", "max_timestamp")
    ] == [
        2,
        1,
        5_000,
        5_001,
    ]
    assert [told[name] for name in ("producer_id", "producer_epoch", "base_sequence")] == [9, 1, 3]
    assert told["length"] == len(sent.encode()) - 12


@pytest.mark.parametrize(
    ("spoiled", "name", "value"),
    [
        (RecordBatch(crc=1), "crc", "is wrong"),
        (RecordBatch(magic=1), "magic", 1),
        (RecordBatch(count=7, last_offset_delta=2), "last_offset_delta", 2),
        (RecordBatch(base_offset=4), "base_offset", 4),
        (RecordBatch(attributes=0x20), "attributes", 0x20),
    ],
)
def test_each_part_can_be_set_by_hand(spoiled: RecordBatch, name: str, value: object) -> None:
    assert one(spoiled.encode())[name] == value


def test_a_batch_that_is_cut_off_counts_only_when_it_is_the_first() -> None:
    whole = RecordBatch().encode()
    assert describe(whole + whole[:-1]) == describe(whole)
    assert describe(whole + whole[:20]) == describe(whole)
    assert describe(whole[:-1]) == [{"cut_off_after": len(whole) - 1}]
    assert describe(whole[: HEADER.size - 1]) == [{"cut_off_after": HEADER.size - 1}]
    assert describe(b"") == []


def test_the_server_reads_what_the_judge_writes() -> None:
    items = [
        BatchRecord(b"v", b"k", headers=[("h", b"1")]),
        BatchRecord(None, None, 999),
        BatchRecord(b"w" * 300),
    ]
    read = list(kohort_batches.decode_records(RecordBatch(items).encode()))
    assert [(item.key, item.value, item.timestamp) for item in read] == [
        (b"k", b"v", 1_000),
        (None, None, 999),
        (None, b"w" * 300, 1_000),
    ]
    assert read[0].headers == (("h", b"1"),)
