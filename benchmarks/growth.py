"""Measure what grows with the size of a server's data: `python -m benchmarks.growth [ROW...]`

Each row fills one server after the other up to each of its sizes, and measures at each size.
`ROWS` has them; without names, all are measured. Prints the figures of each size, the exponent from
the first to the last size (1: the cost grows as the size does), and the cost of one more.

Restarts are measured twice: by the clock, and as processor time of the server, which other work on
the machine changes less.

`--sizes 1000,10000` takes other sizes, `--servers kohort` leaves Apache Kafka out; such runs are
printed and not written.
"""

import argparse
import math
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.kafka import Kafka, free_port, missing_tools

from benchmarks.loading import cpu_s
from benchmarks.report import Target, publish, table
from benchmarks.rounds import significant
from kohort.testing.server_process import ServerProcess

TIMEOUT_S: Final = 600.0
TOPIC: Final = "growth"
TRANSACTIONAL_IDS: Final = 8
DELETED_WITHIN_S: Final = 10.0
PING_EVERY_S: Final = 0.02
_RETRIED: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Kafka makes the topic of its coordinator at the first request for it."""
Result = TypeVar("Result")


class Node(Protocol):
    """A server with data that stay when it is restarted."""

    @property
    def address(self) -> str: ...

    @property
    def cpu_s(self) -> float:
        """Processor time of its process (s)."""
        ...

    def stop(self) -> None:
        """End it by SIGTERM."""

    def start(self) -> None:
        """Start it again; back when it listens."""


Measure = Callable[[Node, int, int], Sequence[float]]
"""(node, size before, size) → figures: grows the data to `size`, and measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that grows."""

    what: str
    """What is counted by the sizes, in the plural."""
    figures: Sequence[str]
    """What is measured, with units; all of a row have the same."""
    unit: str
    """The unit of the cost of one more."""
    per: float
    """How many of that make one of the figures' unit."""
    sizes: Sequence[int]
    measure: Measure
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of both servers."""


# --- servers ---


class KohortNode:
    """`kohort serve --dev` on disk."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._directory, self._settings = directory, settings
        self._port = free_port()
        self._process: ServerProcess
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        self._process = ServerProcess(
            *("--dev", f"--data={self._directory / 'data'}", f"--listen={self.address}"),
            log=self._directory / "log",
            settings=self._settings,
        )
        assert self._process.address == self.address

    @property
    def cpu_s(self) -> float:
        return cpu_s(self._process.process.pid)

    def stop(self) -> None:
        self._process.stop()


class KafkaNode:
    """One node of Apache Kafka."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    @property
    def address(self) -> str:
        return self._kafka.address

    def start(self) -> None:
        self._kafka.restart(signal.SIGTERM)

    @property
    def cpu_s(self) -> float:
        return cpu_s(self._kafka.process.pid)

    def stop(self) -> None:
        self._kafka.process.send_signal(signal.SIGTERM)
        self._kafka.process.wait(60)


@contextmanager
def kohort(settings: Mapping[str, str]) -> Iterator[Node]:
    """A new Kohort."""
    with tempfile.TemporaryDirectory(prefix="kohort-growth-") as directory:
        node = KohortNode(Path(directory), settings)
        try:
            yield node
        finally:
            node.stop()


@contextmanager
def kafka(settings: Mapping[str, str]) -> Iterator[Node]:
    """A new Apache Kafka."""
    partitions = {"transaction.state.log.num.partitions": "50"}
    with Kafka.start(free_port(1), {**partitions, **settings}, heap="1g") as node:
        yield KafkaNode(node)


SERVERS: Final = {"kohort": kohort, "kafka": kafka}


# --- rows ---


def commits(node: Node, before: int, size: int) -> Sequence[float]:
    """Commit one offset again and again, each in a request of its own; cost of a restart."""
    if not before:
        _create_topic(node)
    where = TopicPartition(TOPIC, 0)
    committer = _consumer(node)
    for offset in range(before, size):
        one = [TopicPartition(TOPIC, 0, offset)]
        _retried(partial(committer.commit, offsets=one, asynchronous=False))
    committer.close()

    def served() -> None:
        reader = _consumer(node)
        (found,) = _retried(partial(reader.committed, [where], TIMEOUT_S))
        reader.close()
        assert (found.error, found.offset) == (None, size - 1), found

    return _restart(node, served)


def _retried(function: Callable[[], Result]) -> Result:
    while True:
        try:
            return function()
        except KafkaException as error:
            if error.args[0].code() not in _RETRIED:
                raise
            time.sleep(0.02)


def _consumer(node: Node) -> Consumer:
    return Consumer({**_client(node), "group.id": TOPIC})


def transactions(node: Node, before: int, size: int) -> Sequence[float]:
    """Commit transactions of one record by eight transactional ids; cost of a restart."""
    if not before:
        _create_topic(node)
    for name in range(TRANSACTIONAL_IDS):
        producer = _producer(node, name)
        for _ in range(before // TRANSACTIONAL_IDS, size // TRANSACTIONAL_IDS):
            producer.begin_transaction()
            producer.produce(TOPIC, b"record")
            producer.commit_transaction(TIMEOUT_S)

    def served() -> None:
        for name in range(TRANSACTIONAL_IDS):
            _producer(node, name)

    return _restart(node, served)


def _producer(node: Node, name: int) -> Producer:
    producer = Producer({**_client(node), "transactional.id": f"growth-{name}", "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def _client(node: Node) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": node.address, "log_level": 0}


def _create_topic(node: Node, config: Mapping[str, str] | None = None) -> None:
    admin = AdminClient(_client(node))
    new = NewTopic(TOPIC, 1, config=dict(config or {}))
    for future in admin.create_topics([new]).values():
        future.result(TIMEOUT_S)


def _restart(node: Node, served: Callable[[], None]) -> Sequence[float]:
    """Seconds from the start of the process until it has served, and its processor time."""
    node.stop()
    begun = time.monotonic()
    node.start()
    served()
    return time.monotonic() - begun, node.cpu_s


def segments(node: Node, before: int, size: int) -> Sequence[float]:
    """Have all segments of a partition deleted; longest response to others meanwhile."""
    if not before:
        _create_topic(node, {"segment.ms": "1"})
    _fill_segments(node, size)
    admin = AdminClient(_client(node))
    admin.list_topics(TOPIC, timeout=TIMEOUT_S)
    (deleted,) = admin.delete_records([TopicPartition(TOPIC, 0, OFFSET_END)]).values()
    longest, until = 0.0, time.monotonic() + DELETED_WITHIN_S
    while time.monotonic() < until:
        begun = time.monotonic()
        admin.list_topics(TOPIC, timeout=TIMEOUT_S)
        longest = max(longest, time.monotonic() - begun)
        time.sleep(PING_EVERY_S)
    deleted.result(TIMEOUT_S)
    return (longest * 1_000,)


def _fill_segments(node: Node, count: int) -> None:
    """Append records whose timestamps say that each begins a segment."""
    producer = Producer({**_client(node), "linger.ms": 0})
    first = int(time.time() * 1_000) - 10 * count
    for at in range(count):
        producer.produce(TOPIC, b"record", timestamp=first + 10 * at)
        producer.flush(TIMEOUT_S)


_LARGE_SEGMENTS: Final = {
    "offsets.topic.segment.bytes": str(1 << 30),
    "transaction.state.log.segment.bytes": str(1 << 30),
}
"""Nothing is compacted, so that all of it is loaded."""
_RESTART: Final = ("restart until served, s", "CPU of the restart, s")
_COMPACTED: Final = {
    "commits": Row(
        what="commits of one offset",
        figures=_RESTART,
        unit="µs",
        per=1e6,
        sizes=(1_000, 100_000, 1_000_000),
        measure=commits,
    ),
    "transactions": Row(
        what="transactions of 8 ids",
        figures=_RESTART,
        unit="µs",
        per=1e6,
        sizes=(400, 4_000, 40_000),
        measure=transactions,
    ),
}
ROWS: Final[dict[str, Row]] = _COMPACTED | {
    f"{name}-loaded": replace(row, what=f"{row.what}, not compacted", settings=_LARGE_SEGMENTS)
    for name, row in _COMPACTED.items()
}
ROWS["segments"] = Row(
    what="segments deleted at once",
    figures=("longest response to others, ms",),
    unit="µs",
    per=1e3,
    sizes=(400, 4_000),
    measure=segments,
    settings={"log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "1000"},
)
TARGETS: Final = {
    ("commits-loaded", "kohort", _RESTART[1]): 5.0,
    ("transactions-loaded", "kohort", _RESTART[1]): 2.0,
}
"""Figures at the largest size, at most."""


# --- the command ---


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the rows, and write the section if it has all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--sizes", help="comma-separated; default: those of each row")
    parser.add_argument("--servers", default=",".join(SERVERS), help="(%(default)s)")
    options = parser.parse_args(argv)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no rows {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    servers = [each for each in options.servers.split(",") if _can_run(each)]
    cells: list[list[str]] = []
    targets: list[Target] = []
    for name in options.rows or ROWS:
        row = ROWS[name]
        sizes = [*map(int, options.sizes.split(","))] if options.sizes else row.sizes
        for server in servers:
            measured = _measured(row, sizes, server)
            for figure, of_sizes in zip(row.figures, zip(*measured, strict=True), strict=True):
                cells.append(_cells(row, server, sizes, figure, of_sizes))
                print(" | ".join(cells[-1]), flush=True)
                bound = TARGETS.get((name, server, figure))
                if bound is not None and sizes[-1] == row.sizes[-1]:
                    what = f"{sizes[-1]:,} {row.what}, {figure}"
                    targets.append(Target(what, of_sizes[-1], bound, at_least=False))
    titles = ("what grows", "server", "sizes", "figure", "measured", "exponent", "one more")
    whole = not options.rows and not options.sizes and set(servers) == set(SERVERS)
    parts = [table(titles, cells), "\n".join(map(str, targets))]
    publish("growth", "Growth", parts, write=whole)


def _can_run(server: str) -> bool:
    reason = missing_tools() if server == "kafka" else None
    if reason is not None:
        print(f"without {server}: {reason}")
    return reason is None


def _measured(row: Row, sizes: Sequence[int], server: str) -> list[Sequence[float]]:
    """The figures at each size."""
    measured = []
    with SERVERS[server](row.settings) as node:
        for before, size in zip((0, *sizes), sizes, strict=False):
            measured.append(row.measure(node, before, size))
            figures = " / ".join(map(significant, measured[-1]))
            print(f"  {server}: {size:,} {row.what}: {figures}", flush=True)
    return measured


def _cells(
    row: Row, server: str, sizes: Sequence[int], figure: str, measured: Sequence[float]
) -> list[str]:
    more, times = sizes[-1] - sizes[0], measured[-1] / measured[0]
    exponent = math.log(times) / math.log(sizes[-1] / sizes[0]) if more else math.nan
    each = (measured[-1] - measured[0]) / more * row.per if more else math.nan
    return [
        row.what,
        server,
        " / ".join(f"{size:,}" for size in sizes),
        figure,
        " / ".join(map(significant, measured)),
        f"{exponent:.2f}",
        f"{significant(each)} {row.unit}",
    ]


if __name__ == "__main__":
    main()
