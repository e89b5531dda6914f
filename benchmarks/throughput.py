"""Measure throughput with Kafka's own tools: `python -m benchmarks.throughput`

`kafka-producer-perf-test` fills a fresh topic of one partition with records of 100 B (2 million)
and then of 1 KiB (500,000). It uses the default settings of the Java producer (acks=all,
idempotent). `kafka-consumer-perf-test` then reads them. Both servers keep records on disk, and the
topic is deleted afterwards.

Prints MB/s and records/s as reported by the tools, the ratio to Apache Kafka, and the CPU time of
the server per GB. A MB has 10^6 bytes. The consumer's time to join is not included. Five rounds
take four minutes, most of it for the tools.
"""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.kafka import missing_tools, resolve

from benchmarks import rounds
from benchmarks.load import LoadError
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server
from benchmarks.tools import MissingError, run

RECORDS = {100: 2_000_000, 1024: 500_000}
"""How many, by size in bytes: for some seconds of each tool, whose first one is the JVM's."""
SERVERS = ("kohort-data", "kafka")
TOOL_SECONDS = 120.0
"""What a tool may take: ten times what it does, or the round has failed."""
COLUMNS = (
    Column("produce MB/s", "produce_mb_s"),
    Column("records/s", "produced_s"),
    Column("× Kafka", "produce_mb_s", "kafka"),
    Column("CPU s/GB", "produce_cpu_gb"),
    Column("p99 ms", "produce_p99_ms"),
    Column("consume MB/s", "consume_mb_s"),
    Column("records/s", "consumed_s"),
    Column("× Kafka", "consume_mb_s", "kafka"),
    Column("CPU s/GB", "consume_cpu_gb"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Figures of one topic, filled and read."""

    produce_mb_s: float
    produced_s: float
    produce_cpu_gb: float
    produce_p99_ms: float
    """From `send` to the acknowledgement, with the producer's buffer full."""
    consume_mb_s: float
    consumed_s: float
    consume_cpu_gb: float


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=0, argv=argv)
    if reason := missing_tools():
        print(f"throughput is left out: {reason}")
        return
    parts = []
    for size, count in RECORDS.items():
        print(f"{count:,} records of {size:,} B", flush=True)
        samples = rounds.interleaved(plan, measure(size, count), warm_up=warm_up(size, count // 2))
        targets = [
            Target(
                f"{what}, Kohort / Kafka", samples.ratio("kohort-data", "kafka", f"{what}_mb_s"), 1
            )
            for what in ("produce", "consume")
        ]
        parts += [
            f"Records of {size:,} B",
            servers_table(samples, COLUMNS),
            "\n".join(map(str, targets)),
        ]
    publish("throughput", "Produce and consume", parts, write=plan.write)


def warm_up(size: int, count: int) -> Callable[[str, Server], None]:
    """Fills a topic and reads it, for nothing."""

    def fill(_key: str, server: Server) -> None:
        measure(size, count)(server)

    return fill


def measure(size: int, count: int) -> Callable[[Server], Throughput]:
    """Measures a server with `count` records of `size` bytes."""

    def measured(server: Server) -> Throughput:
        # A name of its own: Kafka deletes topics later than it says so.
        topic = f"perf-{secrets.token_hex(4)}"
        admin = AdminClient({"bootstrap.servers": server.address, "log_level": 0})
        _finish(admin.create_topics([NewTopic(topic, 1, 1)]))
        try:
            return Throughput(
                **_produce(server, topic, size, count), **_consume(server, topic, size, count)
            )
        finally:
            _finish(admin.delete_topics([topic]))

    return measured


def _finish(futures: Mapping[str, Future[None]]) -> None:
    try:
        for future in futures.values():
            future.result(30)
    except Exception as error:  # the client's own kinds are many
        raise LoadError(str(error)) from error


def _produce(server: Server, topic: str, size: int, count: int) -> dict[str, float]:
    options = [
        "--topic",
        topic,
        "--num-records",
        str(count),
        "--record-size",
        str(size),
        "--throughput",
        "-1",
    ]
    told, used = _tool(server, "org.apache.kafka.tools.ProducerPerformance", *options)
    last = told.strip().splitlines()[-1]
    found = re.search(rf"^{count} records sent, ([\d.]+) records/sec.* ([\d.]+) ms 99th", last)
    if found is None:
        raise LoadError(f"the producer did not send all: {last}")
    per_s = float(found[1])
    return {
        "produce_mb_s": per_s * size / 1e6,
        "produced_s": per_s,
        "produce_cpu_gb": used / (count * size / 1e9),
        "produce_p99_ms": float(found[2]),
    }


def _consume(server: Server, topic: str, size: int, count: int) -> dict[str, float]:
    options = ["--topic", topic, "--num-records", str(count), "--hide-header"]
    told, used = _tool(server, "org.apache.kafka.tools.ConsumerPerformance", *options)
    # start, end, MiB, MiB/s, records, records/s, rebalance ms, fetch ms, fetch MiB/s, fetch
    # records/s
    figures = told.strip().splitlines()[-1].split(", ")
    if len(figures) != 10 or int(figures[4]) < count:
        raise LoadError(f"the consumer did not get all: {told[-500:]}")
    per_s = float(figures[9])
    return {
        "consume_mb_s": per_s * size / 1e6,
        "consumed_s": per_s,
        "consume_cpu_gb": used / (count * size / 1e9),
    }


def _tool(server: Server, name: str, *options: str) -> tuple[str, float]:
    """Output of a tool, and the CPU seconds of the server meanwhile."""
    before = server.cpu_seconds()
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    java = [
        "java",
        "-Xmx512m",
        quiet,
        "-cp",
        f"{resolve()}/*",
        name,
        "--bootstrap-server",
        server.address,
    ]
    try:
        told = run([*java, *options], f"{name.rpartition('.')[2]} failed", timeout_s=TOOL_SECONDS)
    except MissingError as error:
        raise LoadError(str(error)) from error
    return told, server.cpu_seconds() - before


if __name__ == "__main__":
    main()
