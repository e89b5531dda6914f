"""Kill a server and tellers at random moments, and check that no money is made or lost.

    PYTHONPATH=tests python -m live.chaos.bank [--kills 100] [--seed N] [--peer kafka]

Tellers of Kohort's client, of Apache Kafka's and of librdkafka (`teller.py`) move amounts between
the partitions of a topic, in transactions that also commit their offsets, while the server and
tellers are ended by SIGKILL. A reader with `read_committed` reads all the time. Then the tellers
are killed, too:

- what was read stays, and nothing else comes before it,
- the sum of all accounts is constant whenever the reader has no half of a transfer, and at the end,
- each order up to the committed offset, and no other, is carried out once,
- an account shows the orders of each teller in their order,
- every teller goes on after the last kill, and the server ends what is left open.

The seed decides the moments of the kills. The exit code is 1 after a violation. The data is kept
then.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.processes import Process
from interop.programs import java
from interop.targets import ApacheKafka, KohortServe, Target
from peers.kafka import free_port
from waiting import wait_until

ACCOUNTS = 4
"""Partitions with one account each."""
TELLERS = 5
GROUP = "tellers"
ORDERS_A_KILL = 400
"""Of each teller: more than it carries out from one kill to the next."""
PAUSE_MS = 15
TRANSACTION_TIMEOUT_MS = 5_000
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
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
    killed_tellers: int
    transfers: int
    aborted: int
    """Records that only `read_uncommitted` shows."""
    balanced_reads: int
    violations: list[str]

    def __str__(self) -> str:
        return (
            f"{self.kills} kills of the server and {self.killed_tellers} of tellers, seed "
            f"{self.seed}: {self.transfers} transfers, {self.aborted} aborted records, "
            f"{self.balanced_reads} reads of whole transfers, {len(self.violations)} violations"
        )


# --- what must hold


def check_transfers(statement: Statement, committed: Mapping[int, int]) -> Iterator[str]:
    """Each order below its teller's committed offset has two legs that add up to nothing; no other
    has any.
    """
    legs = defaultdict(list)
    for account in statement.values():
        for _, leg in account:
            legs[leg.order].append(leg.amount)
    for order, amounts in legs.items():
        if len(amounts) != 2 or sum(amounts):
            yield f"order {order} has the legs {amounts}"
    due = {f"{teller}-{offset}" for teller, end in committed.items() for offset in range(end)}
    if missing := sorted(due - legs.keys()):
        yield f"{len(missing)} orders are committed and not carried out: {missing[:3]}"
    if early := sorted(legs.keys() - due):
        yield f"{len(early)} orders are carried out and not committed: {early[:3]}"


def check_order(statement: Statement) -> Iterator[str]:
    """Each account shows the orders of a teller in their order."""
    for number, account in statement.items():
        last: dict[str, int] = {}
        for _, leg in account:
            teller, order = leg.order.split("-")
            if int(order) <= last.get(teller, -1):
                yield f"account {number} shows order {leg.order} behind {teller}-{last[teller]}"
            last[teller] = int(order)


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


def _programs() -> tuple[list[str], ...]:
    """The command line of a teller of each client."""
    here = Path(__file__).parent
    kohort, librdkafka = (
        [sys.executable, str(here / name)] for name in ("kohort_teller.py", "teller.py")
    )
    return kohort, java("TellerProgram"), librdkafka


class Teller:
    """A teller's process, and the next one after it has ended."""

    def __init__(self, number: int, address: str, directory: Path) -> None:
        self.number = number
        self.killed = 0
        self.active = 0.0
        """When it last committed, by the monotonic clock."""
        self.acknowledged = -1
        """The last order of which it knows that it is committed."""
        self._address, self._directory = address, directory
        self._process = self._start()

    def _start(self) -> Process:
        words = (self._address, self.number, TRANSACTION_TIMEOUT_MS, GROUP, PAUSE_MS)
        program = _programs()[self.number % 3]
        log = self._directory / f"teller-{self.number}.log"
        return Process(f"teller {self.number}", [*program, *map(str, words)], log, self._heard)

    def _heard(self, line: str) -> None:
        self.acknowledged = max(self.acknowledged, int(line))
        self.active = time.monotonic()

    def revive(self) -> None:
        """Start the next one if it has ended."""
        if self._process.popen.poll() is not None:
            self._process = self._start()

    def signal(self, number: signal.Signals) -> None:
        self._process.popen.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self.killed += 1


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
        self._violations: list[str] = []

    def run(self) -> Outcome:
        self._open()
        reader = Reader(self._target.address)
        tellers = [
            Teller(number, self._target.address, self._directory) for number in range(TELLERS)
        ]
        try:
            self._all_go_on(tellers)
            for number in range(1, self.kills + 1):
                self._disturb(number, tellers)
                if number % 10 == 0:
                    done = [each.acknowledged + 1 for each in tellers]
                    self._report(f"{number} kills, {done} orders")
            self._all_go_on(tellers)
        finally:
            for each in tellers:
                each.kill()
        return self._closed(reader, tellers)

    def _open(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._target.address, "log_level": 0})
        topics = [NewTopic("orders", TELLERS), NewTopic("accounts", ACCOUNTS)]
        for created in admin.create_topics(topics).values():
            created.result(30)
        producer = Producer({"bootstrap.servers": self._target.address, "log_level": 0})
        for number in range(ORDERS_A_KILL * (self.kills + 5)):
            source, to = self._random.sample(range(ACCOUNTS), 2)
            for teller in range(TELLERS):
                order = f"{source} {to} {self._random.randint(1, 99)}"
                producer.produce("orders", order, partition=teller)
            if number % 1_000 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0

    def _disturb(self, number: int, tellers: list[Teller]) -> None:
        """Let them work, and kill one of them, the server, or first the one and then the other."""
        is_calm = number % CALM_EVERY == 0
        time.sleep(CALM_SECONDS if is_calm else self._random.uniform(*WORKING_SECONDS))
        if self._random.random() < 0.5:
            self._random.choice(tellers).kill()
            time.sleep(self._random.choice((0.0, 0.2)))
        if isinstance(self._target, ApacheKafka):
            self._restart_between_ends(tellers)
        else:
            self._restart()
        for each in tellers:
            each.revive()

    def _restart(self) -> None:
        self._target.restart(signal.SIGKILL, self._random.uniform(*DOWN_SECONDS))

    def _restart_between_ends(self, tellers: list[Teller]) -> None:
        """Kill the server while no transaction ends: Apache Kafka 4.3 that is killed before it has
        written all markers may take them for written when it starts again.
        """
        for each in tellers:
            each.signal(signal.SIGSTOP)
        time.sleep(MARKERS_SECONDS)
        self._restart()
        for each in tellers:
            each.signal(signal.SIGCONT)

    def _all_go_on(self, tellers: list[Teller]) -> None:
        since = time.monotonic()

        def all_committed() -> bool:
            for each in tellers:
                each.revive()
            return all(each.active > since for each in tellers)

        def late() -> str:
            return f"tellers {[each.number for each in tellers if each.active <= since]}"

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
        for each in tellers:
            if committed[each.number] <= each.acknowledged:
                self._violations.append(f"teller {each.number}: an acknowledged commit is lost")
        return Outcome(
            self.seed,
            self.kills,
            sum(each.killed for each in tellers) - TELLERS,
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


def _reader(address: str, isolation: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
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


def _committed(address: str) -> dict[int, int]:
    """The offset in `orders` of each teller; none may be pending."""
    consumer = _reader(address, "read_committed")
    orders = [TopicPartition("orders", number) for number in range(TELLERS)]
    found = {each.partition: max(0, each.offset) for each in consumer.committed(orders, 30)}
    consumer.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m live.chaos.bank", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--peer", choices=("kohort", "kafka"), default="kohort")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kohort-bank-"))
    print(f"seed {options.seed}, data in {directory}", flush=True)
    target: Target = (
        ApacheKafka(free_port(), SETTINGS)
        if options.peer == "kafka"
        else KohortServe(directory, SETTINGS)
    )
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
