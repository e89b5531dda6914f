"""Whatever group records say, in whatever order, the fold goes on.

- nothing raises, and all rows fit their schemas;
- rows and state are the same wherever the log is cut;
- members and owners follow one another without overlap;
- after the tombstones of all groups there is no state.
"""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from history.group_log_builder import (
    G,
    Log,
    classic,
    classic_tombstone,
    current,
    ended,
    epoch,
    key,
    member,
    removed,
    target,
    target_epoch,
)
from history.group_logs import Commits, Logged, Tables, apply, resumed
from history.recording_bench import rows_follow_one_another
from kohort.coordinator import records
from kohort.history import schema
from kohort.history.group_fold import GroupFold

ids = st.sampled_from("abc")
instances = st.sampled_from((None, "i", "j"))
numbers = st.integers(-2, 4) | st.sampled_from((2**31 - 1, 1 - 2**31))
partitions = st.lists(st.integers(0, 2), max_size=3)
classics = st.builds(
    classic,
    numbers,
    st.dictionaries(ids, partitions, max_size=3),
    joined=st.sampled_from((-1, 0, 5_000, 2**62)),
    instances=st.dictionaries(ids, st.sampled_from(("i", "j"))),
    protocol_type=st.sampled_from(("consumer", "connect", "")),
)
rows = st.one_of(
    classics.map(lambda record: [record]),
    st.just([classic_tombstone()]),
    numbers.map(lambda number: [epoch(number)]),
    st.builds(member, ids, instances, is_classic=st.booleans()).map(lambda record: [record]),
    st.builds(current, ids, numbers, partitions, partitions, st.integers(0, 3)).map(
        lambda record: [record]
    ),
    st.builds(target_epoch, numbers).map(lambda record: [record]),
    ids.map(lambda member_id: list(removed(member_id))),
    ids.map(lambda member_id: list(removed(member_id))[:1]),
    st.just(list(ended())),
    ids.map(lambda member_id: [target(member_id, 0)]),
    st.builds(
        lambda type_, value: [(key(type_, G, "a"), value)],
        st.integers(2, 24),
        st.none() | st.binary(max_size=12),
    ),
)
damage = st.none() | st.tuples(st.integers(0, 200), st.integers(0, 255))
writes = st.lists(
    st.one_of(
        st.tuples(st.lists(rows, min_size=1, max_size=4), st.booleans(), damage),
        partitions.filter(bool),
    ),
    max_size=12,
)


@given(writes, st.sets(st.integers(0, 60)))
def test_no_sequence_of_records_ends_the_fold(written: list[Any], cuts: set[int]) -> None:
    log = logged(written)
    commits, cut_commits = Commits(), Commits()
    fold = GroupFold(log_partition=0, commits=commits)
    cut = GroupFold(log_partition=0, commits=cut_commits)
    for record in log:
        apply(fold, commits, record)
        apply(cut, cut_commits, record)
        if record.at.offset in cuts:
            batches(cut.open_rows())
            state = cut.dump()
            cut = resumed(cut, cut_commits)
            assert cut.dump() == state
    assert cut.rows == fold.rows
    assert cut.dump() == fold.dump()
    assert cut.open_rows() == fold.open_rows()
    fold.end_write()
    rows_follow_one_another(Tables.of(fold))
    for number, ending in enumerate((classic_tombstone(), ended()[-1])):
        at = log[-1].at if log else None
        encoded = records.encode(ending)
        position = (at or Log().position(0))._replace(offset=1_000 + number, timestamp=-5)
        fold.apply(*encoded, position)
    for type_ in (11, 17):
        fold.apply(key(type_, G), None, position._replace(offset=2_000 + type_))
    fold.end_write()
    batches(fold.rows)
    assert fold.life(G) is None
    assert not any(fold.open_rows().values())


def logged(written: list[Any]) -> list[Logged]:
    log, time = Log(), 1_000
    for write in written:
        time += 700
        if isinstance(write, list):
            log.commit(time, *write)
            continue
        some, is_same_time, broken = write
        time -= 700 * is_same_time
        log.write(time, *(row for each in some for row in each))
        if broken is not None:
            at, byte = broken
            last = log.records[-1]
            if last.value is not None and len(last.value) > at:
                value = last.value[:at] + bytes((byte,)) + last.value[at + 1 :]
                log.records[-1] = last._replace(value=value)
    return log.records


def batches(tables: dict[str, list[Any]]) -> None:
    for name, some in tables.items():
        pa.RecordBatch.from_pylist(some, schema=schema.TABLES[name])
