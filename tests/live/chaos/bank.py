"""Kill a server, and kill or suspend tellers, at random moments; no money is made or lost.

    PYTHONPATH=tests python -m live.chaos.bank [--kills 100] [--seed N] [--peer kafka | workers]

Tellers of Kohort's client, of Apache Kafka's and of librdkafka (`teller.py`) move amounts between
the partitions of a topic, in transactions that also commit their offsets. Others are members of one
group, by the asyncio and blocking front ends of Kohort's client and under trio
(`member_teller.py`). The server is ended by SIGKILL; a teller gets SIGKILL, SIGTERM, or SIGSTOP,
and then wakes when others may have its partitions. A reader with `read_committed` reads all the
time. Then the tellers are killed, too:

- what was read stays, and nothing else comes before it,
- the sum of all accounts is constant whenever the reader has no half of a transfer, and at the end,
- each order up to the committed offset, and no other, is carried out once,
- an account shows the orders of each partition in their order,
- every teller goes on after the last kill, and the server ends what is left open.

The seed decides the moments of the kills, and the members' protocol. The exit code is 1 after a
violation. The data is kept then.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.processes import Process
from interop.programs import java
from interop.targets import ApacheKafka, KohortServe, Target
from live.chaos.workers import KohortWorkers
from peers.kafka import free_port
from waiting import wait_until

ACCOUNTS = 4
"""Partitions with one account each."""
TELLERS = 5
"""With a partition of `orders` each."""
GROUP = "tellers"
FRONT_ENDS = ("asyncio", "blocking", "trio")
MEMBERS = len(FRONT_ENDS)
MEMBERS_GROUP = "members"
SHARED = 4
"""Partitions of `shared-orders`, which the members share."""
ORDERS_A_KILL = 400
"""Of each partition: more than is carried out from one kill to the next."""
ORDERS_A_BATCH = 5
PAUSE_MS = 15
TRANSACTION_TIMEOUT_MS = 5_000
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
STRIKES = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
STRUCK_SHARE = 0.7
"""Kills of the server before which a teller is struck."""
SUSPENDED_SECONDS = (0.0, 4.0)
"""Beside the restart of the server; members lose their partitions after 3."""
WORKING_SECONDS = (0.2, 3.0)
CALM_EVERY = 5
"""Kills from one calm to the next: the tellers of librdkafka begin anew after each kill."""
CALM_SECONDS = 6.0
DOWN_SECONDS = (0.0, 0.4)
MARKERS_SECONDS = 1.0
"""More than Apache Kafka takes to write the markers of all transactions that end."""
RECOVERY_SECONDS = 120.0


@dataclass(frozen=True)
class Leg:
    """One of the two records of a transfer."""

    order: str
    amount: int


Statement = Mapping[int, list[tuple[int, Leg]]]
"""The legs of each account with their offsets."""


@dataclass
class Outcome:
    """What a run found."""

    seed: int
    kills: int
    strikes: Counter[str]
    """Signals to tellers, by their client and signal."""
    transfers: int
    aborted: int
    """Records that only `read_uncommitted` shows."""
    balanced_reads: int
    violations: list[str]

    def __str__(self) -> str:
        struck = ", ".join(f"{name} {count}" for name, count in sorted(self.strikes.items()))
        return (
            f"{self.kills} kills of the server and {self.strikes.total()} strikes of tellers "
            f"({struck}), seed {self.seed}: {self.transfers} transfers, {self.aborted} aborted "
            f"records, {self.balanced_reads} reads of whole transfers, "
            f"{len(self.violations)} violations"
        )


# --- what must hold


def check_transfers(statement: Statement, committed: Mapping[str, int]) -> Iterator[str]:
    """Each order below its partition's committed offset has two legs that add up to nothing; no
    other has any.
    """
    legs = defaultdict(list)
    for account in statement.values():
        for _, leg in account:
            legs[leg.order].append(leg.amount)
    for order, amounts in legs.items():
        if len(amounts) != 2 or sum(amounts):
            yield f"order {order} has the legs {amounts}"
    due = {f"{name}-{offset}" for name, end in committed.items() for offset in range(end)}
    if missing := sorted(due - legs.keys()):
        yield f"{len(missing)} orders are committed and not carried out: {missing[:3]}"
    if early := sorted(legs.keys() - due):
        yield f"{len(early)} orders are carried out and not committed: {early[:3]}"


def check_order(statement: Statement) -> Iterator[str]:
    """Each account shows the orders of a partition in their order."""
    for number, account in statement.items():
        last: dict[str, int] = {}
        for _, leg in account:
            partition, order = leg.order.split("-")
            if int(order) <= last.get(partition, -1):
                yield (
                    f"account {number} shows order {leg.order} behind {partition}-{last[partition]}"
                )
            last[partition] = int(order)


def check_history(before: Statement, after: Statement) -> Iterator[str]:
    """What was read is the beginning of what is read now."""
    for account, legs in before.items():
        if after[account][: len(legs)] != legs:
            yield f"account {account} shows another history than it did before"


@dataclass
class Balance:
    """What a reader has seen so far."""

    statement: defaultdict[int, list[tuple[int, Leg]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    balanced_reads: int = 0
    violations: list[str] = field(default_factory=list)
    _halves: set[str] = field(default_factory=set)
    _total: int = 0

    def add(self, account: int, offset: int, leg: Leg) -> None:
        self.statement[account].append((offset, leg))
        self._halves ^= {leg.order}
        self._total += leg.amount
        if not self._halves:
            self.balanced_reads += 1
            if self._total:
                self.violations.append(f"the sum is {self._total} after {leg} at {offset}")


# --- the run


def _program(number: int, protocol: str) -> tuple[str, list[str], tuple[str, ...]]:
    """The client of a teller, its command line, and what follows the words of all tellers."""
    here = Path(__file__).parent
    if number >= TELLERS:
        front = FRONT_ENDS[number - TELLERS]
        script = str(here / "member_teller.py")
        return front, [sys.executable, script, front], (protocol,)
    if number % 3 == 1:
        return "java", java("TellerProgram"), ()
    name, script = (("assigned", "kohort_teller.py"), ("librdkafka", "teller.py"))[number % 3 // 2]
    return name, [sys.executable, str(here / script)], ()


class Teller:
    """A teller's process, and the next one after it has ended."""

    def __init__(
        self,
        number: int,
        address: str,
        directory: Path,
        protocol: str,
        acknowledged: dict[str, int],
    ) -> None:
        """`acknowledged` has the last order of each partition of which a teller knows that it is
        committed.
        """
        self.number = number
        self.strikes: Counter[str] = Counter()
        self.active = 0.0
        """When it last committed, by the monotonic clock."""
        self._acknowledged = acknowledged
        self._starts = 0
        self._address, self._directory, self._protocol = address, directory, protocol
        self._process = self._start()

    def __repr__(self) -> str:
        return f"{self.number} ({self._client})"

    def _start(self) -> Process:
        self._client, program, more = _program(self.number, self._protocol)
        group = MEMBERS_GROUP if self.number >= TELLERS else GROUP
        words = (self._address, self.number, TRANSACTION_TIMEOUT_MS, group, PAUSE_MS, *more)
        self._starts += 1
        log = self._directory / f"teller-{self.number}-{self._starts}.log"
        return Process(f"teller {self.number}", [*program, *map(str, words)], log, self._heard)

    def _heard(self, line: str) -> None:
        *shared, offset = line.split()
        partition = f"m{shared[0]}" if shared else str(self.number)
        self._acknowledged[partition] = max(self._acknowledged.get(partition, -1), int(offset))
        self.active = time.monotonic()

    def revive(self) -> None:
        """Start the next one if it has ended."""
        if self._process.popen.poll() is not None:
            self._process = self._start()

    def send(self, number: signal.Signals) -> None:
        self._process.popen.send_signal(number)

    def strike(self, how: signal.Signals) -> None:
        """Send it one of `STRIKES`."""
        self.strikes[f"{self._client} {how.name}"] += 1
        if how is signal.SIGKILL:
            self.kill()
        else:
            self.send(how)

    def kill(self) -> None:
        self._process.kill()


class Reader:
    """Reads all accounts with `read_committed` in a thread, until it is closed."""

    def __init__(self, address: str) -> None:
        self.balance = Balance()
        self._address = address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        consumer = _reader(self._address, "read_committed")
        while not self._over.is_set():
            for message in consumer.consume(100, 0.1):
                if message.error() is None:
                    self.balance.add(message.partition(), message.offset(), _leg(message))
        consumer.close()

    def close(self) -> Balance:
        self._over.set()
        self._thread.join()
        return self.balance


class Bank:
    """One run on a server that it may restart."""

    def __init__(
        self,
        target: Target,
        directory: Path,
        *,
        kills: int,
        seed: int,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.kills, self.seed = kills, seed
        self._target, self._directory, self._report = target, directory, report
        self._random = random.Random(seed)
        self._acknowledged: dict[str, int] = {}
        self._violations: list[str] = []

    def run(self) -> Outcome:
        self._open()
        reader = Reader(self._target.address)
        protocol = self._random.choice(("classic", "consumer"))
        self._report(f"the members use the {protocol} protocol")
        tellers = [
            Teller(number, self._target.address, self._directory, protocol, self._acknowledged)
            for number in range(TELLERS + MEMBERS)
        ]
        try:
            self._all_go_on(tellers)
            for number in range(1, self.kills + 1):
                self._disturb(number, tellers)
                if number % 10 == 0:
                    done = {name: order + 1 for name, order in sorted(self._acknowledged.items())}
                    self._report(f"{number} kills, {done} orders")
            self._all_go_on(tellers)
        finally:
            for each in tellers:
                each.kill()
        return self._closed(reader, tellers)

    def _open(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._target.address, "log_level": 0})
        queues = {"orders": TELLERS, "shared-orders": SHARED}
        topics = [
            NewTopic(name, count) for name, count in (queues | {"accounts": ACCOUNTS}).items()
        ]
        for created in admin.create_topics(topics).values():
            created.result(30)
        producer = Producer(
            {
                "bootstrap.servers": self._target.address,
                "batch.num.messages": ORDERS_A_BATCH,
                "log_level": 0,
            }
        )
        for number in range(ORDERS_A_KILL * (self.kills + 5)):
            source, to = self._random.sample(range(ACCOUNTS), 2)
            for topic, count in queues.items():
                for partition in range(count):
                    order = f"{source} {to} {self._random.randint(1, 99)}"
                    producer.produce(topic, order, partition=partition)
            if number % 1_000 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0

    def _disturb(self, number: int, tellers: list[Teller]) -> None:
        """Let them work, strike one of them or not, and restart the server."""
        is_calm = number % CALM_EVERY == 0
        time.sleep(CALM_SECONDS if is_calm else self._random.uniform(*WORKING_SECONDS))
        suspended = None
        if self._random.random() < STRUCK_SHARE:
            struck, how = self._random.choice(tellers), self._random.choice(STRIKES)
            suspended = struck if how is signal.SIGSTOP else None
            struck.strike(how)
            time.sleep(self._random.choice((0.0, 0.2)))
        if isinstance(self._target, ApacheKafka):
            self._restart_between_ends(tellers)
        else:
            self._restart()
        if suspended is not None:
            time.sleep(self._random.uniform(*SUSPENDED_SECONDS))
            suspended.send(signal.SIGCONT)
        for each in tellers:
            each.revive()

    def _restart(self) -> None:
        self._target.restart(signal.SIGKILL, self._random.uniform(*DOWN_SECONDS))

    def _restart_between_ends(self, tellers: list[Teller]) -> None:
        """Kill the server while no transaction ends: Apache Kafka 4.3 that is killed before it has
        written all markers may take them for written when it starts again.
        """
        for each in tellers:
            each.send(signal.SIGSTOP)
        time.sleep(MARKERS_SECONDS)
        self._restart()
        for each in tellers:
            each.send(signal.SIGCONT)

    def _all_go_on(self, tellers: list[Teller]) -> None:
        since = time.monotonic()

        def all_committed() -> bool:
            for each in tellers:
                each.revive()
            return all(each.active > since for each in tellers)

        def late() -> str:
            return f"tellers {[each for each in tellers if each.active <= since]}"

        try:
            wait_until(all_committed, late, seconds=RECOVERY_SECONDS)
        except AssertionError as error:
            self._violations.append(f"did not go on: {error}")

    def _closed(self, reader: Reader, tellers: list[Teller]) -> Outcome:
        """What is found once nobody works any more."""
        address = self._target.address
        try:
            wait_until(
                lambda: _is_stable(address), "no open transactions", seconds=RECOVERY_SECONDS
            )
            for each in tellers:
                _initialize(address, each.number)
        except (AssertionError, KafkaException) as error:
            self._violations.append(f"a transaction hangs: {error}")
        seen = reader.close()
        statement = _read_all(address, "read_committed")
        raw = _read_all(address, "read_uncommitted")
        committed = _committed(address)
        for name, order in self._acknowledged.items():
            if committed[name] <= order:
                self._violations.append(f"partition {name}: an acknowledged commit is lost")
        return Outcome(
            self.seed,
            self.kills,
            sum((each.strikes for each in tellers), Counter()),
            sum(map(len, statement.values())) // 2,
            sum(map(len, raw.values())) - sum(map(len, statement.values())),
            seen.balanced_reads,
            [
                *self._violations,
                *seen.violations,
                *check_history(seen.statement, statement),
                *check_transfers(statement, committed),
                *check_order(statement),
            ],
        )


def _reader(address: str, isolation: str, group: str = GROUP) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("accounts", number, 0) for number in range(ACCOUNTS)])
    return consumer


def _leg(message) -> Leg:
    return Leg(message.key().decode(), int(message.value()))


def _read_all(address: str, isolation: str) -> dict[int, list[tuple[int, Leg]]]:
    consumer = _reader(address, isolation)
    found: dict[int, list[tuple[int, Leg]]] = {number: [] for number in range(ACCOUNTS)}
    ended: set[int] = set()
    while len(ended) < ACCOUNTS:
        message = consumer.poll(RECOVERY_SECONDS)
        assert message is not None, f"no end of the accounts, only of {ended}"
        if message.error() is None:
            found[message.partition()].append((message.offset(), _leg(message)))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return found


def _is_stable(address: str) -> bool:
    """Whether every account's last stable offset is its end."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        consumer = _reader(address, isolation)
        ends.append(
            [
                consumer.get_watermark_offsets(TopicPartition("accounts", number), 30)
                for number in range(ACCOUNTS)
            ]
        )
        consumer.close()
    return ends[0] == ends[1]


def _initialize(address: str, teller: int) -> None:
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": f"teller-{teller}", "log_level": 0}
    )
    producer.init_transactions(RECOVERY_SECONDS)


def _committed(address: str) -> dict[str, int]:
    """The offset of each partition of orders, by the names in the keys; none may be pending."""
    found = {}
    for group, topic, count, prefix in (
        (GROUP, "orders", TELLERS, ""),
        (MEMBERS_GROUP, "shared-orders", SHARED, "m"),
    ):
        consumer = _reader(address, "read_committed", group)
        for each in consumer.committed([TopicPartition(topic, n) for n in range(count)], 30):
            found[f"{prefix}{each.partition}"] = max(0, each.offset)
        consumer.close()
    return found


def _target(peer: str, directory: Path, seed: int) -> Target:
    match peer:
        case "kafka":
            return ApacheKafka(free_port(), SETTINGS)
        case "workers":
            return KohortWorkers(directory, SETTINGS, random.Random(seed))
    return KohortServe(directory, SETTINGS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m live.chaos.bank", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--peer", choices=("kohort", "workers", "kafka"), default="kohort")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kohort-bank-"))
    print(f"seed {options.seed}, data in {directory}", flush=True)
    target = _target(options.peer, directory, options.seed)
    try:
        outcome = Bank(
            target,
            directory,
            kills=options.kills,
            seed=options.seed,
            report=lambda line: print(line, flush=True),
        ).run()
    finally:
        target.stop()
    print(outcome)
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    if outcome.violations:
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
