"""Three queries in one group of 12 partitions: started, stopped, killed, restarted from
checkpoints, at random.

The queries have one source, two sources in the group, or are `kohort spark --every` as a command.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import count

import pytest

from processes import children
from spark.processes import source_processes
from spark.streams import Stream, wait_for

pytestmark = [pytest.mark.clients, pytest.mark.timeout(2_400)]

_numbers = count()
PARTITIONS = 12
NAMES = ("a", "b", "c")
MEMBER = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    # Also how long sources stay whose query failed before it began.
    "max.poll.interval.ms": "20000",
}
STOP_S = 60


class Query:
    """A query of the session; beside it are the processes of its sources."""

    sources = 1

    def __init__(self, session, address, directory, topic):
        self.jvm = session.sparkContext._gateway.proc.pid
        member = {f"kafka.{name}": value for name, value in MEMBER.items()} | {"group.id": topic}
        self.stream = Stream(
            session, address, directory, subscribe=topic, startingOffsets="earliest", **member
        )

    def start(self):
        before = source_processes(self.jvm)
        self.query = self.stream.start(processingTime="100 milliseconds")
        wait_for(
            lambda: len(source_processes(self.jvm) - before) == self.sources,
            "running with all its sources",
            self.query,
        )
        self.processes = sorted(source_processes(self.jvm) - before)

    def stop(self):
        self.query.stop()

    def kill(self, choose):
        os.kill(choose(self.processes), signal.SIGKILL)

    def end_killed(self):
        try:
            self.query.stop()
        except Exception:  # what it failed with is what we did to it
            assert self.query.exception() is not None

    def rows(self):
        return self.stream.rows()


class TwoSources(Query):
    """A query whose sources are two members of the group: one may repeat records of the other."""

    sources = 2

    def __init__(self, session, address, directory, topic):
        super().__init__(session, address, directory, topic)
        one = self.stream.frame
        self.stream.frame = lambda: one().union(one())


class Command:
    """`kohort spark --every`, with a driver of its own."""

    sources = 1

    def __init__(self, session, address, directory, topic):
        self.address, self.directory, self.topic = address, directory, topic
        self.stream = Stream(session, address, directory)

    def start(self):
        properties = [word for pair in MEMBER.items() for word in ("-X", "=".join(pair))]
        words = [
            self.topic, "-b", self.address, "--group", self.topic, *properties,
            "--values", "binary", "--partition-by", "", "--every", "200 milliseconds",
            "--to", self.directory / "table", "--checkpoint", self.directory / "checkpoint",
            "--master", "local[1]", "--conf", "spark.driver.memory=500m",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kohort", "spark", *map(str, words)],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        wait_for(
            lambda: (
                self.process.poll() is not None
                or any(source_processes(jvm) for jvm in children(self.process.pid))
            ),
            "running with its source",
        )
        assert self.process.poll() is None

    def stop(self):
        self.process.terminate()
        assert self.process.wait(STOP_S) == 0

    def kill(self, choose):
        os.killpg(self.process.pid, signal.SIGKILL)

    def end_killed(self):
        self.process.wait(STOP_S)

    def rows(self):
        return self.stream.rows()


class Chaos:
    """The queries, what was written for them, and what each kill may have repeated."""

    def __init__(self, queries, topics, topic, seed):
        self.queries, self.topics, self.topic = queries, topics, topic
        self.random = random.Random(seed)
        self.running = []  # names
        self.written = Counter()
        self.kills = 0
        # (partition, offset) that were read, or about to be, by a query that was killed
        self.in_doubt = set()

    def step(self):
        events = [self.start] * (len(self.running) < len(NAMES))
        self.random.choice(events + [self.stop, self.kill] * (len(self.running) > 1))()
        self.produce()

    def start(self):
        name = self.random.choice([each for each in NAMES if each not in self.running])
        self.queries[name].start()
        self.running.append(name)

    def start_all(self):
        while len(self.running) < len(NAMES):
            self.start()

    def stop(self):
        """In order: everything is read and committed, and the query leaves."""
        self.wait_until_read()
        self.queries[self._one_less()].stop()

    def kill(self):
        """In the middle of things: records were just written."""
        self.produce()
        time.sleep(self.random.random())
        query = self.queries[self._one_less()]
        query.kill(self.random.choice)
        self.kills += 1
        done = self.committed()
        self.in_doubt |= {
            (partition, offset)
            for partition, end in self.written.items()
            for offset in range(done.get(partition, 0), end)
        }
        query.end_killed()

    def _one_less(self):
        return self.running.pop(self.random.randrange(len(self.running)))

    def produce(self):
        for partition in self.random.sample(range(PARTITIONS), 6):
            records = self.random.randint(1, 40)
            self.topics.fill(self.topic, {partition: [b"v"] * records})
            self.written[partition] += records

    def committed(self):
        return self.topics.committed(self.topic).get(self.topic, {})

    def wait_until_read(self):
        wait_for(
            lambda: {p: at for p, at in self.committed().items() if at} == self.written,
            "read and committed",
        )

    def end(self):
        for name in self.running:
            query = self.queries[name]
            with suppress(ProcessLookupError):
                query.kill(self.random.choice)
            query.end_killed()


def long(kind, query):
    return pytest.param(kind, query, 50, marks=pytest.mark.long)


@pytest.fixture
def chaos(session, topics, query, tmp_path):
    topic = f"chaos-{next(_numbers)}"
    topics.create(topic, PARTITIONS)
    queries = {name: query(session, topics.address, tmp_path / name, topic) for name in NAMES}
    found = Chaos(queries, topics, topic, seed=7)
    # Else Spark refuses to go on from a kill during the first write to a checkpoint.
    setting = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
    session.conf.set(setting, "false")
    yield found
    session.conf.unset(setting)
    found.end()


@pytest.mark.parametrize(
    ("topics", "query", "events"),
    [
        ("kohort", Query, 6), ("kohort", TwoSources, 4), ("kohort", Command, 3),
        long("kohort", Query), long("kohort", TwoSources), long("kohort", Command),
        ("kafka", Query, 4), long("kafka", TwoSources), long("kafka", Command),
    ],
    indirect=["topics"],
)  # fmt: skip
def test_no_record_is_lost_and_only_killed_batches_are_repeated(chaos, events):
    chaos.start_all()
    for _ in range(events):
        chaos.step()
    chaos.start_all()
    chaos.wait_until_read()
    assert chaos.kills >= max(1, events // 5)
    found = Counter()
    for query in chaos.queries.values():
        rows = Counter((row.partition, row.offset) for row in query.rows())
        if query.sources == 1:
            assert max(rows.values(), default=1) == 1, (
                "a sink that is exactly once has each of its records once"
            )
        found += rows
    assert set(found) == {
        (partition, offset) for partition, end in chaos.written.items() for offset in range(end)
    }
    repeated = {record for record, times in found.items() if times > 1}
    assert repeated <= chaos.in_doubt
