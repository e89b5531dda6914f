"""What is written, byte for byte what kio writes."""

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_writer

from effort import examples
from kohort.protocol.messages import encode, response
from protocol.wire_entities import VERSIONS, name_of, requests, responses


def written_by_kio(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("case", VERSIONS, ids=name_of)
@settings(max_examples=examples(4), derandomize=True, database=None)
@given(st.data())
def test_every_message_is_written_as_by_kio(case: tuple[int, int], data: st.DataObject) -> None:
    for entity in (data.draw(responses(*case)), data.draw(requests(*case))):
        assert encode(entity) == written_by_kio(entity)


@pytest.mark.parametrize("case", VERSIONS, ids=name_of)
def test_every_response_of_defaults(case: tuple[int, int]) -> None:
    assert encode(response(*case)) == written_by_kio(response(*case))


def test_null_where_there_is_none_is_a_bug() -> None:
    with pytest.raises(AttributeError):
        encode(response(11, 9, leader=None))
    with pytest.raises(TypeError):
        encode(response(14, 5, assignment=None))


def test_records_need_not_be_bytes() -> None:
    partition = {"partition_index": 0, "high_watermark": 1, "records": memoryview(b"batches")}
    answer = response(1, 12, responses=[{"topic": "t", "partitions": [partition]}])
    assert b"\x08batches" in encode(answer)
