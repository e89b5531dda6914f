"""Commits folded from logs that Apache Kafka wrote equal what its tools showed.

`history.recording` has recorded them; nothing here needs a broker.
"""

from collections import defaultdict

import pytest

from history.folded import compacted, ends_of, in_force, shown, whole
from history.recorded import NAMES, WITH_CLIENTS, load
from kohort.history.fold import fold
from kohort.history.state import State

each_log = pytest.mark.parametrize("name", NAMES)
with_clients = pytest.mark.parametrize("name", WITH_CLIENTS)

# --- committed offsets


@with_clients
def test_committed_offsets_equal_each_snapshot_of_kafka_consumer_groups(name: str) -> None:
    commits = whole(name).commits
    for snapshot in load(name).snapshots:
        found = in_force(commits, ends_of(snapshot))
        offsets = {key: row["committed"] for key, row in found.items()}
        assert offsets == shown(snapshot), snapshot["what"]


@each_log
def test_the_time_of_a_snapshot_is_its_position_in_each_log_partition(name: str) -> None:
    """ "At T" is everything before the first record that is later."""
    recording = load(name)
    for snapshot in recording.snapshots:
        for number, end in ends_of(snapshot).items():
            table = recording.records("whole", number)
            times = [round(each.timestamp() * 1000) for each in table["timestamp"].to_pylist()]
            offsets = table["offset"].to_pylist()
            after = (
                offset for offset, time in zip(offsets, times, strict=True) if time > snapshot["at"]
            )
            log_end = offsets[-1] + 1 if offsets else 0
            assert next(after, log_end) == end, snapshot["what"]


@with_clients
def test_a_compacted_log_knows_no_committed_offset_that_is_wrong(name: str) -> None:
    """The snapshots again, from the compacted log."""
    folded = compacted(name)
    exact_from = {row["log_partition"]: row["complete_from"] for row in folded.coverage}
    for snapshot in load(name).snapshots:
        ends = ends_of(snapshot)
        found = in_force(folded.commits, ends)
        for key, offset in shown(snapshot).items():
            if key in found:
                assert found[key]["committed"] == offset, (snapshot["what"], key)
        for key, row in found.items():
            assert shown(snapshot).get(key) == row["committed"], (snapshot["what"], key)
        exact = {
            key
            for key, row in found.items()
            if exact_from[row["log_partition"]] is not None
            and exact_from[row["log_partition"]] <= ends[row["log_partition"]]
        }
        assert exact <= shown(snapshot).keys(), snapshot["what"]


@each_log
def test_rows_of_the_compacted_log_that_are_exact_equal_those_of_the_whole_one(name: str) -> None:
    complete = {(row["log_partition"], row["log_offset"]): row for row in whole(name).commits}
    exact = [row for row in compacted(name).commits if row["certainty"] == "exact"]
    assert exact
    for row in exact:
        expected = complete[row["log_partition"], row["log_offset"]]
        # The group's first record may be gone.
        assert row | {"life": None} == expected | {"life": None}


@each_log
def test_the_log_is_complete_from_where_the_cleaner_stopped(name: str) -> None:
    cleaned = load(name).cleaned()
    for row in compacted(name).coverage:
        number = row["log_partition"]
        if row["first_hole"] is not None:
            assert row["complete_from"] >= cleaned[number]
            before, following = set(), 0
            for record in load(name).records("compacted", number).to_pylist():
                if record["offset"] >= row["complete_from"]:
                    break
                if record["offset"] != following:  # what follows a hole may be compacted too
                    before.clear()
                following = record["offset"] + 1
                assert record["key"] not in before or record["control"] is not None
                before.add(record["key"])
    for row in whole(name).coverage:
        assert (row["first_hole"], row["holes"]) == (None, 0)


# --- the fold itself


@each_log
def test_rows_are_the_same_wherever_the_log_is_cut(name: str) -> None:
    recording = load(name)
    for number in recording.log_partitions:
        table = recording.records("whole", number).combine_chunks()
        (batch,) = table.to_batches() or (None,)
        if batch is None:
            continue
        at_once, state = fold(State.new(number), batch)
        cut_state, parts = State.new(number), defaultdict(list)
        for start in range(0, batch.num_rows, 37):
            rows, cut_state = fold(cut_state, batch.slice(start, 37))
            cut_state = State.from_arrow(cut_state.to_arrow())
            for table_name, part in rows.items():
                parts[table_name] += part.to_pylist()
        for table_name, each in at_once.items():
            assert sorted(parts[table_name], key=repr) == sorted(each.to_pylist(), key=repr)
        assert cut_state.to_arrow() == state.to_arrow()
        open_rows = {key: each.to_pylist() for key, each in state.open_rows().items()}
        assert {key: each.to_pylist() for key, each in cut_state.open_rows().items()} == open_rows
        assert cut_state.coverage_row().equals(state.coverage_row())
