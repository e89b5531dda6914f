"""`delivery=exactly_once`, without and with a group: a query is struck at each step of a
micro-batch, in each way. Every record is in the target once, and those of a partition in order.

A driver stops at a point (`pausing`). There it, its JVM, the source's process, the workers or the
server are killed; or it is suspended while a successor goes on with the checkpoint or a copy; or
its checkpoint is moved, or put back to an older copy. Judged by librdkafka with `read_committed`.
"""

import os
import random
import shutil
import signal
import time
from collections import Counter
from itertools import product

import pytest
from confluent_kafka import Consumer, TopicPartition

from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.testing.server_process import ServerProcess
from peers.kafka import QUICK_START, Kafka, free_port, missing_tools
from spark.pausing import POINTS, Points
from spark.processes import Driver, descendants
from spark.servers import SETTINGS
from spark.streams import wait_for
from spark.topics import NOW, Topics

pytestmark = [pytest.mark.clients, pytest.mark.long, pytest.mark.timeout(14_400)]

STRIKES = (
    "driver_dies", "jvm_dies", "source_dies", "workers_die", "server_dies", "checkpoint_is_moved",
    "suspended_beside_a_successor", "suspended_beside_a_copy", "an_older_checkpoint",
)  # fmt: skip
EVENTS = int(os.environ.get("KOHORT_SPARK_STRIKES", "12"))
"""Of each test; all pairs of a point and a strike are 99."""
PARTITIONS = 2
TARGET_PARTITIONS = 3
PATIENCE_S = 180.0
MEMBER = {
    "kafka.session.timeout.ms": "6000",
    "kafka.heartbeat.interval.ms": "500",
    "kafka.max.poll.interval.ms": "20000",
}
SOURCE, TARGET = "chaos", "chaos-target"


class KohortServer:
    def __init__(self, directory):
        self._directory = directory
        self.address = "127.0.0.1:0"
        self._start()

    def _start(self):
        options = ("--data", str(self._directory / "data"), "--listen", self.address)
        log = self._directory / "server.log"
        self._process = ServerProcess(*options, log=log, settings=SETTINGS)
        self.address = self._process.address

    def is_killed(self):
        self._process.kill()
        self._start()

    def stop(self):
        self._process.kill()


class KafkaServer:
    def __init__(self, directory):
        if reason := missing_tools():
            pytest.skip(reason)
        port = free_port(neighbours=1)
        self._node = Kafka.start(port, SETTINGS, heap="512m", flags=QUICK_START)
        self.address = self._node.address

    def is_killed(self):
        self._node.restart(signal.SIGKILL)

    def stop(self):
        self._node.stop()


class Judge:
    """What a reader of committed transactions has seen, in the order of offsets."""

    def __init__(self, address):
        config = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
        self._consumer = Consumer(config | {"isolation.level": "read_committed"})
        self._consumer.assign([
            TopicPartition(TARGET, each, 0) for each in range(TARGET_PARTITIONS)
        ])  # fmt: skip
        self.seen = {part: [] for part in range(PARTITIONS)}

    def look(self):
        while (message := self._consumer.poll(0.5)) is not None:
            if message.error() is None:
                part, _, number = message.value().decode().partition("-")
                self.seen[int(part)].append(int(number))

    def has(self, written):
        self.look()
        return all(len(set(self.seen[part])) >= count for part, count in written.items())

    def close(self):
        self._consumer.close()


class Chaos:
    """A query from topic to topic, and what happens to it."""

    def __init__(self, server, directory, mode, seed):
        self.server, self.directory, self.mode = server, directory, mode
        self.random = random.Random(seed)
        self.topics = Topics(server.address)
        self.topics.create(SOURCE, PARTITIONS)
        self.topics.create(TARGET, TARGET_PARTITIONS)
        self.written = Counter()
        self.judge = Judge(server.address)
        self.drivers = []
        self._numbers = iter(range(10**6))
        self.place = self._new_place()
        self.older = None
        self.driver = None
        self.struck = Counter()

    # --- what it is made of ---

    def _new_place(self):
        found = self.directory / f"query-{next(self._numbers)}"
        found.mkdir()
        return found

    def start(self, place):
        """A driver whose checkpoint is in `place`."""
        points = self.directory / f"points-{next(self._numbers)}"
        points.mkdir()
        options = {"subscribe": SOURCE, "startingOffsets": "earliest", "to": TARGET}
        options |= {"maxOffsetsPerTrigger": "30", "pauses": str(points)}
        if self.mode == "member":
            options |= MEMBER | {"group.id": SOURCE, "transactionalSink": TARGET}
        driver = Driver(self.server.address, place, options)
        driver.points = Points(points)
        self.drivers.append(driver)
        driver.await_started()
        return driver

    def produce(self):
        for part in range(PARTITIONS):
            first, count = self.written[part], self.random.randint(5, 40)
            values = [b"%d-%d" % (part, first + each) for each in range(count)]
            records = [Record(b"%d" % part, value, (), NOW) for value in values]
            self.topics.append(SOURCE, part, batches.build(records))
            self.written[part] += count

    def is_running(self):
        return self.driver is not None and "jvm" in self.driver.alive()

    def ended(self, driver):
        """Wait until nothing of it runs, which its processes see to once the query has failed."""
        wait_for(lambda: not driver.alive(), "ended", within_s=PATIENCE_S)

    def kill(self):
        self.driver.kill_all(signal.SIGKILL)
        self.ended(self.driver)

    def all_there(self):
        return self.judge.has(self.written)

    # --- events ---

    def strike(self, point, strike):
        if not self.is_running():
            self.driver = self.start(self.place)
        self.driver.points.arm(point)
        self.produce()
        wait_for(
            lambda: self.driver.points.reached.exists() or not self.is_running(),
            f"at the point {point!r}",
            within_s=PATIENCE_S,
        )
        if not self.is_running():
            return  # of an earlier strike
        self.struck[strike] += 1
        getattr(self, strike)(point)
        if self.driver is not None:
            self.driver.points.disarm()

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
        workers = set(descendants(jvm)) - set(descendants(source)) - {jvm}
        for each in workers:
            os.kill(each, signal.SIGKILL)

    def server_dies(self, _):
        self.server.is_killed()

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

        def has_ended():
            self.produce()
            time.sleep(1)
            return not late.alive() or not self.is_running()

        wait_for(has_ended, "ended: the late one", within_s=PATIENCE_S)
        # Between the comparison and the fencing are milliseconds, which the test makes a minute of.
        assert self.is_running() or point == "before InitProducerId", "the successor was fenced"
        if late.alive():
            late.kill_all(signal.SIGKILL)

    def an_older_checkpoint(self, _):
        """With a group the query goes on from the group's offsets; else it ends with an error."""
        self.kill()
        if self.older is None:
            self.older = self._new_place()
            shutil.copytree(self.place, self.older, dirs_exist_ok=True)
            return
        older, self.older = self.older, None
        self.driver = self.start(older)
        self.produce()
        wait_for(lambda: not self.is_running() or self.all_there(), "decided", within_s=PATIENCE_S)
        if self.is_running():
            self.place = older
        else:
            assert self.mode == "none", "the group's offsets decide"

    def end(self):
        if self.is_running():
            self.kill()
        self.driver = self.start(self.place)
        self.produce()
        wait_for(self.all_there, "written", within_s=PATIENCE_S)
        self.judge.look()

    def close(self):
        self.judge.close()
        for driver in self.drivers:
            driver.kill_all(signal.SIGKILL)
            driver.__exit__()


@pytest.mark.parametrize("kind", [KohortServer, KafkaServer])
@pytest.mark.parametrize("mode", ["none", "member"])
def test_every_record_is_there_once_and_in_order(kind, mode, tmp_path, java):
    server = kind(tmp_path)
    try:
        chaos = Chaos(server, tmp_path, mode, seed=34)
        try:
            pairs = [*product(POINTS, STRIKES)]
            chaos.random.shuffle(pairs)
            for point, strike in pairs[:EVENTS]:
                print(f"{time.strftime('%X')} {strike} {point}", flush=True)
                chaos.strike(point, strike)
            chaos.end()
            print(dict(chaos.struck))
            assert chaos.struck.total() > EVENTS / 2
            expected = {part: list(range(count)) for part, count in chaos.written.items()}
            assert chaos.judge.seen == expected
        finally:
            chaos.close()
    finally:
        server.stop()
