"""Measure the report of a history: `python -m benchmarks.history_report [--groups N] [--days N]`

The history is generated straight as tables, without a log: groups with 2 to 6 members and 6 to 24
partitions, over 50 log partitions. A group has three rebalances a day; one in fifty has a hundred,
by a member that comes and goes. Each rebalance moves a third of the partitions. Commits, 10 million
in all, are spread so that larger groups commit more (zipf 1.1), and each is in a minute of its own
or shares one with others of its partition.

`kohort history report --all` then runs from its start to its end, with a process per processor, and
its page and memory are measured: of its largest process, and of all together with shared pages
counted once (PSS). So is the report of the group with the most rebalances. `--quick` is a run with
50 groups and 3 days, and is not written.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from benchmarks.processes import Memory
from benchmarks.report import Target, publish, table
from benchmarks.rounds import option_parser
from kohort.coordinator_common import partition_for
from kohort.history.schema import TABLES
from kohort.history.state import State
from kohort.history_files.directory import STATES, WritableHistory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.snapshot import StoredFile, StoredState
from kohort.history_files.table_files import TableFiles

LOG_PARTITIONS: Final = 50
START_MS: Final = 1_767_225_600_000
DAY_MS: Final = 86_400_000
COMMITS: Final = 10_000_000
REBALANCES_PER_DAY: Final = 3
RESTLESS: Final = 50
"""One of so many groups has `RESTLESS_PER_DAY` rebalances."""
RESTLESS_PER_DAY: Final = 100
EXPONENT: Final = 1.1
SECONDS: Final = 60.0
MB: Final = 6.0

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """A group that is generated."""

    name: str
    members: int
    partitions: int
    rebalances: int
    commits: int


@dataclass(frozen=True, slots=True)
class Done:
    """One run of the command."""

    seconds: float
    cpu_s: float
    largest_mb: float
    all_mb: float
    page_mb: float


def groups_of(count: int, days: int, commits: int, random: np.random.Generator) -> list[Group]:
    weights = 1 / np.arange(1, count + 1) ** EXPONENT
    shares = commits * weights / weights.sum()
    return [
        Group(
            f"team-{number % 40:02}.service-{number:04}",
            int(random.integers(2, 7)),
            int(random.integers(6, 25)),
            days * (RESTLESS_PER_DAY if number % RESTLESS == 7 else REBALANCES_PER_DAY),
            max(int(shares[number]), 10),
        )
        for number in range(count)
    ]


def generate(directory: Path, groups: Sequence[Group], days: int, seed: int = 1) -> int:
    """Write the tables of a history; how many rows they have."""
    random = np.random.default_rng(seed)
    files = LocalFiles(directory)
    by_partition: dict[int, list[Group]] = {number: [] for number in range(LOG_PARTITIONS)}
    for group in groups:
        by_partition[partition_for(group.name, LOG_PARTITIONS)].append(group)
    with opened_for_writing(files, 0) as history:
        written: list[StoredFile] = []
        states = {}
        for number, members in by_partition.items():
            written += _log_partition(history, number, members, days, random)
            states[number] = _state(history, number, days)
        history.add_batch(written, states, 0)
    return sum(file.rows for file in written)


def _state(history: WritableHistory, number: int, days: int) -> StoredState:
    """A log partition whose records are all read, and none of which is missing."""
    state = State.new(number)
    end = days * DAY_MS
    state.coverage.first, state.coverage.end = 0, end
    state.coverage.first_time, state.coverage.last_time = START_MS * 1000, (START_MS + end) * 1000
    path = f"{STATES}/{number}/{end}.arrow"
    history.files.make_directory(f"{STATES}/{number}")
    with history.files.create(path) as file:
        file.write(state.to_arrow())
    return StoredState(end, path)


def _log_partition(
    history: WritableHistory,
    number: int,
    groups: Sequence[Group],
    days: int,
    random: np.random.Generator,
) -> list[StoredFile]:
    rows: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for group in groups:
        for name, part in (*_membership(group, days, random), *_commits(group, days, random)):
            rows[name].append(part)
    tables = TableFiles(history.files, f"{number}-0", secrets.token_hex(6))
    for name, parts in rows.items():
        if parts:
            whole = pa.concat_tables(parts)
            order = "from_offset" if "from_offset" in whole.schema.names else "log_offset"
            whole = whole.sort_by(order)
            numbers = pa.array(np.full(whole.num_rows, number, np.int32))
            whole = whole.set_column(0, TABLES[name].field(0), numbers)
            for batch in whole.to_batches(max_chunksize=100_000):
                tables.write(name, batch)
    return tables.close()


def _times(offsets: Any) -> pa.Array:
    """Log offsets are the ms since the start, so that they order all tables."""
    return pa.array((np.asarray(offsets) + START_MS) * 1000, TABLES["members"].field("from").type)


def _table(name: str, count: int, **columns: Any) -> pa.Table:
    """Rows with these columns, or values for all rows; the others are null."""
    arrays = []
    for field in TABLES[name]:
        value = columns.get(field.name)
        if isinstance(value, pa.Array):
            arrays.append(value.cast(field.type))
        elif isinstance(value, list | np.ndarray):
            arrays.append(pa.array(value, field.type))
        elif value is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, field.type), count))
    return pa.table(arrays, TABLES[name])


def _membership(group: Group, days: int, random: np.random.Generator) -> list[tuple[str, pa.Table]]:
    """Members come and go in turn: every other rebalance is by one that vanished."""
    end = days * DAY_MS
    count = group.rebalances
    begins = np.unique(np.sort(random.integers(0, end, count)))
    count = len(begins)
    comers = [f"{group.name}-{n}-{secrets.token_hex(4)}" for n in range(count // 2 + 1)]
    joined = [[comers[n // 2]] if n % 2 == 0 else [] for n in range(count)]
    vanished = [[comers[n // 2]] if n % 2 else [] for n in range(count)]
    fixed = [f"{group.name}-member-{n}" for n in range(group.members)]
    ends = np.append(begins[1:], end)
    numbers = np.arange(count)
    key = {
        "group": group.name, "life": 0, "type": "classic", "generation": numbers,
        "log_offset": begins, "time": _times(begins), "complete": True,
    }  # fmt: skip
    members = [fixed + ([comers[n // 2]] if n % 2 == 0 else []) for n in range(count)]
    is_last = numbers == count - 1
    ended = pa.array(ends * 1000 + START_MS * 1000, pa.int64(), mask=is_last)
    generations = _table(
        "generations", count, **key, members=members, protocol="range", leader=fixed[0],
        skipped=0, ended=ended, ended_offset=pa.array(ends, pa.int64(), mask=is_last),
        ended_by=np.where(is_last, "open", "next"),
    )  # fmt: skip
    moved = max(group.partitions // 3, 1)
    standstill = (random.lognormal(7, 1.2, count)).astype(np.int64)
    rebalances = _table(
        "rebalances", count, **key, rounds=1, joined=joined, vanished=vanished, left=[[]] * count,
        out_of_poll_loop=[[]] * count, replaced=[[]] * count, unknown=[[]] * count, moved=moved,
        kept=group.partitions - moved, added=0, unassigned=0, sync_ms=40, standstill_ms=standstill,
    )  # fmt: skip
    return [
        ("generations", generations), ("rebalances", rebalances),
        ("members", _members(group, fixed, comers, begins, end)),
        ("assignments", _assignments(group, fixed, comers, begins, end, moved)),
    ]  # fmt: skip


def _members(
    group: Group, fixed: Sequence[str], comers: Sequence[str], begins: Integers, end: int
) -> pa.Table:
    came = begins[::2]
    gone = np.append(begins[1::2], end)[: len(came)]
    names = [*fixed, *comers[: len(came)]]
    since = np.concatenate([np.zeros(len(fixed), np.int64), came])
    until = np.concatenate([np.full(len(fixed), end), gone])
    stays = until >= end
    return _table(
        "members", len(names), group=group.name, life=0, member_id=names,
        client_id=[*(f"client-{n}" for n in range(len(fixed))), *["restarted"] * len(came)],
        client_host="/10.0.0.7", rebalance_timeout_ms=300_000, session_timeout_ms=45_000,
        **{"from": _times(since)}, from_offset=since,
        to=pa.array((until + START_MS) * 1000, pa.int64(), mask=stays),
        to_offset=pa.array(until, pa.int64(), mask=stays),
        ended_by=pa.array(["vanished"] * len(names), pa.string(), mask=stays), complete=True,
    )  # fmt: skip


def _assignments(
    group: Group, fixed: Sequence[str], comers: Sequence[str], begins: Integers, end: int,
    moved: int,
) -> pa.Table:  # fmt: skip
    """The first `moved` partitions change owners at each rebalance, the others stay."""
    count = len(begins)
    ends = np.append(begins[1:], end)
    owners = [comers[n // 2] if n % 2 == 0 else fixed[0] for n in range(count)]
    still = group.partitions - moved
    since = np.concatenate([np.repeat(begins, moved), np.full(still, begins[0])])
    until = np.concatenate([np.repeat(ends, moved), np.full(still, end)])
    partitions = np.concatenate(
        [np.tile(np.arange(moved), count), np.arange(moved, group.partitions)]
    )
    names = [*(owner for owner in owners for _ in range(moved)),
             *(fixed[n % len(fixed)] for n in range(still))]  # fmt: skip
    stays = until >= end
    return _table(
        "assignments", len(names), group=group.name, life=0, topic=_topic(group),
        partition=partitions.astype(np.int32), member_id=names, generation=1,
        **{"from": _times(since)}, from_offset=since,
        to=pa.array((until + START_MS) * 1000, pa.int64(), mask=stays),
        to_offset=pa.array(until, pa.int64(), mask=stays),
    )  # fmt: skip


def _topic(group: Group) -> str:
    return f"{group.name.partition('.')[2]}.events"


def _commits(group: Group, days: int, random: np.random.Generator) -> list[tuple[str, pa.Table]]:
    times = np.sort(random.integers(0, days * DAY_MS, group.commits))
    partitions = random.integers(0, group.partitions, group.commits).astype(np.int32)
    order = np.argsort(partitions, kind="stable")
    advance = 1_000
    in_partition = np.empty(group.commits, np.int64)
    starts = np.searchsorted(partitions[order], np.arange(group.partitions))
    in_partition[order] = np.arange(group.commits) - starts[partitions[order]]
    committed = (in_partition + 1) * advance
    owner = f"{group.name}-member-0"
    common = {"group": group.name, "topic": _topic(group), "partition": partitions}
    stamps = _times(times)
    commits = _table(
        "commits", group.commits, **common, log_offset=times, time=stamps, in_force=times,
        in_force_time=stamps, commit_time=stamps, type="offset", version=3, life=0,
        committed=committed, metadata="", advance=advance, kind="advance", origin="member",
        member_id=owner, client_id="client-0", client_host="/10.0.0.7", generation=1,
        certainty="exact", batch_offset=times, previous=committed - advance,
    )  # fmt: skip
    keys = partitions.astype(np.int64) << 40 | times // 60_000
    minutes, first, counts = np.unique(keys, return_index=True, return_counts=True)
    begins = (minutes & (1 << 40) - 1) * 60_000
    of_minutes = _table(
        "minutes", len(minutes), group=group.name, topic=_topic(group),
        partition=(minutes >> 40).astype(np.int32), minute=_times(begins),
        log_offset=times[first], commits=counts.astype(np.int32), last=committed[first],
        sum_advance=counts * advance, least_advance=advance, longest_gap_ms=60_000,
    )  # fmt: skip
    return [("commits", commits), ("minutes", of_minutes)]


def report(history: Path, *arguments: str) -> Done:
    """Run the command in a process of its own."""
    page = history.parent / "report.html"
    command = [sys.executable, "-m", "kohort", "history", "report", str(history), *arguments]
    began = time.monotonic()
    process = subprocess.Popen([*command, "--out", str(page)])
    with Memory(process.pid) as memory:
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return Done(
        time.monotonic() - began,
        used.ru_utime + used.ru_stime,
        memory.worker_mb,
        memory.all_mb,
        page.stat().st_size / 1e6,
    )


def main(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    random = np.random.default_rng(2)
    groups = groups_of(options.groups, options.days, options.commits, random)
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        history = Path(name) / "history"
        began = time.monotonic()
        rows = generate(history, groups, options.days)
        print(f"{rows:,} rows of {len(groups):,} groups in {time.monotonic() - began:.0f} s")
        most = max(groups, key=lambda group: group.rebalances)
        found = {
            f"all {len(groups):,} groups": report(history, "--all"),
            f"one group, {most.rebalances:,} rebalances": report(history, most.name),
        }
    cells = [
        [what, f"{done.seconds:.1f}", f"{done.cpu_s:.1f}", f"{done.largest_mb:.0f}",
         f"{done.all_mb:.0f}", f"{done.page_mb:.2f}"]
        for what, done in found.items()
    ]  # fmt: skip
    text = table(["", "seconds", "CPU s", "largest process, MB", "all, MB", "page, MB"], cells)
    done = next(iter(found.values()))
    targets = [
        Target(f"{len(groups):,} groups, seconds", done.seconds, SECONDS, at_least=False),
        Target(f"{len(groups):,} groups, page in MB", done.page_mb, MB, at_least=False),
    ]
    notes = f"{rows:,} rows of tables: {len(groups):,} groups, {options.days} days."
    is_whole = (options.groups, options.days, options.commits) == _WHOLE
    publish(
        "history_report",
        "Report of a history",
        [text, notes, "\n".join(map(str, targets))],
        write=is_whole and not options.dry,
    )


_WHOLE: Final = (1_000, 30, COMMITS)
_QUICK: Final = (50, 3, 100_000)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--groups", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--commits", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--directory", help="for the tables: 1 GB")
    options, _others = parser.parse_known_args(argv)
    for name, value in zip(
        ("groups", "days", "commits"), _QUICK if options.quick else _WHOLE, strict=True
    ):
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


if __name__ == "__main__":
    main()
