"""The file of exported offsets: read back as it was written, and refused if it is anything else."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.transfers import Export, ExportedOffset, ExportError, RecordMark
from kohort.types import GroupId, TopicPartition

INT64 = st.integers(0, 2**63 - 1)
MARKS = st.none() | st.builds(
    RecordMark, INT64, st.integers(-1, 2**63 - 1), st.from_regex("[0-9a-f]{16}", fullmatch=True)
)
OFFSETS = st.builds(
    ExportedOffset,
    partition=st.builds(TopicPartition, st.text(), st.integers(0, 2**31 - 1)),
    topic_id=st.none() | st.uuids(),
    commit=st.builds(
        OffsetAndMetadata,
        offset=INT64,
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.text(),
    ),
    before=MARKS,
    at=MARKS,
)
GROUPS = st.dictionaries(
    st.text(), st.lists(OFFSETS, unique_by=lambda each: each.partition, max_size=3).map(tuple)
)
MARK = RecordMark(6, 1_769_856_100_000, "0123456789abcdef")
EXPORT = Export(
    source="committed",
    cluster_id="c",
    made_at_ms=1_769_860_800_000,
    groups={
        GroupId("g"): (
            ExportedOffset(
                partition=TopicPartition("orders", 0),
                topic_id=UUID(int=5),
                commit=OffsetAndMetadata(offset=7, leader_epoch=2, metadata="m"),
                before=MARK,
                at=None,
            ),
        )
    },
)


@given(GROUPS, st.text(), st.none() | st.text())
def test_an_export_is_read_back_from_its_file(
    groups: dict[GroupId, tuple[ExportedOffset, ...]], source: str, cluster: str | None
) -> None:
    made = Export(source=source, cluster_id=cluster, made_at_ms=0, groups=groups)
    assert Export.from_json(made.to_json()) == made


def test_the_file_has_a_line_per_partition() -> None:
    (line,) = [line for line in EXPORT.to_json().splitlines() if '"topic"' in line]
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 0,
        "topic_id": str(UUID(int=5)),
        "offset": 7,
        "leader_epoch": 2,
        "metadata": "m",
        "before": {"offset": 6, "timestamp": 1_769_856_100_000, "hash": "0123456789abcdef"},
        "at": None,
    }


def changed(**fields: Any) -> str:
    """The file with other fields of its offset."""
    content = json.loads(EXPORT.to_json())
    content["groups"][0]["partitions"][0] |= fields
    return json.dumps(content)


def twice(what: str) -> str:
    content = json.loads(EXPORT.to_json())
    entries = content["groups"] if what == "groups" else content["groups"][0]["partitions"]
    entries *= 2
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("9" * 5_000, "not JSON"),
        ("[]", "kohort history export writes such a file"),
        ('{"format": "kohort offset reset", "version": 1}', '"format" is not'),
        (EXPORT.to_json().replace('"version": 1', '"version": 2'), "version 2 of exported"),
        (EXPORT.to_json().replace("xxh64", "md5"), "with hash 'md5'"),
        (EXPORT.to_json().replace('"groups"', '"group"'), "'groups' is missing"),
        (changed(offset=-1), "-1 is not between 0"),
        (changed(offset=2**63), "is not between 0"),
        (changed(offset=True), "True is not an integer"),
        (changed(offset=1.0), "1.0 is not an integer"),
        (changed(partition=2**31), "is not between 0"),
        (changed(leader_epoch=2**31), "leader epoch"),
        (changed(metadata=None), "None is not a string"),
        (changed(metadata="\ud800"), "surrogates not allowed"),
        (changed(topic={}), "{} is not a string"),
        (changed(topic_id="x"), "badly formed"),
        (changed(at=[]), r"\[\] is not an object"),
        (changed(at={"offset": 1, "timestamp": 2, "hash": "XYZ"}), "hexadecimal digits"),
        (changed(at={"offset": 1, "timestamp": -2, "hash": "0" * 16}), "-2 is not between -1"),
        (twice("groups"), "group g appears twice"),
        (twice("partitions"), "a partition of a group appears twice"),
        (EXPORT.to_json().replace("1769860800000", str(10**18)), "not exported offsets"),
    ],
)
def test_a_file_that_is_no_export_is_an_error(text: str, said: str) -> None:
    with pytest.raises(ExportError, match=said):
        Export.from_json(text)


@settings(max_examples=examples(200))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.data(),
)
def test_any_value_in_any_place_is_read_or_an_error(value: Any, data: st.DataObject) -> None:
    content = json.loads(EXPORT.to_json())
    place: Any = content
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else [0]))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = value
    try:
        Export.from_json(json.dumps(content))
    except ExportError:
        return
