"""Measure transactions with librdkafka: `python -m benchmarks.transactions`

Each figure comes from a process of its own with confluent-kafka, for `--seconds` (reads: once over
the topic):

- transactions of 10 records of 100 B, to 1 partition, to 10 partitions, and to 1 partition with the
  offset of a group,
- reads of a topic of committed transactions of 1,000 records of 1 KiB, with `read_committed` and
  with `read_uncommitted`, by a consumer that is connected and knows the topic. It does not pause
  for librdkafka's default of a second whenever its queue is full (`fetch.queue.backoff.ms`),
- consume-transform-produce: a record goes to one topic, is read, written to a second topic and
  committed with its offset in a transaction, and read there with `read_committed`; the latency is
  from the first `produce` to the last `poll`, one record at a time.

Both servers keep records on disk. Prints figures, ratios to Apache Kafka, and each per CPU-second
of the server. Five rounds take eight minutes.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import rounds, tools
from benchmarks.load import LoadError
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server

RECORDS = 10
"""Of each transaction."""
VALUE = b"." * 100
SERVERS = ("kohort-data", "kafka")
TOPICS = {"tx-1": 1, "tx-10": 10, "tx-read": 1, "tx-in": 1, "tx-out": 1}
READ_VALUE = b"." * 1024
READ_RECORDS = 1_000
"""Of each transaction of the topic that is read."""
READ_TRANSACTIONS = 1_000
READ_MB = READ_TRANSACTIONS * READ_RECORDS * len(READ_VALUE) / 1e6
LIMIT_S = 60.0
WARM_UP_S = 15.0
GROUP = "tx"
KINDS = {
    "one": "transactions/s, 1 partition",
    "ten": "transactions/s, 10 partitions",
    "offsets": "transactions/s, with offsets",
    "pipeline": "consume-transform-produce/s",
}
NOTES = {
    "offsets": "With Apache Kafka, librdkafka waits 100 ms before it repeats an AddOffsetsToTxn"
    " that was refused with CONCURRENT_TRANSACTIONS: the markers of the transaction before were not"
    " yet written.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one process did."""

    rate: float
    """Transactions, megabytes or records per second."""
    per_cpu_s: float
    """The same per CPU-second of the server."""
    p50_ms: float
    p99_ms: float
    """Time from begin to commit, or of the whole way of a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Megabytes per second, and per CPU-second of the server, by isolation level."""

    committed: float
    committed_per_cpu_s: float
    uncommitted: float
    uncommitted_per_cpu_s: float


WRITE_COLUMNS = (
    Column("per s", "rate"),
    Column("× Kafka", "rate", "kafka"),
    Column("per CPU-second", "per_cpu_s"),
    Column("× Kafka", "per_cpu_s", "kafka"),
    Column("p50 ms", "p50_ms"),
    Column("p99 ms", "p99_ms"),
)
READ_COLUMNS = (
    Column("read_committed MB/s", "committed"),
    Column("× Kafka", "committed", "kafka"),
    Column("per CPU-second", "committed_per_cpu_s"),
    Column("× Kafka", "committed_per_cpu_s", "kafka"),
    Column("read_uncommitted MB/s", "uncommitted"),
    Column("× Kafka", "uncommitted", "kafka"),
    Column("per CPU-second", "uncommitted_per_cpu_s"),
    Column("× Kafka", "uncommitted_per_cpu_s", "kafka"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=5, argv=argv)
    parts = []
    for kind, title in KINDS.items():
        print(title, flush=True)
        samples = rounds.interleaved(
            plan, _measure(kind, plan.seconds), warm_up=partial(_warm_up, kind)
        )
        parts += [
            title,
            servers_table(samples, WRITE_COLUMNS),
            _targets(samples, "rate", "per_cpu_s"),
            *filter(None, [NOTES.get(kind)]),
        ]
    print("reads", flush=True)
    samples = rounds.interleaved(plan, _measure_reads, warm_up=_warm_up_reads)
    parts += [
        "reads",
        servers_table(samples, READ_COLUMNS),
        _targets(samples, "committed", "committed_per_cpu_s"),
    ]
    publish("transactions", "Transactions", parts, write=plan.write)


def _targets(samples: rounds.Samples, rate: str, per_cpu_s: str) -> str:
    figures = {rate: "Kohort / Kafka", per_cpu_s: "Kohort / Kafka per CPU-second"}
    return "\n".join(
        str(Target(what, samples.ratio("kohort-data", "kafka", figure), 1))
        for figure, what in figures.items()
    )


def _warm_up(kind: str, _key: str, server: Server) -> None:
    _create_topics(server)
    _measure(kind, WARM_UP_S)(server)


def _warm_up_reads(_key: str, server: Server) -> None:
    _create_topics(server)
    _client("fill", server)
    _measure_reads(server)


def _create_topics(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.address, "log_level": 0})
    topics = [NewTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result(30)


def _measure(kind: str, seconds: float) -> Callable[[Server], Measured]:
    def measure(server: Server) -> Measured:
        told = _client(kind, server, seconds)
        return Measured(
            rate=told["amount"] / told["seconds"],
            per_cpu_s=told["amount"] / told["cpu_s"],
            p50_ms=told["p50_ms"],
            p99_ms=told["p99_ms"],
        )

    return measure


def _measure_reads(server: Server) -> Reads:
    committed = _client("read_committed", server)
    uncommitted = _client("read_uncommitted", server)
    return Reads(
        committed=READ_MB / committed["seconds"],
        committed_per_cpu_s=READ_MB / committed["cpu_s"],
        uncommitted=READ_MB / uncommitted["seconds"],
        uncommitted_per_cpu_s=READ_MB / uncommitted["cpu_s"],
    )


def _client(kind: str, server: Server, seconds: float = 0) -> dict[str, float]:
    """What the process of a client printed, with the server's CPU time in its measured part."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.transactions",
        "--client",
        kind,
        server.address,
        str(seconds),
    ]
    with subprocess.Popen(
        command,
        cwd=tools.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
        before = server.cpu_seconds()
        process.stdin.write("go\n")
        process.stdin.flush()
        told = process.stdout.readline()
        used = server.cpu_seconds() - before
        process.stdin.close()
        if process.wait(LIMIT_S) or not told:
            raise LoadError(f"the client of {kind} failed")
    found: dict[str, float] = json.loads(told)
    return {**found, "cpu_s": used}


# --- the process of a client


class Client:
    """A producer and consumers in one process; each method yields once when it is ready."""

    def __init__(self, address: str, seconds: float) -> None:
        self._common = {"bootstrap.servers": address, "log_level": 0}
        self._seconds = seconds

    def one(self) -> Iterator[Sequence[int]]:
        return self._transactions("tx-1", 1)

    def ten(self) -> Iterator[Sequence[int]]:
        return self._transactions("tx-10", 10)

    def offsets(self) -> Iterator[Sequence[int]]:
        consumer = self._consumer()
        numbers = count(1)

        def commit(producer: Producer) -> None:
            offset = TopicPartition("tx-in", 0, next(numbers))
            producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata())

        return self._transactions("tx-1", 1, commit)

    def _transactions(
        self, topic: str, partitions: int, commit: Callable[[Producer], None] = lambda _: None
    ) -> Iterator[Sequence[int]]:
        """The nanoseconds of each transaction."""
        producer = self._producer()

        def transact() -> None:
            producer.begin_transaction()
            for number in range(RECORDS):
                producer.produce(topic, VALUE, partition=number % partitions)
            commit(producer)
            producer.commit_transaction(LIMIT_S)

        transact()
        yield ()
        yield self._repeat(transact)

    def pipeline(self) -> Iterator[Sequence[int]]:
        feeder = Producer({**self._common, "linger.ms": 0})
        producer = self._producer()
        source, sink = self._consumer("tx-in"), self._consumer("tx-out")

        def pass_one() -> None:
            feeder.produce("tx-in", VALUE)
            record = _next(source)
            producer.begin_transaction()
            producer.produce("tx-out", record.value())
            producer.send_offsets_to_transaction(
                source.position([TopicPartition("tx-in", 0)]), source.consumer_group_metadata()
            )
            producer.commit_transaction(LIMIT_S)
            _next(sink)

        pass_one()
        yield ()
        yield self._repeat(pass_one)

    def fill(self) -> Iterator[Sequence[int]]:
        producer = self._producer()
        yield ()
        for _ in range(READ_TRANSACTIONS):
            producer.begin_transaction()
            for _ in range(READ_RECORDS):
                producer.produce("tx-read", READ_VALUE)
            producer.commit_transaction(LIMIT_S)
        yield ()

    def read_committed(self) -> Iterator[Sequence[int]]:
        return self._read("read_committed")

    def read_uncommitted(self) -> Iterator[Sequence[int]]:
        return self._read("read_uncommitted")

    def _read(self, isolation: str) -> Iterator[Sequence[int]]:
        consumer = self._consumer(isolation=isolation)
        # Else librdkafka waits half a second for the topic's metadata.
        consumer.get_watermark_offsets(TopicPartition("tx-read", 0), LIMIT_S)
        yield ()
        consumer.assign([TopicPartition("tx-read", 0, OFFSET_BEGINNING)])
        missing = READ_TRANSACTIONS * READ_RECORDS
        while missing:
            records = consumer.consume(min(1_000, missing), LIMIT_S)
            if not records or any(each.error() for each in records):
                sys.exit(f"no records, {missing} are missing")
            missing -= len(records)
        yield ()

    def _repeat(self, work: Callable[[], None]) -> Sequence[int]:
        """The nanoseconds of each repetition."""
        taken = []
        end = time.perf_counter_ns() + int(self._seconds * 1e9)
        while (began := time.perf_counter_ns()) < end:
            work()
            taken.append(time.perf_counter_ns() - began)
        return taken

    def _producer(self) -> Producer:
        producer = Producer({**self._common, "transactional.id": "tx", "linger.ms": 0})
        producer.init_transactions(LIMIT_S)
        return producer

    def _consumer(self, topic: str = "", isolation: str = "read_committed") -> Consumer:
        """A consumer at the end of the topic's only partition."""
        consumer = Consumer(
            {
                **self._common,
                "group.id": GROUP,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 1,
            }
        )
        if topic:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), LIMIT_S)
            consumer.assign([TopicPartition(topic, 0, end)])
        return consumer


def _next(consumer: Consumer) -> Message:
    record = consumer.poll(LIMIT_S)
    if record is None or record.error():
        sys.exit(f"no record: {record.error() if record else 'nothing came'}")
    return record


def client(kind: str, address: str, seconds: float) -> None:
    """Do the work once a line comes, and print the figures as JSON."""
    work: Iterator[Sequence[int]] = getattr(Client(address, seconds), kind)()
    next(work)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    taken = sorted(next(work))
    passed = time.perf_counter() - began
    figures = {
        "amount": len(taken),
        "seconds": passed,
        "p50_ms": taken[len(taken) // 2] / 1e6 if taken else float("nan"),
        "p99_ms": taken[len(taken) * 99 // 100] / 1e6 if taken else float("nan"),
    }
    print(json.dumps(figures), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    else:
        main()
