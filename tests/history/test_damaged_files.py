"""Segment files with changed bytes: no row that is called exact differs from the whole log."""

from collections import defaultdict
from struct import pack_into
from typing import Any

from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effort import examples
from history.folded_tables import FoldedTables
from history.group_log_builder import classic, classic_tombstone
from kohort.coordinator import records
from kohort.coordinator.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from kohort.history.damage import split_damage
from kohort.history.fold import fold
from kohort.history.state import State
from kohort.history_files.folding import records_of
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.protocol.compression import Codec
from kohort.segments import ReadSettings, find_replicas, longest, read
from segments.files import NOW, Partition

groups = st.sampled_from("gh")
commits = st.builds(
    lambda group, partition, offset: OffsetCommitRecord(
        OffsetCommitKey(group, "t", partition),
        None if offset is None else OffsetCommitValue(offset, -1, "", NOW),
    ),
    groups,
    st.integers(0, 2),
    st.none() | st.integers(0, 50),
)
generations = st.builds(
    lambda group, number, members: classic(number, members, joined=NOW, group=group),
    groups,
    st.integers(0, 4),
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 2), max_size=2), max_size=2),
)
bodies = st.one_of(commits, commits, commits, generations, groups.map(classic_tombstone))
codecs = st.sampled_from((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.ZSTD))
logs = st.lists(st.tuples(st.lists(bodies, min_size=1, max_size=3), codecs), min_size=2, max_size=9)
fields = st.sampled_from(
    [(0, ">q"), (8, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"), (57, ">i")]
)
"""Where these fields of a batch's header are: all that matters but the CRC."""
extremes = st.sampled_from([0, 1, -1, 5, 8, 32, 2**7 - 1, -(2**7), 2**15 - 1, 2**31 - 1, 2**63 - 1])


def written(log: Any) -> list[tuple[int, bytearray]]:
    """The batches of a log, with their base offsets."""
    found, offset = [], 0
    for some, codec in log:
        time = NOW + 1_000 * offset
        content = [Record(*records.encode(each), (), time) for each in some]
        found.append((offset, bytearray(batches.build(content, base_offset=offset, codec=codec))))
        offset += len(some)
    return found


def folded(partition: Partition) -> tuple[FoldedTables, State, set[int]]:
    """Tables and state by the files of a partition, and the offsets that have a row or are lost."""
    (replicas,) = find_replicas([str(partition.path)]).values()
    replica, state = longest(replicas), State.new(0)
    closed: dict[str, list[Any]] = defaultdict(list)
    for batch in read(replica, 0, replica.end(), ReadSettings(damaged_rows=True)):
        whole, errors = split_damage(state, records_of(batch))
        rows, state = fold(state, whole)
        for name, some in (*rows.items(), *([("groups", errors)] if errors is not None else [])):
            some.validate(full=True)
            closed[name] += some.to_pylist()
    open_rows = {name: rows.to_pylist() for name, rows in state.open_rows().items()}
    tables = FoldedTables(closed, open_rows)
    logged = (*tables.commits, *tables.groups, *open_rows["commits"])
    return tables, state, {row["log_offset"] for row in logged}


def exact(tables: FoldedTables) -> FoldedTables:
    """What has ended: what has not may end in what was lost. A cause that is null says nothing."""
    commits = [
        {name: value for name, value in row.items() if name != "cause" or value is not None}
        for row in tables.open["commits"]
    ]
    return FoldedTables(tables.closed, defaultdict(list, commits=commits))


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs, st.data())
def test_no_changed_byte_makes_a_wrong_row_exact(tmp_path_factory, log, draw):
    found = written(log)
    whole = Partition(tmp_path_factory.mktemp("whole"), "__consumer_offsets-0")
    whole.segment(0, b"".join(content for _, content in found))
    expected, _, offsets = folded(whole)
    changed = draw.draw(st.lists(st.sampled_from(range(len(found))), min_size=1, max_size=2))
    for number in changed:
        content = found[number][1]
        at = draw.draw(st.integers(0, len(content) - 1))
        if draw.draw(st.booleans()):
            content[at] ^= 1 << draw.draw(st.integers(0, 7))
        else:
            del content[at : at + draw.draw(st.integers(1, 20))]
    cut = draw.draw(st.sampled_from([base for base, _ in found[1:]]))
    damaged = Partition(tmp_path_factory.mktemp("damaged"), "__consumer_offsets-0")
    damaged.segment(0, b"".join(content for base, content in found if base < cut))
    damaged.segment(cut, b"".join(content for base, content in found if base >= cut))
    tables, state, read_to = folded(damaged)
    expected.is_exact_in(exact(tables))
    if state.coverage.damaged_from:
        assert not any(row["complete"] for row in tables.open["generations"])
    assert offsets - read_to <= set(range(*lost(state, max(offsets) + 1)))


def lost(state: State, end: int) -> tuple[int, int]:
    """From the first damage on; a broker that is killed may leave a cut batch at the end."""
    return min((*state.coverage.damaged_from, state.next_offset)), end


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs, st.data(), fields, extremes)
def test_no_header_ends_the_fold(tmp_path_factory, log, draw, field, number):
    """A header that its CRC confirms says anything."""
    found = written(log)
    at, form = field
    content = draw.draw(st.sampled_from(found))[1]
    bits = {"q": 64, "i": 32, "h": 16, "b": 8}[form[1]]
    pack_into(form, content, at, (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))
    pack_into(">I", content, 17, crc32c(bytes(content[21:])))
    partition = Partition(tmp_path_factory.mktemp("crafted"), "__consumer_offsets-0")
    partition.segment(0, b"".join(content for _, content in found))
    _, state, _ = folded(partition)
    assert State.from_arrow(state.to_arrow()).to_arrow() == state.to_arrow()
