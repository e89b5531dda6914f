"""Committed offsets of a group at any time are those of the fold up to there, and plans of them are
undone.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from history.built import build, build_logs
from history.committed_offsets import in_force, unreadable_keys
from history.folded import ends_of, whole
from history.folded import in_force as in_force_at
from history.offset_logs import LOG_PARTITION, batch_of, logs
from history.recorded import load
from history.test_gaps import commit, unreadable
from kohort.cli.restore_targets import targets_of
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets import ResetPlan, changes_to
from kohort.history.fold import fold
from kohort.history.schema import RECORDS
from kohort.history.state import State
from kohort.history_files.committed import committed_offsets
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.merging import remove_older
from kohort.history_files.reading import GroupReader
from kohort.types import GroupId, TopicPartition

GROUPS = ("g", "h", "grüppe", "")
COLUMNS = (
    "group", "topic", "partition", "in_force", "log_offset", "committed", "leader_epoch",
    "metadata", "topic_id", "error",
)  # fmt: skip
SNAPSHOTS = 4
"""Of a recorded log that are compared."""


def table(log):
    return pa.Table.from_batches([batch_of(log)] if log else [], RECORDS)


def moment(us):
    return datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)


def before(log, us):
    """The records of a log before the first one that is later."""
    for number, record in enumerate(log):
        if record["timestamp"] > us:
            return log[:number]
    return log


def read(directory, group, us=None):
    """The committed offsets of a group; None if the history has no such group."""
    time = None if us is None else moment(us)
    reader = GroupReader(HistoryDirectory(LocalFiles(directory)), group, time)
    return None if reader.log_partition is None else committed_offsets(reader)


def as_row(entry):
    row = entry.commit
    return row and (row.offset, row.leader_epoch, row.metadata, row.topic_id, row.log_offset)


def expected(row):
    epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
    return row["committed"], epoch, row["metadata"] or "", row["topic_id"], row["log_offset"]


def truth_of(log):
    """The rows in force at the end of a log, by key, and keys of which that is not known."""
    state, parts = State.new(LOG_PARTITION), []
    for batch in table(log).to_batches():
        rows, state = fold(state, batch)
        parts.append(rows)
    parts.append(state.open_rows())
    commits = [part["commits"].select(COLUMNS) for part in parts if "commits" in part]
    rows = [row for batch in commits for row in batch.to_pylist()]
    unknown = unreadable_keys(rows, len(log))
    known = {key: row for key, row in in_force(rows, len(log)).items() if key not in unknown}
    return known, unknown


@settings(max_examples=examples(60))
@given(logs(has_holes=False), st.data())
def test_committed_offsets_at_a_time_are_those_of_the_log_up_to_there(log, data):
    times = sorted({record["timestamp"] for record in log}) or [0]
    with tempfile.TemporaryDirectory() as home:
        build_logs({LOG_PARTITION: table(log)}, Path(home) / "h", limit=15)
        for _ in range(2):
            us = data.draw(st.sampled_from(times)) + data.draw(st.sampled_from([-1, 0, 1]))
            group = data.draw(st.sampled_from(GROUPS))
            known, unknown = truth_of(before(log, us))
            truth = {key: row for key, row in known.items() if key[0] == group}
            offsets = read(Path(home) / "h", group, us)
            if offsets is None:
                assert not truth
                continue
            assert offsets.gap is None
            uncertain = {key for key, entry in offsets.partitions.items() if not entry.is_certain}
            assert uncertain == {key[1:] for key in unknown if key[0] == group}
            found = {
                (group, *key): as_row(entry)
                for key, entry in offsets.partitions.items()
                if entry.commit
            }
            assert found == {key: expected(row) for key, row in truth.items()}
            restores_and_undoes(GroupId(group), offsets, data)


def restores_and_undoes(group, offsets, data):
    """Executing a plan of the offsets gives them, and its inverse what was there before."""
    keys = sorted({*offsets.partitions, ("t", 0), ("t", 7), ("other", 0)})
    commits = st.builds(OffsetAndMetadata, offset=st.integers(0, 9), metadata=st.sampled_from("ab"))
    current = {TopicPartition(*key): data.draw(commits) for key in keys if data.draw(st.booleans())}
    delete_absent = data.draw(st.booleans())
    targets = targets_of(offsets, current, delete_absent=delete_absent)
    ends = {TopicPartition(*key): (0, 2**63 - 1) for key in keys}
    plan = ResetPlan(
        specification="restore",
        cluster_id=None,
        made_at_ms=0,
        changes=tuple(changes_to(group, targets.commits, current, ends)),
    )
    restored = executed(plan, current)
    then = {
        TopicPartition(*key): entry.commit
        for key, entry in offsets.partitions.items()
        if entry.commit and entry.commit.offset >= 0
    }
    assert {tp: restored[tp].offset for tp in then} == {tp: c.offset for tp, c in then.items()}
    assert {tp: restored[tp].metadata for tp in then} == {tp: c.metadata for tp, c in then.items()}
    kept, absent = restored.keys() - then.keys(), current.keys() - then.keys()
    assert kept == (absent.intersection(targets.unknown) if delete_absent else absent)
    assert not plan.drift({group: current})
    assert executed(ResetPlan.from_json(plan.to_json()).inverse(1), restored) == current


def executed(plan, commits):
    """What is committed after a plan."""
    after = dict(commits)
    for change in plan.changes:
        after.pop(change.partition, None)
        if change.new is not None:
            after[change.partition] = change.new
    return after


@settings(max_examples=examples(30))
@given(logs(has_holes=False), st.data())
def test_offsets_of_a_compacted_log_are_true_or_unknown(log, data):
    """The cleaner keeps the last record of each key below some offset."""
    cleaned = data.draw(st.integers(0, len(log)))
    last = {record["key"]: record["offset"] for record in log[:cleaned] if not record["control"]}
    kept = [
        record
        for record in log
        if record["offset"] >= cleaned
        or record["control"]
        or last[record["key"]] == record["offset"]
    ]
    times = sorted({record["timestamp"] for record in kept})
    us = data.draw(st.sampled_from(times or [0]))
    truth, unknown = truth_of(before(log, us))
    with tempfile.TemporaryDirectory() as home:
        build_logs({LOG_PARTITION: table(kept)}, Path(home) / "h")
        for group in GROUPS:
            offsets = read(Path(home) / "h", group, us)
            for key, entry in (offsets.partitions if offsets else {}).items():
                row = truth.get((group, *key))
                if entry.is_certain and kept[-1:] == log[-1:]:
                    assert (group, *key) not in unknown
                    assert as_row(entry) == (row and expected(row))


@pytest.mark.parametrize("name", ["classic", "offsets"])
def test_offsets_of_a_recorded_log_are_those_of_its_tools_at_each_snapshot(name, tmp_path):
    recording = load(name)
    build(recording, tmp_path / "h")
    commits = whole(name).commits
    groups = sorted({row["group"] for row in commits if row["group"] is not None})
    readers = [GroupReader(HistoryDirectory(LocalFiles(tmp_path / "h")), each) for each in groups]
    for snapshot in recording.snapshots[:: len(recording.snapshots) // SNAPSHOTS]:
        ends = ends_of(snapshot)
        found = {}
        for group, reader in zip(groups, readers, strict=True):
            reader.cut = ends[reader.log_partition]
            for key, entry in committed_offsets(reader).partitions.items():
                if entry.commit is not None:
                    found[group, *key] = entry.commit.offset
        assert found == {key: row["committed"] for key, row in in_force_at(commits, ends).items()}


def test_a_later_group_of_the_same_name_changes_no_earlier_offset(tmp_path):
    """Log order tells them apart: the first group was deleted with its commit."""
    log = [
        commit(0, "g", 5),
        commit(1, "g", None),
        commit(2, "h", 1),
        commit(3, "g", 50),
    ]
    build_logs({LOG_PARTITION: table(log)}, tmp_path / "h")
    committed = {}
    for record in log:
        entry = read(tmp_path / "h", "g", record["timestamp"]).partitions["t", 0]
        committed[record["offset"]] = entry.commit and entry.commit.offset
    assert committed == {0: 5, 1: None, 2: None, 3: 50}


def test_commits_around_a_time_are_shown(tmp_path):
    log = [commit(0, "g", 5), commit(1, "g", 6), commit(2, "g", None), commit(3, "g", 8)]
    build_logs({LOG_PARTITION: table(log)}, tmp_path / "h")
    entry = read(tmp_path / "h", "g", log[1]["timestamp"]).partitions["t", 0]
    assert (entry.commit.previous, entry.commit.offset) == (5, 6)
    assert (entry.after.log_offset, entry.after.offset) == (2, None)
    assert read(tmp_path / "h", "g").partitions["t", 0].after is None


def test_a_partition_may_be_unknown_in_a_gap_and_certain_behind_it(tmp_path):
    """Records before offset 2 were removed; from offset 4 on, where a key repeats, all is there."""
    log = [commit(2, "g", 5), commit(3, "h", 6), commit(4, "g", 7), commit(5, "h", 8)]
    build_logs({LOG_PARTITION: table(log)}, tmp_path / "h")
    states = {}
    for us in (log[0]["timestamp"] - 1, *(record["timestamp"] for record in log)):
        offsets = read(tmp_path / "h", "h", us)
        entry = offsets.partitions["t", 0]
        offset = entry.commit and entry.commit.offset
        states[us // 1_000_000] = offsets.gap is None, entry.is_certain, offset
    assert states == {
        1: (False, False, None),
        2: (False, False, None),
        3: (False, True, 6),
        4: (True, True, 6),
        5: (True, True, 8),
    }


def test_targets_leave_out_what_is_not_asked_for(tmp_path):
    log = [commit(0, "g", 5), commit(1, "g", 6)]
    build_logs({LOG_PARTITION: table(log)}, tmp_path / "h")
    offsets = read(tmp_path / "h", "g")
    place, other = TopicPartition("t", 0), TopicPartition("u", 3)
    assert targets_of(offsets, [other], {"t": {1}}).commits == {}
    chosen = targets_of(offsets, [other], {"t": None, "u": {3}})
    assert chosen.commits == {place: OffsetAndMetadata(offset=6)}
    assert chosen.kept == [other]
    assert targets_of(offsets, [other], delete_absent=True).commits[other] is None


def test_an_offset_behind_which_a_record_cannot_be_decoded_is_not_restored(tmp_path):
    log = [commit(0, "g", 5), commit(1, "h", 7), unreadable(2, "g"), unreadable(3, "i")]
    build_logs({LOG_PARTITION: table(log)}, tmp_path / "h")
    for group, us, commits, unknown in (
        ("g", log[1]["timestamp"], [5], 0),
        ("g", None, [], 1),
        ("h", None, [7], 0),
        ("i", None, [], 1),
    ):
        targets = targets_of(read(tmp_path / "h", group, us), [TopicPartition("t", 0)])
        assert [target.offset for target in targets.commits.values()] == commits
        assert targets.unknown == [TopicPartition("t", 0)] * unknown
        assert not targets.kept


def test_rows_that_are_too_old_leave_an_unknown_offset_unknown(tmp_path):
    log = [commit(0, "g", 5), unreadable(1, "g"), commit(2, "h", 7)]
    build_logs({LOG_PARTITION: table(log)}, tmp_path / "h", limit=1)
    with opened_for_writing(LocalFiles(tmp_path / "h"), 0) as history:
        remove_older(history, 10_000, 0)
        assert all(file.carried for file in history.current.files if file.table == "commits")
    for group, unknown in (("g", True), ("h", False)):
        (entry,) = read(tmp_path / "h", group).partitions.values()
        assert entry.is_certain is not unknown


def test_a_group_in_two_log_partitions_is_that_with_the_latest_record(tmp_path):
    """The number of log partitions was raised between: a coordinator looks at the new one only."""
    earlier = [commit(0, "g", 5), commit(1, "g", 6)]
    later = [commit(0, "h", 1), commit(1, "h", 1), commit(2, "g", 1)]
    logs = {1: with_number(later, 1), LOG_PARTITION: table(earlier)}
    build_logs(logs, tmp_path / "h")
    directory = HistoryDirectory(LocalFiles(tmp_path / "h"))
    for us, number, others in ((None, 1, [LOG_PARTITION]), (1_000_000, LOG_PARTITION, [1])):
        reader = GroupReader(directory, "g", None if us is None else moment(us))
        assert (reader.log_partition, reader.other_log_partitions) == (number, others)
    assert read(tmp_path / "h", "g").partitions["t", 0].commit.offset == 1
    assert read(tmp_path / "h", "g", 1_000_000).partitions["t", 0].commit.offset == 6


def with_number(log, number):
    return table([{**record, "partition": number} for record in log])
