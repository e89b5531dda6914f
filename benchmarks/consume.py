"""Measure how fast Python clients read a topic: `python -m benchmarks.consume [--sizes 100,1024]`

Clients take turns at one topic of six partitions. It is filled once with 3 million records of 100 B
and 1.5 million of 1 KiB. Batches are uncompressed and have 16 KiB, the default of producers. The
clients are kohort.client with Arrow batches and with records as Python objects, aiokafka,
confluent-kafka and kafka-python.

Each client is a process that reads every key and value; the slower ones read only a part. Clients
for asyncio run on uvloop. Time runs from the first records that arrive to the last, and for records
as objects it includes the loading of machine code. It is wall clock time, with the server on the
same machine, and CPU time of the client's process.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks import rounds, tools
from benchmarks.consumers import PARTITIONS
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server, start_all
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.produce import Producer
from kohort.protocol.batches import HEADER_SIZE, Record, build
from kohort.types import TopicPartition

SERVERS = ("kafka",)
RECORDS = {100: 3_000_000, 1024: 1_500_000}
"""Number of records by size in bytes."""
KEY = 8
BATCH = 16 * 1024
CLIENTS = {
    "kohort-arrow": ("kohort, Arrow batches", 1.0),
    "kohort": ("kohort, records", 1.0),
    "confluent-kafka": ("confluent-kafka", 1.0),
    "aiokafka": ("aiokafka", 0.25),
    "kafka-python": ("kafka-python", 0.1),
}
"""Names, and the fraction of the records that is read."""
COLUMNS = (
    Column("records/s", "records_s"),
    Column("MB/s", "mb_s"),
    Column("× aiokafka", "records_s", "aiokafka"),
    Column("× confluent-kafka", "records_s", "confluent-kafka"),
    Column("records per CPU-s", "records_cpu_s"),
)
WHY = (
    "librdkafka receives and checks records on another core while Python makes objects "
    "of those before; here one thread"
    " does both, with less CPU time for a record."
)
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """Result of one process that reads."""

    records_s: float
    mb_s: float
    """Keys and values, in 10^6 bytes."""
    records_cpu_s: float
    """Per second of CPU time of the client."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    sizes, rest = _sizes(sys.argv[1:] if argv is None else argv)
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=0, argv=rest)
    parts = []
    with ExitStack() as stack:
        for server in start_all(plan.servers, stack).values():
            for size in sizes:
                print(f"{RECORDS[size]:,} records of {size:,} B from {server.name}", flush=True)
                asyncio.run(fill(server, f"consume-{size}", size, RECORDS[size]))
                samples = measure(server, size, plan.rounds)
                parts += [
                    f"Records of {size:,} B from {server.name}",
                    servers_table(samples, COLUMNS, "client"),
                    _targets(samples),
                ]
    publish("consume", "Consume", parts, write=plan.write and set(sizes) == set(RECORDS))


def _sizes(argv: Sequence[str]) -> tuple[list[int], list[str]]:
    """Sizes named by `--sizes`, and the other options."""
    rest = list(argv)
    if "--sizes" not in rest:
        return list(RECORDS), rest
    at = rest.index("--sizes")
    sizes = [int(size) for size in rest[at + 1].split(",")]
    del rest[at : at + 2]
    return sizes, rest


async def fill(server: Server, topic: str, size: int, count: int) -> None:
    """Create and fill the topic; the records of a batch are encoded once and sent repeatedly."""
    each = BATCH // (size + 20)
    now = time.time_ns() // 1_000_000  # a broker soon removes what is older than a week
    content = [
        Record(b"%0*d" % (KEY, n), os.urandom(size - KEY), (), now + n // 10) for n in range(each)
    ]
    payload = build(content)[HEADER_SIZE:]
    async with Cluster(ClientConfig(bootstrap=server.address)) as cluster:
        connection = await cluster.any_connection()
        made = {
            "name": topic,
            "num_partitions": PARTITIONS,
            "replication_factor": 1,
            "assignments": (),
            "configs": (),
        }
        await connection.send("create_topics", topics=[made], timeout_ms=30_000)
        async with Producer(cluster) as producer:
            for number in range(-(-count // each)):
                tp = TopicPartition(topic, number % PARTITIONS)
                first, last = content[0].timestamp, content[-1].timestamp
                await producer.send_encoded(
                    tp, payload, each, base_timestamp=first, max_timestamp=last
                )


def measure(server: Server, size: int, count_of_rounds: int) -> rounds.Samples:
    """Measure each client in turn, in rounds after a warm-up round."""
    samples = rounds.Samples({key: name for key, (name, _) in CLIENTS.items()})
    keys = list(CLIENTS)
    for number in range(-1, count_of_rounds):
        for key in keys[number % len(keys) :] + keys[: number % len(keys)]:
            sample = consume(server, key, size)
            what = "warm-up" if number < 0 else f"round {number + 1}"
            print(f"  {key}: {what}: {rounds.described(sample)}", flush=True)
            if number >= 0:
                samples.add(key, sample)
    return samples


def consume(server: Server, client: str, size: int) -> Consumed:
    """Run one process that reads its part."""
    count = int(RECORDS[size] * CLIENTS[client][1])
    command = [
        sys.executable,
        "-m",
        "benchmarks.consumers",
        client,
        server.address,
        f"consume-{size}",
        str(count),
    ]
    done = subprocess.run(
        command, cwd=tools.ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode:
        raise RuntimeError(f"{client} failed:\n{done.stderr[-2000:]}")
    told = json.loads(done.stdout)
    return Consumed(
        records_s=told["records"] / told["seconds"],
        mb_s=told["bytes"] / told["seconds"] / 1e6,
        records_cpu_s=told["records"] / told["cpu_s"],
    )


def _targets(samples: rounds.Samples) -> str:
    wanted = [("aiokafka", 3.0), ("kafka-python", 3.0), ("confluent-kafka", 1.0)]
    found = [
        Target(
            f"Arrow batches, kohort / {other}",
            samples.ratio("kohort-arrow", other, "records_s"),
            bound,
        )
        for other, bound in wanted
    ]
    plain = samples.ratio("kohort", "confluent-kafka", "records_s")
    found.append(Target("records, kohort / confluent-kafka", plain, 1, why=WHY))
    return "\n".join(map(str, found))


if __name__ == "__main__":
    main()
