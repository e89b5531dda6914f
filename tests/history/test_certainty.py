"""What is exact is so, whatever compaction, retention and damage removed between two builds."""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from history.offset_logs import LOG_PARTITION, Record, batch_of
from history.test_commit_fold import Folded
from history.test_gaps import BEHIND, COMPLETE, commit, unreadable
from kohort.history.gaps import Gap
from kohort.history.schema import COMMITS
from kohort.history.state import State
from kohort.history_files.certainty import NO_CUT, Limits, limits_of
from kohort.history_files.offsets_at import offsets_at

LATER = Gap(100, 110, is_later=True)
FIRST = Gap(5, 9, is_later=False)
LOSS = Gap(100, 110, is_later=True, is_data_loss=True)
UNREADABLE = -2
"""In place of the committed offset of a commit that cannot be decoded."""


@pytest.mark.parametrize(
    ("gaps", "cut", "expected"),
    [
        ([], 50, Limits()),
        ([FIRST], 7, Limits(is_uncertain=True)),
        ([FIRST], 50, Limits()),
        ([FIRST], NO_CUT, Limits()),
        ([FIRST, LATER], 99, Limits()),
        ([FIRST, LATER], 100, Limits(100, 100, is_uncertain=True)),
        ([FIRST, LATER], 111, Limits(100)),
        ([FIRST, LATER], NO_CUT, Limits(100)),
        ([LOSS], 111, Limits(100, 100, is_uncertain=True)),
        ([LOSS], NO_CUT, Limits(100, 100)),
        ([LATER, Gap(200, None, is_later=True)], 150, Limits(100)),
        ([LATER, Gap(200, None, is_later=True)], 300, Limits(200, 200, is_uncertain=True)),
    ],
)
def test_the_gaps_that_begin_before_the_cut_limit_what_is_known(
    gaps: list[Gap], cut: int, expected: Limits
) -> None:
    assert limits_of(gaps, cut) == expected


@pytest.mark.parametrize(
    ("last", "is_tombstone", "expected"),
    [
        (None, False, "unknown"),
        (99, False, "unknown"),
        (100, False, "exact"),
        (79, True, "unknown"),
        (80, True, None),
    ],
)
def test_a_record_behind_the_limits_makes_its_partition_certain(
    last: int | None, is_tombstone: bool, expected: str | None
) -> None:
    limits = Limits(known_from=100, removed_from=80, is_uncertain=True)
    assert limits.certainty(last, is_tombstone=is_tombstone) == expected


class Damage(NamedTuple):
    """What becomes of a log between two builds."""

    log: list[Record]
    """All records, one behind the other."""
    values: list[tuple[str, int | None]]
    """Group and committed offset of each, or UNREADABLE."""
    built: int
    """Where the first build ended."""
    left: list[Record]
    """What the second build reads."""
    log_start: int
    damaged: list[int]


@st.composite
def damages(draw: st.DrawFn) -> Damage:
    offsets = st.one_of(*[st.integers(1, 99)] * 3, st.none(), st.just(UNREADABLE))
    values = draw(st.lists(st.tuples(st.sampled_from("abc"), offsets), min_size=1, max_size=25))
    log, size = [written(at, *value) for at, value in enumerate(values)], len(values)
    built = draw(st.integers(0, size))
    behind, log_start, damaged = log[built:], 0, list[int]()
    cleaned = draw(st.integers(built, max(built, size - 1)))  # the last segment stays
    if draw(st.booleans()):
        behind = compacted(log, built, cleaned, tombstones=draw(st.booleans()))
    match draw(st.sampled_from(["nothing", "retention", "damage"])):
        case "retention":
            log_start = draw(st.integers(0, size))
            behind = [record for record in behind if record["offset"] >= log_start]
        case "damage":
            start = draw(st.integers(built, size))
            end = draw(st.integers(start, size))
            damaged = [start] if start < end else []
            behind = [record for record in behind if not start <= record["offset"] < end]
    return Damage(log, values, built, behind, log_start, damaged)


def written(offset: int, group: str, committed: int | None) -> Record:
    is_unreadable = committed == UNREADABLE
    return unreadable(offset, group) if is_unreadable else commit(offset, group, committed)


def compacted(log: list[Record], start: int, end: int, *, tombstones: bool) -> list[Record]:
    """What compaction up to `end` leaves of the records from `start` on."""
    last = {record["key"]: record["offset"] for record in log[:end]}
    return [
        record
        for record in log[start:]
        if record["offset"] >= end
        or (last[record["key"]] == record["offset"] and (tombstones or record["value"] is not None))
    ]


def folded(damage: Damage, parts: int = 1) -> Folded:
    """By two builds; the second one in so many calls."""
    read = Folded([batch_of(damage.log[: damage.built])])
    if damage.built:
        read.state = State.from_arrow(read.state.to_arrow())
        read.state.coverage.after_pause = True
    read.state.coverage.log_start = damage.log_start
    for offset in damage.damaged:
        read.state.coverage.lose(offset)
    size = max(-(-len(damage.left) // parts), 1)
    for start in range(0, len(damage.left), size):
        read.add(batch_of(damage.left[start : start + size]))
        read.state = State.from_arrow(read.state.to_arrow())
    return read


@settings(max_examples=examples(100))
@given(damages())
def test_committed_offsets_that_are_exact_are_those_of_the_whole_log(damage: Damage) -> None:
    read = folded(damage)
    rows = [*read.batches["commits"], read.state.open_rows()["commits"]]
    commits = pa.Table.from_batches(rows, COMMITS)
    by_group = {group: commits.filter(pc.equal(commits["group"], group)) for group in "abc"}
    seen = sorted(commits["log_offset"].to_pylist())
    truth: dict[str, int | None] = {}
    for end in range(len(damage.log) + 1):
        if end:
            group, committed = damage.values[end - 1]
            truth[group] = committed
        cut = next((offset for offset in seen if offset >= end), NO_CUT)
        if cut == NO_CUT and end < len(damage.log):
            continue  # a time behind all that was read
        limits = limits_of(read.state.coverage.known_gaps, cut)
        for group, own in by_group.items():
            found = offsets_at(own, cut, limits)
            if not found:
                assert truth.get(group) is None or not own.num_rows, (group, end)
            elif found[0].commit is not None:
                assert found[0].certainty == "exact"
                assert found[0].commit["committed"] == truth[group], (group, end)


@settings(max_examples=examples(100))
@given(damages())
def test_exact_commits_have_the_predecessors_of_the_whole_log(damage: Damage) -> None:
    columns = ("previous", "advance", "kind", "certainty")
    rows = Folded([batch_of(damage.log)]).rows("commits")
    truth = {row["log_offset"]: [row[name] for name in columns] for row in rows}
    for row in folded(damage).rows("commits"):
        if row["certainty"] == "exact":
            assert [row[name] for name in columns] == truth[row["log_offset"]], row


@settings(max_examples=examples(50))
@given(damages(), st.integers(2, 9))
def test_gaps_are_the_same_wherever_the_log_is_cut(damage: Damage, parts: int) -> None:
    whole, cut = folded(damage), folded(damage, parts)
    assert cut.state.to_arrow() == whole.state.to_arrow()
    assert cut.rows("commits") == whole.rows("commits")


def certainties(folded: Folded) -> dict[int, str]:
    return {row["log_offset"]: row["certainty"] for row in folded.rows("commits")}


def test_a_first_commit_behind_data_loss_is_unknown() -> None:
    """Compaction leaves the last record of a key, so that its first commit is known as such."""
    behind = [*BEHIND[:2], commit(102, "new", 1), commit(103, "new", 2)]
    lost = Folded([batch_of(COMPLETE)])
    lost.state.coverage.log_start = 100
    lost.add(batch_of(behind))
    assert lost.state.coverage.gaps == [Gap(100, 101, is_later=True, is_data_loss=True)]
    compacted = Folded([batch_of(COMPLETE), batch_of(behind)])
    assert certainties(lost)[102] == "unknown"
    assert certainties(compacted)[102] == "exact"
    assert certainties(lost)[103] == certainties(compacted)[103] == "exact"


def test_the_beginning_of_an_archive_may_be_data_loss() -> None:
    archive = Folded([])
    archive.state.coverage.log_start = None
    archive.add(batch_of([*BEHIND, commit(103, "new", 1)]))
    assert archive.state.coverage.gaps == [Gap(100, 101, is_later=False, is_data_loss=True)]
    assert certainties(archive)[103] == "unknown"


def test_damage_at_the_end_of_the_log_makes_all_offsets_unknown() -> None:
    read = Folded([batch_of(COMPLETE)])
    read.state.coverage.lose(3)
    assert limits_of(read.state.coverage.known_gaps, NO_CUT) == Limits(3, 3)
    assert read.coverage()["gaps"][-1]["is_data_loss"] is True


def test_a_group_behind_data_loss_may_have_had_generations_before() -> None:
    from history.test_tombstones import generation
    from kohort.coordinator.records import encode

    key, value = encode(generation("new", "t"))
    record: dict[str, Any] = commit(102, "new", 1) | {"key": key, "value": value}
    for log_start, is_complete in ((0, True), (100, False)):
        read = Folded([batch_of(COMPLETE)])
        read.state.coverage.log_start = log_start
        read.add(batch_of([*BEHIND[:2], record, record | {"offset": 103, "batchOffset": 103}]))
        tables = {name: read.rows(name) for name in ("generations", "members")}
        assert {row["complete"] for rows in tables.values() for row in rows} == {is_complete}
        assert read.state.log_partition == LOG_PARTITION


def test_the_commit_behind_one_that_cannot_be_decoded_is_unknown() -> None:
    log = [
        commit(0, "g", 5),
        unreadable(1, "g"),
        commit(2, "h", 1),
        commit(3, "g", 9),
        commit(4, "g", 10),
    ]
    read = Folded([batch_of(log[:2]), batch_of(log[2:])], round_trips=True)
    assert certainties(read) == {0: "exact", 1: None, 2: "exact", 3: "unknown", 4: "exact"}
    assert {row["committed"] for row in read.state.committed().to_pylist()} == {1, 10}


def test_an_offset_behind_which_a_record_cannot_be_decoded_is_not_in_force_in_the_state() -> None:
    log = [commit(0, "g", 5), unreadable(1, "g")]
    assert not Folded([batch_of(log)], round_trips=True).state.committed().num_rows


def test_a_partition_is_unknown_from_a_record_that_cannot_be_decoded_to_its_next_one() -> None:
    log = [
        commit(0, "g", 5),
        unreadable(1, "g"),
        commit(2, "g", None),
        unreadable(3, "g"),
        commit(4, "g", 9),
    ]
    commits = pa.Table.from_batches(whole_rows(log), COMMITS)
    found = {cut: offsets_at(commits, cut, Limits()) for cut in range(1, 6)}
    assert {cut: [each.certainty for each in offsets] for cut, offsets in found.items()} == {
        1: ["exact"], 2: ["unknown"], 3: [], 4: ["unknown"], 5: ["exact"],
    }  # fmt: skip
    assert [each.commit for cut in (2, 4) for each in found[cut]] == [None, None]


def whole_rows(log: list[Record]) -> list[pa.RecordBatch]:
    read = Folded([batch_of(log)])
    return [*read.batches["commits"], read.state.open_rows()["commits"]]


def test_a_removal_behind_a_record_that_cannot_be_decoded_has_no_cause() -> None:
    """The offset may have been as old as the retention, or not."""
    log = [commit(0, "g", 5), unreadable(1, "g"), commit(2, "g", None), commit(90, "h", 1)]
    causes = {row["log_offset"]: row["cause"] for row in Folded([batch_of(log)]).rows("commits")}
    assert causes[2] is None
