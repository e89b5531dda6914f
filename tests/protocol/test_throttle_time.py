"""`throttle_time_ms` in encoded responses: that field alone changes, in every version."""

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from kohort.protocol.apis import API_VERSIONS, BY_NAME
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.messages import encode
from kohort.protocol.throttle_time import with_throttle_time
from protocol.wire_entities import VERSIONS, name_of, responses

WAIT_MS = 123_456


@pytest.mark.parametrize("case", VERSIONS, ids=name_of)
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_field_alone_changes(case: tuple[int, int], data: st.DataObject) -> None:
    entity: Any = data.draw(responses(*case))
    if hasattr(entity, "node_endpoints") and case[0] == BY_NAME["produce"].key:
        entity = replace(entity, node_endpoints=())  # the server has none
    body = encode(entity)
    cut = data.draw(st.integers(0, len(body)))
    for content in (body, [body[:cut], memoryview(body)[cut:]]):
        changed = b"".join(with_throttle_time(*case, content, WAIT_MS))
        read = entity_reader(load_response_schema(*case))
        if any(each.name == "throttle_time" for each in fields(entity)):
            expected = replace(entity, throttle_time=timedelta(milliseconds=WAIT_MS))
            assert read(changed, 0) == (expected, len(body))
        else:
            assert changed == body


def test_the_response_to_an_unknown_version_of_api_versions_stays() -> None:
    assert b"".join(with_throttle_time(API_VERSIONS, 99, b"\0\x23", WAIT_MS)) == b"\0\x23"
