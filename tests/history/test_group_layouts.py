"""The layouts of group records read what Kafka's own classes wrote.

`group_records.jsonl` has a record of each type per line, with all fields set, as DumpLogSegments
prints it, and its bytes. They are written by Apache Kafka 4.4, after a change of `key` or `value`:

    java -cp "KAFKA/libs/*" tests/history/recording/GroupRecordBytes.java < group_records.jsonl
"""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kohort.history.group_layouts import CLASSIC, GROUP_METADATA, LAYOUTS
from kohort.history.group_records import decode_group_record

RECORDS = [
    json.loads(line)
    for line in Path(__file__).with_name("group_records.jsonl").read_text().splitlines()
]


def leaves(content: Any) -> Iterator[Any]:
    """All values, in the order of the fields; topic ids and bytes as Kafka prints them."""
    if isinstance(content, dict):
        content = content.values()
    if isinstance(content, str):
        yield _printed(content)
    elif isinstance(content, bytes):
        yield b64encode(content).decode()
    elif hasattr(content, "__iter__"):
        for each in content:
            yield from leaves(each)
    else:
        yield content


def _printed(text: str) -> str:
    try:
        return urlsafe_b64encode(UUID(text).bytes).decode().rstrip("=")
    except ValueError:
        return text


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['type']}")
def test_every_field_is_read_as_kafka_wrote_it(record: dict[str, Any]) -> None:
    key, value = map(bytes.fromhex, record["bytes"])
    type_, version = record["type"], record["version"]
    layout = CLASSIC[version] if type_ == GROUP_METADATA else LAYOUTS[type_].value
    content, end = layout(value, 2)
    assert end == len(value)
    read = list(leaves(content))
    expected = list(leaves(record["value"]))
    # Tasks that are not active have no epochs.
    assert [each for each in read if each is not None] == [
        each for each in expected if each is not None
    ]
    decoded = decode_group_record(key, value)
    assert decoded.error is None
    names = list(record["key"].values())
    assert [decoded.group, *([] if len(names) == 1 else [decoded.member_id])] == names


def test_the_file_has_a_record_of_every_type() -> None:
    assert {record["type"] for record in RECORDS} == {GROUP_METADATA, *LAYOUTS}
