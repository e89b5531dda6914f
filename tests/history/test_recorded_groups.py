"""Groups folded from logs that Apache Kafka wrote: equal to its tools, and to what clients said.

`history.recording` has recorded them; nothing here needs a broker.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from history.folded import Row, ends_of, whole
from history.recorded import NAMES, WITH_CLIENTS, Dumped, Recording, load

each_log = pytest.mark.parametrize("name", NAMES)
with_clients = pytest.mark.parametrize("name", WITH_CLIENTS)

# --- generations and epochs


class Generation(NamedTuple):
    group: str
    generation: int
    protocol: str | None
    leader: str | None
    members: frozenset[str]


def dumped_generations(records: list[Dumped]) -> list[Generation]:
    """Each generation by its last record: that of a static member that was replaced repeats it."""
    latest: dict[str, int] = {}
    """Group → its latest generation's place in the result."""
    found: list[Generation] = []
    for record in records:
        if str(record.key["type"]) != "2":
            continue
        group = record.key["data"]["group"]
        if record.value is None:
            latest.pop(group, None)
            continue
        value = record.value["data"]
        generation = Generation(
            group,
            value["generation"],
            value["protocol"],
            value["leader"],
            frozenset(each["memberId"] for each in value["members"]),
        )
        if group in latest and found[latest[group]].generation == generation.generation:
            found[latest[group]] = generation
        else:
            latest[group] = len(found)
            found.append(generation)
    return found


@each_log
def test_classic_generations_equal_those_of_dump_log_segments(name: str) -> None:
    rows = [row for row in whole(name).generations if row["type"] == "classic"]
    rows.sort(key=lambda row: (row["log_partition"], row["log_offset"]))
    found = [
        Generation(
            *(row["group"], row["generation"], row["protocol"], row["leader"]),
            frozenset(row["members"]),
        )
        for row in rows
    ]
    assert found == dumped_generations(load(name).dumped)


@each_log
def test_group_epochs_equal_those_of_dump_log_segments(name: str) -> None:
    rows = [row for row in whole(name).generations if row["type"] == "consumer"]
    rows.sort(key=lambda row: (row["log_partition"], row["log_offset"]))
    epochs = [
        (record.key["data"]["groupId"], record.value["data"]["epoch"])
        for record in load(name).dumped
        if str(record.key["type"]) == "3" and record.value is not None
    ]
    assert [(row["group"], row["generation"]) for row in rows] == epochs


@each_log
def test_every_record_of_dump_log_segments_is_a_row(name: str) -> None:
    tables = whole(name)
    positions = {
        (row["log_partition"], row["log_offset"]): row for row in (*tables.commits, *tables.groups)
    }
    assert len(positions) == len(tables.commits) + len(tables.groups)
    for record in load(name).dumped:
        row = positions[record.log_partition, record.offset]
        data = record.key["data"]
        assert row["group"] == data.get("group", data.get("groupId"))
        # Only members that the recorder plays itself send damaged subscriptions and assignments.
        assert row["error"] is None or (name == "others" and " of member " in row["error"])
        assert row["version"] == (None if record.value is None else int(record.value["version"]))
        if row["type"] == "offset":
            assert (row["topic"], row["partition"]) == (data["topic"], data["partition"])
            offset = None if record.value is None else record.value["data"]["offset"]
            assert row["committed"] == offset


# --- what clients said


def members_at(recording: Recording) -> Iterator[tuple[Row, str | None]]:
    """Each event, and the member id of its process then."""
    ids: dict[str, str] = {}
    for event in recording.events:
        if event["event"] == "owns" and event["partitions"]:
            ids[event["name"]] = event["member"]
        yield event, ids.get(event["name"])


@with_clients
def test_commits_have_the_member_that_said_so(name: str) -> None:
    rows: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in whole(name).commits:
        if row["in_force"] is not None and row["committed"] is not None:
            rows[row["group"], f"{row['topic']}-{row['partition']}", row["committed"]].append(row)
    wrong = []
    count = 0
    for event, member in members_at(load(name)):
        if event["event"] != "committed" or member is None:
            continue
        for partition, offset in event["offsets"].items():
            candidates = rows[event["group"], partition, offset]
            count += 1
            if member not in {row["member_id"] for row in candidates}:
                wrong.append((event, partition, [row["member_id"] for row in candidates]))
    assert count > 100
    assert not wrong, f"{len(wrong)} of {count}: {wrong[:3]}"


@with_clients
def test_commits_without_members_come_from_outside(name: str) -> None:
    groups = {event["group"] for event in load(name).events if event["event"] == "started"}
    for row in whole(name).commits:
        if row["group"] not in groups and row["kind"] != "tombstone":
            expected = "transaction" if row["producer_id"] is not None else "outside"
            assert (row["origin"], row["member_id"]) == (expected, None)


REASONS = {
    ("left", False): "left",
    ("killed", False): "vanished",
    ("left", True): "replaced",
    ("killed", True): "vanished",
}
"""Why a process ended, and whether it is a static member → the end of its member."""


@with_clients
def test_departures_equal_what_was_done_to_the_clients(name: str) -> None:
    recording = load(name)
    ended = {row["member_id"]: row["ended_by"] for row in whole(name).members}
    static = {
        event["name"] for event in recording.events if event.get("instance") and event["name"]
    }
    wrong = []
    for event, member in members_at(recording):
        if event["event"] == "gone" and member is not None:
            expected = REASONS[event["why"], event["name"] in static]
            if ended.get(member) != expected:
                wrong.append((event["name"], expected, ended.get(member)))
    assert not wrong


def test_a_member_out_of_its_poll_loop_is_told_from_a_crashed_one() -> None:
    recording = load("classic")
    (stalled, _) = dict.fromkeys(
        event["member"]
        for event in recording.events
        if event["name"] == "stalled-java" and event["event"] == "owns" and event["partitions"]
    )
    (row,) = (row for row in whole("classic").members if row["member_id"] == stalled)
    assert row["ended_by"] == "out of the poll loop"


@with_clients
def test_members_with_partitions_equal_each_snapshot(name: str) -> None:
    recording = load(name)
    for snapshot in recording.snapshots:
        ends = ends_of(snapshot)
        expected = {
            (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): row["CONSUMER-ID"]
            for row in snapshot["offsets"]
            if row["CONSUMER-ID"] != "-"
        }
        owners = {
            (row["group"], recording.topics.get(row["topic"], row["topic"]), row["partition"]): row[
                "member_id"
            ]
            for row in whole(name).assignments
            if row["from_offset"] < ends[row["log_partition"]]
            and (row["to_offset"] is None or row["to_offset"] >= ends[row["log_partition"]])
        }
        assert owners == expected, snapshot["what"]
