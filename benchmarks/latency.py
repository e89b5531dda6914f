"""Measure the latency from producer to consumer: `python -m benchmarks.latency`

One process has a producer and a consumer of librdkafka, with their defaults except linger.ms=0. It
sends 1,000 records of 100 B per second to a topic of one partition, each with its time, and reads
them back. Both servers keep records on disk. Prints the latency from `produce` to `poll`, its ratio
to Apache Kafka, and the server's CPU time.
"""

import json
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import rounds, tools
from benchmarks.load import LoadError
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server

RATE = 1_000
SIZE = 100
TOPIC = "latency"
SERVERS = ("kohort-data", "kafka")
COLUMNS = (
    Column("p50 ms", "p50_ms"),
    Column("/ Kafka", "p50_ms", "kafka"),
    Column("p99 ms", "p99_ms"),
    Column("/ Kafka", "p99_ms", "kafka"),
    Column("max ms", "max_ms"),
    Column("cores", "cores"),
)
WARM_UP_RECORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latency from one client to the other."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    cores: float


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=8, argv=argv)
    samples = rounds.interleaved(
        plan, _measure(plan.seconds), warm_up=lambda _key, server: _warm_up(server)
    )
    targets = [
        Target(
            f"{name}, Kohort / Kafka",
            samples.ratio("kohort-data", "kafka", figure),
            1,
            at_least=False,
        )
        for figure, name in (("p50_ms", "p50"), ("p99_ms", "p99"))
    ]
    parts = [servers_table(samples, COLUMNS), "\n".join(map(str, targets))]
    publish("latency", f"Produce → consume latency at {RATE:,} records/s", parts, write=plan.write)


def _warm_up(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.address, "log_level": 0})
    for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        future.result(30)
    _measure(5)(server)


def _measure(seconds: float) -> Callable[[Server], Latency]:
    def measure(server: Server) -> Latency:
        command = [
            sys.executable,
            "-m",
            "benchmarks.latency",
            "--client",
            server.address,
            str(seconds),
        ]
        before = server.cpu_seconds()
        done = subprocess.run(command, cwd=tools.ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoadError(done.stderr[-1000:])
        return Latency(**json.loads(done.stdout), cores=(server.cpu_seconds() - before) / seconds)

    return measure


def client(address: str, seconds: float) -> None:
    """Run both clients in this process, and print their figures as JSON."""
    count = int(seconds * RATE) + WARM_UP_RECORDS
    common = {"bootstrap.servers": address, "log_level": 0}
    consumer = Consumer({**common, "group.id": "latency", "enable.auto.commit": False})
    end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)[1]
    consumer.assign([TopicPartition(TOPIC, 0, end)])
    producer = Producer({**common, "linger.ms": 0})
    producer.list_topics(TOPIC, timeout=10)
    thread = threading.Thread(target=_produce, args=(producer, count), daemon=True)
    thread.start()
    latencies = sorted(_consume(consumer, count)[WARM_UP_RECORDS:])
    thread.join()
    consumer.close()
    quantiles = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1}
    print(
        json.dumps(
            {name: latencies[int(q * (len(latencies) - 1))] / 1e6 for name, q in quantiles.items()}
        )
    )


def _produce(producer: Producer, count: int) -> None:
    padding = b"." * (SIZE - 8)
    begin = time.perf_counter_ns()
    for number in range(count):
        wait = begin + number * 1_000_000_000 // RATE - time.perf_counter_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        producer.produce(TOPIC, time.perf_counter_ns().to_bytes(8, "big") + padding)
        producer.poll(0)
    producer.flush(10)


def _consume(consumer: Consumer, count: int) -> Sequence[int]:
    """Latencies in nanoseconds, in the order of the records."""
    latencies = array("q")
    while len(latencies) < count:
        message = consumer.poll(10)
        now = time.perf_counter_ns()
        if message is None or message.error():
            sys.exit(
                f"after {len(latencies)} of {count} records: "
                f"{message.error() if message else 'nothing came'}"
            )
        latencies.append(now - int.from_bytes((message.value() or b"")[:8], "big"))
    return latencies


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(sys.argv[2], float(sys.argv[3]))
    else:
        main()
