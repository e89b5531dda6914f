"""`build`: reads what a log has and the history has not, in batches, and ends."""

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kohort.errors import ConfigError, KohortError
from kohort.history.group_fold import GroupOptions
from kohort.history_files.building import Runner, add_batch, planned, steps
from kohort.history_files.directory import WritableHistory, opened_for_writing
from kohort.history_files.file_system import open_files
from kohort.history_files.folding import LogRange, TaskResult
from kohort.history_files.merging import merge, remove_older
from kohort.history_files.samples import add_samples
from kohort.history_files.snapshot import Snapshot
from kohort.spark.history.finding import FindingSearch, in_tasks
from kohort.spark.history.folding import run_on_frame, run_tasks, task_limit
from kohort.spark.history.sampling import EndsOfBroker, TopicsToSample, log_failure, take
from kohort.spark.history.sources import BrokerLog, Log, Offsets, Source, log_of
from kohort.spark.history.topic_names import by_uuid, names_of
from kohort.spark.registration import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_INTERVAL_S: Final = 0.2
NO_NAMES: Final[Mapping[str, str]] = {}
_log: Final = logging.getLogger("kohort.history")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of records that are folded, about, and of all."""


class StoppedError(KohortError):
    """The build was asked to stop. What its batches before wrote is visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """What a build did."""

    records: int
    """Offsets that it read."""
    rows: dict[str, int]
    """Rows that it wrote, by table."""
    errors: int
    """Rows that stand for records that could not be decoded."""
    snapshot: Snapshot


def build(
    spark: "SparkSession",
    source: Source,
    out: str,
    *,
    keep_ms: int | None = None,
    options: GroupOptions | None = None,
    topic_names: Mapping[Any, str] | None = None,
    progress: Progress | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    samples: bool = True,
    findings: bool = True,
) -> BuildResult:
    """Bring the history in the directory `out` to the present end of `source`.

    `source`: bootstrap servers; a path of segment files, or several with commas; `kafka.*` options;
    a DataFrame with key, value, partition, offset and timestamp. `out` is created if it does not
    exist. `keep_ms`: remove rows that are older. `options`: what no record has; by default the
    configs of the broker, else Kafka's defaults. `topic_names`: names by topic id, for topics that
    neither a record nor the source names. `samples`: of a broker, sample the ends of the topics
    that groups commit too; without them lag is not known. `findings`: look for faults in the groups
    that changed.

    Raises LockedError if another build writes into `out`; ConfigError; StoppedError; KohortError.
    """
    validate_keep(keep_ms)
    names = by_uuid(topic_names)
    register(spark)
    files = open_files(out)
    with opened_for_writing(files, now_ms()) as history:
        work = _work(spark, source, files.location, options, names)
        search = FindingSearch(history, now_ms, run=in_tasks(spark))
        result = _build(spark, history, work, progress or _ignore, is_stopped)
        if samples and work.ends is not None:
            _sample(work.ends, history, is_stopped)
        if findings:
            search.after_batch(at_once=True)
        maintain(history, keep_ms)
        return replace(result, snapshot=history.current)


def _sample(ends: EndsOfBroker, history: WritableHistory, is_stopped: Callable[[], bool]) -> None:
    """Add a sample of the present, and the past that is not sampled. An error is logged."""
    try:
        add_samples(history, take(ends, TopicsToSample.of(history), is_stopped), now_ms())
    except (KohortError, OSError) as error:
        log_failure(error)


@dataclass(frozen=True, slots=True)
class Work:
    """A log, and how its ranges are folded."""

    offsets: Callable[[Snapshot], Offsets]
    runner: Callable[[Sequence[LogRange]], Runner]
    ends: EndsOfBroker | None = None
    """Samples the ends of topics; None: there is no broker."""


def _work(
    spark: "SparkSession",
    source: Source,
    location: str,
    options: GroupOptions | None,
    topic_names: Mapping[str, str],
) -> Work:
    from pyspark.sql import DataFrame

    if not isinstance(source, DataFrame):
        return log_work(spark, log_of(source), location, options, topic_names)
    known = options or GroupOptions()
    names = {**names_of(source), **topic_names}
    return Work(
        partial(frame_offsets, source),
        lambda ranges: (
            lambda tasks: run_on_frame(source, location, ranges, len(tasks), known, names)
        ),
    )


def log_work(
    spark: "SparkSession",
    log: Log,
    location: str,
    options: GroupOptions | None = None,
    topic_names: Mapping[str, str] = NO_NAMES,
) -> Work:
    """The work for the log of a broker or of files."""
    known = log.group_options() if options is None else options

    def runner(_: Sequence[LogRange]) -> Runner:
        # Of each batch: topics are created meanwhile.
        names = log.topic_names() | dict(topic_names)
        return lambda tasks: run_tasks(spark, location, log.reader(), tasks, known, names)

    def offsets(snapshot: Snapshot) -> Offsets:
        found = log.offsets()
        if missing := sorted(snapshot.ends().keys() - found.ends.keys()):
            _log.warning(
                "log partitions %s of the history are not in the source now, and end here: data "
                "directories may have been left out, or their partitions moved",
                ", ".join(map(str, missing)),
            )
        return found

    ends = EndsOfBroker(log.kafka, now_ms) if isinstance(log, BrokerLog) else None
    return Work(offsets, runner, ends)


def frame_offsets(records: "DataFrame", snapshot: Snapshot) -> Offsets:
    """The offsets in a DataFrame of archives, which may lack what the history has already."""
    from pyspark.sql.functions import max as greatest
    from pyspark.sql.functions import min as least

    bounds = records.groupBy("partition").agg(least("offset"), greatest("offset")).collect()
    reached = snapshot.ends()
    return Offsets(
        {number: min(first, reached.get(number, first)) for number, first, _ in bounds},
        {number: max(last + 1, reached.get(number, 0)) for number, _, last in bounds},
        None,
        None,
        is_archive=True,
    )


def _build(
    spark: "SparkSession",
    history: WritableHistory,
    work: Work,
    progress: Progress,
    is_stopped: Callable[[], bool],
) -> BuildResult:
    offsets = work.offsets(history.current)
    validate_cluster(history, offsets)
    ranges = planned(history.current, offsets.starts, offsets.ends, damaged=offsets.damaged)
    total = sum(log_range.size for log_range in ranges)
    done, errors, rows = 0, 0, dict[str, int]()
    progress(done, total)
    for number, ends in enumerate(steps(ranges)):
        batch = planned(
            history.current,
            offsets.starts,
            ends,
            after_pause=number == 0,
            is_archive=offsets.is_archive,
        )
        size = sum(log_range.size for log_range in batch)
        run = work.runner(batch)

        def watched(tasks: Any, run: Runner = run, done: int = done, size: int = size) -> Any:
            return _watch(
                spark,
                lambda: list(run(tasks)),
                lambda share: progress(done + int(share * size), total),
                is_stopped,
            )

        before = {file.path for file in history.current.files}
        snapshot = fold_batch(spark, history, batch, watched, offsets)
        for file in snapshot.files:
            if file.path not in before:
                rows[file.table] = rows.get(file.table, 0) + file.rows
                errors += file.errors
        done += size
        progress(done, total)
    return BuildResult(records=total, rows=rows, errors=errors, snapshot=history.current)


def fold_batch(
    spark: "SparkSession",
    history: WritableHistory,
    ranges: Sequence[LogRange],
    run: Runner,
    offsets: Offsets,
) -> Snapshot:
    """Fold `ranges` and make the batch visible."""
    return add_batch(
        history,
        ranges,
        run,
        tasks=task_limit(spark, sum(log_range.size for log_range in ranges)),
        now_ms=now_ms(),
        cluster=offsets.cluster,
        topic_id=offsets.topic_id,
    )


def maintain(history: WritableHistory, keep_ms: int | None) -> None:
    """Merge small files, and remove rows that are older than `keep_ms`."""
    merge(history, now_ms())
    if keep_ms is not None:
        remove_older(history, now_ms() - keep_ms, now_ms())


def validate_keep(keep_ms: int | None) -> None:
    """Raise ConfigError unless it is an age."""
    if keep_ms is not None and keep_ms <= 0:
        raise ConfigError(f"keep_ms {keep_ms}: is not an age in ms, which is 1 at least")


def validate_cluster(history: WritableHistory, offsets: Offsets) -> None:
    """Raise KohortError if the history is that of another cluster, or of a former topic."""
    for name, before, now in (
        ("cluster", history.current.cluster, offsets.cluster),
        ("topic id", history.current.topic_id, offsets.topic_id),
    ):
        if before is not None and now is not None and before != now:
            raise KohortError(
                f"{history.files.location}: is the history of {name} {before}, and this is {now}; "
                "build into another directory"
            )


def _ignore(_done: int, _total: int) -> None:
    """Progress that is not shown."""


def now_ms() -> int:
    """The time, in ms since the epoch."""
    return time.time_ns() // 1_000_000


def _watch(
    spark: "SparkSession",
    run: Callable[[], list[TaskResult]],
    on_share: Callable[[float], None],
    is_stopped: Callable[[], bool],
) -> list[TaskResult]:
    """Run a job in a thread; tell the share of its tasks that ended. Raises StoppedError."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return run()
    context: Any = spark.sparkContext
    group = f"kohort-history-{secrets.token_hex(8)}"

    def work() -> list[TaskResult]:
        context.setJobGroup(group, "kohort history", True)
        return run()

    executor = ThreadPoolExecutor(1)
    try:
        job = executor.submit(work)
        while not wait([job], POLL_INTERVAL_S).done:
            if is_stopped():
                context.cancelJobGroup(group)
                raise StoppedError("stopped; a later build continues here")
            on_share(_share(context, group))
        return job.result()
    finally:
        executor.shutdown(wait=False)


def _share(context: Any, group: str) -> float:
    """The share of a job group's tasks that ended."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = [
        stage
        for job in jobs
        if job is not None
        for stage in map(tracker.getStageInfo, job.stageIds)
        if stage is not None
    ]
    total = sum(stage.numTasks for stage in stages)
    return sum(stage.numCompletedTasks for stage in stages) / total if total else 0.0
