"""Measure what grows with the size of a server's data: `python -m benchmarks.growth [ROW...]`

Each row fills one server after the other up to each of its sizes, and measures at each size.
`ROWS` has them; without names, all are measured. Prints the figures of each size, the exponent from
the first to the last size (1: the cost grows as the size does), and the cost of one more.

Restarts and compactions are measured twice: by the clock, and as processor time of the server,
which other work on the machine changes less.

`--sizes 1000,10000` takes other sizes, `--servers kohort` leaves Apache Kafka out; such runs are
printed and not written. `--before COMMIT` measures the server of that commit too, and writes the
section also without Apache Kafka.
"""

import argparse
import math
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.peers.kafka import Kafka, free_port, missing_tools

from benchmarks import sources
from benchmarks.loading import cpu_s, resident_mb
from benchmarks.report import Target, load_average, publish, table
from benchmarks.requests import Peer, decoded, frame
from benchmarks.rounds import significant
from kohort.errors import ErrorCode
from kohort.testing.server_process import ServerProcess

TIMEOUT_S: Final = 600.0
TOPIC: Final = "growth"
TRANSACTIONAL_IDS: Final = 8
COMMIT_VERSION: Final = 8
JOIN_VERSION: Final = 4
DELETED_WITHIN_S: Final = 10.0
PING_EVERY_S: Final = 0.02
BEGUN_WITHIN_S: Final = 2.0
"""Two times `log.cleaner.backoff.ms`."""
_MARK: Final = 0x0123456789ABCDEF
"""An offset that is found in a request."""
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
    def pid(self) -> int:
        """Its process."""
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
    """Settings of all servers."""
    in_memory: bool = False
    """Whether it is of `--memory`."""
    is_of_kohort: bool = False
    """Whether Apache Kafka is left out."""


# --- servers ---


class KohortNode:
    """`kohort serve --dev`, in an environment."""

    def __init__(self, row: Row, directory: Path, environment: Mapping[str, str]) -> None:
        self._row, self._directory, self._environment = row, directory, environment
        self._port = free_port()
        self._process: ServerProcess
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        data = "--memory" if self._row.in_memory else f"--data={self._directory / 'data'}"
        self._process = ServerProcess(
            *("--dev", data, f"--listen={self.address}"),
            log=self._directory / "log",
            settings=self._row.settings,
            environment=self._environment,
        )
        assert self._process.address == self.address

    @property
    def pid(self) -> int:
        return self._process.process.pid

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
    def pid(self) -> int:
        return self._kafka.process.pid

    def stop(self) -> None:
        self._kafka.process.send_signal(signal.SIGTERM)
        self._kafka.process.wait(60)


@contextmanager
def kohort(row: Row, commit: str = "") -> Iterator[Node]:
    """A new Kohort, of the working tree or of a commit."""
    with (
        sources.environment_of(commit) as environment,
        tempfile.TemporaryDirectory(prefix="kohort-growth-") as directory,
    ):
        node = KohortNode(row, Path(directory), environment)
        try:
            yield node
        finally:
            node.stop()


@contextmanager
def kafka(row: Row) -> Iterator[Node]:
    """A new Apache Kafka."""
    partitions = {"transaction.state.log.num.partitions": "50"}
    with Kafka.start(free_port(1), {**partitions, **row.settings}, heap="1g") as node:
        yield KafkaNode(node)


Server = Callable[[Row], AbstractContextManager[Node]]
SERVERS: Final[dict[str, Server]] = {"kohort": kohort, "kafka": kafka}


# --- rows ---


def commits(node: Node, before: int, size: int) -> Sequence[float]:
    """Commit one offset again and again, each in a request of its own; cost of a restart."""
    if not before:
        _create_topic(node)
    _commit(node, range(before, size))

    def served() -> None:
        assert _committed(node) == size - 1

    return _restart(node, served)


def _commit(node: Node, offsets: range) -> None:
    """Commit the offsets to one partition, each in a request of its own that follows the last."""
    _committed(node)  # Kafka makes the topic of its coordinator
    partition = {"partition_index": 0, "committed_offset": _MARK, "committed_metadata": ""}
    topic = {"name": TOPIC, "partitions": [partition]}
    request = frame("offset_commit", COMMIT_VERSION, group_id=TOPIC, topics=[topic])
    before, after = request.split(_MARK.to_bytes(8))
    accepted = b""
    with Peer(node.address) as peer:
        for offset in offsets:
            peer.send(before + offset.to_bytes(8) + after)
            response = peer.response()
            if response != accepted:
                (of_topic,) = decoded("offset_commit", COMMIT_VERSION, response).topics
                assert of_topic.partitions[0].error_code == ErrorCode.none, response
                accepted = response


def _committed(node: Node) -> int:
    """The offset that the group has committed."""
    reader = _consumer(node)
    (found,) = _retried(partial(reader.committed, [TopicPartition(TOPIC, 0)], TIMEOUT_S))
    reader.close()
    assert found.error is None, found
    return found.offset


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


def _create_topic(node: Node, config: Mapping[str, str] | None = None, name: str = TOPIC) -> None:
    admin = AdminClient(_client(node))
    new = NewTopic(name, 1, config=dict(config or {}))
    for future in admin.create_topics([new]).values():
        future.result(TIMEOUT_S)


def _restart(node: Node, served: Callable[[], None]) -> Sequence[float]:
    """Seconds from the start of the process until it has served, and its processor time."""
    node.stop()
    begun = time.monotonic()
    node.start()
    served()
    return time.monotonic() - begun, cpu_s(node.pid)


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


def commits_in_memory(node: Node, before: int, size: int) -> Sequence[float]:
    """Commit one offset again and again to a server without a disk; its memory."""
    if not before:
        _create_topic(node)
    _commit(node, range(before, size))
    assert _committed(node) == size - 1
    return (resident_mb(node.pid),)


_LAG: Final = "min.compaction.lag.ms"
_COMPACTED_TOPIC: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "segment.bytes": str(1 << 30),
}


def compaction(node: Node, before: int, size: int) -> Sequence[float]:
    """Have one segment of so many keys compacted; its cost, and the wait of a topic's retention."""
    compacted, deleted = f"compacted-{size}", f"deleted-{size}"
    _create_topic(node, {**_COMPACTED_TOPIC, _LAG: str(1 << 40)}, compacted)
    _create_topic(node, {"retention.ms": "1000"}, deleted)
    _fill_keys(node, compacted, size)
    admin = AdminClient(_client(node))
    at_once = ConfigEntry(_LAG, "0", incremental_operation=AlterConfigOpType.SET)
    resources = [
        ConfigResource(ConfigResource.Type.TOPIC, compacted, incremental_configs=[at_once])
    ]
    watched = Watched(node)
    with watched:
        begun, cpu = time.monotonic(), cpu_s(node.pid)
        (altered,) = admin.incremental_alter_configs(resources).values()
        altered.result(TIMEOUT_S)
        time.sleep(BEGUN_WITHIN_S)
        retained_s = _retained_s(node, deleted)
        while _first_offset(node, compacted) == 0:
            assert time.monotonic() < begun + TIMEOUT_S, "it was not compacted"
            time.sleep(0.2)
        return (
            time.monotonic() - begun,
            cpu_s(node.pid) - cpu,
            watched.peak_mb - watched.before_mb,
            retained_s,
        )


def _fill_keys(node: Node, topic: str, count: int) -> None:
    """Append a record of each key, one more of the first key, and one behind the segment."""
    producer = Producer({**_client(node), "queue.buffering.max.messages": 1_000_000})
    earlier_ms = int(time.time() * 1_000) - 8 * 24 * 3_600_000  # than segment.ms
    for number in (*range(count), 0):
        while True:
            try:
                key = number.to_bytes(8)
                producer.produce(topic, b"value of twenty bytes", key, timestamp=earlier_ms)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(TIMEOUT_S)
    producer.produce(topic, b"", b"later")
    producer.flush(TIMEOUT_S)


def _retained_s(node: Node, topic: str) -> float:
    """How long a record stays that retention should delete at once (s)."""
    producer = Producer(_client(node))
    producer.produce(topic, b"record", timestamp=int(time.time() * 1_000) - 10_000)
    producer.flush(TIMEOUT_S)
    begun, consumer = time.monotonic(), _consumer(node)
    while True:
        first, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
        if first == 1:
            consumer.close()
            return time.monotonic() - begun
        time.sleep(0.1)


def _first_offset(node: Node, topic: str) -> int:
    """The offset of the first record that is there."""
    consumer = _consumer(node)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    assert message.error() is None, message.error()
    offset = message.offset()
    assert offset is not None
    return offset


class Watched:
    """Memory of a server while it is entered (MB)."""

    def __init__(self, node: Node) -> None:
        self._pid = node.pid
        self.before_mb = self.peak_mb = resident_mb(self._pid)
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._left.wait(0.05):
            self.peak_mb = max(self.peak_mb, resident_mb(self._pid))


def joins(node: Node, before: int, size: int) -> Sequence[float]:
    """Have members join one group at once; ids that the server has forgotten by then."""
    fields = {
        "group_id": f"{TOPIC}-{size}",
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"subscription"}],
    }
    _committed(node)
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(node.address)) for _ in range(size)]
        given = [peer.ask("join_group", JOIN_VERSION, member_id="", **fields) for peer in peers]
        for peer, response in zip(peers, given, strict=True):
            assert response.error_code == ErrorCode.member_id_required, response
            peer.send(frame("join_group", JOIN_VERSION, member_id=response.member_id, **fields))
        errors = [decoded("join_group", JOIN_VERSION, peer.response()).error_code for peer in peers]
    assert set(errors) <= {ErrorCode.none, ErrorCode.unknown_member_id}, set(errors)
    return (float(errors.count(ErrorCode.unknown_member_id)),)


_LARGE_SEGMENTS: Final = {
    "offsets.topic.segment.bytes": str(1 << 30),
    "transaction.state.log.segment.bytes": str(1 << 30),
}
"""Nothing is compacted, so that all of it is loaded."""
_RESTART: Final = ("restart until served, s", "CPU of the restart, s")
_OFTEN: Final = {"log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "1000"}
_COMPACTED: Final = {
    "commits": Row(
        what="commits of one offset",
        figures=_RESTART,
        unit="µs",
        per=1e6,
        sizes=(1_000, 30_000),
        measure=commits,
    ),
    "transactions": Row(
        what="transactions of 8 ids",
        figures=_RESTART,
        unit="µs",
        per=1e6,
        sizes=(400, 4_000),
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
    settings=_OFTEN,
)
ROWS["compaction"] = Row(
    what="keys of one segment that is compacted",
    figures=(
        "compaction, s",
        "CPU of the compaction, s",
        "memory of the compaction, MB",
        "retention of another topic, s",
    ),
    unit="µs or B",
    per=1e6,
    sizes=(100_000, 1_000_000),
    measure=compaction,
    settings=_OFTEN,
)
ROWS["commits-memory"] = Row(
    what="commits of one offset, --memory",
    figures=("memory of the server, MB",),
    unit="B",
    per=1e6,
    sizes=(3_000, 30_000),
    measure=commits_in_memory,
    in_memory=True,
    is_of_kohort=True,
)
ROWS["joins"] = Row(
    what="members that join one group at once",
    figures=("member ids that are forgotten",),
    unit="ids",
    per=1,
    sizes=(500, 2_000),
    measure=joins,
    settings={"group.initial.rebalance.delay.ms": "5000"},
    is_of_kohort=True,
)
TARGETS: Final = {
    ("commits-loaded", "kohort", _RESTART[1]): 2.0,
    ("transactions-loaded", "kohort", _RESTART[1]): 2.0,
    ("compaction", "kohort", "memory of the compaction, MB"): 150.0,
    ("joins", "kohort", "member ids that are forgotten"): 0.0,
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
    parser.add_argument("--before", metavar="COMMIT", help="measure the server of this commit too")
    options = parser.parse_args(argv)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no rows {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    servers: dict[str, Server] = {
        each: SERVERS[each] for each in options.servers.split(",") if _can_run(each)
    }
    if options.before:
        servers[f"kohort {options.before}"] = partial(kohort, commit=options.before)
    cells: list[list[str]] = []
    targets: list[Target] = []
    for name in options.rows or ROWS:
        row = ROWS[name]
        sizes = [*map(int, options.sizes.split(","))] if options.sizes else row.sizes
        for server, start in servers.items():
            if row.is_of_kohort and server == "kafka":
                continue
            measured = _measured(row, sizes, server, start)
            for figure, of_sizes in zip(row.figures, zip(*measured, strict=True), strict=True):
                cells.append(_cells(row, server, sizes, figure, of_sizes))
                print(" | ".join(cells[-1]), flush=True)
                bound = TARGETS.get((name, server, figure))
                if bound is not None and sizes[-1] == row.sizes[-1]:
                    what = f"{sizes[-1]:,} {row.what}, {figure}"
                    targets.append(Target(what, of_sizes[-1], bound, at_least=False))
    titles = ("what grows", "server", "sizes", "figure", "measured", "exponent", "one more")
    whole = not options.rows and not options.sizes and (options.before or "kafka" in servers)
    parts = [table(titles, cells), "\n".join(map(str, targets)), load_average()]
    publish("growth", "Growth", parts, write=bool(whole))


def _can_run(server: str) -> bool:
    reason = missing_tools() if server == "kafka" else None
    if reason is not None:
        print(f"without {server}: {reason}")
    return reason is None


def _measured(row: Row, sizes: Sequence[int], server: str, start: Server) -> list[Sequence[float]]:
    """The figures at each size."""
    measured = []
    with start(row) as node:
        for before, size in zip((0, *sizes), sizes, strict=False):
            measured.append(row.measure(node, before, size))
            figures = " / ".join(map(significant, measured[-1]))
            print(f"  {server}: {size:,} {row.what}: {figures}", flush=True)
    return measured


def _cells(
    row: Row, server: str, sizes: Sequence[int], figure: str, measured: Sequence[float]
) -> list[str]:
    more, grows = sizes[-1] - sizes[0], measured[0] > 0 and measured[-1] > 0
    exponent = "–"
    if more and grows:
        exponent = f"{math.log(measured[-1] / measured[0], sizes[-1] / sizes[0]):.2f}"
    each = (
        f"{significant((measured[-1] - measured[0]) / more * row.per)} {row.unit}" if more else "–"
    )
    return [
        row.what,
        server,
        " / ".join(f"{size:,}" for size in sizes),
        figure,
        " / ".join(map(significant, measured)),
        exponent,
        each,
    ]


if __name__ == "__main__":
    main()
