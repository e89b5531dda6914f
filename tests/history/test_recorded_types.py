"""Records of each type in a log that Apache Kafka wrote have the fields that its tool prints."""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

import pytest

from history.folded import Row, whole
from history.recorded import Dumped, load

KINDS: Final = {
    "epoch": (3, 11, 17),
    "member": (5, 10, 19),
    "target": (6, 7, 12, 13, 20, 21),
    "current": (8, 14, 22),
    "other": (4, 9, 15, 16, 23),
}


def pairs() -> list[tuple[Dumped, Row]]:
    """Each record of `others` that is of a type above, and its row."""
    rows = {(row["log_partition"], row["log_offset"]): row for row in whole("others").groups}
    types = {type_ for kinds in KINDS.values() for type_ in kinds}
    return [
        (record, rows[record.log_partition, record.offset])
        for record in load("others").dumped
        if int(record.key["type"]) in types
    ]


def topic_id(text: str) -> str:
    """Kafka prints ids in base64."""
    return str(UUID(bytes=base64.urlsafe_b64decode(text + "==")))


def partitions(topics: list[Mapping[str, Any]]) -> set[tuple[str, int]]:
    return {(topic_id(each["topicId"]), number) for each in topics for number in each["partitions"]}


def columns(row_partitions: list[Row] | None) -> set[tuple[str, int]]:
    return {(each["topic_id"], each["partition"]) for each in row_partitions or ()}


def tasks(row_tasks: list[Row] | None, kind: str) -> dict[str, list[int]]:
    return {
        each["subtopology"]: each["partitions"] for each in row_tasks or () if each["kind"] == kind
    }


def same_epoch(row: Row, data: Mapping[str, Any], _type: int) -> bool:
    return (row["epoch"], row["metadata_hash"]) == (data["epoch"], data.get("metadataHash", 0))


def same_member(row: Row, data: Mapping[str, Any], _type: int) -> bool:
    names = {"client_id": "clientId", "client_host": "clientHost", "rack": "rackId"}
    optional = {
        "instance_id": "instanceId",
        "rebalance_timeout_ms": "rebalanceTimeoutMs",
        "process_id": "processId",
        "assignor": "serverAssignor",
    }
    return all(row[mine] == data[theirs] for mine, theirs in names.items()) and all(
        row[mine] == data[theirs] for mine, theirs in optional.items() if theirs in data
    )


def same_target(row: Row, data: Mapping[str, Any], _type: int) -> bool:
    if "assignmentEpoch" in data:
        return bool(row["epoch"] == data["assignmentEpoch"])
    if "activeTasks" in data:
        active = {each["subtopologyId"]: each["partitions"] for each in data["activeTasks"]}
        return tasks(row["tasks"], "active") == active
    return columns(row["partitions"]) == partitions(data["topicPartitions"])


def same_current(row: Row, data: Mapping[str, Any], type_: int) -> bool:
    epochs = (row["epoch"], row["previous_epoch"])
    if epochs != (data["memberEpoch"], data["previousMemberEpoch"]):
        return False
    if type_ == 22:
        active = {each["subtopologyId"]: each["partitions"] for each in data["activeTasks"]}
        return tasks(row["tasks"], "active") == active
    pending = data.get("partitionsPendingRevocation", [])
    return columns(row["assigned"]) == partitions(data["assignedPartitions"]) and columns(
        row["pending"]
    ) == partitions(pending)


COMPARED: Final[Mapping[str, Callable[[Row, Mapping[str, Any], int], bool]]] = {
    "epoch": same_epoch,
    "member": same_member,
    "target": same_target,
    "current": same_current,
    "other": lambda row, _data, _type: row["json"] is not None,
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_the_fields_that_dump_log_segments_prints(kind: str) -> None:
    found = set()
    for record, row in pairs():
        type_ = int(record.key["type"])
        if type_ not in KINDS[kind]:
            continue
        assert row["type"] == kind
        member_id = record.key["data"].get("memberId")
        if record.value is None:
            assert row["version"] is None
            assert kind not in ("member", "current") or row[kind]["member_id"] == member_id
            continue
        found.add(type_)
        assert COMPARED[kind](row[kind], record.value["data"], type_), (record, row[kind])
        assert kind == "epoch" or kind == "other" or row[kind]["member_id"] == member_id
    # Kafka 4 only writes tombstones of 4; 9 has not been written by any version.
    assert found == set(KINDS[kind]) - {4, 9}


def test_streams_and_share_groups_have_generations_and_members() -> None:
    generations = {(row["group"], row["type"]) for row in whole("others").generations}
    assert {("app-classic", "classic"), ("app-streams", "streams"), ("sharing", "share")} <= (
        generations
    )
    members = {row["client_id"]: row["ended_by"] for row in whole("others").members}
    assert members["console-share-consumer"] == "unknown", "share groups commit no offsets"
    assert "app-streams-StreamThread-1-consumer" in members
