"""Measure the history of groups in Spark: `python -m benchmarks.history [--sizes 5,50]`

A `__consumer_offsets` of so many million commits is generated as segment files (see
`benchmarks.history_log`), and folded into tables: `kohort.spark.history.build` on `local[2]` with
Spark's default settings. Then the committed offsets of all groups at a time are read from the
tables, and their status and lag by samples of the ends of 20,000 partitions each five minutes. Each
figure is of a process of its own, from its start to its end, and tells how much of that is Spark's
start and end. The best of `--passes` counts.

A build also looks for faults in all 10,000 groups, which is told apart from the fold.

Memory is sampled four times a second: the largest resident memory of a Python process, and what all
processes have together, the JVM included, with shared pages counted once (PSS).

Beside it:
- Spark's Kafka connector with a Python function for each row, which finds the last committed offset
  of each partition. It reads `--peer-commits` of the records from an Apache Kafka.
- DuckDB, which reads the committed offsets at the same time from the same Parquet files.

`--quick` is a run with 200,000 commits, and is not written.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.history_log import START_MS, Written, samples_of, write
from benchmarks.processes import Memory
from benchmarks.report import Target, publish, table
from benchmarks.rounds import option_parser

MILLION: Final = 1_000_000
SIZES: Final = (5, 50)
"""Million commits."""
PEER_COMMITS: Final = 1_000_000
AT: Final = 0.8
"""The time of `committed_offsets`, as a share of the log's."""
FOLD_PER_S: Final = 800_000
COMMITTED_PER_S: Final = 1_500_000
STATUS_PER_S: Final = 400_000
LAG_PER_S: Final = 400_000
GROWTH: Final = 10
WORKER_MB: Final = 600
ALL_MB: Final = 3_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One process from its start to its end."""

    seconds: float
    work_s: float
    """Of these, without the start and the end of Spark."""
    cpu_s: float
    worker_mb: float
    all_mb: float
    result: Mapping[str, int] = field(default_factory=dict)

    @property
    def spark_s(self) -> float:
        return self.seconds - self.work_s


class JobError(Exception):
    """A job failed; the text has the end of its output."""


def run(*arguments: str) -> Pass:
    """Run a job. Raises JobError."""
    began = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.history_jobs", *arguments]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        with Memory(process.pid) as memory:
            output, _ = process.communicate()
        seconds = time.monotonic() - began
        if process.returncode:
            errors.seek(0)
            raise JobError(f"{arguments[0]}: {errors.read()[-1500:]}")
    line = json.loads(output.splitlines()[-1])
    result = line["result"]
    done = Pass(
        seconds=seconds,
        work_s=seconds if line["work_s"] is None else line["work_s"],
        cpu_s=memory.cpu_s,
        worker_mb=memory.worker_mb,
        all_mb=memory.all_mb,
        result=result,
    )
    print(
        f"  {arguments[0]}: {seconds:.1f} s ({done.spark_s:.1f} s Spark), {done.cpu_s:.1f} CPU s, "
        f"worker {done.worker_mb:.0f} MB, all {done.all_mb:.0f} MB: {result}",
        flush=True,
    )
    return done


@dataclass(slots=True)
class Size:
    """What was measured of one size."""

    written: Written
    fold: Pass
    build: Pass
    committed: Pass
    status: Pass
    lag: Pass
    duckdb: Pass | None
    bytes_per_commit: float

    @property
    def jobs(self) -> tuple[Pass, ...]:
        return self.fold, self.build, self.committed, self.status, self.lag

    @property
    def fold_per_s(self) -> float:
        return self.written.records / self.fold.seconds

    @property
    def committed_per_s(self) -> float:
        return self.written.commits / self.committed.seconds

    @property
    def status_per_s(self) -> float:
        """Without the start of Spark, as `lag_per_s`."""
        return self.written.commits * AT / self.status.work_s

    @property
    def lag_per_s(self) -> float:
        return self.written.commits / self.lag.work_s


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    options = _options(argv)
    if find_spec("pyspark") is None:
        print("history is left out: PySpark is not installed: pip install 'kohort[spark]'")
        return
    sizes = [0.2] if options.quick else options.sizes
    found = {}
    for millions in sizes:
        with tempfile.TemporaryDirectory(dir=options.directory, prefix="history-") as directory:
            found[millions] = _measure(round(millions * MILLION), Path(directory), options.passes)
    peer = None if options.quick else _peer(options.peer_commits)
    write_it = set(sizes) >= set(SIZES) and not (options.dry or options.quick)
    parts = [_table(found, peer), _notes(found, peer), "\n".join(map(str, _targets(found, peer)))]
    publish("history", "History of groups in Spark", parts, write=write_it)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument(
        "--sizes",
        type=lambda text: [float(each) for each in text.split(",")],
        default=list(SIZES),
        help="million commits (5,50)",
    )
    parser.add_argument("--passes", type=int, default=2, help="of which the best counts")
    parser.add_argument("--peer-commits", type=int, default=PEER_COMMITS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--directory", help="for the segments and tables: 120 bytes for each commit, and 20"
    )
    options, _others = parser.parse_known_args(argv)
    return options


def _measure(commits: int, directory: Path, passes: int) -> Size:
    segments, out = directory / "segments", directory / "out"
    written = write(segments, commits)
    print(f"{written}", flush=True)
    at = _time(written)

    def best(*job: str) -> Pass:
        return min((run(*job) for _ in range(passes)), key=lambda each: each.seconds)

    def written_by(job: str) -> Pass:
        shutil.rmtree(out, ignore_errors=True)
        return run(job, str(segments), str(out))

    build = written_by("build")
    fold = min((written_by("fold") for _ in range(passes)), key=lambda each: each.seconds)
    _add_samples(out, written)
    committed = best("committed", str(out), at)
    status, lag = best("status", str(out), at), best("lag", str(out))
    duckdb = None
    if find_spec("duckdb"):
        duckdb = best("duckdb", str(out), at)
        if duckdb.result != committed.result:
            raise JobError(f"DuckDB finds {duckdb.result}, Spark {committed.result}")
    size = sum(file.stat().st_size for file in (out / "commits").rglob("*.parquet"))
    return Size(written, fold, build, committed, status, lag, duckdb, size / written.commits)


def _add_samples(out: Path, written: Written) -> None:
    from kohort.history_files.directory import opened_for_writing
    from kohort.history_files.file_system import LocalFiles
    from kohort.history_files.samples import add_samples

    with opened_for_writing(LocalFiles(out), written.end_ms) as history:
        add_samples(history, list(samples_of(written)), written.end_ms)


def _time(written: Written) -> str:
    ms = START_MS + (written.end_ms - START_MS) * AT
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def _peer(commits: int) -> Pass | None:
    """Spark's connector with a function per row, on a topic with the same records."""
    from benchmarks.servers import start_all
    from benchmarks.tools import MissingError, spark_connector

    try:
        jars = spark_connector()
        with ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
            (server,) = start_all(["kafka"], stack).values()
            address = f"127.0.0.1:{server.port}"
            write(Path(directory), commits)
            count = _produce(address, Path(directory))
            done = min(
                (run("udf", address, "offsets", jars) for _ in range(2)),
                key=lambda each: each.seconds,
            )
    except (MissingError, JobError) as error:
        print(f"Spark's connector is left out: {error}")
        return None
    return Pass(
        seconds=done.seconds,
        work_s=done.work_s,
        cpu_s=done.cpu_s,
        worker_mb=done.worker_mb,
        all_mb=done.all_mb,
        result={**done.result, "records": count},
    )


def _produce(address: str, segments: Path) -> int:
    """Copy the keys and values into the topic `offsets`; how many."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    from kohort.protocol.batch_format import HEADER_SIZE, iterate
    from kohort.protocol.records import decode

    settings: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0}
    admin = AdminClient(settings)
    made: Any = admin.create_topics([NewTopic("offsets", 50)])
    made["offsets"].result(60)
    producer = Producer({**settings, "queue.buffering.max.messages": 2_000_000})
    count = 0
    for file in sorted(segments.glob("*/*.log")):
        number = int(file.parent.name.rpartition("-")[2])
        data = file.read_bytes()
        for position, header in iterate(data):
            if header.is_control:
                continue
            batch = data[position : position + header.size]
            for record in decode(batch, HEADER_SIZE, header.record_count, 0, 0):
                producer.produce("offsets", record.value, record.key, number)
                count += 1
        producer.flush(120)
    return count


def _table(found: Mapping[float, Size], peer: Pass | None) -> str:
    rows = []
    for millions, size in found.items():
        for what, done, rate in (
            ("fold of segments", size.fold, size.fold_per_s),
            ("fold, and findings", size.build, size.written.records / size.build.seconds),
            ("committed_offsets(T)", size.committed, size.committed_per_s),
            ("status(T)", size.status, size.written.commits * AT / size.status.seconds),
            ("lag at all samples", size.lag, size.written.commits / size.lag.seconds),
        ):
            rows.append([f"{what}, {millions:g} M commits", *_cells(done, rate)])
        if size.duckdb:
            rate = size.written.commits / size.duckdb.seconds
            rows.append([f"the same by DuckDB, {millions:g} M", *_cells(size.duckdb, rate)])
    if peer:
        rate = peer.result["records"] / peer.seconds
        millions = peer.result["records"] / MILLION
        what = f"Spark's connector, Python function per row, {millions:.1f} M records"
        rows.append([what, *_cells(peer, peer.result["records"] / peer.seconds)])
    titles = [
        "", "seconds", "Spark's start and end, s", "CPU s", "thousand records/s",
        "largest Python process, MB", "all, MB",
    ]  # fmt: skip
    return table(titles, rows)


def _cells(done: Pass, rate: float) -> list[str]:
    return [
        f"{done.seconds:.1f}",
        f"{done.spark_s:.1f}",
        f"{done.cpu_s:.1f}",
        f"{rate / 1000:,.0f}",
        f"{done.worker_mb:.0f}",
        f"{done.all_mb:.0f}",
    ]


def _notes(found: Mapping[float, Size], peer: Pass | None) -> str:
    sizes = ", ".join(f"{each.bytes_per_commit:.0f} ({key:g} M)" for key, each in found.items())
    found_rows = ", ".join(
        f"{each.build.result['findings']:,} ({key:g} M)" for key, each in found.items()
    )
    rows = ", ".join(f"{each.lag.result['rows']:,} ({key:g} M)" for key, each in found.items())
    notes = [
        f"Findings: {found_rows}. Rows of lag: {rows}. Commits of status(T) are those up to T.",
        f"Bytes of Parquet for each commit: {sizes}.",
        "Rates include the start of Spark. DuckDB has none to start, and reads Parquet that the "
        "fold has written.",
    ]
    if peer:
        notes.append(
            "Spark's connector reads fewer records, so its start weighs more. It resolves no "
            "transactions: `_` of records that were aborted count there."
        )
    return "\n".join(notes)


def _targets(found: Mapping[float, Size], peer: Pass | None) -> list[Target]:
    targets = []
    for millions, size in found.items():
        name = f"{millions:g} M commits"
        targets += [
            Target(f"{name}: fold, records/s", size.fold_per_s, FOLD_PER_S,
                   why=_why(size.fold)),
            Target(f"{name}: committed_offsets(T), commits/s", size.committed_per_s,
                   COMMITTED_PER_S, why=_why(size.committed)),
            Target(f"{name}: status(T) without Spark's start, commits/s", size.status_per_s,
                   STATUS_PER_S),
            Target(f"{name}: lag without Spark's start, commits/s", size.lag_per_s, LAG_PER_S),
            Target(f"{name}: Python process, MB", max(each.worker_mb for each in size.jobs),
                   WORKER_MB, at_least=False),
            Target(f"{name}: all processes, MB", max(each.all_mb for each in size.jobs), ALL_MB,
                   at_least=False),
        ]  # fmt: skip
    if set(SIZES) <= set(found):
        small, large = (found[each] for each in SIZES)
        for what, ratio in (
            ("fold", large.fold.seconds / small.fold.seconds),
            ("committed_offsets(T)", large.committed.seconds / small.committed.seconds),
        ):
            targets.append(Target(f"{what}, 50 to 5 M, times", ratio, GROWTH, at_least=False))
    return targets


def _why(done: Pass) -> str:
    return f"Spark's start and end took {done.spark_s:.1f} of {done.seconds:.1f} s"


if __name__ == "__main__":
    main()
