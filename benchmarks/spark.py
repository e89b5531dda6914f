"""Measure Spark's `.format("kohort")` and Kafka connector: `python -m benchmarks.spark`

One Spark (`local[2]`, default settings and what `kohort.spark.register` sets) uses both formats in
turn, on the same topics of six partitions, on Kohort (on disk) and on Apache Kafka. Reads have two
passes and writes four, half as long. Records have 100 B and 1 KiB, are uncompressed, lz4 and zstd,
and come in batches of 16 KiB as from a Java producer, or of `--batch-size`.

`batch` counts the records and sums the lengths of their values. `stream` reads all columns in one
micro-batch (Trigger.AvailableNow) to Spark's noop sink. Its rate is that of the trigger as Spark
reports it (processedRowsPerSecond). `from start` and the CPU time include the start of the query,
which a stream has once. `several` does the same in five micro-batches. `write` sends rows that
Spark holds in memory, with default producers. `exactly-once` does so in one transaction
(`delivery=exactly_once`), for which Spark's connector has no counterpart.

A small micro-batch has six records, an idle trigger none, and there are at most ten triggers a
second. The best pass counts. CPU is that of Spark, its JVM and its Python processes, without the
server. `--servers`, `--sizes`, `--codecs` and `--measures` select parts of a run.
"""

import argparse
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

from benchmarks import spark_load as load
from benchmarks.load import LoadError
from benchmarks.report import Target, publish, table
from benchmarks.rounds import option_parser
from benchmarks.servers import Server, start_all
from benchmarks.spark_load import FORMATS, Case, Pass, Triggers, Work
from benchmarks.tools import MissingError, spark_connector

SERVERS = ("kohort-data", "kafka")
COUNTS = {100: 3_000_000, 1024: 600_000}
CODECS = ("none", "lz4", "zstd")
WRITTEN = 2
"""Times fewer records are written than read, as they lie in Spark's memory; so many times more
often.
"""
READS: Mapping[str, Callable[..., float | None]] = {
    "batch": load.read_batch,
    "stream": load.read_stream,
    "several": load.read_several,
}
WRITES: Sequence[tuple[str, str]] = (
    *(("write", form) for form in FORMATS),
    ("exactly-once", "kohort"),
)
"""Measures and formats."""
MEASURES = (*READS, "write", "exactly-once")
LEAST_OF_PLAIN = 0.8
"""The least rate of exactly-once writes, in rates of plain ones."""
SMALL_BATCHES = 20
ENOUGH_PASSES = 2
WARM_UP = Case(size=99, codec="none", count=400_000)
"""Read and written by each format before anything counts: the JVM compiles, Python processes are
started.
"""
NAMES = {"kafka": "Spark's connector", "kohort": "kohort.spark"}

Rate = Callable[[Pass], float]
COLUMNS: Sequence[tuple[str, str, Rate]] = (
    ("batch", "batch", lambda best: best.per_s),
    ("stream", "stream", lambda best: best.running_per_s),
    ("stream from start", "stream", lambda best: best.per_s),
    ("five micro-batches from start", "several", lambda best: best.per_s),
    ("write", "write", lambda best: best.per_s),
    ("exactly-once write", "exactly-once", lambda best: best.per_s),
)
"""Titles, measures, and which rate of them."""
PER_CPU: tuple[str, str, Rate] = (
    "five micro-batches per CPU-second",
    "several",
    lambda best: best.per_cpu_s,
)
BOUNDS: Mapping[str, tuple[float, float]] = {
    "batch": (3.0, 2.5),
    "stream": (2.0, 1.8),
    "stream from start": (2.0, 1.8),
    "five micro-batches from start": (2.0, 1.8),
    "five micro-batches per CPU-second": (1.3, 1.3),
    "write": (1.1, 1.1),
}
"""The least ratios to Spark's connector, with records of 100 B and of 1 KiB."""
WHY = {
    "stream from start": (
        "A query of a Python data source begins with a fresh Python process: 0.35 s of "
        "CPU time, 0.2 s of it imports of PySpark's."
    ),
    "five micro-batches per CPU-second": (
        "Each row goes from Python to Spark's JVM through a socket, which costs as much as it does "
        "to decode it. The start of a query has 0.35 s of CPU time of the whole."
    ),
    "exactly-once write": (
        "One process sends all rows that tasks have encoded, after they have ended: one "
        "transaction has one writer of each partition."
    ),
    "write": (
        "Large rows cost what moves them: Spark's JVM hands them to Python as Arrow "
        "through a socket before they are "
        "sent, the connector sends them where they are."
    ),
}

Key = tuple[str, str, Case, str]
"""Server, measure, case, format."""


class Found:
    """The best pass of each kind."""

    def __init__(self) -> None:
        self._passes: defaultdict[Key, list[Pass]] = defaultdict(list)
        self.triggers: dict[tuple[str, str], Triggers] = {}
        self.servers: dict[str, str] = {}
        """Those that could be had: keys, names."""

    def add(self, key: Key, found: Pass) -> None:
        self._passes[key].append(found)
        server, measure, case, form = key
        rates = f"{_thousands(found.running_per_s)} k/s, {_thousands(found.per_s)} from start"
        rates += f", {_thousands(found.per_cpu_s)} per CPU-second"
        print(
            f"  {server}: {case.name} {case.codec}: {measure} by {NAMES[form]}: {rates}",
            flush=True,
        )

    def best(self, key: Key) -> Pass | None:
        return max(self._passes.get(key, ()), key=lambda each: each.running_per_s, default=None)

    def ratio(self, server: str, measure: str, case: Case, rate: Rate) -> float | None:
        """Ratio of the best passes, Kohort's format to Spark's."""
        theirs, ours = (self.best((server, measure, case, form)) for form in FORMATS)
        return rate(ours) / rate(theirs) if ours and theirs else None


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    options = _options(argv)
    try:
        import pyspark  # noqa: F401
    except ImportError:
        print("spark is left out: PySpark is not installed: pip install 'kohort[spark]'")
        return
    try:
        jars = spark_connector()
    except MissingError as error:
        print(f"spark is left out: {error}")
        return
    cases = [
        Case(size=size, codec=codec, count=COUNTS[size])
        for size in options.sizes
        for codec in options.codecs
    ]
    found = Found()
    with load.session(jars) as spark:
        for key in options.servers:
            _measure(spark, key, cases, options, found)
    whole = (
        len(cases) == len(COUNTS) * len(CODECS)
        and set(options.servers) >= set(SERVERS)
        and options.passes >= ENOUGH_PASSES
        and options.batch_size == load.PRODUCED_BATCH
    )
    parts = [
        part for key, name in found.servers.items() for part in _tables(key, name, cases, found)
    ]
    parts.append(
        "\n".join(
            str(each)
            for key, name in found.servers.items()
            for each in _targets(key, name, cases, found)
        )
    )
    title = "Spark, thousand records/s (and per CPU-second of Spark)"
    publish("spark", title, parts, write=whole and not options.dry)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser(__doc__)

    def some_of(known: Sequence[Any]) -> Callable[[str], list[Any]]:
        def chosen(text: str) -> list[Any]:
            by_name = {str(each): each for each in known}
            names = text.split(",")
            if unknown := set(names) - by_name.keys():
                raise argparse.ArgumentTypeError(f"no {unknown.pop()!r} among {', '.join(by_name)}")
            return [by_name[name] for name in names]

        return chosen

    parser.add_argument("--servers", type=some_of(SERVERS), default=list(SERVERS))
    parser.add_argument(
        "--sizes", type=some_of(tuple(COUNTS)), default=list(COUNTS), help="100,1024"
    )
    parser.add_argument("--codecs", type=some_of(CODECS), default=list(CODECS))
    parser.add_argument(
        "--measures", type=some_of((*MEASURES, "small")), default=[*MEASURES, "small"]
    )
    parser.add_argument(
        "--passes", type=int, default=ENOUGH_PASSES, help="of which the best counts (%(default)s)"
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=load.PRODUCED_BATCH,
        help="bytes of a batch that is read (%(default)s)",
    )
    options, _others = parser.parse_known_args(argv)
    return options


def _measure(
    spark: Any, key: str, cases: Sequence[Case], options: argparse.Namespace, found: Found
) -> None:
    """Measure one server alone: Spark's connector would wait for a paused one."""
    with ExitStack() as stack:
        for server in start_all([key], stack).values():
            found.servers[key] = server.name
            for case in (WARM_UP, *cases):
                _measure_reads(spark, key, server, case, options, found)
                _measure_writes(spark, key, server, case, options, found)
            if "small" in options.measures:
                _measure_small(spark, key, server, found)


def _measure_reads(
    spark: Any, key: str, server: Server, case: Case, options: argparse.Namespace, found: Found
) -> None:
    reads = {measure: read for measure, read in READS.items() if measure in options.measures}
    if reads:
        load.fill(server, case, options.batch_size)
        for _, form, (measure, read) in product(range(options.passes), FORMATS, reads.items()):
            _try(
                found,
                (key, measure, case, form),
                spark,
                case.count,
                partial(read, spark, form, server, case),
            )
        load.delete(server, case.topic)


def _measure_writes(
    spark: Any, key: str, server: Server, case: Case, options: argparse.Namespace, found: Found
) -> None:
    chosen = [each for each in WRITES if each[0] in options.measures]
    if not chosen:
        return
    frame = _frame(spark, case)
    for _, (measure, form) in product(range(options.passes * WRITTEN), chosen):
        topic = f"written-{secrets.token_hex(4)}"
        load.create(server, topic)
        write = load.write if measure == "write" else load.write_exactly_once
        work = partial(write, frame, form, server, case, topic)
        _try(found, (key, measure, case, form), spark, case.count // WRITTEN, work)
        load.delete(server, topic)
    frame.unpersist()


def _measure_small(spark: Any, key: str, server: Server, found: Found) -> None:
    for form in FORMATS:
        load.create(server, f"small-{form}")
        taken = load.small_batches(spark, form, server, f"small-{form}", SMALL_BATCHES)
        found.triggers[key, form] = taken
        print(
            f"  {key}: small micro-batch by {NAMES[form]}: {taken.small:.0f} ms, idle "
            f"{taken.idle:.0f}, first {taken.first:.0f}",
            flush=True,
        )


def _try(found: Found, key: Key, spark: Any, count: int, work: Work) -> None:
    try:
        found.add(key, load.timed(spark, count, work))
    except LoadError as error:
        print(
            f"  {key[0]}: {key[2].name} {key[2].codec}: {key[1]} by {NAMES[key[3]]} failed: "
            f"{error}",
            flush=True,
        )


def _frame(spark: Any, case: Case) -> Any:
    """Rows to write, in memory."""
    batch = load.columns(case.size)
    spark.createDataFrame(batch.to_pandas()).createOrReplaceTempView("rows")
    times = case.count // WRITTEN // batch.num_rows
    frame = (
        spark.sql(f"select key, value from rows cross join range({times})")
        .repartition(load.PARTITIONS)
        .cache()
    )
    if frame.count() != case.count // WRITTEN:
        raise LoadError("the rows to write are not as many as they should be")
    return frame


def _tables(server: str, name: str, cases: Sequence[Case], found: Found) -> Iterator[str]:
    columns = [(*column, form) for column in COLUMNS for form in FORMATS]
    rows = []
    for case in cases:
        bests = [
            (found.best((server, measure, case, form)), rate) for _, measure, rate, form in columns
        ]
        cells = [
            (f"{_thousands(rate(best))} ({_thousands(best.per_cpu_s)})") if best else "–"
            for best, rate in bests
        ]
        rows.append([f"{case.name} {case.codec}", *cells])
    yield f"From and to {name}:"
    yield table(["records", *(f"{title}, {NAMES[form]}" for title, _, _, form in columns)], rows)
    if taken := [
        (NAMES[form], found.triggers[server, form])
        for form in FORMATS
        if (server, form) in found.triggers
    ]:
        told = "; ".join(
            f"{form} {each.small:.0f} ms, idle {each.idle:.0f} ms, first {each.first:.0f} ms"
            for form, each in taken
        )
        yield f"A trigger with six records: {told}."


def _thousands(rate: float) -> str:
    return f"{rate / 1e3:,.0f}"


def _targets(server: str, name: str, cases: Sequence[Case], found: Found) -> Iterator[Target]:
    for case in cases:
        plain, whole = (
            found.best((server, each, case, "kohort")) for each in ("write", "exactly-once")
        )
        ratio = whole.per_s / plain.per_s if plain and whole else None
        what = f"{name}: {case.name} {case.codec}: exactly-once write to plain one, times"
        yield Target(what, ratio, LEAST_OF_PLAIN, why=WHY["exactly-once write"])
        for title, measure, rate in (*COLUMNS, PER_CPU):
            if title not in BOUNDS:
                continue
            bound = BOUNDS[title][tuple(COUNTS).index(case.size)]
            what = f"{name}: {case.name} {case.codec}: {title}, times"
            yield Target(
                what, found.ratio(server, measure, case, rate), bound, why=WHY.get(title, "")
            )
    taken = found.triggers.get((server, "kohort"))
    yield Target(
        f"{name}: small micro-batch, ms", taken.small if taken else None, 120, at_least=False
    )
    yield Target(f"{name}: first trigger, ms", taken.first if taken else None, 1500, at_least=False)


if __name__ == "__main__":
    main()
