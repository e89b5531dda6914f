"""Measure a cluster on PostgreSQL: `python -m benchmarks.cluster`

Each part starts a PostgreSQL of its own, with fsync:

- Three nodes, of which one is killed, hangs, or is drained, as in `benchmarks.failover`.
- A node that leads 50 shards with 1,000,000 committed offsets is killed, and two others take over.
  Prints when 200 groups of all shards got their offsets, and the CPU time for it.
- A node that leads a third of 1,000 partitions is killed. Prints when records for all partitions
  are acknowledged that librdkafka sends then.
- Commits of 1 and 50 partitions on 100 connections, as `benchmarks.commits`: one node on PostgreSQL
  beside files with `durability=fsync`, files in the page cache, and Apache Kafka.
- Records of 1 KiB, produced and consumed as in `benchmarks.throughput`, of the same servers.

`--quick` has one round of small sizes, and writes nothing. The CPU time of a server on PostgreSQL
includes PostgreSQL's.
"""

import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer
from tests.peers.kafka import missing_tools

from benchmarks import commits, failover, load, loading, nodes, rounds, steady, throughput
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.tools import MissingError

SERVERS: Final = ("kohort-postgres", "kohort-fsync", "kohort-data", "kafka")
COMMITTED: Final = (1, 50)
NODES: Final = (1, 2, 3)
VICTIM: Final = 1
COMMIT_COLUMNS: Final = steady.columns(
    "commits",
    per_s=(("× files, fsync", "kohort-fsync"), steady.KAFKA),
    per_cpu_s=(),
    load_cores=False,
)
FSYNCS: Final = 200


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int
    seconds: float
    groups: int
    partitions: int
    records: int


WHOLE: Final = Sizes(rounds=5, seconds=4, groups=10_000, partitions=1_000, records=500_000)
QUICK: Final = Sizes(rounds=1, seconds=1, groups=200, partitions=50, records=20_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Figures of nodes that take over from one that was killed."""

    first_s: float
    median_s: float
    last_s: float
    cpu_s: float
    """Of the nodes that took over."""
    database_cpu_s: float


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    parser = rounds.option_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of small sizes")
    parser.add_argument("--rounds", type=int, help="of which medians are taken")
    parser.add_argument("--parts", default=",".join(PARTS), help="which to measure (%(default)s)")
    options, _ = parser.parse_known_args(argv)
    sizes = QUICK if options.quick else WHOLE
    if options.rounds:
        sizes = sizes._replace(rounds=options.rounds)
    chosen = options.parts.split(",")
    try:
        found = [PARTS[name](sizes) for name in chosen]
    except MissingError as error:
        print(f"the cluster is left out: {error}")
        return
    whole = chosen == list(PARTS) and sizes.rounds >= rounds.ENOUGH_ROUNDS
    publish("cluster", "Cluster on PostgreSQL", found, write=whole and not options.dry)


# Taking over


def _offsets(sizes: Sizes) -> str:
    """A node that leads all groups is killed."""
    count = sizes.groups * loading.PARTITIONS
    samples = rounds.Samples({"offsets": f"{count:,} offsets in {sizes.groups:,} groups"})
    for number in range(sizes.rounds):
        sample = _take_offsets(sizes)
        print(f"  offsets: round {number + 1}: {rounds.described(sample)}", flush=True)
        samples.add("offsets", sample)
    target = Target("the last group, s", samples.median("offsets", "last_s"), 10, at_least=False)
    shown = servers_table(samples, _TAKE_OVER_COLUMNS, of="taken over by two nodes")
    return f"{shown}\n\n{target}"


_TAKE_OVER_COLUMNS: Final = (
    Column("first, s", "first_s"),
    Column("median, s", "median_s"),
    Column("last, s", "last_s"),
    Column("CPU of nodes, s", "cpu_s"),
    Column("CPU of PostgreSQL, s", "database_cpu_s"),
)


def _take_offsets(sizes: Sizes) -> TakeOver:
    with nodes.cluster() as cluster:
        stay = {"cluster.rebalance.delay.ms": "600000"}
        cluster.start(VICTIM, stay)
        loading.fill_groups(cluster.bootstrap, sizes.groups)
        for node in NODES[1:]:
            cluster.start(node, stay)
        return _taken_over(
            cluster, lambda: asyncio.run(loading.served(cluster.bootstrap, sizes.groups))
        )


def _partitions(sizes: Sizes) -> str:
    """A node that leads a third of many partitions is killed."""
    samples = rounds.Samples({"partitions": f"{sizes.partitions:,} partitions, a third of them"})
    for number in range(sizes.rounds):
        sample = _take_partitions(sizes)
        print(f"  partitions: round {number + 1}: {rounds.described(sample)}", flush=True)
        samples.add("partitions", sample)
    return servers_table(samples, _TAKE_OVER_COLUMNS, of="taken over by two nodes")


def _take_partitions(sizes: Sizes) -> TakeOver:
    with nodes.cluster() as cluster:
        for node in NODES:
            cluster.start(node)
        cluster.create("many", sizes.partitions)
        cluster.even("many")
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        _acknowledged(producer, sizes.partitions)
        return _taken_over(cluster, partial(_acknowledged, producer, sizes.partitions))


def _taken_over(cluster: nodes.Nodes, served: Callable[[], Sequence[float]]) -> TakeOver:
    """Kill the node; `served` tells when each of what it led is served again."""
    before = [cluster.cpu_seconds(node) for node in NODES[1:]]
    database = cluster.database_cpu_seconds()
    moment = cluster.hit(VICTIM, signal.SIGKILL)
    times = sorted(each - moment for each in served())
    after = [cluster.cpu_seconds(node) for node in NODES[1:]]
    return TakeOver(
        first_s=times[0],
        median_s=statistics.median(times),
        last_s=times[-1],
        cpu_s=sum(after) - sum(before),
        database_cpu_s=cluster.database_cpu_seconds() - database,
    )


def _acknowledged(producer: Producer, partitions: int) -> list[float]:
    """Send a record to each partition, and return when each was acknowledged."""
    times: list[float] = []

    def told(error: Any, _: Any) -> None:
        if error is not None:
            raise load.LoadError(str(error))
        times.append(time.monotonic())

    for partition in range(partitions):
        producer.produce("many", b"x", partition=partition, on_delivery=told)
    if producer.flush(nodes.WITHIN_S):
        raise load.LoadError("not all records are acknowledged")
    return times


# One node beside its peers


def _plan(sizes: Sizes) -> rounds.Plan:
    return rounds.Plan(rounds=sizes.rounds, seconds=sizes.seconds, servers=SERVERS, write=False)


def _commits(sizes: Sizes) -> str:
    """Group commits."""
    parts = [f"One fsync of 4 KiB on this disk takes {_fsync_ms():.2f} ms (median of {FSYNCS})."]
    for count in COMMITTED:
        print(f"commits of {count} partitions", flush=True)
        jvm_warm_up_s = steady.JVM_WARM_UP_S if sizes is WHOLE else steady.WARM_UP_S
        samples = commits.measured(_plan(sizes), count, jvm_warm_up_s=jvm_warm_up_s)
        target = Target(
            "PostgreSQL / files with fsync",
            samples.ratio("kohort-postgres", "kohort-fsync", "per_s"),
            2,
        )
        title = f"Commits of {count} partition{'s' if count > 1 else ''}, 100 connections"
        parts += [title, servers_table(samples, COMMIT_COLUMNS), str(target)]
    return "\n\n".join(parts)


def _fsync_ms() -> float:
    """What the disk takes for one append that has to be on it."""
    times = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(FSYNCS):
            os.write(file.fileno(), bytes(4096))
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _records(sizes: Sizes) -> str:
    """Produce and consume."""
    if reason := missing_tools():
        return f"Records are left out: {reason}"
    print(f"{sizes.records:,} records of 1 KiB", flush=True)
    samples = rounds.interleaved(
        _plan(sizes),
        throughput.measure(1024, sizes.records),
        warm_up=throughput.warm_up(1024, sizes.records // 2),
    )
    return f"Records of 1 KiB\n\n{servers_table(samples, throughput.COLUMNS)}"


PARTS: Final[dict[str, Callable[[Sizes], str]]] = {
    "failover": lambda sizes: "\n\n".join(failover.measured(sizes.rounds)),
    "offsets": _offsets,
    "partitions": _partitions,
    "commits": _commits,
    "records": _records,
}


if __name__ == "__main__":
    main()
