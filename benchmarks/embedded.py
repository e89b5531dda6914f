"""Measure servers for tests beside each other: `python -m benchmarks.embedded [--rounds 5]`

Each round starts each of them afresh, in a process of its own that stands for a test:

- start: until its port takes connections. `EmbeddedKafka` and librdkafka's mock start in the
  process of the test, whose imports come before; the others are processes. `EmbeddedKafka` is
  started a second time, too: a test is rarely the first one.
- first record: a record is produced, and a consumer that joins a group reads it.
- takeover: of two members, the one that owns the partition is gone without a LeaveGroup. How long
  until the other one owns it. With `EmbeddedKafka`, the test advances the server's time beyond the
  session timeout. Others wait for the shortest one that Kafka permits by default, 6 s.
- memory: what the server adds to that of the test, after that.

The client is confluent-kafka everywhere, with `heartbeat.interval.ms=50`. It takes most of the time
of a first record, so there is a column for Kohort's own client. `import kohort.testing` is measured
in a process that imports nothing else.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import processes, rounds
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import SERVERS
from kohort.testing import EmbeddedKafka

KITS: Final = {
    "embedded": "`EmbeddedKafka`",
    "mock": "librdkafka's mock",
    "kfake": "franz-go's kfake",
    "tansu": "Tansu 0.6",
    "kafka": "Apache Kafka",
}
SESSION_MS: Final = 6_000
"""group.min.session.timeout.ms of Apache Kafka."""
PATIENCE_S: Final = 60.0
ADMIN_S: Final = 5.0
TOPIC: Final = "orders"
GROUP: Final = "billing"
START_MS: Final = 50
FIRST_RECORD_MS: Final = 30
IMPORT_MS: Final = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one round; NOT_MEASURED where they do not apply."""

    start_ms: float
    next_start_ms: float = rounds.NOT_MEASURED
    record_ms: float = rounds.NOT_MEASURED
    next_record_ms: float = rounds.NOT_MEASURED
    takeover_ms: float = rounds.NOT_MEASURED
    own_record_ms: float = rounds.NOT_MEASURED
    memory_mb: float = rounds.NOT_MEASURED
    import_ms: float = rounds.NOT_MEASURED


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    parser = rounds.option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=rounds.ENOUGH_ROUNDS)
    parser.add_argument("--only", default=",".join(KITS), help="which to measure (%(default)s)")
    parser.add_argument("--job", choices=tuple(KITS), help="measure one in this process")
    parser.add_argument("--member", metavar="ADDRESS", help="be a member until killed")
    options = parser.parse_args(argv)
    if options.member:
        _be_member(options.member)
    elif options.job:
        _print(_JOBS[options.job]())
    else:
        keys = options.only.split(",")
        samples = _measure(keys, options.rounds)
        whole = options.rounds >= rounds.ENOUGH_ROUNDS and set(keys) == set(KITS)
        parts = [servers_table(samples, COLUMNS), "\n".join(map(str, _targets(samples)))]
        publish("embedded", "Servers for tests", parts, write=whole and not options.dry)


COLUMNS: Final = (
    Column("start, ms", "start_ms"),
    Column("next start, ms", "next_start_ms"),
    Column("first record, ms", "record_ms"),
    Column("of the next server, ms", "next_record_ms"),
    Column("by `kohort.client`, ms", "own_record_ms"),
    Column("takeover, ms", "takeover_ms"),
    Column("memory, MB", "memory_mb"),
    Column("import, ms", "import_ms"),
)


def _measure(keys: Sequence[str], count: int) -> rounds.Samples:
    samples = rounds.Samples({key: KITS[key] for key in keys})
    for number in range(count):
        for key in keys:
            sample = _job(key)
            shown = "failed" if sample is None else rounds.described(sample)
            print(f"  {key}: round {number + 1}: {shown}", flush=True)
            samples.add(key, sample)
    return samples


def _job(key: str) -> Figures | None:
    command = [sys.executable, "-m", "benchmarks.embedded", "--job", key]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-1_000:])
        return None
    figures = json.loads(done.stdout.splitlines()[-1])
    return Figures(**figures)


def _print(figures: dict[str, float]) -> None:
    # Threads of clients whose server is gone do not keep the process.
    print(json.dumps(figures), flush=True)
    os._exit(0)


def _targets(samples: rounds.Samples) -> list[Target]:
    def of(figure: str) -> float | None:
        return samples.median("embedded", figure)

    return [
        Target("start in a process, ms", of("start_ms"), START_MS, at_least=False),
        Target("start of the next server, ms", of("next_start_ms"), START_MS, at_least=False),
        Target("first record of a group, by kohort.client, ms", of("own_record_ms"),
               FIRST_RECORD_MS, at_least=False),
        Target("import kohort.testing, ms", of("import_ms"), IMPORT_MS, at_least=False),
    ]  # fmt: skip


# --- in the process of a round


def _embedded() -> dict[str, float]:
    figures = {"import_ms": float(subprocess.check_output([sys.executable, "-c", _IMPORT]))}
    memory = _memory_mb()
    for prefix in ("", "next_"):
        began = time.monotonic()
        kafka = EmbeddedKafka().start()
        figures[f"{prefix}start_ms"] = _ms_since(began)
        figures[f"{prefix}record_ms"] = _first_record(kafka.bootstrap)
    owner = _Member(kafka.bootstrap)
    _until(lambda: owner.owns(0.01))
    other = _Member(kafka.bootstrap)
    _until(lambda: owner.owns(0.01) and other.has_joined(0.01))
    began = time.monotonic()
    kafka.kill(owner.consumer)
    kafka.advance(seconds=SESSION_MS / 1000 + 1)
    _until(lambda: other.owns(0.005))
    figures |= {"takeover_ms": _ms_since(began), "memory_mb": _memory_mb() - memory}
    with EmbeddedKafka() as another:
        another.topic(TOPIC)
        for _ in range(2):  # the first one imports the client
            figures["own_record_ms"] = _first_record_of_our_client(another)
    return figures


_IMPORT: Final = (
    "import time; began = time.monotonic(); import kohort.testing; "
    "print((time.monotonic() - began) * 1000)"
)


def _mock() -> dict[str, float]:
    memory, began = _memory_mb(), time.monotonic()
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "replaced"})
    (broker,) = producer.list_topics(timeout=PATIENCE_S).brokers.values()
    start_ms = _ms_since(began)
    record_ms = _first_record(f"127.0.0.1:{broker.port}")
    return {"start_ms": start_ms, "record_ms": record_ms, "memory_mb": _memory_mb() - memory}


def _process(key: str) -> dict[str, float]:
    with SERVERS[key]() as server:
        return {
            "start_ms": server.listening_s * 1000,
            "record_ms": _first_record(server.address),
            "takeover_ms": _takeover(server.address),
            "memory_mb": server.resident_bytes() / 1e6,
        }


_JOBS: Final[dict[str, Callable[[], dict[str, float]]]] = {
    "embedded": _embedded,
    "mock": _mock,
    **{key: partial(_process, key) for key in ("kfake", "tansu", "kafka")},
}


def _first_record(address: str) -> float:
    """ms until a record is read by a group, in a topic that is there."""
    admin = AdminClient({"bootstrap.servers": address})
    with suppress(KafkaException, TimeoutError):  # the mock creates it when it is asked for it
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(ADMIN_S)
    _until(lambda: bool(admin.list_topics(TOPIC, PATIENCE_S).topics[TOPIC].partitions))
    began = time.monotonic()
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    producer.produce(TOPIC, b"paid")
    producer.flush(PATIENCE_S)
    consumer = _consumer(address, "first")
    consumer.subscribe([TOPIC])
    _until(lambda: (found := consumer.poll(0.005)) is not None and found.error() is None)
    taken = _ms_since(began)
    consumer.close()
    return taken


def _first_record_of_our_client(kafka: EmbeddedKafka) -> float:
    from kohort.client.sync import ConsumerGroup

    began = time.monotonic()
    kafka.produce(TOPIC, b"paid")
    with ConsumerGroup(kafka.name("own"), topics=[TOPIC], bootstrap=kafka.bootstrap) as group:
        next(iter(group))
        return _ms_since(began)


def _takeover(address: str) -> float:
    """ms until the other member owns the partition of one whose process is killed."""
    command = [sys.executable, "-m", "benchmarks.embedded", "--member", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout is not None
            owner.stdout.readline()
            other = _Member(address)
            _until(lambda: other.has_joined(0.01))
            if other.owns(1):  # nothing is to be taken over
                return rounds.NOT_MEASURED
            began = time.monotonic()
        finally:
            owner.kill()
    _until(lambda: other.owns(0.005))
    return _ms_since(began)


def _be_member(address: str) -> None:
    member = _Member(address)
    _until(lambda: member.owns(0.01))
    print("owner", flush=True)
    while True:
        member.owns(1)


class _Member:
    """A member that keeps the partition that it owns."""

    def __init__(self, address: str) -> None:
        sticky = {"partition.assignment.strategy": "cooperative-sticky"}
        self.consumer = _consumer(address, GROUP, **sticky)
        self._assigned = False
        self.consumer.subscribe([TOPIC], on_assign=self._on_assign)

    def _on_assign(self, *_: object) -> None:
        self._assigned = True

    def has_joined(self, seconds: float) -> bool:
        """Whether it has an assignment, which may be empty; polls."""
        self.consumer.poll(seconds)
        return self._assigned

    def owns(self, seconds: float) -> bool:
        """Whether it owns the partition; polls."""
        self.consumer.poll(seconds)
        return bool(self.consumer.assignment())


def _consumer(address: str, group: str, **options: str) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
        "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 50, "log_level": 0,
    }  # fmt: skip
    return Consumer(settings | options)


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_S:.0f} s")


def _ms_since(began: float) -> float:
    return (time.monotonic() - began) * 1000


def _memory_mb() -> float:
    return processes.resident_bytes(os.getpid()) / 1e6


if __name__ == "__main__":
    main()
