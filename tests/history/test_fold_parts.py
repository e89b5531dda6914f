"""Rows of groups with many members are made some at a time, and are the same."""

import pyarrow as pa

from history.group_log_builder import Log, current, epoch, member, target, target_epoch
from history.test_commit_fold import rows_of
from kohort.history import fold as module
from kohort.history.fold import fold, fold_parts
from kohort.history.schema import RECORDS, TABLES
from kohort.history.state import State

MEMBERS = 60


def joins() -> pa.RecordBatch:
    """Members that join one after the other, each with an epoch that names all, and commits."""
    log = Log()
    for number in range(MEMBERS):
        name, generation = f"m{number}", number + 2
        log.write(
            number * 100, member(name), epoch(generation), target(name, number),
            target_epoch(generation), current(name, generation, [number]),
        )  # fmt: skip
        log.commit(number * 100 + 1, *range(number))
    rows = [
        {"key": each.key, "value": each.value, "partition": 0, "offset": each.at.offset,
         "timestamp": each.at.timestamp * 1000, "batchOffset": each.at.batch_offset,
         "transactional": False}
        for each in log.records
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, RECORDS)


def test_parts_name_a_bounded_number_of_members(monkeypatch):
    monkeypatch.setattr(module, "MOST_NAMED", 200)
    records = joins()
    parts, state = [], State.new(0)
    for rows, after in fold_parts(State.new(0), records):
        state = after
        parts.append(rows)
        named = [len(row["members"]) for row in rows["generations"].to_pylist()]
        assert sum(named) <= 200
    whole, expected = fold(State.new(0), records)
    for table in TABLES:
        assert rows_of([rows[table] for rows in parts]) == rows_of([whole[table]])
    assert state.to_arrow() == expected.to_arrow()


def test_commits_are_folded_at_once(monkeypatch):
    monkeypatch.setattr(module, "MOST_NAMED", 200)
    log = Log()
    log.commit(0, *range(5_000))
    rows = [
        {"key": each.key, "value": each.value, "partition": 0, "offset": each.at.offset}
        for each in log.records
    ]
    assert len(list(fold_parts(State.new(0), pa.RecordBatch.from_pylist(rows, RECORDS)))) == 1
