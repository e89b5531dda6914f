"""Status of partitions of groups at a moment, from the files of a history, without Spark.

Only a part of the log partitions is read at a time, so memory is bounded: by the commits of that
part, and by the samples of a day.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.lag import last_lags
from kohort.history.numbering import names_in, values_in
from kohort.history.schema import STATUS, TABLES, TIME
from kohort.history.status import LIMITS, StatusLimits, status_table
from kohort.history_files.certainty import is_in_gap
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import Files
from kohort.history_files.moments import validate_kept
from kohort.history_files.parts import parts_of, read_columns, states_of, stored_commits
from kohort.history_files.samples import last_sample_ms, read_stored_samples
from kohort.history_files.snapshot import Snapshot

if TYPE_CHECKING:
    from kohort.history.state import State

SAMPLES_SINCE: Final = timedelta(days=1)
"""How far samples are read back: for the time of a lag, and for when its end began to grow."""
_NO_CUT: Final = 2**63 - 1
_MEMBERS: Final = "members"


def status_at(
    directory: HistoryDirectory, at: datetime | None = None, *, limits: StatusLimits = LIMITS
) -> pa.Table:
    """The status of all partitions of groups at a time, by default that of the last sample.

    Rows of STATUS; none of a partition that has no samples. Raises ConfigError for a time of which
    rows were removed; KohortError.
    """
    snapshot = directory.snapshot()
    moment = moment_of(snapshot, at)
    if moment is None:
        return STATUS.empty_table()
    tables = [
        status_of_part(directory.files, snapshot, part, moment, limits)
        for part in parts_of(snapshot, 1)
    ]
    return pa.concat_tables([STATUS.empty_table(), *tables])


def moment_of(snapshot: Snapshot, at: datetime | None) -> datetime | None:
    """`at`, or the time of the last sample; None without any. Raises ConfigError."""
    if at is not None:
        validate_kept(snapshot, at)
        return at
    last = last_sample_ms(snapshot)
    return None if last is None else datetime.fromtimestamp(last / 1000, UTC)


def status_of_part(
    files: Files,
    snapshot: Snapshot,
    log_partitions: Sequence[int],
    at: datetime,
    limits: StatusLimits = LIMITS,
) -> pa.Table:
    """The status of the groups in some log partitions. Raises KohortError."""
    commits = stored_commits(files, snapshot, log_partitions, at)
    topics = names_in(commits["topic"]).to_pylist()
    samples = read_stored_samples(files, snapshot, at, topics=topics, since=at - SAMPLES_SINCE)
    lags = last_lags(commits, samples)
    with_gaps = [each for each in log_partitions if snapshot.log_partitions[each].gaps != ()]
    unknown = _unknown_groups(commits, states_of(files, snapshot, with_gaps), at)
    judged = status_table(lags, at, unknown_groups=unknown, limits=limits)
    stopped = pc.unique(judged.filter(pc.equal(judged["status"], "stopped"))["group"]).to_pylist()
    if not stopped:
        return judged
    present = set(_with_members(files, snapshot, log_partitions, at, stopped))
    return status_table(
        lags,
        at,
        empty_groups=set(stopped) - present,
        unknown_groups=unknown,
        limits=limits,
    )


def _unknown_groups(commits: pa.Table, states: "Iterable[State]", at: datetime) -> set[str]:
    """The groups of log partitions that lack records at `at`."""
    unknown: set[str] = set()
    for state in states:
        own = commits.filter(pc.equal(commits["log_partition"], state.log_partition))
        last = state.coverage.last_time
        cut = _NO_CUT
        if last is not None and at.timestamp() * 1000 < last:
            cut = (pc.max(own["in_force"]).as_py() or 0) + 1
        if is_in_gap(state.coverage.gaps, cut):
            unknown |= values_in(own["group"])
    return unknown


def _with_members(
    files: Files,
    snapshot: Snapshot,
    log_partitions: Sequence[int],
    at: datetime,
    groups: Collection[str],
) -> Iterator[str]:
    """Those of some groups that had members at `at`."""
    schema = TABLES[_MEMBERS]
    moment = pa.scalar(at, TIME)
    lived = (pc.field("from") <= moment) & (pc.field("to").is_null() | (pc.field("to") > moment))
    wanted = (
        pc.field("log_partition").isin(pa.array(log_partitions, pa.int32()))
        & pc.field("group").isin(pa.array(list(groups), pa.string()))
        & lived
    )
    paths = [file.path for file in snapshot.files_of(_MEMBERS)]
    yield from values_in(read_columns(files, paths, ["group"], wanted, schema)["group"])
    for state in states_of(files, snapshot, log_partitions):
        rows = state.open_rows().get(_MEMBERS)
        if rows is not None:
            found = pa.Table.from_batches([rows], schema).filter(lived)
            yield from found["group"].to_pylist()
