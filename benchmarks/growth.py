"""Measure what grows with the size of a server's data: `python -m benchmarks.growth [ROW...]`

Each row fills one server after the other up to each of its sizes, and measures at each size.
`ROWS` has them; without names, all are measured. Prints the figure of each size, the exponent from
the first to the last size (1: the cost grows as the size does), and the cost of one more.

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

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.kafka import Kafka, free_port, missing_tools

from benchmarks.report import publish, table
from benchmarks.rounds import significant
from kohort.testing.server_process import ServerProcess

TIMEOUT_S: Final = 600.0
TOPIC: Final = "growth"
TRANSACTIONAL_IDS: Final = 8
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

    def stop(self) -> None:
        """End it by SIGTERM."""

    def start(self) -> None:
        """Start it again; back when it listens."""


Measure = Callable[[Node, int, int], float]
"""(node, size before, size) → figure: grows the data to `size`, and measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that grows."""

    what: str
    """What is counted by the sizes, in the plural."""
    figure: str
    """What is measured, with its unit."""
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


def commits(node: Node, before: int, size: int) -> float:
    """Commit one offset again and again, each in a request of its own; time of a restart."""
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

    return _restart_s(node, served)


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


def transactions(node: Node, before: int, size: int) -> float:
    """Commit transactions of one record by eight transactional ids; time of a restart."""
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

    return _restart_s(node, served)


def _producer(node: Node, name: int) -> Producer:
    producer = Producer({**_client(node), "transactional.id": f"growth-{name}", "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def _client(node: Node) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": node.address, "log_level": 0}


def _create_topic(node: Node) -> None:
    admin = AdminClient(_client(node))
    for future in admin.create_topics([NewTopic(TOPIC, 1)]).values():
        future.result(TIMEOUT_S)


def _restart_s(node: Node, served: Callable[[], None]) -> float:
    """Seconds from the start of the process until it has served."""
    node.stop()
    begun = time.monotonic()
    node.start()
    served()
    return time.monotonic() - begun


_LARGE_SEGMENTS: Final = {
    "offsets.topic.segment.bytes": str(1 << 30),
    "transaction.state.log.segment.bytes": str(1 << 30),
}
"""Nothing is compacted, so that all of it is loaded."""
_RESTART: Final = "restart until served, s"
_COMPACTED: Final = {
    "commits": Row(
        what="commits of one offset",
        figure=_RESTART,
        sizes=(1_000, 100_000, 1_000_000),
        measure=commits,
    ),
    "transactions": Row(
        what="transactions of 8 ids",
        figure=_RESTART,
        sizes=(400, 4_000, 40_000),
        measure=transactions,
    ),
}
ROWS: Final = _COMPACTED | {
    f"{name}-loaded": replace(row, what=f"{row.what}, not compacted", settings=_LARGE_SEGMENTS)
    for name, row in _COMPACTED.items()
}


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
    cells = []
    for name in options.rows or ROWS:
        row = ROWS[name]
        sizes = [*map(int, options.sizes.split(","))] if options.sizes else row.sizes
        for server in servers:
            figures = _measured(row, sizes, server)
            cells.append(_cells(row, server, sizes, figures))
            print(" | ".join(cells[-1]), flush=True)
    titles = ("what grows", "server", "sizes", "figure", "measured", "exponent", "each, µs")
    whole = not options.rows and not options.sizes and set(servers) == set(SERVERS)
    publish("growth", "Growth", [table(titles, cells)], write=whole)


def _can_run(server: str) -> bool:
    reason = missing_tools() if server == "kafka" else None
    if reason is not None:
        print(f"without {server}: {reason}")
    return reason is None


def _measured(row: Row, sizes: Sequence[int], server: str) -> list[float]:
    figures = []
    with SERVERS[server](row.settings) as node:
        for before, size in zip((0, *sizes), sizes, strict=False):
            figures.append(row.measure(node, before, size))
            print(f"  {server}: {size:,} {row.what}: {figures[-1]:.2f}", flush=True)
    return figures


def _cells(row: Row, server: str, sizes: Sequence[int], figures: Sequence[float]) -> list[str]:
    more, times = sizes[-1] - sizes[0], figures[-1] / figures[0]
    exponent = math.log(times) / math.log(sizes[-1] / sizes[0]) if more else math.nan
    each_us = (figures[-1] - figures[0]) / more * 1e6 if more else math.nan
    return [
        row.what,
        server,
        " / ".join(f"{size:,}" for size in sizes),
        row.figure,
        " / ".join(map(significant, figures)),
        f"{exponent:.2f}",
        significant(each_us),
    ]


if __name__ == "__main__":
    main()
