"""`delivery=exactly_once`, without and with a group: a query is struck at each step of a
micro-batch, in each way. Every record is in the target once, and those of a partition in order.

A driver stops at a point (`pausing`). There it, its JVM, the source's process, the workers or the
server are killed, or the point fails; or it is suspended while a successor goes on with the
checkpoint or a copy, or both go on; its checkpoint is moved to another machine, or put back to an
older copy; source or target grow; records are deleted, or the whole topic, before they are read.
Judged by librdkafka with `read_committed`.
"""

import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from contextlib import contextmanager
from itertools import count, islice, product
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kohort.protocol import batches
from kohort.protocol.batches import Record
from spark.cluster import HOST, standalone
from spark.pausing import IN_TASKS, POINTS, Points
from spark.processes import Driver, descendants, executor
from spark.servers import KafkaServer, KohortServer
from spark.streams import wait_for
from spark.topics import NOW, Topics

pytestmark = [pytest.mark.clients, pytest.mark.long, pytest.mark.timeout(28_800)]

STRIKES = (
    "driver_dies", "jvm_dies", "source_dies", "workers_die", "server_dies", "is_an_error",
    "checkpoint_is_moved", "suspended_beside_a_successor", "suspended_beside_a_copy",
    "beside_another_driver", "an_older_checkpoint", "partitions_grow", "target_grows",
    "retention_passes", "topic_is_created_again",
)  # fmt: skip
ON_A_CLUSTER = ("a_slow_task_is_copied", "executor_dies")
EVENTS = int(os.environ.get("KOHORT_SPARK_STRIKES", "15"))
"""Of each test; all pairs of a point and a strike are 180."""
CHOSEN = os.environ.get("KOHORT_SPARK_STRIKE_NAMES", "").split()
"""Of a run with some of them only."""
PARTITIONS = 2
TARGET_PARTITIONS = 3
MOST_PARTITIONS = 5
PATIENCE_S = 600.0
MEMBER = {
    "kafka.session.timeout.ms": "6000",
    "kafka.heartbeat.interval.ms": "500",
    "kafka.max.poll.interval.ms": "20000",
}
SOURCE, TARGET = "chaos", "chaos-target"
TESTS = Path(__file__).parents[1]
RETRYING = "local[1,4]"
"""One core, and a task may fail three times."""
SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.task.duration.threshold": "3s",  # of tasks that have none beside them
}
LOST = r"retention or a deletion took|was deleted|is gone|ends at offset|has taken the partitions"
"""What a query says of records that were deleted before it read them."""
OLDER = "the checkpoint is an older copy"


class Judge:
    """What a reader of committed transactions has seen. A record is (topic, partition, number);
    `topic` counts how often the source was created.
    """

    def __init__(self, address):
        config = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
        self._consumer = Consumer(config | {"isolation.level": "read_committed", "log_level": 0})
        self._next = {}
        self._last = {}
        self.seen = Counter()
        self.in_disorder = []
        self.watch(TARGET_PARTITIONS)

    def watch(self, partitions):
        self._next |= {each: 0 for each in range(partitions) if each not in self._next}
        self._consumer.assign([TopicPartition(TARGET, *each) for each in self._next.items()])

    def look(self):
        while (message := self._consumer.poll(0.5)) is not None:
            if message.error() is None:
                self._next[message.partition()] = message.offset() + 1
                topic, part, number = map(int, message.value().split(b"-"))
                self.seen[topic, part, number] += 1
                place = message.partition(), topic, part
                if number <= self._last.get(place, -1):
                    self.in_disorder.append((place, number))
                self._last[place] = number

    def close(self):
        self._consumer.close()


class ChaosDriver(Driver):
    """With its log, and the points at which it pauses."""

    def __init__(self, *arguments, points, log, **more):
        super().__init__(*arguments, log=log, **more)
        self.points, self.log = Points(points), log


class Chaos:
    """A query from topic to topic, and what happens to it."""

    def __init__(self, server, directory, mode, seed, master=RETRYING, settings=None):
        self.server, self.directory, self.mode = server, directory, mode
        self.master, self.settings = master, settings or {}
        self.random = random.Random(seed)
        self.topics = Topics(server.address)
        self.partitions, self.target_partitions, self.topic = PARTITIONS, TARGET_PARTITIONS, 0
        self.topics.create(SOURCE, PARTITIONS)
        self.topics.create(TARGET, TARGET_PARTITIONS)
        self.written = Counter()
        """By topic and partition."""
        self.may_be_lost = set()
        self.judge = Judge(server.address)
        self.drivers = []
        self._numbers = count()
        self.place = self._new_place()
        self.older = None
        self.driver = None
        self.outcomes = Counter()

    # --- what it is made of ---

    def _new_place(self):
        found = self.directory / f"query-{next(self._numbers)}"
        found.mkdir()
        return found

    def start(self, place, **more):
        """A driver whose checkpoint is in `place`, of which each has a machine with files."""
        number = next(self._numbers)
        points, files = self.directory / f"points-{number}", self.directory / f"files-{place.name}"
        points.mkdir()
        files.mkdir(exist_ok=True)
        options = {"subscribe": SOURCE, "startingOffsets": "earliest", "to": TARGET}
        options |= {"maxOffsetsPerTrigger": "30", "pauses": str(points), "master": self.master}
        options |= {"settings": {"spark.local.dir": str(files)} | self.settings}
        if self.mode == "member":
            options |= MEMBER | {"group.id": SOURCE, "transactionalSink": TARGET}
        driver = ChaosDriver(
            self.server.address,
            place,
            options | more,
            points=points,
            log=self.directory / f"driver-{number}.log",
            environment={"TMPDIR": str(files)},
        )
        self.drivers.append(driver)
        driver.await_started()
        return driver

    def produce(self):
        for part in range(self.partitions):
            first, more = self.written[self.topic, part], self.random.randint(5, 40)
            values = [b"%d-%d-%d" % (self.topic, part, first + each) for each in range(more)]
            records = [Record(b"%d" % part, value, (), NOW) for value in values]
            self.topics.append(SOURCE, part, batches.build(records))
            self.written[self.topic, part] += more

    def records(self):
        return {(*of, number) for of, more in self.written.items() for number in range(more)}

    def is_running(self):
        return self.driver is not None and "jvm" in self.driver.alive()

    def ended(self, driver):
        """Wait until nothing of it runs, which its processes see to once the query has failed."""
        wait_for(lambda: not driver.alive(), "ended", within_s=PATIENCE_S)

    def kill(self):
        self.driver.kill_all(signal.SIGKILL)
        self.ended(self.driver)

    def all_there(self):
        self.judge.look()
        return self.records() - self.may_be_lost <= self.judge.seen.keys()

    def reads_all_or_ends(self):
        wait_for(lambda: self.all_there() or not self.is_running(), "all read", within_s=PATIENCE_S)

    def may_lose_what_is_there(self):
        self.may_be_lost |= self.records()
        self.older = None

    # --- events ---

    def strike(self, point, strike):
        while not self._stands_at(point):
            pass  # it has ended by an earlier strike
        getattr(self, strike)(point)
        if self.driver is not None:
            self.driver.points.disarm()
            self.reads_all_or_ends()
        self.outcomes[strike, "goes on" if self.is_running() else "has ended"] += 1
        self.is_once_and_in_order()

    def _stands_at(self, point):
        if not self.is_running():
            self.driver = self.start(self.place)
        self.driver.points.arm(point)
        self.produce()
        reached = self.driver.points.reached.exists
        wait_for(lambda: reached() or not self.is_running(), f"at {point!r}", within_s=PATIENCE_S)
        return reached()

    def is_once_and_in_order(self):
        assert self.judge.in_disorder == []
        assert {each: n for each, n in self.judge.seen.items() if n > 1} == {}
        assert self.judge.seen.keys() <= self.records()

    def driver_dies(self, _):
        self.kill()

    def jvm_dies(self, _):
        self.driver.kill(signal.SIGKILL, "jvm")
        self.ended(self.driver)

    def source_dies(self, _):
        self.driver.kill(signal.SIGKILL, "source")
        self.driver.points.go()
        self.ended(self.driver)

    def workers_die(self, _):
        jvm, source = self.driver.pids["jvm"], self.driver.pids["source"]
        self._kill(set(descendants(jvm)) - set(descendants(source)) - {jvm})

    def _kill(self, processes):
        for each in processes:
            os.kill(each, signal.SIGKILL)

    def server_dies(self, _):
        self.server.is_killed()

    def is_an_error(self, point):
        """A task is tried again; others end the query."""
        self.driver.points.fail()
        self.reads_all_or_ends()
        assert self.is_running() == (point in IN_TASKS)

    def checkpoint_is_moved(self, _):
        self.kill()
        moved = self._new_place()
        moved.rmdir()
        self.place.rename(moved)
        self.place = moved

    def suspended_beside_a_successor(self, point):
        self._suspended(point, self.place)

    def suspended_beside_a_copy(self, point):
        copy = self._new_place()
        shutil.copytree(self.place, copy, dirs_exist_ok=True)
        self._suspended(point, copy)

    def _suspended(self, point, place):
        """It wakes up when its successor has written what there was."""
        late = self.driver
        late.kill_all(signal.SIGSTOP)
        self.driver, self.place = self.start(place), place
        self.produce()
        wait_for(self.all_there, "written by the successor", within_s=PATIENCE_S)
        late.points.go()
        late.kill_all(signal.SIGCONT)
        self._ends_one_of(late, self.driver)
        # Between the comparison and the fencing are milliseconds, which the test makes a minute of.
        assert self.is_running() or point == "before InitProducerId", "the successor was fenced"
        if late.alive():
            late.kill_all(signal.SIGKILL)

    def _ends_one_of(self, *drivers):
        def has_ended():
            self.produce()
            time.sleep(1)
            return any("jvm" not in each.alive() for each in drivers)

        wait_for(has_ended, "ended: one of two drivers", within_s=PATIENCE_S)

    def beside_another_driver(self, _):
        """Both run, on one checkpoint."""
        one, other = self.driver, self.start(self.place)
        one.points.go()
        self._ends_one_of(one, other)
        self.driver = one if "jvm" in one.alive() else other

    def an_older_checkpoint(self, _):
        """With a group the query goes on from the group's offsets; else it ends with an error."""
        self.kill()
        if self.older is None:
            self.older = self._new_place()
            shutil.copytree(self.place, self.older, dirs_exist_ok=True)
            self.driver = self.start(self.place)
            self.produce()
            wait_for(self.all_there, "read", within_s=PATIENCE_S)
            self.kill()
        older, self.older = self.older, None
        self.driver = self.start(older)
        self.produce()
        self.reads_all_or_ends()
        if self.is_running():
            self.place = older
        else:
            assert self.mode == "none", "the group's offsets decide"
            self._says(OLDER)

    def _says(self, reason):
        self.ended(self.driver)
        assert re.search(reason, self.driver.log.read_text()), self.driver.log

    def partitions_grow(self, _):
        if self.partitions < MOST_PARTITIONS:
            self.partitions += 1
            self.topics.grow(SOURCE, self.partitions)
        self.produce()

    def target_grows(self, _):
        if self.target_partitions < MOST_PARTITIONS:
            self.target_partitions += 1
            self.topics.grow(TARGET, self.target_partitions)
            self.judge.watch(self.target_partitions)
        self.produce()

    def retention_passes(self, _):
        """Of all that there is, also of what this micro-batch is about to read."""
        for part in range(self.partitions):
            self.topics.trim(SOURCE, part, self.written[self.topic, part])
        self.may_lose_what_is_there()
        self._goes_on_without()

    def topic_is_created_again(self, _):
        self.topics.delete(SOURCE)
        self.may_lose_what_is_there()
        self.topics.create(SOURCE, self.partitions)
        self.topic += 1
        self._goes_on_without()

    def _goes_on_without(self):
        """What is lost ends the query with the reason, and is passed over if that is told."""
        self.produce()
        self.driver.points.go()
        self.reads_all_or_ends()
        if not self.is_running():
            self._says(LOST)
            self.driver = self.start(self.place, failOnDataLoss="false")
            wait_for(self.all_there, "read without what is lost", within_s=PATIENCE_S)
            self.kill()

    # --- on a cluster ---

    def a_slow_task_is_copied(self, _):
        """The first attempt stands where it is until the copy's rows are there."""
        wait_for(self.all_there, "written by the copy", within_s=PATIENCE_S)

    def executor_dies(self, _):
        """The one that the task is in."""
        os.kill(executor(self.driver.points.process()), signal.SIGKILL)

    # --- the end ---

    def end(self):
        if self.is_running():
            self.kill()
        self.driver = self.start(self.place)
        self.produce()
        wait_for(self.all_there, "written", within_s=PATIENCE_S)
        self.judge.look()
        self.is_once_and_in_order()
        return self.outcomes

    def close(self):
        self.judge.close()
        for driver in self.drivers:
            driver.kill_all(signal.SIGCONT)
            driver.kill_all(signal.SIGKILL)
            driver.__exit__()


def drawn(choose, strikes=STRIKES):
    """Each strike at some point, in any order; then each at another, until all pairs are over; and
    again. CHOSEN are the only ones if there are any.
    """
    while True:
        points = {strike: choose.sample(POINTS, len(POINTS)) for strike in strikes}
        for at in range(len(POINTS)):
            for strike in choose.sample(strikes, len(strikes)):
                if strike in (CHOSEN or strikes):
                    yield points[strike][at], strike


def show(strike, point):
    print(f"{time.strftime('%X')} {strike} {point}", flush=True)


@contextmanager
def struck(kind, directory, mode, chaos=Chaos, **options):
    """A query in its `mode` at a server of its `kind`, which goes on at the end with all read."""
    server = kind(directory)
    try:
        chaos = chaos(server, directory, mode, seed=34, **options)
        try:
            yield chaos
            print(chaos.end(), flush=True)
        finally:
            chaos.close()
    finally:
        server.stop()


KINDS = pytest.mark.parametrize("kind", [KohortServer, KafkaServer])
MODES = pytest.mark.parametrize("mode", ["none", "member"])


@KINDS
@MODES
def test_every_record_is_there_once_and_in_order(kind, mode, tmp_path, java):
    with struck(kind, tmp_path, mode) as chaos:
        for point, strike in islice(drawn(chaos.random), EVENTS):
            show(strike, point)
            chaos.strike(point, strike)


@KINDS
@MODES
def test_tasks_that_run_twice_on_a_cluster(kind, mode, tmp_path, java):
    """Speculation copies a task to another machine only."""
    with standalone(tmp_path, hosts=("127.0.0.1", "127.0.0.2")) as master:
        settings = SPECULATIVE | {"spark.executorEnv.PYTHONPATH": str(TESTS)}
        settings |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), HOST)
        with struck(kind, tmp_path, mode, master=master, settings=settings) as chaos:
            for point, strike in product(IN_TASKS, ON_A_CLUSTER):
                show(strike, point)
                chaos.strike(point, strike)
